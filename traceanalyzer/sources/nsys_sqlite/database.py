"""Read-only, tolerant access to the SQLite file: tables and columns by name, rows in blocks of numpy arrays.

An export holds only the tables and columns that its version knew and that had rows, so whatever is absent reads as
nothing: an absent table has no rows, an absent column is null in every row.
"""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.sources.nsys_sqlite.recognise import SQLITE_MAGIC
from traceanalyzer.sources.nsys_sqlite.table_pages import NotPlain, Records, TablePages

Integers = NDArray[np.int64]

NULL = -(2**63) + 1
"""Stands for SQL's NULL in integer columns: no time, id or code of an export is near it."""

BROKEN = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What is raised where the file is damaged: the second where SQLite's own message quotes bytes that are no text."""

BLOCK_ROWS = 100_000
"""Rows a block: enough for numpy to pay off, few enough that memory does not grow with the file."""


class Block:
    """Some rows of a table: `block["start"]` gives integers with `NULL`, `block.values("text")` plain values."""

    __slots__ = ("_integers", "_values", "rows")

    def __init__(self, rows: int, integers: dict[str, Integers], values: dict[str, tuple[Any, ...]]) -> None:
        self.rows = rows
        self._integers = integers
        self._values = values

    @classmethod
    def of_rows(cls, rows: list[tuple[Any, ...]], integers: Sequence[str], values: Sequence[str]) -> "Block":
        """A block of rows as SQLite gives them: the integers first, then the plain values."""
        columns = list(zip(*rows, strict=True))
        numbers = {name: _integers(column) for name, column in zip(integers, columns, strict=False)}
        return cls(len(rows), numbers, dict(zip(values, columns[len(integers) :], strict=True)))

    def __getitem__(self, name: str) -> Integers:
        return self._integers[name]

    def values(self, name: str) -> tuple[Any, ...]:
        """Values of a column that was asked for as text, as real numbers or as bytes; None where null."""
        return self._values[name]

    def present(self, name: str) -> NDArray[np.bool_]:
        """Where a column of plain values is not null."""
        values = self._values[name]
        if values.count(None) == len(values):
            return np.zeros(len(values), np.bool_)
        return np.fromiter((v is not None for v in values), np.bool_, len(values))


def _integers(values: tuple[Any, ...]) -> Integers:
    try:
        return np.array(values, np.int64)
    except (TypeError, ValueError, OverflowError):  # text or infinity where a number belongs: some other tool wrote it
        return np.array([_integer(v) for v in values], np.int64)


