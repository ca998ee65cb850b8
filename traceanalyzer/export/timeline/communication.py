"""Waits and transfers of collectives, and arrows from who waits to who came last."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.export.timeline.clocks import TimelineClock
from traceanalyzer.export.timeline.derived import COMMUNICATION_ROW
from traceanalyzer.export.timeline.places import Places
from traceanalyzer.export.timeline.stream import (
    BATCH_ROWS,
    EventStream,
    Texts,
    arrow_text,
    json_text,
    member,
    slice_text,
)
from traceanalyzer.export.timeline.windows import Windows, clipped
from traceanalyzer.numeric.grouping import groups
from traceanalyzer.numeric.lanes import disjoint_lanes
from traceanalyzer.passes.communication.kinds import Kind
from traceanalyzer.passes.communication.matching import NONE
from traceanalyzer.passes.communication.operations import UNKNOWN
from traceanalyzer.passes.communication.ranks import RankCommunication
from traceanalyzer.passes.operations import NULL
from traceanalyzer.schema.timeline_file import DERIVED
from traceanalyzer.store.ddl import quoted

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Placed:
    """Where operations that communicate stand in the timeline; `pid` is 0 for those that are not in it.

    The wait is from `ts` to `transfer`, the transfer from there to `end`.
    """

    pid: Ints
    tid: Ints
    ts: Ints
    transfer: Ints
    end: Ints


def write_communication(
    found: RankCommunication, places: Places, windows: Windows, clock: TimelineClock, stream: EventStream
) -> None:
    """Writes a slice for each operation of a device that communicates; inside of it wait and transfer, where these are
    resolved; and an arrow from each wait to the operation of the rank that came last."""
    of = found.matches.communication
    if not len(of):
        return
    placed = _place(found, places, windows, clock)
    culprit = _culprits(found)
    shown = np.flatnonzero(placed.pid > 0)
    for first in range(0, len(shown), BATCH_ROWS):
        _write(found, placed, culprit, shown[first : first + BATCH_ROWS], stream)


def _place(found: RankCommunication, places: Places, windows: Windows, clock: TimelineClock) -> _Placed:
    of, waits = found.matches.communication, found.waits
    out = _Placed(*(np.zeros(len(of), np.int64) for _ in range(5)))
    by_device = groups(of.capture, of.device)
    for k, first in enumerate(by_device.row.tolist()):
        capture, device = int(of.capture[first]), int(of.device[first])
        rows = places.first_of(capture, device)
        if rows is None:
            continue
        window = windows.of_device(capture, device)
        mine = np.flatnonzero(
            (by_device.of_row == k) & (of.start < window[1]) & (of.end > window[0]) & (of.end > of.start)
        )
        mine = mine[np.lexsort((of.op_id[mine], of.start[mine]))]
        start, end = clipped(of.start[mine], of.end[mine], window)
        transfer = np.clip(of.start[mine] + np.where(waits.resolved[mine], waits.wait[mine], 0), start, end)
        process = rows.process
        row = process.row("communication", "waits and transfers", COMMUNICATION_ROW)
        out.pid[mine], out.tid[mine] = process.pid, row.on_lanes(disjoint_lanes(start, end))
        for column, instants in ((out.ts, start), (out.transfer, transfer), (out.end, end)):
            column[mine] = clock.timeline(capture, process.rank, instants)
    return out


def _culprits(found: RankCommunication) -> Ints:
    """The operation of the rank that came last in each operation's collective; -1 where it is not known."""
    matches, last = found.matches, found.waits.last
    rows, number = matches.members()
    out = np.full(len(last), -1, np.int64)
    able = (last[rows] != NONE) & (matches.communication.rank[rows] == last[rows])
    which, first = np.unique(number[able], return_index=True)
    if not len(which):
        return out
    at = np.minimum(np.searchsorted(which, number), len(which) - 1)
    out[rows] = np.where(which[at] == number, rows[able][first][at], -1)
    return out


def _write(
    found: RankCommunication, placed: _Placed, culprit: Ints, which: NDArray[np.intp], stream: EventStream
) -> None:
    of, waits, matches = found.matches.communication, found.waits, found.matches
    group, kind = of.group[which], of.kind[which].astype(np.int64)
    labels = {int(g): of.groups[int(g)].label if g != UNKNOWN else None for g in np.unique(group)}
    by = culprit[which]
    other = np.where(by >= 0, by, which)
    resolved = waits.resolved[which]
    waiting = resolved & (placed.transfer[which] > placed.ts[which])
    # A wait for another rank has an arrow where that is in the timeline; it leads to what begins no earlier.
    arrow = waiting & (by >= 0) & (by != which) & (placed.pid[other] > 0) & (placed.ts[other] >= placed.ts[which])
    rows: dict[str, NDArray[Any]] = {
        **{name: getattr(placed, name)[which] for name in ("pid", "tid", "ts", "transfer")},
        "dur": placed.end[which] - placed.ts[which],
        "wait": placed.transfer[which] - placed.ts[which],
        "rest": placed.end[which] - placed.transfer[which],
        "waiting": waiting,
        "resolved": resolved,
        "last": _masked(waits.last[which], NONE),
        "ordinal": _masked(matches.ordinal[which], NONE),
        "bytes": _masked(of.bytes[which], NULL),
        "op_id": of.op_id[which],
        "name": np.array([json_text(_NAMES[k]) for k in kind.tolist()], object),
        "group": np.array([json_text(labels[g]) for g in group.tolist()], object),
        "arrow": arrow,
        "identity": which + 1,
        **{f"to_{name}": getattr(placed, name)[other] for name in ("pid", "tid", "ts")},
    }
    stream.add_rows(rows, _TEXTS)


def _masked(values: Ints, null: int) -> np.ma.MaskedArray[Any, Any]:
    return np.ma.MaskedArray(values, values == null)


_NAMES = {int(kind): kind.text if kind is not Kind.UNKNOWN else "communication" for kind in Kind}


def _texts() -> Texts:
    members = [
        """',"group":' || r."group\"""",
        member("ordinal", "r.ordinal"),
        member("bytes", "r.bytes"),
        member("op_id", "r.op_id"),
        member("resolved", "r.resolved"),
        f"CASE WHEN r.resolved THEN {member('wait_ns', 'r.wait')} || {member('transfer_ns', 'r.rest')} END",
        member("last_rank", "r.last"),
    ]
    whole = slice_text(quoted(f"{DERIVED}collective"), "r.name", ", ".join(members))
    name = """concat('"wait for rank ', r.last, '"')"""
    wait = slice_text(quoted(f"{DERIVED}wait"), name, member("last_rank", "r.last"), length="r.wait")
    transfer = slice_text(quoted(f"{DERIVED}transfer"), "'\"transfer\"'", "''", start="r.transfer", length="r.rest")
    arrow = arrow_text(f"{DERIVED}wait", "r.identity", ("r.pid", "r.tid", "r.ts"), ("r.to_pid", "r.to_tid", "r.to_ts"))
    parts = (("r.waiting", wait, 1), ("r.resolved AND r.rest > 0", transfer, 1), ("r.arrow", arrow, 2))
    inner = ", ".join(f"CASE WHEN {condition} THEN ',\n' || {text} END" for condition, text, _ in parts)
    events = " + ".join(f"CASE WHEN {condition} THEN {count} ELSE 0 END" for condition, _, count in parts)
    return Texts(f"concat({whole}, {inner})", events=f"1 + {events}")


_TEXTS = _texts()
