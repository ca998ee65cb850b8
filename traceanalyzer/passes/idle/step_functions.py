"""Step functions of time: a value from each instant on, -1 for none."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.intervals import union
from traceanalyzer.numeric.nesting import cut_intervals

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StepFunction:
    """`value[k]` from `at[k]` on, -1 before the first instant; instants ascend."""

    at: Ints
    value: NDArray[np.integer]

    def __bool__(self) -> bool:
        return len(self.at) > 0

    def at_instants(self, instants: Ints) -> NDArray[np.integer]:
        """The values at some instants."""
        if not len(self.at):
            return np.full(len(instants), -1, np.int32)
        k = np.searchsorted(self.at, instants, side="right") - 1
        return np.where(k >= 0, self.value[np.maximum(k, 0)], -1)

    def touches(self, start: Ints, end: Ints) -> NDArray[np.bool_]:
        """Which of some disjoint ascending intervals hold an instant at which there is a value."""
        low, high = np.searchsorted(self.at, (start[0], end[-1])) if len(start) else (0, 0)
        some = slice(max(int(low) - 1, 0), int(high) + 1)
        at, value = self.at[some], self.value[some]
        known = np.flatnonzero(value >= 0)
        until = np.append(at[1:], np.iinfo(np.int64).max)[known]
        # From the first interval that ends after a value begins to the last that begins before it ends.
        change = np.zeros(len(start) + 1, np.int64)
        np.add.at(change, np.searchsorted(end, at[known], side="right"), 1)
        np.add.at(change, np.searchsorted(start, until, side="left"), -1)
        return np.cumsum(change[:-1]) > 0

    def cut(self, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints, NDArray[np.integer]]:
        """Intervals cut at the edges inside them: (interval, start, end, value) of each piece, in order."""
        first = np.searchsorted(self.at, start.min(), side="right") - 1 if len(start) else 0
        last = np.searchsorted(self.at, end.max(), side="left") if len(end) else 0
        low = max(int(first), 0)
        return cut_intervals(self.at[low:last], self.value[low:last], start, end)


NOTHING = StepFunction(np.zeros(0, np.int64), np.zeros(0, np.int32))


def of_union(start: Ints, end: Ints, value: int) -> StepFunction:
    """`value` wherever one of the intervals is open."""
    low, high = union(start, end)
    return StepFunction(np.stack((low, high), axis=1).reshape(-1), np.tile(np.array([value, -1], np.int32), len(low)))


def of_disjoint(start: Ints, end: Ints, value: NDArray[np.integer]) -> StepFunction:
    """The values of disjoint sorted intervals."""
    long = end > start
    start, end, value = start[long], end[long], value[long]
    at = np.stack((start, end), axis=1).reshape(-1)
    values = np.stack((value, np.full(len(value), -1, value.dtype)), axis=1).reshape(-1)
    holds = np.append(at[1:] != at[:-1], True)[: len(at)]
    return StepFunction(at[holds], values[holds])


def first_of(*functions: StepFunction) -> StepFunction:
    """Of several functions the value of the first that has one."""
    at = np.unique(np.concatenate([f.at for f in functions]))
    value = np.full(len(at), -1, np.int32)
    for function in reversed(functions):
        k = np.searchsorted(function.at, at, side="right") - 1
        own = np.where(k >= 0, function.value[np.maximum(k, 0)], -1) if function else np.full(len(at), -1)
        value = np.where(own >= 0, own, value)
    return StepFunction(at, value)
