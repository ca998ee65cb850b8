"""Writers of tables to files: rows stream from the engine to the disk, so that memory does not grow with the table."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from traceanalyzer.passes.answer import library
from traceanalyzer.schema.column import Column
from traceanalyzer.store.database import first_row
from traceanalyzer.store.ddl import quoted
from traceanalyzer.version import __version__

BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Content:
    """What is written to a file: a query, and what its columns mean."""

    table: str
    meaning: str
    columns: Sequence[Column]
    sql: str

    @property
    def about(self) -> dict[str, str]:
        """What a file says of itself: table, meaning, program."""
        return {
            "traceanalyzer.version": __version__,
            "traceanalyzer.table": self.table,
            "traceanalyzer.meaning": self.meaning,
        }


def write_parquet(connection: duckdb.DuckDBPyConnection, content: Content, path: Path) -> int:
    """Write Parquet, compressed with zstd; returns the number of rows.

    Parquet has no comments on columns: unit and meaning of each stand as JSON under `traceanalyzer.columns` in the
    metadata of the file.
    """
    columns = {c.name: {"unit": str(c.unit), "meaning": c.meaning} for c in content.columns}
    about = content.about | {"traceanalyzer.columns": json.dumps(columns)}
    keys = ", ".join(f"{quoted(key)}: {quoted(text)}" for key, text in about.items())
    done = connection.execute(
        f"""COPY ({content.sql}) TO {quoted(str(path))} (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false,
            KV_METADATA {{{keys}}})"""
    )
    return int((first_row(done) or (0,))[0])


def write_arrow(connection: duckdb.DuckDBPyConnection, content: Content, path: Path) -> int:
    """Write an Arrow IPC file, with unit and meaning in the metadata of each field; returns the number of rows.

    Needs pyarrow: raises `TraceAnalyzerError` where it is not installed.
    """
    pa = library("pyarrow")
    ipc = library("pyarrow.ipc")
    about = {c.name: {"unit": str(c.unit), "meaning": c.meaning} for c in content.columns}
    relation: Any = connection.sql(content.sql)
    reader = relation.to_arrow_reader(BATCH_ROWS)
    schema = pa.schema([f.with_metadata(about.get(f.name, {})) for f in reader.schema], metadata=content.about)
    rows = 0
    with pa.OSFile(str(path), "wb") as sink, ipc.new_file(sink, schema) as writer:
        for batch in reader:
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
            rows += batch.num_rows
    return rows


@dataclass(frozen=True, slots=True)
class Format:
    """A format of files: its name, the end of its files' names, how one is written."""

    name: str
    suffix: str
    write: Callable[[duckdb.DuckDBPyConnection, Content, Path], int]


FORMATS = {
    "parquet": Format("parquet", ".parquet", write_parquet),
    "arrow": Format("arrow", ".arrow", write_arrow),
}
"""Formats by name. A new one is a function and one line here."""