def _integer(value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return NULL
    return number if -(2**63) <= number < 2**63 else NULL


@dataclass(frozen=True, slots=True)
class _Declared:
    """What the schema says of a column: part of a key, real numbers (whose whole values are stored as integers), or
    the row id itself, which then stands as null in the records."""

    key: bool
    real: bool
    row_id: bool

    @classmethod
    def of(cls, kind: str, key: bool, keys: int) -> "_Declared":
        kind = kind.upper()
        return cls(key, any(word in kind for word in ("REAL", "FLOA", "DOUB")), key and keys == 1 and kind == "INTEGER")


class Database:
    """One export, opened so that neither the file nor its folder is ever changed.

    `lost` collects the tables of which not every row could be read, with the message of SQLite.
    Raises one of `BROKEN` where the file is no SQLite database at all.
    """

    def __init__(self, path: Path) -> None:
        # A name may hold what means something in a URI: as_uri() quotes it. `immutable` keeps SQLite from
        # looking for, or making, a journal beside the file.
        self._connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self.lost: dict[str, str] = {}
        self._pages: TablePages | None = None
        self.cut = _is_cut(path)
        if self.cut:
            # SQLite refuses a file that is shorter than its header says. With this setting, which writes nothing here,
            # it reads the pages that are there.
            self._connection.execute("PRAGMA writable_schema=ON")
        try:
            self._columns = self._read_schema()
        except BROKEN:
            self.close()
            raise
        if self.cut:
            self._forget_cut_tables()
        self._pages = TablePages(path)
        self._plain = {} if self.cut else self._find_plain_tables()

    def _read_schema(self) -> dict[str, dict[str, "_Declared"]]:
        query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        columns = {}
        for (name,) in self._connection.execute(query).fetchall():
            try:
                info = self._connection.execute(f"PRAGMA table_info({_quoted(name)})").fetchall()
            except BROKEN as error:
                self.lost[name] = str(error)
                continue
            keys = sum(bool(row[5]) for row in info)
            columns[name] = {row[1]: _Declared.of(row[2] or "", bool(row[5]), keys) for row in info}
        return columns

    def _find_plain_tables(self) -> dict[str, int]:
        """Root pages of tables whose records hold the declared columns one by one, and are found by row id.

        Generated columns do not stand in the records, and tables without row ids are trees of another kind.
        """
        out = {}
        query = "SELECT name, rootpage, sql FROM sqlite_master WHERE type = 'table'"
        for name, root, text in self._connection.execute(query):
            columns = self._columns.get(name, {})
            shadowed = any(c.lower() in ("rowid", "oid", "_rowid_") for c in columns)
            words = re.sub(r"--[^\n]*", "", text or "").upper()
            other = re.search(r"\bWITHOUT\b|\bVIRTUAL\b|\bAS\b", words)
            if columns and not shadowed and not other and isinstance(root, int):
                out[name] = root
        return out

    def _forget_cut_tables(self) -> None:
        """Keep of a file that ends early only the tables that are there whole."""
        for name in list(self._columns):
            try:
                for _row in self._connection.execute(f"SELECT * FROM {_quoted(name)}"):
                    pass
            except BROKEN as error:
                self.lost[name] = str(error)
                del self._columns[name]

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
        if self._pages is not None:
            self._pages.close()

    @property
    def tables(self) -> set[str]:
        """Names of the tables and views that can be read."""
        return set(self._columns)

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table exists and has all these columns."""
        return table in self._columns and all(c in self._columns[table] for c in columns)

    def is_key(self, table: str, column: str) -> bool:
        """Whether rows are found by this column without reading the whole table."""
        return table in self._columns and column in self._columns[table] and self._columns[table][column].key

    def blocks(
        self,
        table: str,
        integers: Sequence[str],
        values: Sequence[str] = (),
        *,
        where: str = "",
        order: str = "",
        rows: int = BLOCK_ROWS,
    ) -> Iterator[Block]:
        """Rows of a table in blocks, in the order of the file unless `order` names columns.

        This is the one place where rows of events are fetched: from the pages of the file as far as they are plain,
        the rest by SQLite. Where the table turns out to be damaged, the blocks before the damage are delivered and
        the table is noted in `lost`.
        """
        if table not in self._columns:
            return
        if self._pages is not None and not where and not order and (plain := self._plain.get(table)):
            last: int | None = None
            try:
                for records in self._pages.records(
                    plain, len(self._columns[table]), self._numbers(table, integers, values)
                ):
                    if len(records.row_ids):
                        yield self._block(table, records, integers, values)
                        last = int(records.row_ids[-1])
            except NotPlain:
                where = "" if last is None else f"rowid > {last}"
            else:
                return
        yield from self._by_sqlite(table, integers, values, where=where, order=order, rows=rows)

    def _numbers(self, table: str, *names: Sequence[str]) -> list[int]:
        """Positions in the records of those columns that the table has."""
        order = list(self._columns[table])
        return [order.index(name) for part in names for name in part if name in self._columns[table]]

    def _block(self, table: str, records: Records, integers: Sequence[str], values: Sequence[str]) -> Block:
        declared = self._columns[table]
        at = {name: number for number, name in enumerate(declared)}
        count = len(records.row_ids)
        numbers, others = {}, {}
        for name in integers:
            if name not in at:
                numbers[name] = np.full(count, NULL, np.int64)
            else:
                stored = records.integers(at[name], NULL)
                alias = declared[name].row_id and bool((stored == NULL).all())
                numbers[name] = records.row_ids if alias else stored
        for name in values:
            found = records.values(at[name], real=declared[name].real) if name in at else (None,) * count
            others[name] = found
        return Block(count, numbers, others)

    def _by_sqlite(
        self, table: str, integers: Sequence[str], values: Sequence[str], *, where: str, order: str, rows: int
    ) -> Iterator[Block]:
        have = self._columns[table]
        # Nulls are replaced inside SQLite: numpy then takes the columns as they are.
        selected = [f"ifnull({_quoted(c)}, {NULL}) AS {_quoted(c)}" if c in have else str(NULL) for c in integers]
        selected += [_quoted(c) if c in have else "NULL" for c in values]
        query = f"SELECT {', '.join(selected)} FROM {_quoted(table)}"
        query += f" WHERE {where}" if where else ""
        query += f" ORDER BY {order}" if order else ""
        try:
            cursor = self._connection.execute(query)
            while batch := cursor.fetchmany(rows):
                yield Block.of_rows(batch, integers, values)
        except BROKEN as error:
            self.lost[table] = str(error)

    def rows(self, table: str, *columns: str, where: str = "") -> list[tuple[Any, ...]]:
        """All rows of a small table as tuples; None for nulls and for columns that do not exist."""
        have = self._columns.get(table)
        if have is None:
            return []
        selected = ", ".join(_quoted(c) if c in have else "NULL" for c in columns)
        query = f"SELECT {selected} FROM {_quoted(table)}" + (f" WHERE {where}" if where else "")
        try:
            return self._connection.execute(query).fetchall()
        except BROKEN as error:
            self.lost[table] = str(error)
            return []

    def find(self, table: str, column: str, keys: Sequence[int], *columns: str) -> list[tuple[Any, ...]]:
        """Rows whose `column` is one of `keys`, a few hundred keys a query."""
        out: list[tuple[Any, ...]] = []
        for first in range(0, len(keys), 500):
            some = ", ".join(str(int(k)) for k in keys[first : first + 500])
            out += self.rows(table, *columns, where=f"{_quoted(column)} IN ({some})")
        return out

    def largest(self, table: str, column: str) -> int | None:
        """Largest integer of a column; None without rows."""
        if not self.has(table, column):
            return None
        try:
            found = self._connection.execute(f"SELECT max({_quoted(column)}) FROM {_quoted(table)}").fetchone()[0]
        except BROKEN as error:
            self.lost[table] = str(error)
            return None
        return found if isinstance(found, int) else None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_cut(path: Path) -> bool:
    """Whether the file is shorter than its header says (bytes 16-17 page size, 28-31 pages; sqlite.org/fileformat)."""
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100:
        return header.startswith(SQLITE_MAGIC)
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    pages = int.from_bytes(header[28:32], "big")
    counts_agree = header[24:28] == header[92:96]  # else an old writer left the number of pages stale
    return counts_agree and path.stat().st_size < page * pages
