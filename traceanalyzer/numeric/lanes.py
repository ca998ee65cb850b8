"""Events of one row spread over lanes, so that those of a lane nest: each lies inside of another or beside it.

The first lane takes every event, in the order of opening, that does not cross one which the lane has taken; the next
lane does so with those that are left, and so on. An event crosses an earlier one that ends inside of it. Where more
overlap at once than any profiler writes, the lanes beyond `MOST_NESTED` take events one after another.
"""

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
MOST_NESTED = 32
"""Lanes in which events nest."""


class Lanes:
    """The lanes of one row. Batches come in opening order: by start, the longest first, none before those before it."""

    def __init__(self) -> None:
        self._open: list[Ints] = []  # of each lane the ends of what is still open, in opening order
        self._rest: list[tuple[int, int]] = []  # a heap of when the lanes beyond end, and their numbers

    def of(self, start: Ints, end: Ints) -> NDArray[np.int32]:
        """The lane of each event of the next batch, from 0 on."""
        lane = np.zeros(len(start), np.int32)
        left = np.arange(len(start))
        number = 0
        while len(left) or number < len(self._open):
            if number == MOST_NESTED:
                lane[left] = [
                    self._beyond(*times) for times in zip(start[left].tolist(), end[left].tolist(), strict=True)
                ]
                break
            if number == len(self._open):
                self._open.append(np.zeros(0, np.int64))
            before = self._open[number]
            fits = _fitting(np.append(np.full(len(before), _FIRST), start[left]), np.append(before, end[left]))
            fits = fits[len(before) :]
            lane[left[fits]] = number
            ends = np.append(before, end[left[fits]])
            self._open[number] = ends[ends > start[-1]] if len(start) else ends
            left = left[~fits]
            number += 1
        return lane

    def _beyond(self, start: int, end: int) -> int:
        """The lane of an event that none of the others takes: the one that has ended first, or a new one."""
        rest = self._rest
        if rest and rest[0][0] <= start:
            return heapq.heapreplace(rest, (max(end, start + 1), rest[0][1]))[1]
        heapq.heappush(rest, (max(end, start + 1), MOST_NESTED + len(rest)))
        return MOST_NESTED + len(rest) - 1


def disjoint_lanes(start: Ints, end: Ints) -> NDArray[np.int32]:
    """Lanes in which no event lies inside of another either; events come in the order of their starts."""
    lane = np.zeros(len(start), np.int32)
    if not len(start):
        return lane
    reach = np.maximum.accumulate(end)
    cluster = np.cumsum(np.append(True, start[1:] >= reach[:-1])) - 1
    crowded = np.flatnonzero(np.bincount(cluster)[cluster] > 1)
    running: list[tuple[int, int]] = []  # heaps of the lanes that are taken, by their ends, and of those that are free
    free: list[int] = []
    for k, begun, ended in zip(crowded.tolist(), start[crowded].tolist(), end[crowded].tolist(), strict=True):
        while running and running[0][0] <= begun:
            heapq.heappush(free, heapq.heappop(running)[1])
        lane[k] = heapq.heappop(free) if free else len(running)
        heapq.heappush(running, (ended, int(lane[k])))
    return lane


_FIRST = np.iinfo(np.int64).min


def _fitting(start: Ints, end: Ints) -> NDArray[np.bool_]:
    """Which events the first lane takes."""
    fits = np.ones(len(start), np.bool_)
    everyone = np.arange(len(start))
    suspects = np.flatnonzero(_crossing(end, everyone, start, end, everyone))
    if not len(suspects):
        return fits
    # Who crosses no earlier event at all is taken for sure. Of the others those fall that cross one of these; the few
    # that are left only cross each other, and are looked at one after the other.
    fits[suspects] = False
    safe = np.flatnonzero(fits)
    fits[suspects] = ~_crossing(end[safe], safe, start[suspects], end[suspects], suspects)
    open_: list[int] = []
    for k in suspects[fits[suspects]].tolist():
        begun, ended = int(start[k]), int(end[k])
        while open_ and open_[-1] <= begun:
            open_.pop()
        if open_ and open_[-1] < ended:
            fits[k] = False
        else:
            open_.append(ended)
    return fits


def _crossing(
    ends: Ints, opened: NDArray[np.intp], start: Ints, end: Ints, place: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Whether an event that was opened before ends inside: `opened` are the places in opening order of those ends."""
    order = np.argsort(ends, kind="stable")
    by_end = ends[order]
    low, high = np.searchsorted(by_end, start, side="right"), np.searchsorted(by_end, end, side="left")
    return least_between(opened[order], low, high) < place


def least_between(values: NDArray[Any], low: NDArray[np.intp], high: NDArray[np.intp]) -> NDArray[Any]:
    """The least of the values from `low` to before `high`, for many such ranges; of none the largest number."""
    out = np.full(len(low), np.iinfo(values.dtype).max, values.dtype)
    length = high - low
    level, least = 0, values
    while (length >> level > 0).any():
        mine = np.flatnonzero(length >> level == 1)  # two ranges of a power of two cover each of these
        out[mine] = np.minimum(least[low[mine]], least[high[mine] - (1 << level)])
        if len(least) > 1 << level:
            least = np.minimum(least[: -(1 << level)], least[1 << level :])
        level += 1
    return out
