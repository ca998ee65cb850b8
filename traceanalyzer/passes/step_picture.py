"""What the devices did in one step, coarse enough to be drawn: at each point of a line the category that takes most."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.communication.ranks import RankCommunication
from traceanalyzer.passes.idle.lanes import DeviceGaps, devices_with_gaps
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.ledger import CategoryIntervals, category_intervals
from traceanalyzer.passes.scope import DeviceOfCapture, Scope

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a device in which one category of the ledger takes more time than any other, point by point.

    Times count from the start of the picture. `blame` is whose code the longest idle piece in it is charged to.
    """

    start_ns: int
    end_ns: int
    category: str
    blame: str | None


@dataclass(frozen=True, slots=True)
class StepPicture:
    """One step on some devices. `point_ns` is the length of a point; a device has no stretch where its own step has not
    begun or is over. `sums` are the exact times by category.

    Devices whose clocks can be compared are on one clock; where `is_aligned` is false some cannot, and each group of
    those that can begins at 0.
    """

    step: int
    length_ns: int
    point_ns: float
    stretches: dict[DeviceOfCapture, list[Stretch]]
    sums: dict[DeviceOfCapture, dict[str, int]]
    is_aligned: bool


@dataclass(frozen=True, slots=True)
class _Row:
    """The categories of a device, what to add to its clock for that of its group, and the ends of its step there."""

    device: DeviceOfCapture
    group: tuple[str, int]
    shift_ns: int
    intervals: list[CategoryIntervals]
    start_ns: int
    end_ns: int


def step_picture(
    scope: Scope,
    tree: StackTree,
    communication: RankCommunication,
    devices: Sequence[DeviceOfCapture],
    step: int,
    points: int,
) -> StepPicture | None:
    """The device step of that number on those of some devices that have it; None where none has any time in it.

    The devices are of the run whose `communication` is given: ranks are put on the clock of its collectives, as far as
    that is known.
    """
    narrowed = replace(
        scope,
        selection=replace(scope.selection, steps=(step, step), lane="device", under=None),
        devices=tuple(devices),
        warnings=[],
    )
    rows = [row for part in devices_with_gaps(narrowed, tree) if (row := _row(part, communication)) is not None]
    if not rows:
        return None
    begins: dict[tuple[str, int], int] = {}
    for row in rows:
        begins[row.group] = min(begins.get(row.group, row.start_ns), row.start_ns)
    length = max(row.end_ns - begins[row.group] for row in rows)
    edges = np.linspace(0.0, length, points + 1)
    return StepPicture(
        step,
        length,
        length / points,
        {row.device: _stretches(row, begins[row.group], edges, tree) for row in rows},
        {row.device: _sums(row) for row in rows},
        len(begins) == 1,
    )


def _row(part: DeviceGaps, communication: RankCommunication) -> _Row | None:
    device = part.device
    clock = None if device.rank is None else communication.clocks.get(device.rank)
    known = clock is not None and clock.component is not None
    first = part.ops.span[0]
    shift = int(clock.aligned(np.array([first], np.int64))[0]) - first if clock is not None and known else 0
    group = ("component", clock.component or 0) if clock is not None and known else ("capture", device.capture)
    intervals = [each for each in category_intervals(part, communication) if len(each.start)]
    start = min((int(each.start.min()) for each in intervals), default=0)
    end = max((int(each.end.max()) for each in intervals), default=0)
    return None if end <= start else _Row(device, group, shift, intervals, start + shift, end + shift)


def _sums(row: _Row) -> dict[str, int]:
    sums: dict[str, int] = {}
    for each in row.intervals:
        sums[each.category] = sums.get(each.category, 0) + int((each.end - each.start).sum())
    return {category: ns for category, ns in sums.items() if ns}


def _stretches(row: _Row, low: int, edges: Floats, tree: StackTree) -> list[Stretch]:
    names = list(dict.fromkeys(each.category for each in row.intervals))
    taken = np.zeros((len(names), len(edges) - 1))
    for each in row.intervals:
        taken[names.index(each.category)] += _time_of_points(each, row.shift_ns - low, edges)
    largest = np.where(taken.sum(axis=0) > 0, taken.argmax(axis=0), -1)
    begins = np.flatnonzero(np.append(True, largest[1:] != largest[:-1]))
    ends = np.append(begins[1:], len(largest))
    out = []
    for i, j in zip(begins.tolist(), ends.tolist(), strict=True):
        if largest[i] >= 0:
            category = names[largest[i]]
            start, end = round(edges[i]), round(edges[j])
            out.append(Stretch(start, end, category, _blame(row, category, start + low, end + low, tree)))
    return out


def _time_of_points(each: CategoryIntervals, shift: int, edges: Floats) -> Floats:
    """Time of disjoint intervals between neighbouring edges."""
    order = np.argsort(each.start, kind="stable")
    # Whole numbers first: instants of a clock are too large for a float.
    start, end = ((values[order] + np.int64(shift)).astype(np.float64) for values in (each.start, each.end))
    at = np.stack([start, end], axis=1).ravel()
    until = np.cumsum(np.stack([np.zeros(len(start)), end - start], axis=1).ravel())
    of_points: Floats = np.diff(np.interp(edges, at, until))
    return of_points


def _blame(row: _Row, category: str, begin: int, until: int, tree: StackTree) -> str | None:
    """Whose code the longest piece of an idle category between two instants of the group's clock is charged to."""
    best: tuple[int, int] = (0, -1)
    begin, until = begin - row.shift_ns, until - row.shift_ns
    for each in row.intervals:
        if each.category != category or each.node is None:
            continue
        inside = np.minimum(each.end, until) - np.maximum(each.start, begin)
        k = int(inside.argmax())
        if inside[k] > best[0]:
            best = (int(inside[k]), int(each.node[k]))
    return tree.blame_text(best[1]) if best[1] >= 0 else None
