"""Times of calls on one thread by the group that each belongs to: in all and alone, on the host and on devices.

In all is the time in which a call of the group is open: a group that is nested in itself counts once. Alone is the
time in which a call of it is the innermost one. At each instant exactly one open call is innermost, also where calls
cross, so the times alone add up to the time in which the thread has any call open.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.nesting import NEVER, opening_order, timeline

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
_FARTHEST = 2**62


@dataclass(frozen=True, slots=True)
class Launches:
    """Device operations by the instants at which they were launched, ascending, and how long each ran."""

    at: Ints
    ns: Ints

    @classmethod
    def sorted(cls, at: Ints, ns: Ints) -> "Launches":
        """Launches in any order."""
        order = np.argsort(at, kind="stable")
        return cls(at[order], ns[order])


NO_LAUNCHES = Launches(np.zeros(0, np.int64), np.zeros(0, np.int64))


_SUMS = ("calls", "whole", "host_total", "host_self", "device_total", "device_self", "n_ops")


@dataclass(slots=True)
class Times:
    """Sums of each group. `whole` is the length of its calls, each for itself; `n_ops` counts operations launched."""

    groups: int = 0
    calls: Ints = field(init=False)
    whole: Ints = field(init=False)
    host_total: Ints = field(init=False)
    host_self: Ints = field(init=False)
    device_total: Ints = field(init=False)
    device_self: Ints = field(init=False)
    n_ops: Ints = field(init=False)

    def __post_init__(self) -> None:
        for name in _SUMS:
            setattr(self, name, np.zeros(self.groups, np.int64))

    def grow(self, groups: int) -> None:
        """Makes room for so many groups."""
        more = groups - self.groups
        for name in _SUMS if more > 0 else ():
            setattr(self, name, np.append(getattr(self, name), np.zeros(more, np.int64)))
        self.groups = max(groups, self.groups)


def unions_by_group(group: Codes, start: Ints, end: Ints) -> tuple[Codes, Ints, Ints]:
    """The union of the intervals of each group: group, start and end of disjoint intervals, sorted by the two."""
    long = end > start
    group, start, end = group[long], start[long], end[long]
    if not len(start):
        return group, start, end
    order = np.lexsort((start, group))
    group, start, end = group[order], start[order], end[order]
    # Ends by their rank, higher with each group: then one running maximum serves all groups.
    ends, rank = np.unique(end, return_inverse=True)
    place = np.cumsum(np.append(0, group[1:] != group[:-1]))
    reached = np.maximum.accumulate(place * len(ends) + rank.reshape(-1))
    reach = ends[reached % len(ends)]
    first = np.flatnonzero(np.append(True, (group[1:] != group[:-1]) | (start[1:] > reach[:-1])))
    return group[first], start[first], reach[np.append(first[1:] - 1, len(reach) - 1)]


class ThreadCalls:
    """Calls of one thread, in any order, swept once; then asked for the times of groups.

    `chosen` says which calls count on the host, all without; `window` cuts times on the host. What counts on devices
    are the launches that are given.
    """

    def __init__(
        self,
        start: Ints,
        end: Ints,
        launches: Launches = NO_LAUNCHES,
        window: tuple[int, int] | None = None,
        chosen: NDArray[np.bool_] | None = None,
    ) -> None:
        self._start, self._end, self._launches = start, end, launches
        self._low, self._high = window or (-_FARTHEST, _FARTHEST)
        # A call of no length counts where it begins.
        counts = (start < self._high) & ((end > self._low) | (start >= self._low))
        self._counts = counts if chosen is None else counts & chosen
        order = opening_order(start, end)
        at, which = timeline(np.append(-NEVER, start[order]), np.append(NEVER, end[order]))
        # The first event of a timeline is the thread itself, which stands for no call.
        call = np.append(order, -1)[which - 1] if len(which) else which
        length = np.diff(np.clip(at, self._low, self._high), append=self._high)
        self.host_self = np.zeros(len(start), np.int64)
        open_ = call >= 0
        np.add.at(self.host_self, call[open_], length[open_])
        self.host_self[~self._counts] = 0
        self.innermost = self._innermost(at, call)

    def _innermost(self, at: Ints, call: NDArray[np.intp]) -> NDArray[np.intp]:
        """The innermost call open at each launch; -1 for none."""
        if not len(at):
            return np.full(len(self._launches.at), -1, np.intp)
        k = np.searchsorted(at, self._launches.at, side="right") - 1
        return np.where(k >= 0, call[np.maximum(k, 0)], -1)

    def add_to(self, times: Times, group: Codes) -> None:
        """Adds the times of the calls to those of the groups that they belong to."""
        mine = np.flatnonzero(self._counts)
        np.add.at(times.calls, group[mine], 1)
        np.add.at(times.whole, group[mine], self._end[mine] - self._start[mine])
        np.add.at(times.host_self, group, self.host_self)
        unions = unions_by_group(group, self._start, self._end)
        counted = (
            unions if len(mine) == len(group) else unions_by_group(group[mine], self._start[mine], self._end[mine])
        )
        low, high = (np.clip(edge, self._low, self._high) for edge in counted[1:])
        np.add.at(times.host_total, counted[0], high - low)
        self._add_launches(times, group, unions)

    def _add_launches(self, times: Times, group: Codes, unions: tuple[Codes, Ints, Ints]) -> None:
        at, ns = self._launches.at, self._launches.ns
        inside = np.flatnonzero(self.innermost >= 0)
        np.add.at(times.device_self, group[self.innermost[inside]], ns[inside])
        np.add.at(times.n_ops, group[self.innermost[inside]], 1)
        before = np.append(0, np.cumsum(ns))
        first, last = (np.searchsorted(at, edge, side="left") for edge in unions[1:])
        np.add.at(times.device_total, unions[0], before[last] - before[first])
