"""Sums over pieces, which come in chunks."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import groups
from traceanalyzer.passes.idle.pieces import Pieces

Ints = NDArray[np.int64]


class IdleTotals:
    """Idle time and pieces by cause, reason and stack."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, int, int], tuple[int, int]] = {}

    def add(self, pieces: Pieces) -> None:
        """Takes a chunk."""
        found = groups(pieces.node, pieces.cause, pieces.reason)
        columns = (pieces.cause, pieces.reason, pieces.node)
        keys = zip(*(column[found.row].tolist() for column in columns), strict=True)
        for key, idle, count in zip(keys, found.sums(pieces.length).tolist(), found.counts().tolist(), strict=True):
            known = self._sums.get(key)
            self._sums[key] = (idle, count) if known is None else (known[0] + idle, known[1] + count)

    def groups(self) -> Iterator[tuple[int, int, int, int, int]]:
        """(cause, reason, node, idle, count) of every distinct cause, reason and stack, in no order."""
        for (cause, reason, node), (idle, count) in self._sums.items():
            yield cause, reason, node, idle, count


class LargestPieces:
    """Cause and stack of the largest piece of each gap; of equal ones the first."""

    def __init__(self, count: int) -> None:
        self.cause, self.node = np.full(count, -1, np.int8), np.full(count, -1, np.int32)

    def add(self, pieces: Pieces) -> None:
        """Takes a chunk, which holds all pieces of its gaps."""
        if not len(pieces):
            return
        begins = np.flatnonzero(np.append(True, pieces.gap[1:] != pieces.gap[:-1]))
        length, gap = pieces.length, pieces.gap[begins]
        first = begins
        if len(begins) < len(pieces):
            largest = np.maximum.reduceat(length, begins)
            of_row = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(pieces))))
            places = np.flatnonzero(length == largest[of_row])
            first = places[np.searchsorted(of_row[places], np.arange(len(begins)))]
        self.cause[gap], self.node[gap] = pieces.cause[first], pieces.node[first]
