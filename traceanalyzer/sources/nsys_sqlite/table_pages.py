"""Rows of a table straight from the pages of the file, decoded column by column with numpy.

SQLite hands out one Python object a value, which is what reading a large export costs. The format of the file is
simple and fixed (sqlite.org/fileformat): a table is a tree of pages whose leaves hold records, a record is a list of
types and then the values. Thousands of records are decoded at once here.

Nothing is guessed: every record has to add up to the length that is stated for it. Wherever something is not plain -
a record that continues on other pages, one with fewer values than the table has columns, a page of another kind -
`NotPlain` is raised, and the rows from there on are to be read by SQLite, which also judges what is damage.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

_BATCH_BYTES = (
    2 << 20
)  # pages decoded at a time: about 30,000 rows, so that what is decoded stays close to the processor
_LEAF, _INTERIOR = 13, 5
_SMALLEST_PAGE, _SMALLEST_USABLE = 512, 480
_DEEPEST = 20
_HIGH_FIRST = 1 << np.array([24, 16, 8, 0])
_REAL = 7
_PADDING = 8  # a value is read as 8 bytes even if it is the last one and shorter

# Bytes that a value of a type takes: 0 null, 1-6 integers, 7 real, 8 and 9 the numbers 0 and 1, 10 and 11 reserved,
# from 12 on even types are bytes and odd ones text.
_LENGTHS = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, -1, -1, *((t - 12) // 2 for t in range(12, 128))], np.int64)
_SHORT_LENGTHS = np.maximum(_LENGTHS, 0).astype(np.uint8)
_FIRST_RESERVED, _RESERVED = 10, 2
_SHIFTS = np.minimum(64 - 8 * np.maximum(_LENGTHS[:10], 0), 63)


class NotPlain(Exception):  # noqa: N818 - no error: the rows are to be read in another way
    """The pages hold something that is left to SQLite."""


@dataclass(slots=True)
class Records:
    """Decoded records: row ids, and for each column the types and positions of its values in `buffer`."""

    buffer: Bytes
    row_ids: Integers
    types: dict[int, NDArray[Any]]
    positions: dict[int, Integers]
    raw: bytes | None = None

    def integers(self, column: int, null: int) -> Integers:
        """Values of a column of integers, `null` where null. Raises `NotPlain` where there is anything else."""
        types, positions = self.types[column], self.positions[column]
        least, most = (int(types.min()), int(types.max())) if len(types) else (0, 0)
        if most > 9 or (least <= _REAL <= most and (types == _REAL).any()):
            raise NotPlain
        if most == 0:
            return np.full(len(types), null, np.int64)
        # Each value is read as 8 bytes, high byte first; the shift drops those that are not its own.
        words = np.ndarray((len(self.buffer) - _PADDING + 1,), ">i8", self.buffer, strides=(1,))
        values: Integers = words[positions].astype(np.int64)
        values >>= _SHIFTS[types] if least < most else _SHIFTS[least]
        if least == 0 or most > _REAL:
            short = np.flatnonzero((types == 0) | (types > _REAL))
            values[short] = np.where(types[short] == 0, null, types[short].astype(np.int64) - 8)
        return values

    def values(self, column: int, *, real: bool = False) -> tuple[Any, ...]:
        """Values of any type as Python objects; whole numbers of a `real` column become floats again."""
        types, positions = self.types[column], self.positions[column]
        out: list[Any] = [None] * len(types)
        present = np.flatnonzero(types)
        if len(present):
            if self.raw is None:
                self.raw = self.buffer.tobytes()
            raw = self.raw
            for row, kind, at in zip(
                present.tolist(), types[present].tolist(), positions[present].tolist(), strict=True
            ):
                found = _value(raw, kind, at)
                out[row] = float(found) if real and kind <= 9 else found
        return tuple(out)


class TablePages:
    """The pages of one file."""

    def __init__(self, path: Path) -> None:
        # Read, not mapped: mapped pages would count as memory of the process, and a file that shrinks would kill it.
        self._file = path.open("rb", buffering=0)
        header = self._file.read(_SMALLEST_PAGE)
        size = int.from_bytes(header[16:18], "big")
        self._size = 65536 if size == 1 else size
        self._usable = self._size - header[20] if len(header) == _SMALLEST_PAGE else 0
        self._count = path.stat().st_size // max(self._size, 1)
        self._left = 0
        self._is_utf8 = int.from_bytes(header[56:60], "big") == 1

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def records(self, root: int, columns: int, needed: Sequence[int]) -> Iterator[Records]:
        """Records of the table whose tree begins at page `root`, in the order of their row ids."""
        if not self._is_utf8 or self._size < _SMALLEST_PAGE or self._usable < _SMALLEST_USABLE:
            raise NotPlain
        self._left = self._count
        batch = max(1, _BATCH_BYTES // self._size)
        leaves: list[int] = []
        for some in self._leaves([root], 0):
            leaves += some
            while len(leaves) >= batch:
                yield self._decode(leaves[:batch], columns, needed)
                leaves = leaves[batch:]
        if leaves:
            yield self._decode(leaves, columns, needed)

    def _read(self, numbers: list[int]) -> Bytes:
        """The pages one after another, and some bytes after them, so that every value can be read as eight bytes."""
        # Page 1 holds the header and the schema, never a table of events.
        if min(numbers) < 2:
            raise NotPlain
        out = np.zeros(len(numbers) * self._size + _PADDING, np.uint8)
        jumps = np.flatnonzero(np.diff(numbers) != 1) + 1
        for first, last in pairwise([0, *jumps.tolist(), len(numbers)]):
            part = out[first * self._size : last * self._size]
            try:
                self._file.seek((numbers[first] - 1) * self._size)
                if self._file.readinto(part.data) != len(part):
                    raise NotPlain
            except OSError as error:
                raise NotPlain from error
        return out

    def _leaves(self, numbers: list[int], depth: int) -> Iterator[list[int]]:
        """Numbers of the leaves below some pages of equal depth, in order."""
        self._left -= len(numbers)
        if self._left < 0:  # a damaged tree that bites its own tail
            raise NotPlain
        if self._read(numbers[:1])[0] == _LEAF:
            yield numbers
            return
        if depth > _DEEPEST:
            raise NotPlain
        for number in numbers:
            yield from self._leaves(self._children(self._read([number])), depth + 1)

    def _children(self, page: Bytes) -> list[int]:
        cells = int(page[3]) << 8 | int(page[4])
        if page[0] != _INTERIOR or 12 + 2 * cells > self._usable:
            raise NotPlain
        at = page[12 : 12 + 2 * cells].astype(np.int64).reshape(-1, 2) @ np.array([256, 1])
        if cells and int(at.max()) > self._usable - 4:
            raise NotPlain
        children: list[int] = (page[at[:, None] + np.arange(4)].astype(np.int64) @ _HIGH_FIRST).tolist()
        return [*children, int.from_bytes(page[8:12].tobytes(), "big")]

    def _decode(self, leaves: list[int], columns: int, needed: Sequence[int]) -> Records:
        buffer = self._read(leaves)
        pages = buffer[:-_PADDING].reshape(-1, self._size)
        if (pages[:, 0] != _LEAF).any():
            raise NotPlain
        cell, end = self._cells(pages, buffer)
        payload, after = _varints(buffer, cell, end)
        row_ids, start = _varints(buffer, after, end)
        # Longer records continue on overflow pages.
        if (payload > self._usable - 35).any() or (start + payload > end).any():
            raise NotPlain
        header, at = _varints(buffer, start, end)
        value, stop = start + header, start + payload
        fields = _short_fields(buffer, at, header, value, columns, needed)
        types, positions, at, value = fields or _fields(buffer, at, end, value, columns, needed)
        if (at != start + header).any() or (value != stop).any():
            raise NotPlain
        return Records(buffer, row_ids, types, positions)

    def _cells(self, pages: Bytes, buffer: Bytes) -> tuple[Integers, Integers]:
        """Positions of all records of the pages in the buffer, and where the usable part of their page ends."""
        counts = (pages[:, 3].astype(np.int64) << 8) | pages[:, 4]
        if (8 + 2 * counts > self._usable).any():
            raise NotPlain
        page = np.repeat(np.arange(len(pages)), counts) * self._size
        index = np.arange(len(page)) - np.repeat(np.cumsum(counts) - counts, counts)
        pointer = page + 8 + 2 * index
        offset = (buffer[pointer].astype(np.int64) << 8) | buffer[pointer + 1]
        if len(offset) and (int(offset.max()) >= self._usable - 3 or int(offset.min()) < 8):
            raise NotPlain
        return page + offset, page + self._usable


_Fields = tuple[dict[int, NDArray[Any]], dict[int, Integers], Integers, Integers]
"""Types and positions of the needed columns, and where the types and the values of each record end."""


def _short_fields(
    buffer: Bytes, at: Integers, header: Integers, value: Integers, columns: int, needed: Sequence[int]
) -> _Fields | None:
    """Fields of records whose types take a byte each, which is what records without long texts have; else None."""
    if not len(at) or (header != columns + 1).any() or int(at.max()) + columns > len(buffer):
        return None
    headers = np.lib.stride_tricks.sliding_window_view(buffer, columns)[at]
    if (headers >= len(_SHORT_LENGTHS)).any() or (headers - np.uint8(_FIRST_RESERVED) < _RESERVED).any():
        return None
    by_column = np.ascontiguousarray(headers.T)
    types: dict[int, NDArray[Any]] = {}
    positions: dict[int, Integers] = {}
    wanted = set(needed)
    passed = np.zeros(len(at), np.uint32)
    for column in range(columns):
        if column in wanted:
            types[column], positions[column] = by_column[column], value + passed
        passed += _SHORT_LENGTHS[by_column[column]]
    return types, positions, at + columns, value + passed


def _fields(
    buffer: Bytes, at: Integers, end: Integers, value: Integers, columns: int, needed: Sequence[int]
) -> _Fields:
    """Fields of any records."""
    types: dict[int, NDArray[Any]] = {}
    positions: dict[int, Integers] = {}
    wanted = set(needed)
    for column in range(columns):
        kind, at = _varints(buffer, at, end)
        length = _length(kind)
        if column in wanted:
            types[column], positions[column] = kind, value
        value = value + length
    return types, positions, at, value


def _varints(buffer: Bytes, at: Integers, end: Integers) -> tuple[Integers, Integers]:
    """Numbers of variable length: 7 bits a byte, high bits first, the last byte below 128; and what follows them."""
    if (at >= end).any():
        raise NotPlain
    value = buffer[at].astype(np.int64)
    after = at + 1
    longer = np.flatnonzero(value >= 128)
    if len(longer):
        number, position = value[longer] & 127, at[longer] + 1
        for _ in range(7):  # eight bytes are 56 bits; what is longer is left to SQLite
            if (position >= end[longer]).any():
                raise NotPlain
            byte = buffer[position].astype(np.int64)
            number = (number << 7) | (byte & 127)
            value[longer], after[longer] = number, position + 1
            more = byte >= 128
            if not more.any():
                return value, after
            longer, number, position = longer[more], number[more], position[more] + 1
        raise NotPlain
    return value, after


def _length(types: Integers) -> Integers:
    if not len(types) or int(types.max()) < len(_LENGTHS):
        length = _LENGTHS[types]
    else:
        length = np.where(types < len(_LENGTHS), _LENGTHS[np.minimum(types, len(_LENGTHS) - 1)], (types - 12) // 2)
    if (length < 0).any():
        raise NotPlain
    return length


def _value(raw: bytes, kind: int, at: int) -> Any:
    if kind >= 12:
        data = raw[at : at + (kind - 12) // 2]
        return data.decode("utf-8", "replace") if kind % 2 else data
    if kind == _REAL:
        return float(np.frombuffer(raw, ">f8", 1, at)[0])
    return kind - 8 if kind >= 8 else int.from_bytes(raw[at : at + int(_LENGTHS[kind])], "big", signed=True)
