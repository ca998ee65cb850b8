"""Steps: how long each took on the host and on the device, and how busy the device was in it."""

import numpy as np

from traceanalyzer.numeric.intervals import measure_before, union
from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.gaps import CAPTURE, DEVICE, RANK, no_timeline
from traceanalyzer.passes.operations import Operations, busy_without_compute, load_operations
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.step_marks import (
    DeviceSteps,
    Mark,
    device_steps,
    devices_of,
    first_is_incomplete,
    load_marks,
    warmup_count,
    with_steps,
)
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import Lane
from traceanalyzer.units import Unit

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
            "Whether nothing was recorded before it on the device: it began earlier and is left out of rates.",
        ),
    ),
)


def steps(scope: Scope) -> Answer:
    """Table `steps`: one row a rank, device and step, in order. Times in ns."""
    rows: list[tuple[object, ...]] = []
    findings: list[Finding] = []
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
            rows += _rows((capture, device.rank, device.device), mine, ops, found, scope)
            findings += _finding(device.rank, ops, found, scope)
        if not devices:
            rows += [
                (capture, None, None, m.step, m.start, m.end, m.end - m.start, None, False, *[None] * 7, False)
                for m in marks
            ]
    selected = scope.selection.steps
    warnings = list(scope.warnings)
    if selected is not None and rows:
        numbers = [int(str(r[3])) for r in rows]
        rows = [r for r in rows if selected[0] <= int(str(r[3])) <= selected[1]]
        if not rows:
            warnings.append(
                f"no step is among {selected[0]} to {selected[1]}; there are {min(numbers)} to {max(numbers)}"
            )
            findings = []
    elif not rows:
        none = "no steps: the trace has no ProfilerStep marks, and no range matches --step-range"
        warnings.append(no_timeline(scope) or none)
    return Answer("steps", {"steps": Frame.of_rows(STEPS, rows)}, findings, warnings, notes=[scope.note()])


def _rows(
    place: tuple[int, int | None, int], marks: list[Mark], ops: Operations, found: DeviceSteps, scope: Scope
) -> list[tuple[object, ...]]:
    warmup = warmup_count(found.end - found.start, scope.selection.warmup)
    incomplete = first_is_incomplete(ops, found)
    at = {int(step): k for k, step in enumerate(found.step.tolist())}
    inside = _inside(ops, found)
    rows: list[tuple[object, ...]] = []
    for mark in marks:
        host = (*place, mark.step, mark.start, mark.end, mark.end - mark.start)
        k = at.get(mark.step)
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
                k == 0 and incomplete,
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


def _finding(rank: int | None, ops: Operations, found: DeviceSteps, scope: Scope) -> list[Finding]:
    lengths = found.end - found.start
    warmup = warmup_count(lengths, scope.selection.warmup)
    incomplete = first_is_incomplete(ops, found) and not warmup
    rest = lengths[warmup + incomplete :]
    if len(rest) < 2:
        return []
    whose = f"rank {rank}: " if rank is not None else ""
    text = (
        f"{whose}{len(rest)} steps of {float(np.median(rest)) / 1e6:,.2f} ms on the device (median);"
        f" shortest {int(rest.min()) / 1e6:,.2f}, longest {int(rest.max()) / 1e6:,.2f} ms"
        + (f"; {warmup} warm-up steps left out" if warmup else "")
        + ("; the first step, whose beginning was not recorded, is left out" if incomplete else "")
    )
    return [Finding("step_time", text, rank, int(np.median(rest)))]
