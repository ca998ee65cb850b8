"""Which captures and devices a question is about, and the names behind the numbers."""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import duckdb

from traceanalyzer.errors import UsageError
from traceanalyzer.passes.selection import Selection, spelled
from traceanalyzer.schema.kinds import EventKind, Severity
from traceanalyzer.store.database import first_row
from traceanalyzer.units import counted

TIMELINES = ("torch", "nsys")
"""Sources that record what ran when, so that two of one rank tell the same."""

PROFILERS = ("ncu",)
"""Sources that profile kernels one by one, and record no timeline."""

TELEMETRY = ("nvidia_smi", "dcgm", "nccl_tests", "training_log", "nccl_log")
"""Sources that watch a host or a job from outside, and record no operations."""


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DeviceOfCapture:
    """A device of a capture that operations ran on."""

    run: str
    capture: int
    source: str
    rank: int | None
    device: int


@dataclass(frozen=True)
class Scope:
    """The selected part of a store: what passes iterate over."""

    connection: duckdb.DuckDBPyConnection
    selection: Selection
    runs: tuple[str, ...]
    captures: tuple[int, ...]
    devices: tuple[DeviceOfCapture, ...]
    warnings: list[str] = field(default_factory=list)
    memo: dict[Hashable, Any] = field(default_factory=dict)
    """What `once` found: small things, so that memory is bounded. All questions of one open store share it."""

    def holds(self, table: str, capture: int, condition: str = "true") -> bool:
        """Whether a table of the store has a row of a capture, for which a condition holds: asked once."""
        query = f"SELECT 1 FROM stored.{table} WHERE capture = ? AND {condition} LIMIT 1"
        return self.once((query, capture), lambda: first_row(self.connection.execute(query, [capture])) is not None)

    def once(self, key: Hashable, ask: Callable[[], _T]) -> _T:
        """What `ask` finds in the store, asked once for this scope and for all that share its memory.

        `key` names the question, so it has to hold all of the selection that the answer depends on.
        """
        if key not in self.memo:
            self.memo[key] = ask()
        known: _T = self.memo[key]
        return known

    def numbers(self) -> str:
        """The selected captures as a list for SQL."""
        return "(" + ", ".join(map(str, self.captures or (-1,))) + ")"

    def texts(self, name_ids: Iterable[int]) -> dict[int, str]:
        """Texts of names by their ids."""
        wanted = sorted(set(name_ids))
        if not wanted:
            return {}
        rows = self.connection.execute(
            "SELECT name_id, text FROM stored.names WHERE name_id IN (SELECT unnest(?::INTEGER[]))", [wanted]
        ).fetchall()
        return dict(rows)

    def whose(self, device: DeviceOfCapture) -> str:
        """A device in words: by its rank, and by its capture where several have a device of that rank and number."""
        same = [d for d in self.devices if (d.rank, d.device) == (device.rank, device.device)]
        rank = [] if device.rank is None else [f"rank {device.rank}"]
        capture = [f"capture {device.capture}"] if len(same) > 1 else []
        return ", ".join([*rank, f"device {device.device}", *capture])

    def of_source(self, sources: Sequence[str]) -> list[int]:
        """The selected captures that are of one of these sources."""
        rows = self.connection.execute(
            f"""SELECT capture FROM stored.captures
            WHERE capture IN {self.numbers()} AND source IN (SELECT unnest(?::VARCHAR[])) ORDER BY capture""",
            [list(sources)],
        ).fetchall()
        return [capture for (capture,) in rows]

    def note(self) -> str:
        """The selected runs, in words."""
        return f"run {', '.join(self.runs)}" if self.runs else "empty store"


