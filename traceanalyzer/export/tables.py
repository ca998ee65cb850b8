"""Which tables are exported, what of them, and to which files; each file is seen whole or not at all."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb

from traceanalyzer.errors import ExportError, UsageError
from traceanalyzer.export.formats import FORMATS, Content, Format
from traceanalyzer.export.placing import placed, refuse_to_replace, size_of
from traceanalyzer.passes.answer import Answer, Frame, TableSpec
from traceanalyzer.passes.results import OFFERED, RESULTS, no_table, offer, results
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.column import Column, Table, Type
from traceanalyzer.schema.tables import TABLE_BY_NAME
from traceanalyzer.store.database import one_line
from traceanalyzer.store.ddl import public_columns, quoted
from traceanalyzer.units import Unit

FILES = TableSpec(
    "files",
    "Files that were written.",
    (
        Column("table", Type.TEXT, "Table that it holds."),
        Column("rows", Type.INT64, "Rows.", Unit.COUNT),
        Column("file_bytes", Type.INT64, "Size of the file; null of a pipe or device.", Unit.BYTES),
        Column("path", Type.TEXT, "The file."),
    ),
    cut=False,
)

_PRINTED = {".csv": "csv", ".json": "json", ".md": "markdown"}
OTHER_FORMATS = {
    *(*_PRINTED, ".tsv", ".txt", ".jsonl", ".ndjson", ".xml", ".yaml", ".html", ".xlsx", ".xls", ".ods", ".feather"),
    *(".ipc", ".orc", ".avro", ".pq", ".h5", ".hdf5", ".npy", ".npz", ".pkl", ".pickle", ".db", ".duckdb", ".sqlite"),
    *(".gz", ".zip", ".zst", ".tar"),
}
"""Ends of names that mean a file, which would be a surprise as the name of a folder."""


def export(
    scope: Scope, target: Path, *, tables: Sequence[str] = (), form: str | None = None, force: bool = False
) -> Answer:
    """Write tables to files; table `files` says which.

    `target` is a folder, which gets a file a table, or a file with the suffix of a format for the one table that is
    named. `tables` are names of public tables and of results of passes; none: all public tables. Public tables hold
    the selected captures, ranks and device; results of passes follow the whole selection.

    Raises `UsageError` for an unknown table or format, for a target whose name means a format that is not written, and
    where a file exists that `force` does not allow to replace; `ExportError` where a file cannot be written.
    """
    chosen = list(dict.fromkeys(tables)) or list(TABLE_BY_NAME)
    if unknown := [name for name in chosen if name not in TABLE_BY_NAME and name not in RESULTS]:
        raise UsageError(no_table(unknown))
    kind, files = _files(target, chosen, form)
    refuse_to_replace(list(files.values()), force)
    offered = results(scope, [name for name in chosen if name in OFFERED])
    for name, frame in offered.items():
        offer(scope.connection, name, frame)
    rows = []
    for name, file in files.items():
        count = _write(scope.connection, kind, _content(scope, name, name in offered), file)
        rows.append((name, count, size_of(file), str(file)))
    return Answer("export", {"files": Frame.of_rows(FILES, rows)}, warnings=list(scope.warnings), notes=[scope.note()])


def _files(target: Path, tables: list[str], form: str | None) -> tuple[Format, dict[str, Path]]:
    """The format, and the file of each table."""
    if form is not None and form not in FORMATS:
        raise UsageError(f"no format {form!r}; there are {', '.join(FORMATS)}")
    by_suffix = {each.suffix: each for each in FORMATS.values()}
    suffix = target.suffix.lower()
    if suffix in OTHER_FORMATS and not target.is_dir():
        raise UsageError(f"{target}: {_refused(target, tables, by_suffix)}")
    if suffix in by_suffix and not target.is_dir():
        kind = by_suffix[suffix]
        if form not in (None, kind.name):
            raise UsageError(f"{target}: the name says {kind.name}, --format says {form}")
        if len(tables) != 1:
            raise UsageError(f"{target}: a file holds one table; name it with --table, or give a folder")
        return kind, {tables[0]: target}
    kind = FORMATS[form or "parquet"]
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExportError(f"{target}: the folder cannot be made ({error.strerror})") from error
    return kind, {name: target / f"{name}{kind.suffix}" for name in tables}


def _refused(target: Path, tables: list[str], by_suffix: Iterable[str]) -> str:
    """Why no file of that name is written, and what to do instead."""
    suffix = target.suffix.lower()
    text = f"export writes no {suffix} files; give a name that ends in {' or '.join(by_suffix)}, or that of a folder"
    if form := _PRINTED.get(suffix):
        table = tables[0] if len(tables) == 1 else "gpu_ops"
        query = f"traceanalyzer sql 'SELECT * FROM {table}' --format {form} --top 0 -o {shlex.quote(str(target))}"
        text += f"; for {form} run: {query}"
    return text


def _content(scope: Scope, name: str, offered: bool) -> Content:
    if name in RESULTS:
        spec = RESULTS[name].spec
        return Content(name, spec.meaning, spec.columns, f"SELECT * FROM temp.{name}")
    table = TABLE_BY_NAME[name]
    # Sorted, so that the same store gives the same file whatever the number of workers.
    order = table.keys or [c.name for c in table.columns if c.type not in (Type.TEXT, Type.NAME)]
    place = "temp" if offered else "main"
    sql = f"SELECT * FROM {place}.{name} WHERE {_condition(scope, table)} ORDER BY {', '.join(order)}"
    return Content(name, table.meaning, public_columns(table), sql)


def _condition(scope: Scope, table: Table) -> str:
    """SQL: the rows of a public table that belong to the selection."""
    columns = {column.name for column in public_columns(table)}
    selection = scope.selection
    parts = ["true"]
    if "capture" in columns:
        parts.append(f"capture IN {scope.numbers()}")
    elif table.name == "runs":
        parts.append(f"run IN ({', '.join(map(quoted, scope.runs)) or 'NULL'})")
    if selection.ranks is not None and "rank" in columns:
        ranks = ", ".join(map(str, sorted(selection.ranks)))
        parts.append(f"(rank IS NULL OR rank IN ({ranks}))")
    if selection.device is not None and "device" in columns:
        parts.append(f"(device IS NULL OR device = {selection.device})")
    return " AND ".join(parts)


def _write(connection: duckdb.DuckDBPyConnection, kind: Format, content: Content, file: Path) -> int:
    try:
        with placed(file, seeks=True) as path:
            return kind.write(connection, content, path)
    except duckdb.Error as error:
        raise ExportError(f"{file}: cannot be written: {one_line(error)}") from error
