"""From files to the store: find the files, recognise them, read each, put it in place at once or not at all."""

import contextlib
import glob
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import duckdb

from traceanalyzer.errors import SourceError, UnknownFormatError, UsageError
from traceanalyzer.passes.answer import Answer, Frame, TableSpec
from traceanalyzer.passes.scope import TELEMETRY
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import Severity
from traceanalyzer.schema.text import storable
from traceanalyzer.sources import SOURCES
from traceanalyzer.sources.base import Source
from traceanalyzer.sources.content import Content
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.store import catalog
from traceanalyzer.store.commit import CaptureRow, commit_capture
from traceanalyzer.store.database import duckdb_errors, open_to_write
from traceanalyzer.store.staging import Staging
from traceanalyzer.units import Unit

Progress = Callable[[str, int, int], None]
"""Told the path of the file being read, the bytes of all files read so far, and the bytes of all files."""

FILES = TableSpec(
    "files",
    "Files of the call and what became of each.",
    (
        Column("path", Type.TEXT, "File."),
        Column("run", Type.TEXT, "Run that holds it."),
        Column("source", Type.TEXT, "Kind of profiler output."),
        Column("status", Type.TEXT, "ingested, or skipped where its content was already there."),
        Column("rank", Type.INT64, "Rank; null where the file holds several."),
        Column("n_ops", Type.INT64, "Device operations.", Unit.COUNT),
        Column("n_events", Type.INT64, "Events of the host.", Unit.COUNT),
        Column(
            "n_launches", Type.INT64, "Profiled launches; null for other files than those of profilers.", Unit.COUNT
        ),
        Column("n_samples", Type.INT64, "Samples of metrics; null where there are none.", Unit.COUNT),
        Column("file_bytes", Type.INT64, "Size of the file.", Unit.BYTES),
        Column("duration_ns", Type.INT64, "Time that reading and storing took.", Unit.NS),
    ),
    cut=False,
)
_NOT_TRACES = {".py", ".md", ".sh", ".html", ".duckdb", ".wal", ".png", ".pdf", ".toml", ".yaml", ".yml"}
_FileRow = tuple[str, str, str, str, int | None, int | None, int | None, int | None, int | None, int, int | None]


@dataclass(frozen=True, slots=True)
class Found:
    """A file to ingest and the source that reads it."""

    file: Path
    source: Source
    named: bool = True
    """Whether the call names the file; one that lies in a folder may turn out to be something else."""


def ingest(
    paths: Sequence[Path | str],
    store: Path,
    *,
    run: str | None = None,
    keep_environment: bool = False,
    progress: Progress | None = None,
) -> Answer:
    """Read files, folders and globs into a store; every file is stored whole or not at all.

    Returns table `files`. What is odd in a file is in `warnings`. A file whose content is in the store is skipped.
    Raises `SourceError` for files that are no traces, `StoreError` where the store cannot be written; what was stored
    before the error stays.
    """
    if run == "all":
        raise UsageError("a run cannot be named all: that means every run")
    lacking: list[SourceError] = []
    found, contents, vanished = _contents(find_files(paths, lacking))
    preparing = Thread(target=found[0].source.prepare, args=(TraceFile(found[0].file),), daemon=True)
    preparing.start()
    fresh_store = not os.path.lexists(store)
    connection = open_to_write(store)
    try:
        work = _Work(connection, store, keep_environment, progress, sum(c.size for c in contents))
        for error in (*lacking, *vanished):
            work.leave_out(error)
        with duckdb_errors(store, "written"):
            run = None if run is None else storable(run)
            stored = catalog.stored_sizes(connection)
            known = [content.digest for content in contents if content.size in stored]
            choice = catalog.choose_run(connection, [f.file for f in found], known, run)
            preparing.join()
            for item, content in zip(found, contents, strict=True):
                choice = work.one_of_several(item, content, choice, alone=len(found) == 1 and run is None)
            work.finish()
    except BaseException:
        empty = False
        with contextlib.suppress(duckdb.Error):  # the engine may have given the store up
            empty = fresh_store and catalog.newest_run(connection) is None
        with contextlib.suppress(duckdb.Error):
            connection.close()
        if empty:
            for leftover in (store, store.with_name(f"{store.name}.wal")):
                leftover.unlink(missing_ok=True)
        raise
    connection.close()
    return Answer("ingest", {"files": Frame.of_rows(FILES, work.rows)}, warnings=work.warnings, notes=work.notes)


