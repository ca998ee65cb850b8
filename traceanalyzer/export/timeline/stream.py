"""Writes a Chrome trace event by event. Texts of events are made by the engine, some ten thousand at a time."""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from traceanalyzer.store.database import first_row

Ints = NDArray[np.int64]
BATCH_ROWS = 20_000
"""Events that are fetched, and written, at a time."""
_LEVEL = 5  # of compression: higher ones take twice as long for some percent
_ROWS = "timeline_rows"


class EventStream:
    """A file that is being written: the header first, then events. `events` counts them."""

    def __init__(self, file: IO[bytes], connection: duckdb.DuckDBPyConnection, *, compressed: bool) -> None:
        # Neither name nor time stands in the file, so that the same timeline is the same file.
        self._zipped = gzip.GzipFile("", "wb", compresslevel=_LEVEL, fileobj=file, mtime=0) if compressed else None
        self._file: Any = self._zipped or file
        self._connection = connection
        self.events = 0

    def __enter__(self) -> "EventStream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._file.write(b"\n]}\n")
        if self._zipped is not None:
            self._zipped.close()

    def begin(self, about: Mapping[str, object]) -> None:
        """Writes what stands before the events."""
        pairs = [f"{json_text(key)}:{json_text(value)}" for key, value in about.items()]
        self._file.write(("{" + ",\n".join([*pairs, '"traceEvents":[\n'])).encode())

    def add(self, text: str | None, count: int) -> None:
        """Writes the texts of some events, with commas between them."""
        if count and text:
            self._file.write((",\n" if self.events else "").encode() + text.encode())
            self.events += count

    def add_objects(self, events: Sequence[Mapping[str, object]]) -> None:
        """Writes a few events."""
        self.add(",\n".join(map(json_text, events)), len(events))

    def add_rows(self, rows: Mapping[str, NDArray[Any]], texts: "Texts") -> None:
        """Writes an event, or several, for each row. Columns of `rows` are those of `r`; `n` is their order."""
        count = len(next(iter(rows.values())))
        if not count:
            return
        self._connection.register(_ROWS, {"n": np.arange(count), **rows})
        try:
            row = first_row(
                self._connection.execute(
                    f"""SELECT string_agg(text, ',\n' ORDER BY n), sum(events)::BIGINT FROM (
                        SELECT r.n, {texts.text} AS text, {texts.events} AS events FROM {_ROWS} r {texts.joins}
                    )"""
                )
            )
        finally:
            self._connection.unregister(_ROWS)
        self.add(*row) if row else None


@dataclass(frozen=True, slots=True)
class Texts:
    """SQL: the text of the events of a row, how many they are, and what `r` is joined with (one row for each)."""

    text: str
    joins: str = ""
    events: str = "1"


def json_text(value: object) -> str:
    """JSON without numbers that JSON does not have."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def microseconds(column: str) -> str:
    """SQL: exact decimal microseconds of nanoseconds that are 0 or more."""
    return f"({column} // 1000), '.', lpad(({column} % 1000)::VARCHAR, 3, '0')"


def slice_text(category: str, name: str, arguments: str, *, start: str = "r.ts", length: str = "r.dur") -> str:
    """SQL: the text of a slice on the row `r.pid`, `r.tid`. All are SQL: of texts, the last of members of an object.

    Members begin with a comma each; those that are null are left out.
    """
    return f"""concat('{{"ph":"X","cat":"', {category}, '","name":', {name}, ',"pid":', r.pid, ',"tid":', r.tid,
        ',"ts":', {microseconds(start)}, ',"dur":', {microseconds(length)},
        ',"args":{{', substr(concat({arguments}), 2), '}}}}')"""


def arrow_text(category: str, identity: str, source: tuple[str, str, str], target: tuple[str, str, str]) -> str:
    """SQL: the text of the two ends of an arrow. Ends are (pid, tid, instant), each of them on a slice."""

    def end(phase: str, place: tuple[str, str, str], more: str) -> str:
        pid, tid, instant = place
        return f"""concat('{{"ph":"{phase}","cat":"{category}","name":"{category}","id":', {identity}, ',"pid":', {pid},
            ',"tid":', {tid}, ',"ts":', {microseconds(instant)}, '{more}}}')"""

    return f"""concat({end("s", source, "")}, ',\n', {end("f", target, ',"bp":"e"')})"""


def member(key: str, value: str) -> str:
    """SQL: a number as a member of an object; null where it is null."""
    return f"""',"{key}":' || {value}"""


def text_member(key: str, value: str) -> str:
    """SQL: a text as a member of an object; null where it is null."""
    return f"""',"{key}":' || to_json({value})"""


def time_slices(
    connection: duckdb.DuckDBPyConnection, table: str, column: str, condition: str
) -> Iterator[tuple[int, int]]:
    """Stretches [low, high) of the times of a table, in order, with about `BATCH_ROWS` rows each."""
    row = first_row(connection.execute(f"SELECT count(*), min({column}), max({column}) FROM {table} WHERE {condition}"))
    count, first, last = row or (0, None, None)
    if not count or first is None:
        return
    parts = -(-count // BATCH_ROWS)
    edges: list[int] = []
    if parts > 1:
        shares = [k / parts for k in range(1, parts)]
        row = first_row(
            connection.execute(f"SELECT approx_quantile({column}, {shares}) FROM {table} WHERE {condition}")
        )
        edges = sorted({int(edge) for edge in (row[0] if row else None) or [] if first < edge <= last})
    yield from zip([first, *edges], [*edges, last + 1], strict=True)
