"""Which recordings of a job a check-up is made from, where a run holds several of the same work."""

from collections.abc import Sequence
from dataclasses import replace

from traceanalyzer.passes.fitness import OBSERVER_RATIO
from traceanalyzer.passes.idle.backward import records_frames, records_stacks
from traceanalyzer.passes.scope import TIMELINES, Scope
from traceanalyzer.schema.kinds import EventKind, RankSource
from traceanalyzer.units import counted

MOST_NAMED = 4
"""Files that a warning names."""


def one_recording(scope: Scope) -> tuple[Scope, list[str]]:
    """The scope without recordings that tell the same again, and a sentence for what was left out.

    Files that nothing makes ranks of one job but the order in which they were given, and that do not communicate, are
    recordings of one program: one of them counts. Of a rank that was recorded with and without Python frames those with
    frames count, unless their steps are longer by a tenth: recording slows them then.
    """
    rows = scope.connection.execute(
        f"""SELECT capture, rank, rank_source, regexp_extract(path, '[^/\\\\]*$'),
            (SELECT median(end_ns - start_ns) FROM stored.steps s WHERE s.capture = c.capture)
        FROM stored.captures c WHERE capture IN {scope.numbers()} AND source IN {TIMELINES} ORDER BY capture"""
    ).fetchall()
    with_ops = {device.capture for device in scope.devices}
    found = [_Recording(scope, *row) for row in rows if row[0] in with_ops]
    stated = {each.rank for each in found if each.is_stated}
    unrelated = [each for each in found if each.rank not in stated and not each.communicates]
    groups = [unrelated] if len(unrelated) > 1 else []
    related = [each for each in found if each not in unrelated] if groups else found
    ranks = sorted({each.rank for each in related if each.rank is not None})
    groups += [[each for each in related if each.rank == rank] for rank in ranks]
    left_out: list[_Recording] = []
    for group in groups:
        alike = group is unrelated or len({each.frames for each in group}) > 1
        if len(group) > 1 and alike:
            left_out += _spare(group, only_one=group is unrelated)
    known = {each.rank for each in found}
    empty = [
        _Recording(scope, *row)
        for row in rows
        if row[0] not in with_ops and found and (row[1] is None or row[1] in known)
    ]
    left_out += empty  # without operations they tell nothing that the others do not
    if not left_out:
        return scope, []
    gone = {each.capture for each in left_out}
    return (
        replace(
            scope,
            captures=tuple(c for c in scope.captures if c not in gone),
            devices=tuple(d for d in scope.devices if d.capture not in gone),
        ),
        [_said(left_out, [each for each in found if each.capture not in gone])],
    )


class _Recording:
    """A capture with a timeline, and what chooses between recordings."""

    def __init__(
        self,
        scope: Scope,
        capture: int,
        rank: int | None,
        rank_source: int | None,
        file: str,
        step_ns: float | None,
    ) -> None:
        self.capture, self.rank, self.file, self.step_ns = capture, rank, file, step_ns
        self.is_stated = rank_source not in (None, int(RankSource.ORDER), int(RankSource.PROCESS))
        self.frames = records_frames(scope, capture)
        self.stacks = records_stacks(scope, capture)
        self.operators = scope.holds("cpu_events", capture, f"kind = {int(EventKind.OPERATOR)}")
        self.communicates = scope.holds("collectives", capture) or scope.holds("gpu_ops", capture, "lane = 1")

    def slowed(self, others: "list[_Recording]") -> bool:
        """Whether its steps are longer than those of another recording by more than a tenth."""
        steps = [each.step_ns for each in others if each.step_ns]
        return bool(self.step_ns and steps and self.step_ns > OBSERVER_RATIO * min(steps))


def _spare(group: list[_Recording], *, only_one: bool) -> list[_Recording]:
    """Those of a group that are left out: all but the one that tells most, or but those of its kind."""
    best = max(group, key=lambda e: (not e.slowed(group), e.stacks, e.frames, e.operators, -e.capture))
    return [e for e in group if e is not best and (only_one or e.frames != best.frames)]


def _said(left_out: list[_Recording], kept: list[_Recording]) -> str:
    return (
        f"made from {_named(kept)}; {counted(len(left_out), 'recording')} of the same work left out"
        f" ({_named(left_out)}): --capture chooses others"
    )


def _named(recordings: list[_Recording]) -> str:
    return _listed([_name(each.file, each.capture) for each in recordings])


def unused(scope: Scope, told: Sequence[str]) -> list[str]:
    """A sentence for the files of the runs that are not in the scope, unless `told` names them: those of a tool that
    tells less of their ranks, or that are not selected.
    """
    rows = scope.connection.execute(
        f"""SELECT capture, regexp_extract(path, '[^/\\\\]*$') FROM stored.captures
        WHERE run IN (SELECT unnest(?::VARCHAR[])) AND capture NOT IN {scope.numbers()} ORDER BY capture""",
        [list(scope.runs)],
    ).fetchall()
    names = [_name(file, capture) for capture, file in rows]
    rest = [name for name in names if not any(name in text for text in told)]
    return [f"not used: {_listed(rest)}; --capture or --source chooses them"] if rest else []


def _name(file: str, capture: int) -> str:
    """A file with the number of its capture, which tells files of one name apart."""
    return f"{file} (capture {capture})"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
