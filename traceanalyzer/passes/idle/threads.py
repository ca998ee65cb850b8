"""What a thread was doing: its events swept once in the order of time, cut at the edges of what is open."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.nesting import NEVER, cut_intervals, opening_order, timeline
from traceanalyzer.passes.idle.stacks import NO_STACK, StackTree
from traceanalyzer.passes.scope import Scope
from traceanalyzer.store.database import first_row

Ints = NDArray[np.int64]
Narrow = NDArray[np.int32]
_ROWS = 1 << 21
"""Rows that are fetched at a time."""
_EVENTS = 1 << 17
"""Events that are swept at a time, where there are no more between two gaps."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Pieces of intervals during which the innermost open event of a thread, and its stack, stay the same.

    `interval` numbers the intervals; `place` is that of the event among those of the thread, -1 where none is open.
    """

    interval: NDArray[np.intp]
    start: Ints
    end: Ints
    place: NDArray[np.intp]
    node: Narrow


class ThreadEvents:
    """The nested events of a thread in opening order."""

    def __init__(self, scope: Scope, tree: StackTree, capture: int, process: int, thread: int) -> None:
        self.tree = tree
        start, length, node, event = fetch_events(scope, capture, process, thread)
        order = opening_order(start, length).astype(np.int32)
        self._numbers, self._place = event, np.empty(len(order), np.int32)  # numbers ascend as they stand in the file
        self._place[order] = np.arange(len(order), dtype=np.int32)
        self.start, self.length = start[order], length[order]
        self.node = tree.seen(node[order])
        self._add_backtraces(scope, capture, process, thread)
        self.changes = _Changes.load(scope, capture, self)

    def _add_backtraces(self, scope: Scope, capture: int, process: int, thread: int) -> None:
        """Puts the recorded back traces of calls between the open ranges and the calls."""
        if not scope.holds("cpu_events", capture, "backtrace_node_id IS NOT NULL"):
            return
        got = scope.connection.execute(
            """SELECT event_id::INTEGER AS event, backtrace_node_id::INTEGER AS node FROM stored.cpu_events
            WHERE capture = ? AND process = ? AND thread = ? AND backtrace_node_id IS NOT NULL""",
            [capture, process, thread],
        ).fetchnumpy()
        place = self.places(np.asarray(got["event"]))
        known = np.flatnonzero(place >= 0)
        if len(known):
            place = place[known]
            self.node[place] = self.tree.merged(
                self.node[place], np.asarray(got["node"], np.int32)[known], of_call=True
            )

    def __len__(self) -> int:
        return len(self.start)

    def places(self, events: NDArray[np.integer]) -> NDArray[np.intp]:
        """Places of events by their numbers in the capture; -1 where they are none of this thread's."""
        if not len(self._numbers):
            return np.full(len(events), -1, np.intp)
        at = np.minimum(np.searchsorted(self._numbers, events.astype(self._numbers.dtype)), len(self._numbers) - 1)
        return np.where(self._numbers[at] == events, self._place[at], -1)

    def end(self, place: NDArray[np.integer] | slice) -> Ints:
        """Ends of events."""
        return self.start[place] + self.length[place].astype(np.int64)


def fetch_events(scope: Scope, capture: int, process: int, thread: int) -> tuple[Ints, Narrow, Narrow, Narrow]:
    """Start, length, stack node and number of the events of a thread that nest, in narrow columns."""
    parts = []
    row = first_row(
        scope.connection.execute(
            "SELECT min(event_id), max(event_id) FROM stored.cpu_events WHERE capture = ?", [capture]
        )
    )
    low, high = row if row and row[0] is not None else (0, -1)
    for first in range(low, high + 1, _ROWS):
        got = scope.connection.execute(
            """SELECT start_ns, end_ns - start_ns AS length, node_id::INTEGER AS node, event_id::INTEGER AS event
            FROM stored.cpu_events WHERE capture = ? AND event_id BETWEEN ? AND ? AND process = ? AND thread = ?
                AND node_id IS NOT NULL""",
            [capture, first, first + _ROWS - 1, process, thread],
        ).fetchnumpy()
        part = [np.asarray(got[name]) for name in ("start_ns", "length", "node", "event")]
        if len(part[1]) and int(part[1].max()) < 1 << 32:
            part[1] = part[1].astype(np.uint32)
        order = part[3].argsort(kind="stable") if len(part[3]) and (np.diff(part[3]) <= 0).any() else None
        parts.append(part if order is None else [column[order] for column in part])
    if not parts:
        none = np.zeros(0, np.int32)
        return np.zeros(0, np.int64), none, none, none
    start, length, node, event = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return start, length, node, event


