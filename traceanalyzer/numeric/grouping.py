"""Rows that have equal values in several integer columns, as groups."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_MOST = 1 << 62


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups in ascending order of their values: a row of each (`row`), and the group of every row (`of_row`)."""

    row: NDArray[np.intp]
    of_row: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.row)

    def sums(self, values: Ints) -> Ints:
        """Sum of a value over the rows of each group, exact."""
        out = np.zeros(len(self), np.int64)
        np.add.at(out, self.of_row, values)
        return out

    def counts(self) -> Ints:
        """Number of rows of each group."""
        return np.bincount(self.of_row, minlength=len(self))


def connected(count: int, sets: Iterable[Sequence[int]]) -> Ints:
    """Which of `count` things are connected by sets that share members: the first of those that each belongs to."""
    parent = list(range(count))

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    for members in sets:
        for member in members[1:]:
            a, b = root(members[0]), root(member)
            parent[max(a, b)] = min(a, b)
    return np.array([root(k) for k in range(count)], np.int64)


def groups(*columns: NDArray[np.integer[Any]]) -> Groups:
    """Groups of rows by one or more columns of any integers, of equal length."""
    key, size = _dense(columns[0])
    for column in columns[1:]:
        inner, width = _dense(column)
        if size > _MOST // max(width, 1):
            distinct, key = np.unique(key, return_inverse=True)
            size = len(distinct)
        key, size = key.reshape(-1) * width + inner, size * width
    distinct, of_row = np.unique(key, return_inverse=True)
    of_row = of_row.reshape(-1)
    row = np.empty(len(distinct), np.intp)
    row[of_row] = np.arange(len(of_row))
    return Groups(row, of_row)


def _dense(column: NDArray[np.integer[Any]]) -> tuple[Ints, int]:
    """The column from 0 on, and how many values that may be; values far apart are numbered."""
    if not len(column):
        return np.zeros(0, np.int64), 1
    low, high = int(column.min()), int(column.max())
    if high - low < 1 << 31:
        return column.astype(np.int64) - low, high - low + 1
    distinct, inverse = np.unique(column, return_inverse=True)
    return inverse.reshape(-1), len(distinct)
