"""Steps: how long each took on the host and on the device, and how busy the device was in it."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.intervals import measure_before, union
from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.columns import CAPTURE, DEVICE, RANK
from traceanalyzer.passes.gaps import no_timeline
from traceanalyzer.passes.idle.lanes import devices_with_gaps
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.operations import NULL, Operations, busy_without_compute, load_operations, window_of
from traceanalyzer.passes.pause_tables import pause_tables, told_of_pauses
from traceanalyzer.passes.pauses import Pause, outlying, paused, recurring_pauses
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import (
    DeviceSteps,
    Mark,
    counted_steps,
    cut_by_window,
    device_steps,
    devices_of,
    first_is_incomplete,
    load_marks,
    run_on,
    warmup_count,
    with_steps,
)
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import Lane
from traceanalyzer.units import Unit, counted, format_value

Ints = NDArray[np.int64]
MOST_OUTLIERS = 3
"""Outliers that a sentence names."""

STEPS = TableSpec(
    "steps",
    "Steps of each rank and device; host times are the marks', device times those of device steps.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("step", Type.INT64, "Number of the step: the trace's own."),
        Column("start_ns", Type.INT64, "Start of the host's mark.", Unit.NS),
        Column("end_ns", Type.INT64, "Start of the next mark; of the last one the mark's end.", Unit.NS),
        Column("duration_ns", Type.INT64, "Length on the host.", Unit.NS),
        Column("device_duration_ns", Type.INT64, "Length on the device; null where nothing was launched.", Unit.NS),
        Column("warmup", Type.BOOL, "Whether it is a warm-up step, which is left out of rates."),
        Column("busy_ns", Type.INT64, "Device busy in the device step.", Unit.NS),
        Column("idle_ns", Type.INT64, "Device idle in the device step.", Unit.NS),
        Column("compute_ns", Type.INT64, "Union of compute in the device step.", Unit.NS),
        Column("communication_ns", Type.INT64, "Union of communication in the device step.", Unit.NS),
        Column("exposed_communication_ns", Type.INT64, "Communication while no compute runs.", Unit.NS),
        Column("device_start_ns", Type.INT64, "Start of the device step.", Unit.NS),
        Column("device_end_ns", Type.INT64, "End of the device step.", Unit.NS),
        Column(
            "incomplete",
            Type.BOOL,
            "Whether its beginning on the device was not recorded, or the window cuts it: it is left out of rates.",
        ),
        Column(
            "outlier",
            Type.BOOL,
            "Whether the device step is longer than 1.5 x the median of those that count, or than the median by 6"
            " standard deviations and by 10 %; null where the work of neighbouring steps interleaves.",
        ),
    ),
)


def steps(scope: Scope) -> Answer:
    """Table `steps`: one row a rank, device and step, in order. Tables `pauses`, `pause_causes`: idle time that recurs
    in some of them. Times in ns.

    With `--steps` rows and findings are of those steps; what is warm-up, incomplete, an outlier or a pause is told from
    all of them.
    """
    rows: list[tuple[object, ...]] = []
    pauses: list[Pause] = []
    findings: list[Finding] = []
    warnings = list(scope.warnings)
    tree = functools.cache(lambda: StackTree(_whole(scope)))
    for capture in scope.captures:
        marks = load_marks(scope, capture)
        if not marks:
            continue
        devices = devices_of(scope, capture)
        for device in devices:
            one = _of_device(scope, device, marks)
            rows += _rows(scope, one)
            told = _Told(scope, one)
            recurring = _pauses(scope, one, tree)
            pauses += recurring
            findings += [*told.finding(), *told_of_pauses(scope, recurring), *told.outliers(recurring)]
            warnings += told.warning()
        if not devices:
            rows += [
                (capture, None, None, m.step, m.start, m.end, m.end - m.start, None, False, *[None] * 7, False, None)
                for m in marks
            ]
    selected = scope.selection.steps
    if selected is not None and rows:
        numbers = [int(str(r[3])) for r in rows]
        rows = [r for r in rows if selected[0] <= int(str(r[3])) <= selected[1]]
        if not rows:
            which = "no step is among {} to {}" if selected[0] < selected[1] else "there is no step {}"
            warnings.append(f"{which.format(*selected)}; there are {min(numbers)} to {max(numbers)}")
    elif not rows and scope.selection.step_range is None:
        none = "no steps: the trace has no ProfilerStep marks, and no range named step or iteration; give --step-range"
        warnings.append(no_timeline(scope) or none)
    tables = {"steps": Frame.of_rows(STEPS, rows)} | pause_tables(pauses)
    return Answer("steps", tables, findings, warnings, notes=[scope.note()])


@dataclass(frozen=True, slots=True)
class _OfDevice:
    """The marks and device steps of a device. `inside` has of each step the times of `_inside`; `counted` tells which
    count for rates, `outlier` which are outliers (None: not known, because steps interleave).
    """

    device: DeviceOfCapture
    marks: list[Mark]
    ops: Operations
    found: DeviceSteps
    cut: NDArray[np.bool_]
    inside: list[list[int]]
    counted: NDArray[np.bool_]
    outlier: NDArray[np.bool_] | None

    @property
    def lengths(self) -> Ints:
        """Lengths of the device steps."""
        return self.found.end - self.found.start


def _of_device(scope: Scope, device: DeviceOfCapture, marks: list[Mark]) -> _OfDevice:
    ops = with_steps(scope, load_operations(scope, device))
    users = set(np.unique(ops.process).tolist())
    mine = [m for m in marks if m.process in users] or marks
    found = device_steps(ops)
    counts = counted_steps(scope, ops, found)
    outlier = None if run_on(ops, found) else outlying(found.end - found.start, counts)
    return _OfDevice(device, mine, ops, found, cut_by_window(scope, ops, found), _inside(ops, found), counts, outlier)


def _pauses(scope: Scope, one: _OfDevice, tree: Callable[[], StackTree]) -> list[Pause]:
    """The recurring pauses of a device. Causes are looked for only where some steps have a pause."""
    if one.outlier is None or not one.outlier.any():
        return []
    idle = one.lengths - np.array([busy for busy, *_ in one.inside], np.int64)
    if not paused(one.lengths, idle, one.counted).any():
        return []
    whole = replace(_whole(scope), devices=(one.device,))
    return [pause for part in devices_with_gaps(whole, tree()) for pause in recurring_pauses(whole, tree(), part)]


def _whole(scope: Scope) -> Scope:
    """The scope with all steps, on the device lane."""
    return replace(scope, selection=replace(scope.selection, steps=None, lane="device"))


def _rows(scope: Scope, one: _OfDevice) -> list[tuple[object, ...]]:
    ops, found = one.ops, one.found
    warmup = warmup_count(one.lengths, scope.selection.warmup)
    incomplete = one.cut.copy()
    incomplete[:1] |= first_is_incomplete(ops, found)
    window = window_of(scope, ops.device.capture) or (NULL, np.iinfo(np.int64).max)
    at = {int(step): k for k, step in enumerate(found.step.tolist())}
    rows: list[tuple[object, ...]] = []
    for mark in one.marks:
        place = (one.device.capture, one.device.rank, one.device.device)
        host = (*place, mark.step, mark.start, mark.end, mark.end - mark.start)
        k = at.get(mark.step)
        if k is None and (mark.end <= window[0] or mark.start >= window[1]):
            continue
        if k is None:
            rows.append((*host, None, False, *[None] * 7, False, None))
            continue
        low, high = int(found.start[k]), int(found.end[k])
        busy, compute, communication, exposed = one.inside[k]
        idle = high - low - busy
        outlier = None if one.outlier is None else bool(one.outlier[k])
        lanes = (compute, communication, exposed)
        rows.append((*host, high - low, k < warmup, busy, idle, *lanes, low, high, bool(incomplete[k]), outlier))
    return rows


def _inside(ops: Operations, found: DeviceSteps) -> list[list[int]]:
    """Of each device step the time with any operation, with compute, with communication, and with that alone."""
    parts = (
        union(ops.start, ops.end),
        ops.lane_union(Lane.COMPUTE),
        ops.lane_union(Lane.COMMUNICATION),
        busy_without_compute(ops)[0],
    )
    times = [measure_before(*part, found.end) - measure_before(*part, found.start) for part in parts]
    return [list(map(int, of_step)) for of_step in zip(*times, strict=True)]


class _Told:
    """What is said in sentences of the steps of a device."""

    def __init__(self, scope: Scope, one: _OfDevice) -> None:
        device, marks, ops, found, cut = one.device, one.marks, one.ops, one.found, one.cut
        self._one = one
        self._whose, self._rank = scope.whose(device), device.rank
        self._steps, self._lengths = found.step, found.end - found.start
        self._run_on = run_on(ops, found)
        low, high = scope.selection.steps or (-(2**62), 2**62)
        listed = (found.step >= low) & (found.step <= high)
        self._listed = found.step[listed]
        self._subset = scope.selection.steps is not None
        self._host = [m.end - m.start for m in marks if m.step in set(self._listed.tolist())]
        place = np.arange(len(found))
        self._warmup = place < warmup_count(self._lengths, scope.selection.warmup)
        self._incomplete = (place == 0) & first_is_incomplete(ops, found) & ~self._warmup.any()
        self._cut = cut & listed & ~self._warmup & ~self._incomplete
        self._warmup, self._incomplete = self._warmup & listed, self._incomplete & listed
        self._rates = listed & ~self._warmup & ~self._incomplete & ~self._cut

    def finding(self) -> list[Finding]:
        """How long the listed steps take, without those that are left out of rates."""
        if self._run_on and self._host:
            text = (
                f"{self._whose}: {self._takes(self._listed, self._host, 'host')}; on the device, where steps"
                f" interleave, one takes {format_value(self._mean, Unit.NS)} on average over all {self._all}"
            )
            return [Finding("step_time", text, self._rank, self._mean)]
        rest = self._lengths[self._rates]
        if len(rest) < 1 + (not self._subset):
            return []
        text = f"{self._whose}: {self._takes(self._steps[self._rates], rest, 'device')}"
        if len(rest) > 1:
            text += (
                f"; shortest {format_value(int(rest.min()), Unit.NS)}, longest {format_value(int(rest.max()), Unit.NS)}"
            )
        if warmup := int(self._warmup.sum()):
            text += f"; {counted(warmup, 'warm-up step')} left out"
        if self._incomplete.any():
            text += "; the first step, whose beginning was not recorded, is left out"
        if cut := int(self._cut.sum()):
            text += f"; {counted(cut, 'step')} that the window cuts left out"
        return [Finding("step_time", text, self._rank, int(np.median(rest)))]

    def outliers(self, pauses: list[Pause]) -> list[Finding]:
        """The longest listed outliers that no recurring pause explains."""
        if self._one.outlier is None:
            return []
        explained = [step for pause in pauses for step in pause.steps]
        able = np.flatnonzero(self._one.outlier & self._rates & ~np.isin(self._steps, explained))
        if not len(able):
            return []
        longest = able[np.argsort(-self._lengths[able], kind="stable")[:MOST_OUTLIERS]]
        median = np.median(self._lengths[self._one.counted])
        each = [
            f"step {self._steps[k]} takes {format_value(int(self._lengths[k]), Unit.NS)},"
            f" {format_value(int(self._lengths[k]) - self._one.inside[k][0], Unit.NS)} of it idle"
            for k in longest.tolist()
        ]
        what = f"{counted(len(able), 'step')} {'is an outlier' if len(able) == 1 else 'are outliers'}"
        text = f"{self._whose}: {what} beside the median of {format_value(float(median), Unit.NS)}: {'; '.join(each)}"
        extra = int((self._lengths[able] - median).sum())
        return [Finding("step_outliers", text, self._rank, round(extra / max(int(self._one.counted.sum()), 1)))]

    def warning(self) -> list[str]:
        """Says that single device steps say little, where that is so."""
        if not self._run_on or not self._host:
            return []
        return [
            f"{self._whose}: work of neighbouring steps interleaves on the device (in {self._run_on:,} of {self._all}"
            " operations run on when those of a later one have begun), so that the lengths of single device steps say"
            f" little; a step takes {format_value(float(np.median(self._host)), Unit.NS)} on the host (median)"
        ]

    def _takes(self, steps: Ints, lengths: Sequence[int] | Ints, where: str) -> str:
        """How long steps take, in words; those of a selection are named."""
        length = format_value(float(np.median(lengths)), Unit.NS)
        if self._subset and len(steps) == 1:
            return f"step {steps[0]} takes {length} on the {where}"
        named = f" ({steps.min()} to {steps.max()})" if self._subset else ""
        return f"{counted(len(steps), 'step')}{named} of {length} on the {where} (median)"

    @property
    def _all(self) -> str:
        return counted(len(self._lengths), "step")

    @property
    def _mean(self) -> int:
        return int(self._lengths.sum()) // len(self._lengths)