def resolve(connection: duckdb.DuckDBPyConnection, selection: Selection, *, every_source: bool = False) -> Scope:
    """The scope of a selection. With `every_source` no capture is left out because another tool tells more.

    Raises `UsageError` where the run, a rank or the device does not exist.
    """
    rows = connection.execute("SELECT run FROM stored.runs ORDER BY touched DESC, run_id DESC").fetchall()
    runs = _runs([run for (run,) in rows], selection)
    captures = connection.execute(
        """SELECT capture, run, source, rank FROM stored.captures
        WHERE run IN (SELECT unnest(?::VARCHAR[])) ORDER BY capture""",
        [runs],
    ).fetchall()
    if selection.source is not None:
        sources = sorted({c[2] for c in captures})
        captures = [c for c in captures if c[2] == selection.source]
        if sources and not captures:
            raise UsageError(f"no capture by {selection.source}; there are some by {', '.join(sources)}")
    if selection.captures is not None:
        if unknown := selection.captures - {c[0] for c in captures}:
            raise UsageError(f"no capture {spelled(unknown)} in the run; `traceanalyzer info` lists what there is")
        captures = [c for c in captures if c[0] in selection.captures]
    if selection.ranks is not None:
        chosen = [c for c in captures if _has_rank(connection, c, selection.ranks)]
        if captures and not chosen:
            raise UsageError("no capture of the selected ranks; `traceanalyzer info` lists what there is")
        captures = chosen
    devices = _devices(connection, captures, selection)
    warnings: list[str] = []
    if not every_source:
        captures, devices = _one_source_a_rank(connection, captures, devices, warnings)
    warnings += _unmatched_step_range(connection, selection, [c[0] for c in captures])
    return Scope(connection, selection, tuple(runs), tuple(c[0] for c in captures), tuple(devices), warnings)


def by_run(scope: Scope) -> list[Scope]:
    """The scope cut into one for each of its runs: a rank is a rank of its run only."""
    rows = scope.connection.execute("SELECT capture, run FROM stored.captures").fetchall()
    run_of = dict(rows)
    return [
        replace(
            scope,
            selection=replace(scope.selection, run=run),
            runs=(run,),
            captures=tuple(c for c in scope.captures if run_of.get(c) == run),
            devices=tuple(d for d in scope.devices if d.run == run),
            warnings=[],
        )
        for run in scope.runs
    ]


def _unmatched_step_range(
    connection: duckdb.DuckDBPyConnection, selection: Selection, captures: Sequence[int]
) -> list[str]:
    """Says that `--step-range` matches nothing, where that is so: then there are no steps."""
    if selection.step_range is None:
        return []
    rows = connection.execute(
        f"""SELECT DISTINCT n.text FROM stored.cpu_events e JOIN stored.names n ON n.name_id = e.name
        WHERE e.capture IN (SELECT unnest(?::INTEGER[])) AND e.process IS NOT NULL
            AND e.kind IN ({int(EventKind.RANGE)}, {int(EventKind.STEP_MARK)})""",
        [list(captures)],
    ).fetchall()
    pattern = re.compile(selection.step_range)
    if any(pattern.fullmatch(text) for (text,) in rows):
        return []
    said = f"--step-range {selection.step_range} matches the whole name of no range, so there are no steps"
    if not rows:
        return [f"{said}: no ranges were recorded"]
    return [
        f"{said}; `traceanalyzer sql \"SELECT DISTINCT name FROM cpu_events WHERE kind = 'range'\"` lists the names"
    ]


def _runs(known: list[str], selection: Selection) -> list[str]:
    """Selected runs, oldest first; `known` has the newest first."""
    if selection.run == "all":
        return known[::-1]
    if selection.run is None:
        return known[:1]
    if selection.run not in known:
        raise UsageError(f"no run {selection.run!r} in the store; it has {', '.join(known) or 'none'}")
    return [selection.run]


MOST_WARNINGS = 20
"""Warnings about the quality of captures that stand under an answer; `info` has them all."""


def quality_warnings(connection: duckdb.DuckDBPyConnection, captures: Sequence[int]) -> list[str]:
    """What was odd, dropped or repaired in these captures and may spoil an answer, in sentences.

    That a file holds no profiled launch spoils nothing where another one has some.
    """
    rows = connection.execute(
        f"""SELECT regexp_extract(c.path, '[^/\\\\]*$'), q.count, q.text
        FROM stored.quality q JOIN stored.captures c USING (capture)
        WHERE q.capture IN (SELECT unnest($captures::INTEGER[])) AND q.severity >= {int(Severity.WARNING)}
        AND (q.code != 'no_launches' OR NOT EXISTS (
            SELECT 1 FROM stored.kernel_profiles p WHERE p.capture IN (SELECT unnest($captures::INTEGER[]))
        ))
        ORDER BY q.severity DESC, q.capture, q.code""",
        {"captures": list(captures)},
    ).fetchall()
    out = [f"{name}: {text}" + (f" ({count:,} times)" if count > 1 else "") for name, count, text in rows]
    rest = len(out) - MOST_WARNINGS
    return out[:MOST_WARNINGS] + (
        [f"{counted(rest, 'more warning')} about the files; `traceanalyzer info` tells all"] if rest > 0 else []
    )


