"""Communication of all ranks of a job on one clock: what every question about ranks begins with."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.answer import Answer, Frame
from traceanalyzer.passes.communication.clocks import Clock, PlacedBy, estimate
from traceanalyzer.passes.communication.kinds import POINT_TO_POINT
from traceanalyzer.passes.communication.matching import BY_NAME, Matches, match
from traceanalyzer.passes.communication.message_clocks import place_by_messages
from traceanalyzer.passes.communication.operations import Communication, load_communication
from traceanalyzer.passes.communication.waits import Waits, find_waits
from traceanalyzer.passes.scope import Scope, by_run, resolve
from traceanalyzer.passes.selection import Selection

Ints = NDArray[np.int64]
FEW = 8
"""From fewer collectives than this the clocks of ranks in one file are not estimated."""


@dataclass(frozen=True, slots=True)
class RankCommunication:
    """What all ranks of the selected runs communicated, on one clock. `notes` say what is not as it should be;
    `captures` are those that a rank with a clock was recorded in.
    """

    matches: Matches
    clocks: dict[int, Clock]
    waits: Waits
    notes: list[str]
    captures: dict[int, list[int]]

    @property
    def waits_in_messages(self) -> bool:
        """Whether most of the waiting that is told is in sends and receives, as between the stages of a pipeline."""
        told = self.waits.resolved & (self.waits.wait > 0)
        message = np.isin(self.matches.communication.kind, [int(kind) for kind in POINT_TO_POINT])
        return 2 * int(self.waits.wait[told & message].sum()) > int(self.waits.wait[told].sum())

    def parts_of(self, capture: int, device: int) -> dict[str, tuple[Ints, Ints]]:
        """Intervals of the operations of a device, on its own clock: `wait`, `transfer`, `unresolved`.

        The wait of an operation is its first part.
        """
        of, waits = self.matches.communication, self.waits
        mine = (of.capture == capture) & (of.device == device)
        told, untold = np.flatnonzero(mine & waits.resolved), np.flatnonzero(mine & ~waits.resolved)
        until = of.start[told] + waits.wait[told]
        return {
            "wait": (of.start[told], until),
            "transfer": (until, of.end[told]),
            "unresolved": (of.start[untold], of.end[untold]),
        }


def communication_of(scope: Scope) -> RankCommunication:
    """Communication of every rank of a run, whatever part of it is selected: waits of one rank follow
    from the starts of the others. The scope is of one run, as `by_run` makes them.
    """
    selection = scope.selection
    run = scope.runs[0] if scope.runs else None
    whole = Selection(run=run, source=selection.source, align=selection.align, captures=selection.captures)
    return scope.once(("communication", whole), lambda: _communication(resolve(scope.connection, whole)))


def _communication(everyone: Scope) -> RankCommunication:
    selection = everyone.selection
    matches = match(load_communication(everyone))
    of = matches.communication
    captures = _captures(everyone, of)
    notes = list(matches.reasons)
    clocks = estimate(matches, list(captures))
    exact = False
    if selection.align == "none":
        clocks, exact = {rank: _as_it_is(clock) for rank, clock in clocks.items()}, True
    elif selection.align == "utc":
        clocks, exact = _by_utc(everyone, clocks, notes), True
    elif len(np.unique(of.capture)) == 1 and any(clock.n_collectives < FEW for clock in clocks.values()):
        # The ranks of one report share its clock, which is better than what few collectives tell.
        clocks = {rank: replace(_as_it_is(c), residual_p50_ns=None, residual_p95_ns=None) for rank, c in clocks.items()}
    else:
        utc = _utc_offsets(everyone)
        placed = place_by_messages(matches, clocks, captures, utc)
        if placed.contradicting:
            notes.append(
                f"{named_ranks(placed.contradicting)}: whatever their clocks are apart, some of what they receive would"
                " end before its sending began, as where clocks drift; so it is not told"
            )
        clocks = _joined(placed.clocks, utc, notes)
    if len(of) and any(group.label == BY_NAME for group in of.groups):
        what = "calls on the host" if (of.device < 0).all() else "kernels"
        notes.append(f"the files tell no groups and sizes: collectives were matched by the names of their {what} alone")
    return RankCommunication(matches, clocks, find_waits(matches, clocks, exact=exact), notes, captures)


def _captures(scope: Scope, of: Communication) -> dict[int, list[int]]:
    """The captures of each rank that has a device or communicates, in the order of ranks."""
    pairs = {(d.rank, d.capture) for d in scope.devices if d.rank is not None}
    known = np.flatnonzero(of.rank >= 0)
    pairs |= set(zip(of.rank[known].tolist(), of.capture[known].tolist(), strict=True))
    out: dict[int, list[int]] = {}
    for rank, capture in sorted(pairs):
        out.setdefault(rank, []).append(capture)
    return out


def each_run(scope: Scope, ask: Callable[[Scope], Answer]) -> Answer:
    """The answer to a question that is asked of one run at a time: of several runs, one after the other.

    The first column of every table is the run.
    """
    if len(scope.runs) < 2:
        return ask(scope)
    answers = [ask(one) for one in by_run(scope)]
    first = answers[0]
    for run, answer in zip(scope.runs, answers, strict=True):
        answer.findings = [replace(finding, text=f"run {run}: {finding.text}") for finding in answer.findings]
    return Answer(
        first.command,
        {
            name: Frame(
                frame.spec,
                {column: [v for a in answers for v in a.tables[name].columns[column]] for column in frame.columns},
            )
            for name, frame in first.tables.items()
        },
        [finding for answer in answers for finding in answer.findings],
        [*scope.warnings, *dict.fromkeys(text for answer in answers for text in answer.warnings)],
        default_table=first.default_table,
        notes=[scope.note()],
    )


def in_run(scope: Scope, rows: Iterable[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Rows with the run, which the scope has one of, before them."""
    run = scope.runs[0] if scope.runs else None
    return [(run, *row) for row in rows]


