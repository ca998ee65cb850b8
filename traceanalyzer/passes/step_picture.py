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
    """One step on some devices, on one clock. `point_ns` is the length of a point; a device has no stretch where its
    own step has not begun or is over."""

    step: int
    length_ns: int
    point_ns: float
    stretches: dict[DeviceOfCapture, list[Stretch]]


@dataclass(frozen=True, slots=True)
class _Row:
    device: DeviceOfCapture
    shift_ns: int
    intervals: list[CategoryIntervals]


def step_picture(
    scope: Scope,
    tree: StackTree,
    communication: RankCommunication,
    devices: Sequence[DeviceOfCapture],
    step: int,
    points: int,
) -> StepPicture:
    """The device step of that number on some devices of the run whose `communication` is given.

    Ranks are put on the clock of the collectives, as far as it is known. Raises `ValueError` where none of the devices
    has the step.
    """
    narrowed = replace(
        scope,
        selection=replace(scope.selection, steps=(step, step), lane="device", under=None),
        devices=tuple(devices),
        warnings=[],
    )
    rows = [_row(part, communication) for part in devices_with_gaps(narrowed, tree)]
    bounds = [bound for row in rows for each in row.intervals if len(each.start) for bound in _bounds(row, each)]
    if not bounds:
        raise ValueError(f"no device has step {step}")
    low, high = min(bounds), max(bounds)
    edges = np.linspace(0.0, high - low, points + 1)
    stretches = {row.device: _stretches(row, low, edges, tree) for row in rows}
    return StepPicture(step, high - low, (high - low) / points, stretches)


def _row(part: DeviceGaps, communication: RankCommunication) -> _Row:
    """The categories of a device, and what to add to its clock for that of the collectives."""
    clock = None if part.device.rank is None else communication.clocks.get(part.device.rank)
    first = part.ops.span[0]
    shift = 0 if clock is None else int(clock.aligned(np.array([first], np.int64))[0]) - first
    return _Row(part.device, shift, list(category_intervals(part, communication)))


def _bounds(row: _Row, each: CategoryIntervals) -> tuple[int, int]:
    return int(each.start.min()) + row.shift_ns, int(each.end.max()) + row.shift_ns


def _stretches(row: _Row, low: int, edges: Floats, tree: StackTree) -> list[Stretch]:
    names = list(dict.fromkeys(each.category for each in row.intervals))
    taken = np.zeros((len(names), len(edges) - 1))
    for each in row.intervals:
        taken[names.index(each.category)] += _time_of_points(each, row.shift_ns - low, edges)
    largest = np.where(taken.sum(axis=0) > 0, taken.argmax(axis=0), -1)
    begins = np.flatnonzero(np.append(True, largest[1:] != largest[:-1]))
    ends = np.append(begins[1:], len(largest))
    return [
        Stretch(
            round(edges[i]),
            round(edges[j]),
            names[largest[i]],
            _blame(row, names[largest[i]], edges[[i, j]], low, tree),
        )
        for i, j in zip(begins.tolist(), ends.tolist(), strict=True)
        if largest[i] >= 0
    ]


def _time_of_points(each: CategoryIntervals, shift: int, edges: Floats) -> Floats:
    """Time of disjoint intervals between neighbouring edges."""
    order = np.argsort(each.start, kind="stable")
    start, end = (values[order].astype(np.float64) + shift for values in (each.start, each.end))
    if not len(start):
        return np.zeros(len(edges) - 1)
    at = np.stack([start, end], axis=1).ravel()
    until = np.cumsum(np.stack([np.zeros(len(start)), end - start], axis=1).ravel())
    of_points: Floats = np.diff(np.interp(edges, at, until))
    return of_points


def _blame(row: _Row, category: str, ends: Floats, low: int, tree: StackTree) -> str | None:
    """Whose code the longest piece of an idle category between two instants is charged to."""
    best: tuple[int, int] = (0, -1)
    begin, until = (ends + low - row.shift_ns).tolist()
    for each in row.intervals:
        if each.category != category or each.node is None:
            continue
        inside = np.minimum(each.end, until) - np.maximum(each.start, begin)
        k = int(inside.argmax()) if len(inside) else 0
        if len(inside) and inside[k] > best[0]:
            best = (int(inside[k]), int(each.node[k]))
    return tree.blame_text(best[1]) if best[1] >= 0 else None
