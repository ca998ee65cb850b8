"""Sums over pieces, which come in chunks."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import groups
from traceanalyzer.passes.causes import Cause, Reason
from traceanalyzer.passes.idle.pieces import Pieces

Ints = NDArray[np.int64]
_EXACT = 1 << 53


_REASONS = len(Reason)
_KINDS = len(Cause) * _REASONS
_MOST_BINS = 1 << 22


class KeyedTotals:
    """Idle time and pieces by keys, which are numbers from 0 on."""

    def __init__(self) -> None:
        self._idle, self._count = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._sums: dict[int, tuple[int, int]] = {}

    def add(self, key: Ints, length: Ints) -> None:
        """Takes pieces."""
        if not len(key):
            return
        low, size = int(key.min()), int(key.max()) + 1
        if size <= _MOST_BINS and int(length.sum()) < _EXACT:
            if size > len(self._idle):
                more = np.zeros(max(size, 2 * len(self._idle)) - len(self._idle), np.int64)
                self._idle, self._count = np.append(self._idle, more), np.append(self._count, more)
            key = key - low if low else key
            # Sums of whole numbers as floats: exact as long as they are small.
            self._idle[low:size] += np.bincount(key, length).astype(np.int64)
            self._count[low:size] += np.bincount(key)
            return
        found = groups(key)
        rows = zip(key[found.row].tolist(), found.sums(length).tolist(), found.counts().tolist(), strict=True)
        for each, idle, count in rows:
            known = self._sums.get(each, (0, 0))
            self._sums[each] = known[0] + idle, known[1] + count

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """(key, idle, count) of every key, in no order."""
        keys = np.flatnonzero(self._count)
        sums = dict(self._sums)
        for key, idle, count in zip(keys.tolist(), self._idle[keys].tolist(), self._count[keys].tolist(), strict=True):
            known = sums.get(key, (0, 0))
            sums[key] = known[0] + idle, known[1] + count
        for key, (idle, count) in sums.items():
            yield key, idle, count


class IdleTotals:
    """Idle time and pieces by cause, reason and stack."""

    def __init__(self) -> None:
        self._totals = KeyedTotals()

    def add(self, pieces: Pieces) -> None:
        """Takes a chunk."""
        key = (pieces.node.astype(np.int64) + 1) * _KINDS + (pieces.cause.astype(np.int64) * _REASONS + pieces.reason)
        self._totals.add(key, pieces.length)

    def groups(self) -> Iterator[tuple[int, int, int, int, int]]:
        """(cause, reason, node, idle, count) of every distinct cause, reason and stack, in no order."""
        for key, idle, count in self._totals.rows():
            node, rest = divmod(key, _KINDS)
            yield rest // _REASONS, rest % _REASONS, node - 1, idle, count


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