class _Work:
    """The state of one call: rows and warnings so far, bytes read so far."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        store: Path,
        keep_environment: bool,
        progress: Progress | None,
        total_bytes: int,
    ) -> None:
        self.connection, self.store, self.keep_environment = connection, store, keep_environment
        self.progress, self.total_bytes, self.done_bytes = progress, total_bytes, 0
        self.rows: list[_FileRow] = []
        self.left_out: list[SourceError] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self.stored = 0

    def one_of_several(self, item: Found, content: Content, run: catalog.RunChoice, alone: bool) -> catalog.RunChoice:
        """Ingest one file; one that merely lies in a folder and is no trace is left out with a warning."""
        try:
            return self.one(item, content, run, alone)
        except SourceError as error:
            if item.named:
                raise
            self.leave_out(error)
            return run

    def leave_out(self, error: SourceError) -> None:
        """Go on without a file of a folder."""
        self.left_out.append(error)
        self.warnings.append(f"left out: {error}")

    def one(self, item: Found, content: Content, run: catalog.RunChoice, alone: bool) -> catalog.RunChoice:
        """Ingest one file; returns the run with its number."""
        size = content.size
        known = None
        if size in catalog.stored_sizes(self.connection):
            known = catalog.stored_capture(self.connection, content.digest)
        if known:
            none = (None, None, None, None, None)
            self.rows.append((str(item.file), known[1], item.source.name, "skipped", *none, size, None))
            self._report(item.file, size)
            return run
        begun, before = time.monotonic_ns(), self.done_bytes
        staging = Staging(item.file, self.keep_environment)
        try:
            file = TraceFile(item.file, lambda count: self._report(item.file, count))
            item.source.read(file, staging)
            content.check_still()
            content.begin()
            if file.damage and staging.facts.whole:
                staging.facts.whole = False
                staging.note("truncated", f"Only a part of the file could be read: {file.damage}.")
            if file.remark:
                staging.note("trailing_bytes", f"Nothing is lost, but {file.remark}.", severity=Severity.INFO)
            if alone and (same := self._run_to_join(item, staging)):
                run = same
            run, rank = self._store(item, content, run, staging)
        finally:
            staging.close()
        self.done_bytes = before
        self._report(item.file, size)
        took = time.monotonic_ns() - begun
        counts = _counts(item.source, staging)
        self.rows.append((str(item.file), run.name, item.source.name, "ingested", rank, *counts, size, took))
        self._warn(item.file, staging)
        self.stored += 1
        return run

    def _run_to_join(self, item: Found, staging: Staging) -> catalog.RunChoice | None:
        """The run that a single file joins by itself, if any; said where nothing in the file tells it."""
        if not item.source.joins_newest_run:
            return catalog.run_of_same_job(self.connection, item.file, staging.facts)
        newest = catalog.newest_run_choice(self.connection)
        if newest is not None:
            self.notes.append(f"{item.file.name}: joins the newest run, {newest.name}; --run NAME chooses another")
        return newest

    def _store(
        self, item: Found, content: Content, run: catalog.RunChoice, staging: Staging
    ) -> tuple[catalog.RunChoice, int | None]:
        connection = self.connection
        connection.execute("BEGIN TRANSACTION")
        try:
            processes = sorted(p for p in staging.recorded.processes if p is not None)
            if item.source.has_ranks:
                rank = catalog.choose_rank(connection, run, item.file, item.source.name, staging.facts, processes)
            else:
                rank = catalog.stated_rank(item.file, staging.facts)
            if rank.assumed:
                staging.note(
                    "rank_assumed",
                    f"Neither the file nor its name tells a rank: it counts as rank {rank.rank} by the order given.",
                )
            run = catalog.touch_run(connection, run)
            number = catalog.next_capture(connection)
            row = CaptureRow(
                capture=number,
                run=run.name,
                path=storable(str(item.file)),
                source=item.source.name,
                content_hash=content.settled_digest,
                file_bytes=content.size,
                rank=rank.rank,
                rank_source=rank.source,
            )
            commit_capture(connection, staging, row)
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise
        return run, rank.rank

    def finish(self) -> None:
        """After the last file. Raises `SourceError` where every file was left out."""
        if not self.rows and self.left_out:
            raise self.left_out[0]
        if self.rows and not self.stored:
            self._make_newest(self.rows[-1][1])

    def _make_newest(self, name: str) -> None:
        """Questions speak of the newest run: a run that was given again becomes that."""
        if catalog.newest_run(self.connection) == name:
            return
        rows = self.connection.execute("SELECT folder, run_id FROM stored.runs WHERE run = ?", [name]).fetchall()
        for folder, run_id in rows:
            catalog.touch_run(self.connection, catalog.RunChoice(name, folder, run_id))

    def _report(self, file: Path, count: int) -> None:
        self.done_bytes += count
        if self.progress:
            self.progress(str(file), min(self.done_bytes, self.total_bytes), self.total_bytes)

    def _warn(self, file: Path, staging: Staging) -> None:
        for (_code, text, severity), count in sorted(staging.notes.items()):
            if severity is not Severity.INFO:
                self.warnings.append(f"{file.name}: {text}" + (f" ({count:,} times)" if count > 1 else ""))


def _counts(source: Source, staging: Staging) -> tuple[int | None, int | None, int | None, int | None]:
    """How many operations, host events, profiled launches and samples a file has; None for what its source has not."""
    watches = source.name in TELEMETRY
    return (
        None if watches else staging.rows["gpu_ops"],
        None if watches else staging.rows["cpu_events"],
        None if watches or source.has_timeline else staging.rows["kernel_profiles"],
        staging.rows["metric_samples"] or None,
    )


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    try:
        connection.execute("ROLLBACK")
    except duckdb.Error:  # the engine may have ended the transaction itself
        return


def _contents(found: Sequence[Found]) -> tuple[list[Found], list[Content], list[SourceError]]:
    """The files that can be read, their contents, and what is wrong with those of folders that cannot any more."""
    kept: list[Found] = []
    contents: list[Content] = []
    errors: list[SourceError] = []
    for item in found:
        try:
            content = Content(item.file)
        except SourceError as error:
            if item.named:
                raise
            errors.append(error)
            continue
        kept.append(item)
        contents.append(content)
    if not kept:
        raise errors[0]
    return kept, contents, errors


def find_files(paths: Sequence[Path | str], lacking: list[SourceError] | None = None) -> list[Found]:
    """Files, folders (all traces below, sorted) and globs, each with its source.

    `lacking` gets an error for each file in a folder that only a missing package keeps from being read.
    Raises `SourceError` for a file that does not exist, a folder without traces, and `UnknownFormatError` for a file
    that no source recognises.
    """
    out: dict[Path, Found] = {}
    lacking = [] if lacking is None else lacking
    for path in paths:
        for found in _of_path(path, lacking):
            out.setdefault(found.file.resolve(), found)
    if not out:
        raise SourceError(", ".join(map(str, paths)) or "no file", "no traces given")
    return list(out.values())


def _of_path(path: Path | str, lacking: list[SourceError]) -> Iterator[Found]:
    place = Path(path)
    if place.is_dir():
        yield from _of_folder(place, lacking)
    elif not place.exists() and glob.has_magic(str(path)):
        hits = sorted(glob.glob(str(path), recursive=True), key=_natural)
        if not hits:
            raise SourceError(path, "no file matches")
        for hit in hits:
            yield from _of_path(Path(hit), lacking)
    else:
        file = TraceFile(place)
        if source := recognise(file):
            yield Found(place, source)
        elif why := next(filter(None, (source.why_not(file) for source in SOURCES)), None):
            raise SourceError(place, why)
        else:
            if file.head[8:12] == b"DUCK":
                raise UnknownFormatError(place, "a store, not a trace", f"ask it with --db {place}")
            raise UnknownFormatError(
                place, "not a trace that any reader knows", f"known are {', '.join(s.title for s in SOURCES)}"
            )


def _of_folder(folder: Path, lacking: list[SourceError]) -> Iterator[Found]:
    count, before = 0, len(lacking)
    for file in sorted((f for f in folder.rglob("*") if f.is_file()), key=lambda f: _natural(str(f))):
        if file.suffix in _NOT_TRACES or any(part.startswith(".") for part in file.relative_to(folder).parts):
            continue
        try:
            opened = TraceFile(file)
            source = recognise(opened)
            why = None if source else next(filter(None, (each.lacks(opened) for each in SOURCES)), None)
        except SourceError:
            continue
        if source:
            count += 1
            yield Found(file, source, named=False)
        elif why:
            lacking.append(SourceError(file, why))
    if not count and len(lacking) > before:
        raise lacking[before]
    if not count:
        raise SourceError(folder, "a folder without traces", "give the files, or a folder that holds some")


def recognise(file: TraceFile) -> Source | None:
    """The source that reads a file, or None."""
    return next((source for source in SOURCES if source.recognise(file)), None)


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key under which rank2 comes before rank10."""
    return [(1, int(x), "") if x.isdigit() else (0, 0, x) for x in re.split(r"(\d+)", text)]
