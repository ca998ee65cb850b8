"""Short kernels: how many there are, what is idle before each, and what fusing or graphing them could gain at most."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from traceanalyzer.passes.answer import Finding, TableSpec
from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.columns import CAPTURE, DEVICE, RANK
from traceanalyzer.passes.idle.lanes import devices_with_gaps
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.limits.limit import SHORT_NS
from traceanalyzer.passes.limits.timeline import TimelineKernels
from traceanalyzer.passes.operations import NULL, Ints, window_of
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import Lane
from traceanalyzer.units import Unit, counted, format_value

LEAST_SHARE = 0.01
"""Share of the kernel time that a gain has to be to be worth a sentence."""
LAUNCHING = (Cause.FRAMEWORK, Cause.API_CALL, Cause.LAUNCH_CALL, Cause.LAUNCH_LATENCY, Cause.DEVICE_GAP)
"""Causes of idle time that a graph, or fewer launches, would take away."""
BETWEEN = (Cause.PYTHON, Cause.RANGE, Cause.OUTSIDE_EVENTS, Cause.GIL_WAIT, Cause.GARBAGE_COLLECTION)
"""The same where a gap is short: what the program does from one launch to the next."""
MOST_BETWEEN_NS = 100_000
"""A gap that is longer than this is more than the way from one launch to the next."""

MOST_CHARGED = 1_000_000
"""Operations of a device up to which the gaps are charged: that takes some seconds for as many."""

SHORT = TableSpec(
    "short",
    f"Compute kernels of which a call takes less than {SHORT_NS // 1000} us: these calls, the most idle time before"
    " them first.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("kernel", Type.TEXT, "Name of the kernel as recorded."),
        Column("calls", Type.INT64, "Short calls of it.", Unit.COUNT),
        Column("total_ns", Type.INT64, "Sum of their durations.", Unit.NS),
        Column("mean_ns", Type.FLOAT64, "Mean duration.", Unit.NS),
        Column("gap_before_ns", Type.INT64, "Idle time of the device directly before them.", Unit.NS),
        Column("mean_gap_ns", Type.FLOAT64, "The same of one call in the mean.", Unit.NS),
        Column(
            "graph_gain_ns",
            Type.INT64,
            "What a CUDA graph could gain at most: the part of these gaps in which the host prepared or made launches,"
            " or the launch was under way, and of gaps up to 100 us also what the program did in between; 0 of kernels"
            " that are in a graph. Null of devices with more than a million operations: --steps selects fewer.",
            Unit.NS,
        ),
        Column(
            "fusion_gain_ns",
            Type.INT64,
            "What fusing them into other kernels could gain at most: that part, and their own time.",
            Unit.NS,
        ),
    ),
)


def short_kernels(
    scope: Scope, tree: Callable[[], StackTree], device: DeviceOfCapture, timeline: TimelineKernels
) -> list[tuple[object, ...]]:
    """Rows of `SHORT` of a device. What is gained is null where there are too many operations to charge their gaps."""
    ops = timeline.ops
    long = ops.end - ops.start
    low, high = window_of(scope, device.capture) or (NULL, np.iinfo(np.int64).max)
    whole = (ops.original_start >= low) & (ops.end < high)
    short = np.flatnonzero(timeline.chosen & whole & (ops.lane == int(Lane.COMPUTE)) & (long < SHORT_NS) & (long > 0))
    before = timeline.gaps_before[short]
    known = len(ops) <= MOST_CHARGED or not before.any()
    launching = _launching(scope, tree(), device, ops.op_id[short]) if known and before.any() else before
    names, row = np.unique(ops.name[short], return_inverse=True)
    texts = scope.texts(names.tolist())
    calls, total, gap, gain = (
        np.bincount(row.reshape(-1), values, len(names)).astype(np.int64)
        for values in (np.ones(len(short)), long[short], before, launching)
    )
    rows: list[tuple[object, ...]] = []
    for k, name in enumerate(names.tolist()):
        n, ns, idle = int(calls[k]), int(total[k]), int(gap[k])
        most = int(gain[k]) if known else None
        place = (device.capture, device.rank, device.device, texts.get(name))
        rows.append((*place, n, ns, ns / n, idle, idle / n, most, None if most is None else most + ns))
    return rows


def _launching(scope: Scope, tree: StackTree, device: DeviceOfCapture, wanted: Ints) -> Ints:
    """Of each operation the part of the gap before it in which it was being launched, by their numbers."""
    out = np.zeros(len(wanted), np.int64)
    for part in devices_with_gaps(replace(scope, devices=(device,)), tree):
        found = np.zeros(len(part.ops) + 1, np.int64)
        brief = part.end - part.start <= MOST_BETWEEN_NS
        for pieces in part.pieces():
            mine = np.isin(pieces.cause, LAUNCHING) | (np.isin(pieces.cause, BETWEEN) & brief[pieces.gap])
            np.add.at(found, part.next_op[pieces.gap[mine]], pieces.length[mine])
        order = np.argsort(part.ops.op_id, kind="stable")
        at = np.minimum(np.searchsorted(part.ops.op_id, wanted, sorter=order), max(len(order) - 1, 0))
        known = part.ops.op_id[order[at]] == wanted if len(order) else np.zeros(len(wanted), np.bool_)
        out[known] = found[order[at[known]]]
    out[np.isin(wanted, _in_graphs(scope, device))] = 0
    return out


def _in_graphs(scope: Scope, device: DeviceOfCapture) -> Ints:
    """Operations of a device that a graph launched."""
    got = scope.connection.execute(
        """SELECT o.op_id FROM stored.gpu_ops o
        LEFT JOIN stored.cpu_events e ON e.capture = o.capture AND e.event_id = o.launch_event_id
        WHERE o.capture = ? AND o.device = ? AND (o.graph_node_id IS NOT NULL OR e.name IN (
            SELECT name_id FROM stored.names WHERE regexp_matches(text, '^(cuda|cu|hip)GraphLaunch')))""",
        [device.capture, device.device],
    ).fetchnumpy()
    return np.asarray(got["op_id"], np.int64)


def short_findings(
    scope: Scope, rows: list[tuple[object, ...]], timelines: Mapping[tuple[int, int], TimelineKernels]
) -> list[Finding]:
    """What the short kernels of a device are together, where a graph could gain something worth it.

    `timelines` are those of the devices, by (capture, device).
    """
    findings = []
    for device in scope.devices:
        mine = [row for row in rows if (row[0], row[2]) == (device.capture, device.device)]
        if any(row[9] is None for row in mine):
            continue
        calls, total, gap, gain = (sum(int(str(row[k])) for row in mine) for k in (4, 5, 7, 9))
        timeline = timelines.get((device.capture, device.device))
        if timeline is None or not gain or gain < LEAST_SHARE * timeline.whole_ns:
            continue
        n_steps = timeline.n_steps
        a_step = f", {format_value(gain / n_steps, Unit.NS)} a step" if n_steps else ""
        text = (
            f"{scope.whose(device)}: {counted(calls, 'call')} of kernels under {SHORT_NS // 1000} us take"
            f" {format_value(total, Unit.NS)}, with {format_value(gap, Unit.NS)} idle before them; as CUDA graphs they"
            f" could gain {format_value(gain, Unit.NS)} at most{a_step}, fused away"
            f" {format_value(gain + total, Unit.NS)}; without a profiler launches are cheaper, and it is less"
        )
        findings.append(Finding("short_kernels", text, device.rank, gain))
    return findings
