"""Which event is open inside which, on one thread: parents, depths, and the innermost event at each instant.

The rule, for events that may cross: sort by (start, longest first, position). An event is opened on top of a stack
after all events on top that have ended were taken off it. An event that has ended below one that has not stays until
that one ends; it is never innermost. Events of zero length have a parent but are nobody's parent.

So the parent of an event is the last event opened before it that ends after it begins. All events look for theirs at
once: whoever has not found it goes on from where the event that it looks at has got to, and distances double. Chains
that are longer than any profiler writes are walked event by event instead.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_MOST_ROUNDS = 64
_WINDOW = 1 << 16
NONE = -1

NEVER = np.iinfo(np.int64).max
"""The end of the event at position 0 in `innermost_open` and what builds on it: it stands for the thread itself."""


def opening_order(start: Ints, end: NDArray[np.integer[Any]]) -> NDArray[np.intp]:
    """Positions in the order of opening: by start, the longest first, then as given.

    `end` may as well be the lengths.
    """
    order = np.argsort(start, kind="stable")  # quick, since files are made of sorted parts; leaves the ties as given
    low = 0
    while low < len(order):
        high = min(low + _WINDOW, len(order))
        high = int(np.searchsorted(start, start[order[high - 1]], side="right", sorter=order))
        here = order[low:high]
        at = start[here]
        same = at[1:] == at[:-1]
        if same.any():
            tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
            here[tied] = here[tied][np.lexsort((-end[here[tied]].astype(np.int64), at[tied]))]
        low = high
    return order


def innermost_open(start: Ints, end: Ints) -> NDArray[np.intp]:
    """Parents of events in opening order: the last event before each that ends after it begins.

    The first event must end `NEVER`, whatever its start: it is the parent of events that have no other, and its own.
    """
    found = np.arange(-1, len(start) - 1)
    found[:1] = 0
    # All events between an event and the one that it has got to have ended when it begins, so whoever looks at it and
    # begins later may pass over them too.
    seeking = np.flatnonzero(end[:-1] <= start[1:]) + 1
    return found if _jumped(found, seeking, end, start[seeking]) else _walk(end, start)


def next_longer(end: Ints, parent: NDArray[np.intp]) -> NDArray[np.intp]:
    """The last event before each that ends after it ends, where `parent` is from `innermost_open`."""
    found = parent.copy()
    seeking = np.flatnonzero(end[parent] <= end)[1:]
    return found if _jumped(found, seeking, end, end[seeking]) else _walk(end, end)


def _jumped(found: NDArray[np.intp], seeking: NDArray[np.intp], end: Ints, limit: Ints) -> bool:
    """Leads those that seek, over what those that they found have found, to one that ends after their limit.

    Changes `found`. Whether all arrived: where the way is long, walking it is quicker.
    """
    for _ in range(_MOST_ROUNDS):
        if not len(seeking):
            break
        further = found[found[seeking]]
        found[seeking] = further
        left = np.flatnonzero(end[further] <= limit)
        seeking, limit = seeking[left], limit[left]
    return not len(seeking)


def _walk(end: Ints, limit: Ints) -> NDArray[np.intp]:
    """The last event before each that ends after its limit, event by event; limits are no later than ends."""
    found = np.zeros(len(end), np.intp)
    ends, longer = end.tolist(), [0] * len(end)
    for i, until in enumerate(limit.tolist()[1:], 1):
        above = i - 1
        while ends[above] <= until:
            above = longer[above]
        found[i] = above
        while ends[above] <= ends[i]:
            above = longer[above]
        longer[i] = above
    return found


def depths(parent: NDArray[np.intp], known: Ints) -> Ints:
    """Depth of events, one more than that of the parent; `known` are those of the first events, at least of one."""
    depth, above = np.ones(len(parent), np.int64), parent.copy()
    depth[: len(known)], above[: len(known)] = known - known[0], 0
    # `depth` counts from the event `above`, which moves up to the first one: distances double.
    left = np.flatnonzero(above)
    while len(left):
        over = above[left]
        depth[left] += depth[over]
        over = above[over]
        above[left] = over
        left = left[over > 0]
    depth += known[0]
    return depth


def extents(end: Ints, parent: NDArray[np.intp]) -> Ints:
    """When events leave the stack: the latest end of each and all inside it. `parent` is from `innermost_open`."""
    extent = end.copy()
    longer = np.flatnonzero(end > end[parent])
    at, until = parent[longer], end[longer]
    for _ in range(_MOST_ROUNDS):
        if not len(at):
            return extent
        np.maximum.at(extent, at, until)
        at = parent[at]
        left = np.flatnonzero(until > extent[at])
        at, until = at[left], until[left]
    latest, above = extent.tolist(), parent.tolist()
    for i in range(len(latest) - 1, 0, -1):
        latest[above[i]] = max(latest[above[i]], latest[i])
    return np.array(latest, np.int64)


def timeline(start: Ints, end: Ints) -> tuple[Ints, NDArray[np.intp]]:
    """Innermost open event over time, of events in opening order: from each instant on, the position of one.

    The first event stands for the thread itself, as for `innermost_open`. Events of zero length are never innermost.
    """
    parent = innermost_open(start, end)
    long = end > start
    long[0] = False
    order = np.flatnonzero(long)
    if not len(order):
        return np.zeros(0, np.int64), np.zeros(0, np.intp)
    depth = depths(parent, np.array([-1]))[order]
    extent, opened = extents(end, parent)[order], start[order]
    # An opening puts the event on top, a closing its parent; at one instant closings come first, inner before outer,
    # then openings, outer before inner: the last entry of an instant holds. An event is opened after all before it
    # but those at its `depth` were closed; it is closed when all that were opened by then are, but for these.
    before = np.searchsorted(opened, extent, side="left")
    turn = np.arange(len(order))
    opening, closing = 2 * turn - depth, 2 * before - 1 - depth
    at, event = np.empty(2 * len(order), np.int64), np.empty(2 * len(order), np.intp)
    at[opening], at[closing] = opened, extent
    event[opening], event[closing] = order, parent[order]
    holds = np.append(at[1:] != at[:-1], True)
    at, event = at[holds], event[holds]
    changes = np.append(True, event[1:] != event[:-1])
    return at[changes], event[changes]


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