def _as_it_is(clock: Clock) -> Clock:
    return replace(
        clock,
        offset_ns=0,
        drift_ppm=0.0,
        residual_p50_ns=0,
        residual_p95_ns=0,
        component=0,
        placed_by=PlacedBy.AS_RECORDED,
    )


def _utc_offsets(scope: Scope) -> dict[int, int]:
    """What to add to a rank's clock for UTC, where its file tells."""
    rows = scope.connection.execute(
        f"SELECT capture, utc_offset_ns FROM stored.captures WHERE capture IN {scope.numbers()}"
    ).fetchall()
    utc = {capture: offset for capture, offset in rows if offset is not None}
    found: dict[int, int] = {}
    for device in scope.devices:
        if device.rank is not None and device.capture in utc:
            found.setdefault(device.rank, utc[device.capture])
    return found


def _by_utc(scope: Scope, clocks: dict[int, Clock], notes: list[str]) -> dict[int, Clock]:
    utc = _utc_offsets(scope)
    missing = sorted(set(clocks) - set(utc))
    if missing:
        notes.append(f"no time of day is known for {named_ranks(missing)}: they are on no common clock")
    if not utc:
        return {rank: replace(_as_it_is(clock), component=None) for rank, clock in clocks.items()}
    first = utc[min(utc)]
    notes.append("clocks are those of the machines (--align utc), and how far these are off is not known")
    return {
        rank: replace(_as_it_is(clock), offset_ns=first - utc[rank], placed_by=PlacedBy.TIME_OF_DAY)
        if rank in utc
        else replace(_as_it_is(clock), component=None)
        for rank, clock in clocks.items()
    }


def _joined(clocks: dict[int, Clock], utc: dict[int, int], notes: list[str]) -> dict[int, Clock]:
    """Says which ranks are on clocks of their own; ranks without collectives are put on UTC where that is known."""
    first: dict[int, int] = {}
    for rank, clock in sorted(clocks.items()):
        if clock.component is not None:
            first.setdefault(clock.component, rank)
    components = sorted(first)
    alone = sorted(rank for rank, clock in clocks.items() if clock.component is None)
    if len(components) > 1:
        parts = [named_ranks(sorted(r for r, c in clocks.items() if c.component == k)) for k in components]
        notes.append(
            f"no collective connects {'; '.join(parts)}: their clocks cannot be compared, and waits between them are"
            " not told"
        )
        apart, by = dict.fromkeys(components, 0), PlacedBy.OWN_COLLECTIVES
        if all(rank in utc for rank in first.values()):
            notes.append("each of these is placed by the time of day, and how far that is off is not known")
            apart = {k: utc[first[components[0]]] - utc[rank] for k, rank in first.items()}
            by = PlacedBy.TIME_OF_DAY
        clocks = {
            rank: clock
            if clock.component is None or clock.component == components[0]
            else replace(
                clock,
                offset_ns=clock.offset_ns + apart[clock.component],
                placed_by=clock.placed_by if clock.placed_by is PlacedBy.MESSAGES else by,
            )
            for rank, clock in clocks.items()
        }
    if alone and len(clocks) > 1:
        notes.append(f"{named_ranks(alone)}: no matched collective tells the clock, so waits are not told")
    return clocks


def named_ranks(ranks: Sequence[int]) -> str:
    """Some ranks in words."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return "ranks " + (f"{ranks[0]} to {ranks[-1]}" if _row(ranks) else ", ".join(map(str, ranks)))


def _row(ranks: Sequence[int]) -> bool:
    return len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[-1] + 1))
