"""Runs, captures and ranks: what a store holds, and where a new file belongs."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from traceanalyzer.errors import StoreError
from traceanalyzer.schema.kinds import RankSource
from traceanalyzer.schema.sink import CaptureFacts
from traceanalyzer.schema.text import storable
from traceanalyzer.schema.timeline_file import ALIGNED
from traceanalyzer.store.database import first_row

_RANK_IN_NAME = re.compile(r"(?:^|[^a-z0-9])(?:rank|worker|r)[-_]?(\d{1,6})(?![0-9a-z])", re.IGNORECASE)
_SUFFIXES = re.compile(
    r"(?:\.pt)?(?:\.trace)?\.(?:json|sqlite|nsys-rep|ncu-rep|nsight-cuprof-report|csv|txt|log)?(?:\.gz|\.zip)?$"
)
_NUMBER_BEFORE_SUFFIX = re.compile(r"[-_.](\d{1,4})\.pt\.trace\.json", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RunChoice:
    """A run: an existing one, or a new one that is made with the first file stored in it."""

    name: str
    folder: str
    run_id: int | None = None


@dataclass(frozen=True, slots=True)
class RankChoice:
    """Rank of a capture, where it was learned, and whether it was only assumed from the order of the files."""

    rank: int | None
    source: RankSource | None
    assumed: bool = False


def rank_in_name(name: str) -> int | None:
    """Rank that a file's name states: rank0, rank_0, -rank-0, _r0, worker0, or a number before .pt.trace.json."""
    match = _RANK_IN_NAME.search(name) or _NUMBER_BEFORE_SUFFIX.search(name)
    return int(match[1]) if match else None


def stored_capture(connection: duckdb.DuckDBPyConnection, content_hash: str) -> tuple[int, str] | None:
    """(capture, run) of a file's content, where it is already there."""
    row = first_row(
        connection.execute("SELECT capture, run FROM stored.captures WHERE content_hash = ?", [content_hash])
    )
    return (row[0], row[1]) if row else None


def stored_sizes(connection: duckdb.DuckDBPyConnection) -> set[int]:
    """Sizes of all files that are there: of another size no file can be the same."""
    return {size for (size,) in connection.execute("SELECT DISTINCT file_bytes FROM stored.captures").fetchall()}


def newest_run(connection: duckdb.DuckDBPyConnection) -> str | None:
    """Name of the run that was changed last; None in an empty store."""
    row = first_row(connection.execute("SELECT run FROM stored.runs ORDER BY touched DESC, run_id DESC LIMIT 1"))
    return row[0] if row else None


def newest_run_choice(connection: duckdb.DuckDBPyConnection) -> RunChoice | None:
    """The run that was changed last, to join it; None in an empty store."""
    row = first_row(
        connection.execute("SELECT run, folder, run_id FROM stored.runs ORDER BY touched DESC, run_id DESC LIMIT 1")
    )
    return RunChoice(*row) if row else None


def choose_run(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path], hashes: Sequence[str], wanted: str | None
) -> RunChoice:
    """The run of the files of one call: the one that is named; else the one that holds some of them; else a new one.
    `hashes` are those of files that may be there.

    A new run has the name of its only file, or of the folder of its files; a number is added where it is taken.
    """
    folder = storable(str(_common_folder(files)))
    if wanted is None and len(files) > 1 and hashes:
        marks = ", ".join("?" * len(hashes))
        row = first_row(
            connection.execute(
                f"SELECT run FROM stored.captures WHERE content_hash IN ({marks}) ORDER BY capture DESC LIMIT 1",
                list(hashes),
            )
        )
        wanted = row[0] if row else None
    taken = dict(connection.execute("SELECT run, run_id FROM stored.runs").fetchall())
    if wanted is not None:
        return RunChoice(wanted, folder, taken.get(wanted))
    base = _plain_name(files[0]) if len(files) == 1 else (Path(folder).name or "run")
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    return RunChoice(name, folder)


def run_of_same_job(connection: duckdb.DuckDBPyConnection, file: Path, facts: CaptureFacts) -> RunChoice | None:
    """An existing run that a single later file joins by itself: same folder, same world, and a rank that it lacks."""
    stated = (RankSource.METADATA, RankSource.ENVIRONMENT, RankSource.MPI)
    if facts.rank is None or facts.world_size is None or facts.rank_source not in stated:
        return None
    row = first_row(
        connection.execute(
            """SELECT r.run, r.folder, r.run_id FROM stored.runs r WHERE r.folder = $folder
        AND EXISTS (SELECT 1 FROM stored.captures c WHERE c.run = r.run AND c.world_size = $world)
        AND NOT EXISTS (SELECT 1 FROM stored.captures c WHERE c.run = r.run AND c.world_size <> $world)
        AND NOT EXISTS (SELECT 1 FROM stored.captures c LEFT JOIN stored.processes p USING (capture)
            WHERE c.run = r.run AND $rank IN (c.rank, p.rank))
        ORDER BY r.touched DESC LIMIT 1""",
            {"folder": storable(str(file.resolve().parent)), "world": facts.world_size, "rank": facts.rank},
        )
    )
    return RunChoice(*row) if row else None


def stated_rank(file: Path, facts: CaptureFacts) -> RankChoice:
    """Rank of a file that is not one of each rank: only one that the file or its name states; any number of them."""
    if facts.several_ranks:
        return RankChoice(None, None)
    if facts.rank is not None:
        return RankChoice(facts.rank, facts.rank_source or RankSource.METADATA)
    rank = rank_in_name(file.name)
    return RankChoice(rank, None if rank is None else RankSource.FILE_NAME)


