"""Which event is open inside which, on one thread: parents, depths, and the innermost event at each instant.

The rule, for events that may cross: sort by (start, longest first, position). An event is opened on top of a stack after
all events on top that have ended were taken off it. An event that has ended below one that has not stays until that one
ends; it is never innermost. Events of zero length have a parent but are nobody's parent.

All functions are vectorised: the stack is never walked event by event. A crossing is turned into proper nesting by
letting an event last as long as the events inside it (its *extent*), which is repeated until nothing crosses.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_MAX_ROUNDS = 50
NONE = -1


@dataclass(frozen=True, slots=True)
class Nesting:
    """Nesting of n events, arrays in the order in which the events were given.

    `parent`: position of the innermost event open when it began, or -1; `depth`: number of events on the stack below
    it; `extent`: when it leaves the stack (its end, or later where events inside it end later).
    """

    parent: Ints
    depth: Ints
    extent: Ints


def opening_order(start: Ints, end: Ints) -> NDArray[np.intp]:
    """Positions in the order of opening: by start, the longest first, then as given."""
    return np.lexsort((-end, start))


def nest(start: Ints, end: Ints) -> Nesting:
    """Nesting of the events of one thread, by the rule above. `end >= start` for every event."""
    count = len(start)
    parent, depth, extent = np.full(count, NONE, np.int64), np.zeros(count, np.int64), end.copy()
    order = opening_order(start, end)
    long = order[end[order] > start[order]]
    if len(long):
        inner_parent, inner_depth, inner_extent = _nest_long(start[long], end[long])
        parent[long] = np.where(inner_parent >= 0, long[inner_parent], NONE)
        depth[long], extent[long] = inner_depth, inner_extent
    short = order[end[order] == start[order]]
    if len(short) and len(long):
        below, open_count = _open_below(start[long], inner_extent, inner_depth, start[short])
        parent[short] = np.where(below >= 0, long[below], NONE)
        depth[short] = open_count
    return Nesting(parent, depth, extent)


def _nest_long(start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Parent, depth and extent of events of positive length that are in opening order."""
    extent = end.copy()
    for _ in range(_MAX_ROUNDS):
        parent, depth = _parents(start, extent)
        inside = parent >= 0
        longer = extent.copy()
        np.maximum.at(longer, parent[inside], extent[inside])
        if np.array_equal(longer, extent):
            return parent, depth, extent
        extent = longer
    return _nest_walking(start, end)


def _parents(start: Ints, extent: Ints) -> tuple[Ints, Ints]:
    """Parent and depth where nothing crosses: depth counts the events before that are still open."""
    count = len(start)
    position = np.arange(count)
    # Events in opening order: those before i whose extent is <= start[i] have been closed; none after i has, as it
    # starts at start[i] or later and has positive length.
    depth = position - np.searchsorted(np.sort(extent), start, side="right")
    return _last_of_depth(depth, depth - 1, position), depth


def _last_of_depth(depth: Ints, wanted: Ints, before: Ints) -> Ints:
    """For each i the last position below `before[i]` whose depth is `wanted[i]`, or -1 where `wanted` is negative."""
    span = len(depth) + 1
    keys = np.sort(depth * span + np.arange(len(depth)))
    found = np.searchsorted(keys, wanted * span + before, side="left") - 1
    out = keys[np.maximum(found, 0)] % span
    return np.where(wanted >= 0, out, NONE)


def _open_below(start: Ints, extent: Ints, depth: Ints, at: Ints) -> tuple[Ints, Ints]:
    """Innermost open event at each instant (an event that begins there is open), and how many are open."""
    before = np.searchsorted(start, at, side="right")
    open_count = before - np.searchsorted(np.sort(extent), at, side="right")
    return _last_of_depth(depth, open_count - 1, before), open_count


def _nest_walking(start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """The rule itself, event by event: for input that crosses again and again, which no profiler writes."""
    count = len(start)
    parent, depth, extent = np.full(count, NONE, np.int64), np.zeros(count, np.int64), end.copy()
    stack: list[int] = []
    starts, ends = start.tolist(), end.tolist()
    for i in range(count):
        while stack and ends[stack[-1]] <= starts[i]:
            stack.pop()
        depth[i] = len(stack)
        parent[i] = stack[-1] if stack else NONE
        stack.append(i)
    for i in range(count - 1, -1, -1):
        if parent[i] >= 0:
            extent[parent[i]] = max(extent[parent[i]], extent[i])
    return parent, depth, extent


@dataclass(frozen=True, slots=True)
class Timeline:
    """The innermost open event of a thread over time: from `at[k]` on it is `event[k]` (-1: none open)."""

    at: Ints
    event: Ints

    def cut(self, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Disjoint intervals cut at every edge inside them: (interval, start, end, event) of each piece, in order."""
        return cut_intervals(self.at, self.event, start, end)


def timeline(start: Ints, end: Ints, nesting: Nesting) -> Timeline:
    """Innermost open event at each instant. Events of zero length are never innermost."""
    long = np.flatnonzero(end > start)
    order = long[opening_order(start[long], end[long])]
    # An opening puts the event on top, a closing its parent; at one instant closings come first, inner before outer,
    # then openings, outer before inner: the last entry of an instant holds.
    closes = order[np.lexsort((-nesting.depth[order], nesting.extent[order]))]
    at = np.concatenate((nesting.extent[closes], start[order]))
    event = np.concatenate((nesting.parent[closes], order))
    kind = np.concatenate((np.zeros(len(closes), np.int8), np.ones(len(order), np.int8)))
    turn = np.lexsort((np.concatenate((np.arange(len(closes)), np.arange(len(order)))), kind, at))
    at, event = at[turn], event[turn]
    last = np.append(at[1:] != at[:-1], True) if len(at) else np.zeros(0, bool)
    at, event = at[last], event[last]
    changes = np.append(True, event[1:] != event[:-1]) if len(at) else np.zeros(0, bool)
    return Timeline(at[changes], event[changes])


def cut_intervals(at: Ints, value: NDArray[Any], start: Ints, end: Ints) -> tuple[Ints, Ints, Ints, NDArray[Any]]:
    """Cut intervals at the edges of a step function that is `value[k]` from `at[k]` on and -1 before `at[0]`.

    Returns (interval, start, end, value) of the pieces; the pieces of an interval partition it, in order. Intervals
    of zero or negative length have no pieces.
    """
    whole = np.flatnonzero(end > start)
    first = np.searchsorted(at, start[whole], side="right") - 1
    last = np.searchsorted(at, end[whole], side="left") - 1
    count = last - first + 1
    interval = np.repeat(whole, count)
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    edge = np.repeat(first, count) + offset
    padded = np.append(at, np.iinfo(np.int64).max)
    low = np.maximum(start[interval], np.where(edge >= 0, padded[np.maximum(edge, 0)], np.iinfo(np.int64).min))
    high = np.minimum(end[interval], padded[edge + 1])
    values = np.where(edge >= 0, value[np.maximum(edge, 0)] if len(value) else NONE, NONE)
    return interval, low, high, values
