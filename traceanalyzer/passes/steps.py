"""Steps: how long each took on the host and on the device, and how busy the device was in it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.intervals import measure_before, union
from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.columns import CAPTURE, DEVICE, RANK
from traceanalyzer.passes.gaps import no_timeline
from traceanalyzer.passes.operations import NULL, Operations, busy_without_compute, load_operations, window_of
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import (
    DeviceSteps,
    Mark,
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
    ),
)


def steps(scope: Scope) -> Answer:
    """Table `steps`: one row a rank, device and step, in order. Times in ns.

    With `--steps` rows and findings are of those steps; what is warm-up or incomplete is told from all of them.
    """
    rows: list[tuple[object, ...]] = []
    findings: list[Finding] = []
    warnings = list(scope.warnings)
    for capture in scope.captures:
        marks = load_marks(scope, capture)
        if not marks:
            continue
        devices = devices_of(scope, capture)
        for device in devices:
            ops = with_steps(scope, load_operations(scope, device))
            users = set(np.unique(ops.process).tolist())
            mine = [m for m in marks if m.process in users] or marks
            found = device_steps(ops)
            cut = cut_by_window(scope, ops, found)
            rows += _rows((capture, device.rank, device.device), mine, ops, found, cut, scope)
            told = _Told(scope, device, mine, ops, found, cut)
            findings += told.finding()
            warnings += told.warning()
        if not devices:
            rows += [
                (capture, None, None, m.step, m.start, m.end, m.end - m.start, None, False, *[None] * 7, False)
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
    return Answer("steps", {"steps": Frame.of_rows(STEPS, rows)}, findings, warnings, notes=[scope.note()])


def _rows(
    place: tuple[int, int | None, int],
    marks: list[Mark],
    ops: Operations,
    found: DeviceSteps,
    cut: NDArray[np.bool_],
    scope: Scope,
) -> list[tuple[object, ...]]:
    warmup = warmup_count(found.end - found.start, scope.selection.warmup)
    incomplete = cut.copy()
    incomplete[:1] |= first_is_incomplete(ops, found)
    window = window_of(scope, ops.device.capture) or (NULL, np.iinfo(np.int64).max)
    at = {int(step): k for k, step in enumerate(found.step.tolist())}
    inside = _inside(ops, found)
    rows: list[tuple[object, ...]] = []
    for mark in marks:
        host = (*place, mark.step, mark.start, mark.end, mark.end - mark.start)
        k = at.get(mark.step)
        if k is None and (mark.end <= window[0] or mark.start >= window[1]):
            continue
        if k is None:
            rows.append((*host, None, False, *[None] * 7, False))
            continue
        low, high = int(found.start[k]), int(found.end[k])
        busy, compute, communication, exposed = inside[k]
        rows.append(
            (
                *host,
                high - low,
                k < warmup,
                busy,
                high - low - busy,
                compute,
                communication,
                exposed,
                low,
                high,
                bool(incomplete[k]),
            )
        )
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

    def __init__(
        self,
        scope: Scope,
        device: DeviceOfCapture,
        marks: list[Mark],
        ops: Operations,
        found: DeviceSteps,
        cut: NDArray[np.bool_],
    ) -> None:
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
