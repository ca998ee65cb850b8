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


def measure_before(start: Ints, end: Ints, instants: Ints) -> Ints:
    """How much of disjoint sorted intervals lies before each instant: differences give what lies between two."""
    if not len(start):
        return np.zeros(len(instants), np.int64)
    sums = np.append(0, np.cumsum(end - start))
    begun = np.searchsorted(start, instants, side="right")
    rest = np.maximum(end[np.maximum(begun - 1, 0)] - instants, 0)
    return sums[begun] - np.where(begun > 0, rest, 0)


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


def depths(start: Ints, end: Ints, low: int, high: int, without: tuple[Ints, Ints] | None = None) -> tuple[Ints, Ints]:
    """How long exactly 0, 1, 2, ... intervals are open inside [low, high): depths that occur, and the time of each.

    The times add up to `high - low`, less the time in the disjoint intervals `without`, which is left out. Intervals of
    no length, or that end before they start, are never open.
    """
    if high <= low:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    long = end > start
    start, end = np.clip(start[long], low, high), np.clip(end[long], low, high)
    none = np.zeros(0, np.int64)
    hidden, shown = (np.clip(edge, low, high) for edge in without or (none, none))
    at = np.concatenate((np.array([low, high], np.int64), start, end, hidden, shown))
    edges = [len(each) for each in (start, end, hidden, shown)]
    change = np.append([0, 0], np.repeat([1, -1, 0, 0], edges))
    leave = np.append([0, 0], np.repeat([0, 0, 1, -1], edges))
    order = np.argsort(at, kind="stable")
    at, depth, left_out = at[order], np.cumsum(change[order]), np.cumsum(leave[order])
    # Between edges at one instant the running sums may be anything: those stretches have no length and are left out.
    length = np.diff(at)
    counts = (length > 0) & (left_out[:-1] == 0)
    depth, length = depth[:-1][counts], length[counts]
    distinct, which = np.unique(depth, return_inverse=True)
    total = np.zeros(len(distinct), np.int64)
    np.add.at(total, which.reshape(-1), length)
    return distinct.astype(np.int64), total


def open_before(start: Ints, end: Ints, instants: Ints) -> Ints:
    """Of each instant the number of intervals that began before it and have not ended: start < instant < end."""
    long = end > start
    return np.searchsorted(np.sort(start[long]), instants, side="left") - np.searchsorted(
        np.sort(end[long]), instants, side="right"
    )