_Row = tuple[int, str, str, int | None]


def _has_rank(connection: duckdb.DuckDBPyConnection, row: _Row, ranks: frozenset[int]) -> bool:
    if row[3] is not None:
        return row[3] in ranks
    found = connection.execute(
        "SELECT rank FROM stored.processes WHERE capture = ? UNION SELECT rank FROM stored.devices WHERE capture = ?",
        [row[0], row[0]],
    ).fetchall()
    return any(rank in ranks for (rank,) in found)


def _devices(
    connection: duckdb.DuckDBPyConnection, rows: Sequence[_Row], selection: Selection
) -> list[DeviceOfCapture]:
    every = [
        DeviceOfCapture(run, capture, source, rank, device)
        for capture, run, source, _ in rows
        for device, rank in connection.execute(
            "SELECT device, rank FROM stored.devices WHERE capture = ? AND n_ops > 0 ORDER BY device", [capture]
        ).fetchall()
    ]
    known = sorted({d.device for d in every})
    if selection.device is not None and every and selection.device not in known:
        raise UsageError(f"no operations on device {selection.device}; there are some on {', '.join(map(str, known))}")
    return [
        d
        for d in every
        if selection.device in (None, d.device) and (selection.ranks is None or d.rank in selection.ranks)
    ]


def _one_source_a_rank(
    connection: duckdb.DuckDBPyConnection, rows: list[_Row], devices: list[DeviceOfCapture], warnings: list[str]
) -> tuple[list[_Row], list[DeviceOfCapture]]:
    """Where a rank was recorded by several tools, only what the tool says that recorded more of the host."""
    tools: dict[tuple[str, int], dict[str, list[int]]] = {}
    places = {(d.run, d.rank, d.source, d.capture) for d in devices}
    places |= {(run, rank, source, capture) for capture, run, source, rank in rows}
    for run, rank, source, capture in sorted(places, key=str):
        if rank is not None and source in TIMELINES:
            tools.setdefault((run, rank), {}).setdefault(source, []).append(capture)
    dropped: set[tuple[str, int | None, str]] = set()
    told: dict[tuple[str, str], list[int]] = {}
    for (run, rank), by_tool in sorted(tools.items()):
        if len(by_tool) > 1:
            detail = {s: sum(_detail(connection, capture) for capture in captures) for s, captures in by_tool.items()}
            best = max(sorted(detail), key=lambda s: detail[s])
            others = sorted(s for s in detail if s != best)
            dropped.update((run, rank, source) for source in others)
            told.setdefault((best, others[0]), []).append(rank)
    for (best, other), ranks in told.items():
        which = "rank" if len(ranks) == 1 else "ranks"
        warnings.append(
            f"{which} {', '.join(map(str, sorted(set(ranks))))} recorded by several tools: this is {best}, which tells"
            f" more of the host; --source {other} asks the other"
        )
    kept = [d for d in devices if (d.run, d.rank, d.source) not in dropped]
    empty = {d.capture for d in devices} - {d.capture for d in kept}
    return [r for r in rows if (r[1], r[3], r[2]) not in dropped and r[0] not in empty], kept


def _detail(connection: duckdb.DuckDBPyConnection, capture: int) -> int:
    """How much a capture tells of the host: its events, and twice its Python frames and samples."""
    row = first_row(
        connection.execute(
            f"""SELECT count(*) + count(*) FILTER (WHERE kind = {int(EventKind.PYTHON_FRAME)})
            + 2 * (SELECT count(*) FROM stored.samples WHERE capture = $capture AND kind = 0)
        FROM stored.cpu_events WHERE capture = $capture""",
            {"capture": capture},
        )
    )
    return int(row[0]) if row else 0