@dataclass(frozen=True, slots=True)
class _Changes:
    """Of events that an event around them does not outlive: place, instant, stack from there on; sorted by these.

    `first` has the number of the first change of each event, and one more: that of the end; `changes` tells which
    events have any, and one more for no event.
    """

    instant: Ints
    node: Narrow
    first: Narrow
    changes: NDArray[np.bool_]

    @classmethod
    def load(cls, scope: Scope, capture: int, events: ThreadEvents) -> "_Changes":
        got = scope.connection.execute(
            """SELECT event_id::INTEGER AS event, from_ns, node_id::INTEGER AS node FROM stored.stack_changes
            WHERE capture = ?""",
            [capture],
        ).fetchnumpy()
        place = events.places(np.asarray(got["event"]))
        instant = np.asarray(got["from_ns"], np.int64)
        mine = np.flatnonzero(place >= 0)
        order = mine[np.lexsort((instant[mine], place[mine]))]
        if not len(order):
            return cls(instant[:0], np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(1, np.bool_))
        first = np.zeros(len(events) + 1, np.int32)
        np.cumsum(np.bincount(place[order], minlength=len(events)), out=first[1:])
        changes = np.append(first[1:] > first[:-1], False)
        return cls(instant[order], events.tree.seen(np.asarray(got["node"], np.int32)[order]), first, changes)

    def applied(self, stretch: Stretch) -> Stretch:
        """The same cut where stacks change."""
        if not len(self.instant):
            return stretch
        changing = np.flatnonzero(self.changes[stretch.place])
        if not len(changing):
            return stretch
        low, high = self.first[stretch.place[changing]], self.first[stretch.place[changing] + 1]
        # All stretches share one axis, on which instants count by their order: that of the n-th begins n lengths later.
        count = high - low
        which = np.repeat(np.arange(len(changing)), count)
        change = np.repeat(low, count) + np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        start, end = stretch.start[changing], stretch.end[changing]
        before = self.instant[change] < end[which]
        which, change = which[before], change[before]
        return self._cut(stretch, changing, which, change, start, end)

    def _cut(
        self,
        stretch: Stretch,
        changing: NDArray[np.intp],
        which: NDArray[np.intp],
        change: NDArray[np.integer],
        start: Ints,
        end: Ints,
    ) -> Stretch:
        # Stretches are disjoint and in order, so their starts and the changes inside them make one axis. What a stretch
        # begins with is its stack at the last change up to its start.
        instant = np.maximum(self.instant[change], start[which])
        at = np.concatenate((start, instant))
        owner = np.concatenate((np.arange(len(changing)), which))
        node = np.concatenate((stretch.node[changing], self.node[change]))
        order = np.argsort(at, kind="stable")  # a stretch's own start comes first, then its changes in their order
        at, owner, node = at[order], owner[order], node[order]
        holds = np.append(at[1:] != at[:-1], True)
        at, owner, node = at[holds], owner[holds], node[holds]
        until = np.minimum(np.append(at[1:], end[-1]), end[owner])
        rest = np.ones(len(stretch.start), np.bool_)
        rest[changing] = False
        row = changing[owner]
        joined = Stretch(
            np.concatenate((stretch.interval[rest], stretch.interval[row])),
            np.concatenate((stretch.start[rest], at)),
            np.concatenate((stretch.end[rest], until)),
            np.concatenate((stretch.place[rest], stretch.place[row])),
            np.concatenate((stretch.node[rest], node.astype(np.int32))),
        )
        order = np.argsort(joined.start, kind="stable")
        return Stretch(*(getattr(joined, name)[order] for name in Stretch.__slots__))


class ThreadSweep:
    """Goes over the events of a thread once: intervals are asked for in the order of time."""

    def __init__(self, events: ThreadEvents) -> None:
        self._events = events
        self._next = 0
        self._open: NDArray[np.intp] = np.zeros(0, np.intp)

    def cut(self, start: Ints, end: Ints) -> Stretch:
        """Disjoint ascending intervals of positive length, none before those asked for before, cut at every edge."""
        parts = []
        low = 0
        while low < len(start):
            # Up to where a good number of events has begun, but one interval at least.
            limit = min(self._next + _EVENTS, len(self._events) - 1)
            high = len(start)
            if limit >= 0 and limit == self._next + _EVENTS:
                high = max(int(np.searchsorted(end, self._events.start[limit], side="right")), low + 1)
            parts.append(self._part(start[low:high], end[low:high], low))
            low = high
        if len(parts) == 1:
            return parts[0]
        return Stretch(*(np.concatenate([getattr(part, name) for part in parts]) for name in Stretch.__slots__))

    def _times(self, fresh: slice) -> tuple[Ints, Ints]:
        """Starts and ends of the thread itself, of the events that are still open, and of some fresh ones."""
        events = self._events
        start, length = events.start[fresh], events.length[fresh]
        begins = np.concatenate((np.array([np.iinfo(np.int64).min]), events.start[self._open], start))
        ends = np.concatenate((np.array([NEVER]), events.end(self._open), start + length.astype(np.int64)))
        return begins, ends

    def _part(self, start: Ints, end: Ints, offset: int) -> Stretch:
        events = self._events
        until = int(end[-1])
        upto = int(np.searchsorted(events.start, until, side="left"))
        fresh = np.arange(self._next, max(upto, self._next))
        place = np.concatenate((np.array([-1]), self._open, fresh))
        begins, ends = self._times(slice(self._next, max(upto, self._next)))
        self._next = max(upto, self._next)
        at, which = timeline(begins, ends)
        interval, low, high, local = cut_intervals(at, which, start, end)
        self._open = place[1:][ends[1:] > until]
        inner = place[np.maximum(local, 0)]  # place[0] is -1: the thread itself
        node = events.node[inner]
        node[inner < 0] = NO_STACK
        return events.changes.applied(Stretch(interval + offset, low, high, inner, node))
