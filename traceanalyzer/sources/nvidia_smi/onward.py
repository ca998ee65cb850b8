"""Clocks that step back within a file: what follows is moved on, so that time goes on."""

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.sink import Sink, Values
from traceanalyzer.units import Unit, format_value

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

LEAST_STEP_NS = 10**9
"""Times that go back by no more than this are jitter."""
_LEAST_UNORDERED, _UNORDERED_SHARE = 1, 50
"""Times of a device that go back more than this often, and in one of so many rows, are of rows in another order."""
_NEVER = -(1 << 62)
_MOST_MOVED = 1 << 60


@dataclass
class _Series:
    """What is known of the devices of one table, by number of the device plus one."""

    last: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    moved: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    steps: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    usual: int = 0

    def hold(self, count: int) -> None:
        """Makes room for so many devices."""
        more = count - len(self.last)
        if more > 0:
            self.last = np.concatenate([self.last, np.full(more, _NEVER)])
            self.moved = np.concatenate([self.moved, np.zeros(more, np.int64)])
            self.steps = np.concatenate([self.steps, np.zeros(more, np.int64)])


class Onward:
    """Moves times on where those of a device step back: summer time ends, the clock is set, files were joined.

    The first time after a step back is taken to be the usual interval after the one before it. Rows whose neighbours go
    on without them, and files whose rows are in no order of time, are not moved: they are sorted by who reads them.
    Call `finish` at the end: it says what was found.
    """

    def __init__(self) -> None:
        self._series: dict[Hashable, _Series] = {}
        self._unordered = 0

    def instant(self, series: Hashable, t: int | None) -> int | None:
        """One time that holds for all devices."""
        if t is None:
            return None
        return int(self.times(series, np.zeros(1, np.int64), np.ma.masked_array([t], [False], np.int64))[0])

    def times(self, series: Hashable, devices: Ints, times: Values) -> Values:
        """Times of rows in the order of the file. `devices` are their numbers, -1 where not known."""
        known = np.flatnonzero(~np.ma.getmaskarray(times))
        if not len(known):
            return times
        order = known[np.argsort(devices[known], kind="stable")]
        device, t = devices[order] + 1, np.ma.getdata(times)[order]
        mine = self._series.setdefault(series, _Series())
        mine.hold(int(device[-1]) + 1)
        out = times.copy()
        out[order] = t + self._moved(mine, device, t)
        return out

    def _moved(self, mine: _Series, device: Ints, t: Ints) -> Ints:
        """By how much times are moved on; they are sorted by device, and in the order of the file otherwise."""
        first = np.concatenate([[True], device[1:] != device[:-1]])
        begins = np.flatnonzero(first)
        ends = np.append(begins[1:], len(t)) - 1
        before = np.where(first, mine.last[device], np.concatenate([t[:1], t[:-1]]))
        step = np.where(before == _NEVER, 0, t - before)
        mine.last[device[ends]] = t[ends]
        if (step > 0).any():
            mine.usual = int(np.median(step[step > 0]))
        total = mine.moved[device]
        back = step < -LEAST_STEP_NS
        if not back.any():
            return total
        lengths = ends - begins + 1
        often = np.add.reduceat(back, begins, dtype=np.int64) > _LEAST_UNORDERED + lengths // _UNORDERED_SHARE
        chosen = back & ~_strays(step, first, back, mine.usual) & ~np.repeat(often, lengths)
        chosen &= step > -_MOST_MOVED
        by = np.cumsum(np.where(chosen, mine.usual - step, 0))
        total = total + by - np.repeat(by[begins] - np.where(chosen, mine.usual - step, 0)[begins], lengths)
        if total.max() > _MOST_MOVED:
            chosen[:], total = False, mine.moved[device]
        mine.moved[device[ends]] = total[ends]
        mine.steps[device[begins]] += np.add.reduceat(chosen, begins, dtype=np.int64)
        self._unordered += int((back & ~chosen).sum())
        return total

    def finish(self, sink: Sink) -> None:
        """Says which times were moved, and which were out of order."""
        steps = max((int(series.steps.max()) for series in self._series.values()), default=0)
        if steps:
            most = max(int(series.moved.max()) for series in self._series.values())
            text = (
                "Times step back, as when summer time ends, a clock is set or files are joined: later times are moved"
                f" on, by {format_value(most, Unit.NS)} in the end."
            )
            sink.note("time_runs_back", text, steps)
        if self._unordered:
            text = "Times of rows are earlier than those of the rows before them: they are put in the order of time."
            sink.note("times_out_of_order", text, self._unordered)


def _strays(step: Ints, first: Flags, back: Flags, usual: int) -> Flags:
    """Steps back of single rows that are out of place: the row after, or before, leaps as far the other way."""
    after = np.append(np.where(first[1:], 0, step[1:]), 0)
    before = np.concatenate([[0], np.where(first[1:], 0, step[:-1])])
    far = np.maximum(-step, 2 * usual)
    return back & ((after >= far) | (before >= far))
