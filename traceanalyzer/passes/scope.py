"""Which captures and devices a question is about, and the names behind the numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import duckdb

from traceanalyzer.errors import UsageError
from traceanalyzer.passes.selection import Selection
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.store.database import first_row

TIMELINES = ("torch", "nsys")
"""Sources that record what ran when, so that two of one rank tell the same."""


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

    def note(self) -> str:
        """The selected runs, in words."""
        return f"run {', '.join(self.runs)}" if self.runs else "empty store"


def resolve(connection: duckdb.DuckDBPyConnection, selection: Selection) -> Scope:
    """The scope of a selection. Raises `UsageError` where the run does not exist or nothing fits."""
    known = [
        r for (r,) in connection.execute("SELECT run FROM stored.runs ORDER BY touched DESC, run_id DESC").fetchall()
    ]
    if selection.run == "all":
        runs = list(reversed(known))
    elif selection.run is not None:
        if selection.run not in known:
            raise UsageError(f"no run {selection.run!r} in the store; it has {', '.join(known) or 'none'}")
        runs = [selection.run]
    else:
        runs = known[:1]
    rows = connection.execute(
        """SELECT capture, run, source, rank FROM stored.captures
        WHERE run IN (SELECT unnest(?::VARCHAR[])) ORDER BY capture""",
        [runs],
    ).fetchall()
    if selection.source is not None:
        rows = [r for r in rows if r[2] == selection.source]
    warnings: list[str] = []
    rows = _one_source_a_rank(connection, rows, warnings)
    devices = _devices(connection, rows, selection)
    captures = tuple(r[0] for r in rows if selection.ranks is None or _has_rank(connection, r, selection.ranks))
    if rows and not captures:
        raise UsageError("no capture of the selected ranks; `traceanalyzer info` lists what there is")
    return Scope(connection, selection, tuple(runs), captures, tuple(devices), warnings)


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
    out = []
    for capture, run, source, _rank in rows:
        found = connection.execute(
            "SELECT device, rank FROM stored.devices WHERE capture = ? AND n_ops > 0 ORDER BY device", [capture]
        ).fetchall()
        for device, rank in found:
            if selection.device is not None and device != selection.device:
                continue
            if selection.ranks is not None and rank not in selection.ranks:
                continue
            out.append(DeviceOfCapture(run, capture, source, rank, device))
    return out


def _one_source_a_rank(connection: duckdb.DuckDBPyConnection, rows: list[_Row], warnings: list[str]) -> list[_Row]:
    """Where a rank was recorded by several tools, the captures of the tool that recorded more of the host."""
    tools: dict[tuple[str, int], dict[str, int]] = {}
    for capture, run, source, rank in rows:
        if rank is not None and source in TIMELINES:
            detail = tools.setdefault((run, rank), {})
            detail[source] = detail.get(source, 0) + _detail(connection, capture)
    drop: set[tuple[str, int, str]] = set()
    for (run, rank), detail in tools.items():
        if len(detail) > 1:
            best = max(sorted(detail), key=lambda s: detail[s])
            drop.update((run, rank, source) for source in detail if source != best)
            others = ", ".join(sorted(s for s in detail if s != best))
            warnings.append(
                f"rank {rank} was recorded by several tools: this is {best}, which tells more of the host;"
                f" --source {others} asks the other"
            )
    return [r for r in rows if r[3] is None or (r[1], r[3], r[2]) not in drop]


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
