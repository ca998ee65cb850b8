"""Read-only, tolerant access to the SQLite file: tables and columns by name, rows in blocks of numpy arrays.

An export holds only the tables and columns that its version knew and that had rows, so whatever is absent reads as
nothing: an absent table has no rows, an absent column is null in every row.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

NULL = -(2**63) + 1
"""Stands for SQL's NULL in integer columns: no time, id or code of an export is near it."""

BLOCK_ROWS = 100_000
"""Rows a block: enough for numpy to pay off, few enough that memory does not grow with the file."""

SQLITE_MAGIC = b"SQLite format 3\x00"


class Block:
    """Some rows of a table: `block["start"]` gives integers with `NULL`, `block.values("text")` plain values."""

    __slots__ = ("_columns", "_integers", "rows")

    def __init__(self, names: Sequence[str], integers: int, rows: list[tuple[Any, ...]]) -> None:
        self.rows = len(rows)
        self._columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        self._integers: dict[str, Integers] = {
            name: _integers(self._columns.pop(name)) for name in tuple(names)[:integers]
        }

    def __getitem__(self, name: str) -> Integers:
        return self._integers[name]

    def values(self, name: str) -> tuple[Any, ...]:
        """Values of a column that was asked for as text, as real numbers or as bytes; None where null."""
        return self._columns[name]


def _integers(values: tuple[Any, ...]) -> Integers:
    try:
        return np.array(values, np.int64)
    except (TypeError, ValueError, OverflowError):  # text or infinity where a number belongs: some other tool wrote it
        return np.array([_integer(v) for v in values], np.int64)


def _integer(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return NULL


class Database:
    """One export, opened so that neither the file nor its folder is ever changed.

    `lost` collects the tables of which not every row could be read, with the message of SQLite.
    Raises `sqlite3.DatabaseError` where the file is no SQLite database at all.
    """

    def __init__(self, path: Path) -> None:
        # A name may hold what means something in a URI: as_uri() quotes it. `immutable` keeps SQLite from
        # looking for, or making, a journal beside the file.
        self._connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self.lost: dict[str, str] = {}
        self.cut = _is_cut(path)
        if self.cut:
            # SQLite refuses a file that is shorter than its header says. With this setting, which writes nothing here,
            # it reads the pages that are there.
            self._connection.execute("PRAGMA writable_schema=ON")
        try:
            self._columns = self._read_schema()
        except sqlite3.DatabaseError:
            self.close()
            raise
        if self.cut:
            self._forget_cut_tables()

    def _read_schema(self) -> dict[str, dict[str, bool]]:
        names = [
            row[0] for row in self._connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        ]
        columns = {}
        for name in names:
            try:
                info = self._connection.execute(f"PRAGMA table_info({_quoted(name)})").fetchall()
            except sqlite3.DatabaseError as error:
                self.lost[name] = str(error)
                continue
            columns[name] = {row[1]: bool(row[5]) for row in info}
        return columns

    def _forget_cut_tables(self) -> None:
        """Keep of a file that ends early only the tables that are there whole."""
        for name in list(self._columns):
            try:
                for _row in self._connection.execute(f"SELECT * FROM {_quoted(name)}"):
                    pass
            except sqlite3.DatabaseError as error:
                self.lost[name] = str(error)
                del self._columns[name]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @property
    def tables(self) -> set[str]:
        """Names of the tables and views that can be read."""
        return set(self._columns)

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table exists and has all these columns."""
        return table in self._columns and all(c in self._columns[table] for c in columns)

    def is_key(self, table: str, column: str) -> bool:
        """Whether rows are found by this column without reading the whole table."""
        return self._columns.get(table, {}).get(column, False)

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

        This is the one place where rows of events are fetched: a faster way to fetch belongs here. Where the table
        turns out to be damaged, the blocks before the damage are delivered and the table is noted in `lost`.
        """
        have = self._columns.get(table)
        if have is None:
            return
        # Nulls are replaced inside SQLite: numpy then takes the columns as they are.
        selected = [f"ifnull({_quoted(c)}, {NULL}) AS {_quoted(c)}" if c in have else str(NULL) for c in integers]
        selected += [_quoted(c) if c in have else "NULL" for c in values]
        query = f"SELECT {', '.join(selected)} FROM {_quoted(table)}"
        query += f" WHERE {where}" if where else ""
        query += f" ORDER BY {order}" if order else ""
        names = [*integers, *values]
        try:
            cursor = self._connection.execute(query)
            while batch := cursor.fetchmany(rows):
                yield Block(names, len(integers), batch)
        except sqlite3.DatabaseError as error:
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
        except sqlite3.DatabaseError as error:
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
        except sqlite3.DatabaseError as error:
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
