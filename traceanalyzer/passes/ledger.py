"""Ledger: every nanosecond of every device in exactly one category."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.intervals import intersect, subtract, union
from traceanalyzer.numeric.nesting import cut_intervals
from traceanalyzer.passes.answer import Answer, Frame, TableSpec
from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.columns import CAPTURE, DEVICE, RANK, RUN
from traceanalyzer.passes.communication.ranks import RankCommunication, communication_of
from traceanalyzer.passes.gaps import nothing_selected
from traceanalyzer.passes.idle.lanes import DeviceGaps, devices_with_gaps
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.operations import busy_without_compute
from traceanalyzer.passes.scope import Scope, by_run
from traceanalyzer.passes.step_marks import DeviceSteps, counted_steps, device_steps, with_steps
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import Lane
from traceanalyzer.units import Unit

Ints = NDArray[np.int64]

LEDGER = TableSpec(
    "ledger",
    "Time of each device by category and device step; the categories of a device add up to its span.",
    (
        RUN,
        CAPTURE,
        RANK,
        DEVICE,
        Column("step", Type.INT64, "Device step; null outside of all steps."),
        Column("category", Type.TEXT, "compute, communication_*, copy, or idle:<cause>."),
        Column("ns", Type.INT64, "Time.", Unit.NS),
        Column("share", Type.FLOAT64, "Share of the device's span.", Unit.SHARE),
    ),
    cut=False,
)
TOTALS = TableSpec(
    "totals",
    "Time of each device by category, over all steps.",
    (
        RUN,
        CAPTURE,
        RANK,
        DEVICE,
        Column("category", Type.TEXT, "Category."),
        Column("ns", Type.INT64, "Time.", Unit.NS),
        Column("share", Type.FLOAT64, "Share of the device's span.", Unit.SHARE),
        Column("gpu_hours", Type.FLOAT64, "The same in GPU-hours."),
        Column("per_step_ns", Type.INT64, "Time per counted device step; null without steps.", Unit.NS),
    ),
    cut=False,
)


def ledger(scope: Scope) -> Answer:
    """Tables `ledger` (by device step) and `totals`. Categories are disjoint and add up to the span, to the ns.

    By priority: compute, communication (transfer, unresolved, wait), copy, idle by cause. Communication is split by the
    waits of `collectives`; what is not matched, or waits for less than clocks may be off, is unresolved.
    """
    of_run = {one.runs[0]: communication_of(one) for one in by_run(scope)}
    rows: list[tuple[object, ...]] = []
    totals: list[tuple[object, ...]] = []
    for part in devices_with_gaps(scope, StackTree(scope)):
        device = part.device
        place = (device.run, device.capture, device.rank, device.device)
        low, high = part.ops.span
        sums = category_times(scope, part, of_run[device.run]).by_step
        counted = set(counted_device_steps(scope, part).step.tolist())
        span = max(high - low, 1)
        rows += [(*place, step, category, ns, ns / span) for (step, category), ns in sorted(sums.items(), key=_order)]
        by_category, in_counted = _by_category(sums), _by_category({k: v for k, v in sums.items() if k[0] in counted})
        for category, ns in sorted(by_category.items(), key=lambda item: (-item[1], item[0])):
            per_step = round(in_counted.get(category, 0) / len(counted)) if counted else None
            totals.append((*place, category, ns, ns / span, ns / 3.6e12, per_step))
    answer = Answer(
        "ledger",
        {"ledger": Frame.of_rows(LEDGER, rows), "totals": Frame.of_rows(TOTALS, totals)},
        warnings=list(scope.warnings),
        default_table="ledger",
        notes=[scope.note()],
    )
    if not totals:
        answer.warnings.append(nothing_selected(scope))
    if "communication_unresolved" in answer.tables["totals"].columns["category"]:
        answer.warnings += [text for found in of_run.values() for text in found.notes]
    return answer


def _order(item: tuple[tuple[int | None, str], int]) -> tuple[bool, int, int, str]:
    (step, category), ns = item
    return step is not None, step or 0, -ns, category


def _by_category(sums: dict[tuple[int | None, str], int]) -> dict[str, int]:
    out: dict[str, int] = {}
    for (_, category), ns in sums.items():
        out[category] = out.get(category, 0) + ns
    return out


def counted_device_steps(scope: Scope, part: DeviceGaps) -> DeviceSteps:
    """The device steps that count for rates, of those that are selected."""
    ops = with_steps(scope, part.ops)
    steps = device_steps(ops)
    mine = counted_steps(scope, ops, steps)
    return DeviceSteps(steps.step[mine], steps.start[mine], steps.end[mine])


@dataclass(frozen=True, slots=True)
class CategoryTimes:
    """Time of a device by device step (None: outside of all) and category; `refill` is the part of idle categories
    that a synchronisation costs after it returned."""

    by_step: dict[tuple[int | None, str], int]
    refill: dict[tuple[int | None, str], int]


def step_edges(steps: DeviceSteps) -> tuple[Ints, Ints]:
    """Where device steps begin and the last one ends, and the place of the step that is from there on (-1: none)."""
    if not len(steps):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.append(steps.start, steps.end[-1:]), np.append(np.arange(len(steps)), -1)


@dataclass(frozen=True, slots=True)
class CategoryIntervals:
    """Disjoint intervals of one category. `refill` marks those that a synchronisation costs after it returned, `node`
    is the stack of each (-1: an empty one); both are None for categories that are not idle."""

    category: str
    start: Ints
    end: Ints
    refill: NDArray[np.bool_] | None = None
    node: NDArray[np.int32] | None = None


def category_intervals(part: DeviceGaps, communication: RankCommunication) -> Iterator[CategoryIntervals]:
    """The span of a device, cut by category: disjoint intervals that cover it. A category may come several times.

    `part` is of the device lane, `communication` of its run.
    """
    exposed, copy = busy_without_compute(part.ops)
    yield CategoryIntervals("compute", *part.ops.lane_union(Lane.COMPUTE))
    parts = communication.parts_of(part.device.capture, part.device.device)
    for name in ("transfer", "unresolved", "wait"):
        low, high = union(*parts[name])
        yield CategoryIntervals(f"communication_{name}", *intersect(*exposed, low, high))
        exposed = subtract(*exposed, low, high)
    yield CategoryIntervals("communication_unresolved", *exposed)
    yield CategoryIntervals("copy", *copy)
    for pieces in part.attribution.pieces():
        for cause in np.unique(pieces.cause).tolist():
            of_cause = pieces.take(pieces.cause == cause)
            category = f"idle:{Cause(cause).text}"
            yield CategoryIntervals(category, of_cause.start, of_cause.end, of_cause.refill, of_cause.node)


def category_times(scope: Scope, part: DeviceGaps, communication: RankCommunication) -> CategoryTimes:
    """Time of a device by device step and category: disjoint, and in all its span. `part` is of the device lane,
    `communication` of its run.
    """
    steps = device_steps(with_steps(scope, part.ops))
    at, index = step_edges(steps)
    numbers = [*steps.step.tolist(), None]
    sums, refill = _Sums(at, index, numbers), _Sums(at, index, numbers)
    for each in category_intervals(part, communication):
        sums.add(each.category, each.start, each.end)
        if each.refill is not None and each.refill.any():
            refill.add(each.category, each.start[each.refill], each.end[each.refill])
    first, last = part.ops.span
    if sum(sums.by_step.values()) != last - first:
        raise AssertionError("the ledger does not add up to the span")
    return CategoryTimes(sums.by_step, refill.by_step)


class _Sums:
    """Time of disjoint intervals by step (None: outside of all) and category."""

    def __init__(self, at: Ints, index: Ints, numbers: list[int | None]) -> None:
        self._at, self._index, self._numbers = at, index, numbers
        self.by_step: dict[tuple[int | None, str], int] = {}

    def add(self, category: str, start: Ints, end: Ints) -> None:
        """Takes disjoint intervals of a category."""
        _, low, high, which = cut_intervals(self._at, self._index, start, end)
        of_step = np.zeros(len(self._numbers), np.int64)
        np.add.at(of_step, which, high - low)  # outside of all steps is -1, the last place
        for k in np.unique(which).tolist():
            key = self._numbers[k], category
            self.by_step[key] = self.by_step.get(key, 0) + int(of_step[k])