def choose_rank(
    connection: duckdb.DuckDBPyConnection,
    run: RunChoice,
    file: Path,
    source: str,
    facts: CaptureFacts,
    processes: Sequence[int],
) -> RankChoice:
    """Rank of a file in its run: metadata, else its name, else that of the same process, else the order given.

    Raises `StoreError` where the run has a recording of that rank by the same tool already.
    """
    others = _captures_of(connection, run, source)

    def refuse_second(ranks: frozenset[int]) -> None:
        for other in others:
            if (both := ranks & other.ranks) and not _other_window(other, facts, processes):
                raise StoreError(
                    f"{file}: rank {min(both)} of run {run.name} was already recorded by {source} in {other.path};"
                    f" ingest one of them with --run NAME"
                )

    if facts.several_ranks:
        refuse_second(facts.ranks)
        return RankChoice(None, None)
    rank, rank_source = facts.rank, facts.rank_source or RankSource.METADATA
    if rank is None and (rank := rank_in_name(file.name)) is not None:
        rank_source = RankSource.FILE_NAME
    if rank is not None:
        refuse_second(frozenset({rank}))
        return RankChoice(rank, rank_source)
    for other in others:
        if other.rank is not None and other.order and _other_window(other, facts, processes):
            return RankChoice(other.rank, RankSource.PROCESS)
    used = frozenset[int]().union(*(other.ranks for other in others))
    rank = next(k for k in range(len(used) + 1) if k not in used)
    return RankChoice(rank, RankSource.ORDER, assumed=bool(others))


@dataclass(frozen=True, slots=True)
class _Recording:
    path: str
    rank: int | None
    ranks: frozenset[int]
    order: bool
    aligned: bool
    host: str | None
    start_ns: int | None
    end_ns: int | None
    utc_offset_ns: int | None
    processes: frozenset[int]


def _captures_of(connection: duckdb.DuckDBPyConnection, run: RunChoice, source: str) -> list[_Recording]:
    rows = connection.execute(
        f"""SELECT c.path, c.rank, c.rank_source, c.host, c.start_ns, c.end_ns, c.utc_offset_ns,
            (SELECT list(p.process) FROM stored.processes p WHERE p.capture = c.capture),
            (SELECT list(p.rank) FROM stored.processes p WHERE p.capture = c.capture AND p.rank IS NOT NULL),
            json_exists(c.metadata, '$.{ALIGNED}')
        FROM stored.captures c WHERE c.run = ? AND c.source = ? ORDER BY c.capture""",
        [run.name, source],
    ).fetchall()
    guessed = (RankSource.ORDER, RankSource.PROCESS)
    return [
        _Recording(
            path,
            rank,
            frozenset(((ranks or ()) if aligned else ()) if rank is None else (rank,)),
            source_ in guessed,
            aligned,
            host,
            start,
            end,
            offset,
            frozenset(pids or ()),
        )
        for path, rank, source_, host, start, end, offset, pids, ranks, aligned in rows
    ]


def _other_window(other: _Recording, facts: CaptureFacts, processes: Sequence[int]) -> bool:
    """Whether a capture is of the same process at another time: then both are of one rank.

    Without the time of day both have to be on the process's own clock, which aligned timelines do not keep.
    """
    known = None not in (other.start_ns, other.end_ns, facts.start_ns, facts.end_ns)
    if other.utc_offset_ns is None and (other.aligned or ALIGNED in facts.metadata):
        return False
    if not known or not other.processes.intersection(processes):
        return False
    if (other.utc_offset_ns is None) != (facts.utc_offset_ns is None) or (other.host or None) != (facts.host or None):
        return False
    shift = (facts.utc_offset_ns or 0) - (other.utc_offset_ns or 0)
    start, end = int(facts.start_ns or 0) + shift, int(facts.end_ns or 0) + shift
    return start >= int(other.end_ns or 0) or end <= int(other.start_ns or 0)


def touch_run(connection: duckdb.DuckDBPyConnection, run: RunChoice) -> RunChoice:
    """Make the run the newest, and make it at all where it is new. Part of the caller's transaction."""
    touched = "(SELECT coalesce(max(touched), 0) + 1 FROM stored.runs)"
    if run.run_id is not None:
        connection.execute(f"UPDATE stored.runs SET touched = {touched} WHERE run_id = ?", [run.run_id])
        return run
    row = first_row(connection.execute("SELECT coalesce(max(run_id), -1) + 1 FROM stored.runs"))
    run_id = int(row[0]) if row else 0
    connection.execute(
        f"INSERT INTO stored.runs (run_id, run, folder, created_ns, touched) SELECT ?, ?, ?, ?, {touched}",
        [run_id, run.name, run.folder, time.time_ns()],
    )
    return RunChoice(run.name, run.folder, run_id)


def next_capture(connection: duckdb.DuckDBPyConnection) -> int:
    """Number of the next capture of the store."""
    row = first_row(connection.execute("SELECT coalesce(max(capture), -1) + 1 FROM stored.captures"))
    return int(row[0]) if row else 0


def _common_folder(files: Sequence[Path]) -> Path:
    folders = [file.resolve().parent for file in files]
    common = folders[0]
    while any(common not in (folder, *folder.parents) for folder in folders):
        common = common.parent
    return common


def _plain_name(file: Path) -> str:
    """Name of a file without the suffixes of trace formats and compression."""
    return storable(_SUFFIXES.sub("", file.name) or file.name)
