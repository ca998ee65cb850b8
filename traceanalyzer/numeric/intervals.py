"""Unions and holes of intervals, integer nanoseconds, exact."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def union(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The union of half-open intervals as disjoint sorted intervals of positive length. Touching ones are joined."""
    long = end > start
    start, end = start[long], end[long]
    if not len(start):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    fresh = np.append(True, start[1:] > reach[:-1])
    first = np.flatnonzero(fresh)
    return start[first], reach[np.append(first[1:] - 1, len(reach) - 1)]


def measure(start: Ints, end: Ints) -> int:
    """Length of the union."""
    low, high = union(start, end)
    return int((high - low).sum())


def holes(start: Ints, end: Ints, low: int, high: int) -> tuple[Ints, Ints]:
    """The maximal intervals of positive length inside [low, high) that no given interval covers."""
    start, end = union(np.clip(start, low, high), np.clip(end, low, high))
    left, right = np.append(low, end), np.append(start, high)
    empty = right > left
    return left[empty], right[empty]


def intersect(a_start: Ints, a_end: Ints, b_start: Ints, b_end: Ints) -> tuple[Ints, Ints]:
    """Intersection of two sets of disjoint sorted intervals."""
    if not len(a_start) or not len(b_start):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    first = np.searchsorted(b_end, a_start, side="right")
    last = np.searchsorted(b_start, a_end, side="left")
    count = np.maximum(last - first, 0)
    a = np.repeat(np.arange(len(a_start)), count)
    b = np.repeat(first, count) + np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.maximum(a_start[a], b_start[b]), np.minimum(a_end[a], b_end[b])


def subtract(a_start: Ints, a_end: Ints, b_start: Ints, b_end: Ints) -> tuple[Ints, Ints]:
    """What of the first set of disjoint sorted intervals the second does not cover."""
    if not len(a_start):
        return a_start, a_end
    low, high = holes(b_start, b_end, int(a_start[0]), int(a_end[-1]))
    return intersect(a_start, a_end, low, high)
