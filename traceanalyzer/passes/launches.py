"""Launches: how long after its call an operation starts, and how many operations wait in the queue of a device.

Definitions, all of one device:

- The *launch* of an operation is the API call with its correlation in its process. Operations without one in the file
  take no part, and are counted in a warning.
- The *delay* of a launch is the start of its first operation minus the end of its call: the queue time of Nsight
  Systems' `cuda_kern_exec` reports, which leave out negative ones. They are real, for an operation may start before
  its call returns, so they are kept and counted here. Measured from the start of the call it includes the call itself.
  All nodes of a graph share one launch: only the first to start counts.
- An operation is *queued* from the start of its launch call to its own start. The *queue depth* of a process at an
  instant is the number of its operations that are queued on the device then.
- At a launch the depth is that of the operations launched by earlier calls: `launched < call start < start`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.intervals import depths, open_before
from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.chosen import warmup_warning
from traceanalyzer.passes.gaps import CAPTURE, DEVICE, RANK, nothing_selected
from traceanalyzer.passes.operations import NULL, Operations, clip, load_operations, window_of
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import step_window, with_steps
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import OpKind
from traceanalyzer.units import Unit

Ints = NDArray[np.int64]

PROCESS = Column("process", Type.INT64, "Process that launches.")
DELAYS = TableSpec(
    "launches",
    "Delay from the launch call to the start of its first operation; percentiles are delays that occur (nearest rank).",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("kind", Type.TEXT, "What was launched: kernel, memcpy, memset or graph."),
        Column("since", Type.TEXT, "Where the delay begins: `call end` or `call start`."),
        Column("count", Type.INT64, "Launches.", Unit.COUNT),
        Column("negative", Type.INT64, "Those whose operation started before that.", Unit.COUNT),
        Column("min_ns", Type.INT64, "Shortest delay; may be negative.", Unit.NS),
        Column("p5_ns", Type.INT64, "5 % of the delays are at most this.", Unit.NS),
        Column("p50_ns", Type.INT64, "Half of the delays are at most this.", Unit.NS),
        Column("p95_ns", Type.INT64, "95 % of the delays are at most this.", Unit.NS),
        Column("max_ns", Type.INT64, "Longest delay.", Unit.NS),
    ),
    cut=False,
)
QUEUES = TableSpec(
    "queues",
    "Queue of each device: operations launched but not started, seen by the launch calls and over the span.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        PROCESS,
        Column("n_launches", Type.INT64, "Launch calls.", Unit.COUNT),
        Column("p5_depth", Type.INT64, "Queue depth at a launch, 5th percentile.", Unit.COUNT),
        Column("p50_depth", Type.INT64, "Median of the queue depth at a launch.", Unit.COUNT),
        Column("p95_depth", Type.INT64, "Queue depth at a launch, 95th percentile.", Unit.COUNT),
        Column("max_depth", Type.INT64, "Largest queue depth at a launch.", Unit.COUNT),
        Column("mean_depth", Type.FLOAT64, "Mean queue depth over the span.", Unit.COUNT),
        Column("empty_ns", Type.INT64, "Time of the span in which nothing is queued.", Unit.NS),
        Column("empty_share", Type.FLOAT64, "The same as a share of the span.", Unit.SHARE),
    ),
    cut=False,
)
DEPTH = TableSpec(
    "depth",
    "Queue depths: how long each lasts, which adds up to the span of the device, and launches that met it.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        PROCESS,
        Column("depth", Type.INT64, "Operations in the queue.", Unit.COUNT),
        Column("ns", Type.INT64, "Time of the span with exactly so many.", Unit.NS),
        Column("share", Type.FLOAT64, "Share of the device's span.", Unit.SHARE),
        Column("n_launches", Type.INT64, "Launch calls that began at this depth.", Unit.COUNT),
    ),
)


@dataclass(frozen=True, slots=True)
class _Launches:
    """Launches with an operation on a device, in the order of their numbers, each with its first operation."""

    process: Ints
    start: Ints
    end: Ints
    first: Ints
    kind: Ints
    step: Ints


def launches(scope: Scope) -> Answer:
    """Tables `launches` (delays), `queues` and `depth` of the selected devices. Times in ns, exact.

    `--steps` picks launches by the step in which they were made, and for the time of each depth the span of the device
    steps; a window picks launches by the start of their first operation.
    """
    rows: dict[str, list[tuple[object, ...]]] = {"launches": [], "queues": [], "depth": []}
    findings: list[Finding] = []
    without = 0
    for device in scope.devices:
        whole = with_steps(scope, load_operations(scope, device, whole=True))
        if not len(whole):
            continue
        window = window_of(scope, device.capture)
        ops = whole if window is None else clip(whole, *window)
        if scope.selection.steps is not None:
            ops = step_window(scope, ops)
        without += int((ops.launch == NULL).sum())
        every = _launches_of(scope, whole)
        mine = _selected(scope, every, window)
        rows["launches"] += _delay_rows(device, mine)
        for process in np.unique(every.process).tolist():
            _add_queue(rows, device, process, whole, ops.span, mine)
        findings += _finding(device, rows)
    warnings = [*scope.warnings, *warmup_warning(scope)]
    if without:
        warnings.append(f"{without:,} operations have no launch in the file and take no part in delays and depths")
    elif not rows["launches"]:
        warnings.append(nothing_selected(scope))
    return Answer(
        "launches",
        {s.name: Frame.of_rows(s, rows[s.name]) for s in (DELAYS, QUEUES, DEPTH)},
        findings,
        warnings,
        default_table="launches",
        notes=[f"{scope.note()}; all nodes of a graph are one launch, of which the first to start counts"],
    )


def _launches_of(scope: Scope, ops: Operations) -> _Launches:
    """The launches of a device's operations, whatever is selected of them."""
    known = np.flatnonzero(ops.launch != NULL)
    # Operations stand in the order of their start, so the first of each launch is the first to start.
    event, first = np.unique(ops.launch[known], return_index=True)
    first = known[first]
    ends = scope.connection.execute(
        """SELECT end_ns FROM stored.cpu_events
        WHERE capture = ? AND event_id IN (SELECT unnest(?::BIGINT[])) ORDER BY event_id""",
        [ops.device.capture, event],
    ).fetchnumpy()["end_ns"]
    return _Launches(
        ops.process[first],
        ops.launched[first],
        np.asarray(ends, np.int64),
        ops.original_start[first],
        ops.kind[first],
        ops.step[first],
    )


def _selected(scope: Scope, every: _Launches, window: tuple[int, int] | None) -> _Launches:
    chosen = np.ones(len(every.start), bool)
    if window is not None:
        chosen &= (every.first >= window[0]) & (every.first < window[1])
    if scope.selection.steps is not None:
        low, high = scope.selection.steps
        chosen &= (every.step >= low) & (every.step <= high)
    return _Launches(*(getattr(every, name)[chosen] for name in _Launches.__slots__))


def nearest_rank(values: Ints, percent: int) -> int:
    """The percentile by nearest rank: the smallest value that at least `percent` % of the values do not exceed."""
    ordered = np.sort(values)
    return int(ordered[max(-(-percent * len(ordered) // 100), 1) - 1])


def _delay_rows(device: DeviceOfCapture, mine: _Launches) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for kind in np.unique(mine.kind).tolist():
        of_kind = mine.kind == kind
        for since, instant in (("call end", mine.end), ("call start", mine.start)):
            delay = (mine.first - instant)[of_kind]
            percentiles = [nearest_rank(delay, percent) for percent in (5, 50, 95)]
            rows.append(
                (
                    *(device.capture, device.rank, device.device, OpKind.texts()[kind], since),
                    *(len(delay), int((delay < 0).sum()), int(delay.min()), *percentiles, int(delay.max())),
                )
            )
    return rows


def _add_queue(
    rows: dict[str, list[tuple[object, ...]]],
    device: DeviceOfCapture,
    process: int,
    whole: Operations,
    span: tuple[int, int],
    mine: _Launches,
) -> None:
    """Rows of `queues` and `depth` of one process. What was queued before the span is in the queue as well."""
    place = (device.capture, device.rank, device.device, process)
    of_process = (whole.process == process) & (whole.launch != NULL)
    launched, started = whole.launched[of_process], whole.original_start[of_process]
    depth, ns = depths(launched, started, *span)
    at_launch = open_before(launched, started, mine.start[mine.process == process])
    met, count = np.unique(at_launch, return_counts=True)
    lasting = dict(zip(depth.tolist(), ns.tolist(), strict=True))
    meeting = dict(zip(met.tolist(), count.tolist(), strict=True))
    length = span[1] - span[0]
    for each in sorted(lasting.keys() | meeting.keys()):
        time = lasting.get(each, 0)
        rows["depth"].append((*place, each, time, time / length if length else None, meeting.get(each, 0)))
    percentiles = [nearest_rank(at_launch, percent) for percent in (5, 50, 95, 100)] if len(at_launch) else [None] * 4
    weighted = sum(each * time for each, time in lasting.items())
    empty = lasting.get(0, 0)
    over_span = (weighted / length, empty, empty / length) if length else (None, empty, None)
    rows["queues"].append((*place, len(at_launch), *percentiles, *over_span))


def _finding(device: DeviceOfCapture, rows: dict[str, list[tuple[object, ...]]]) -> list[Finding]:
    """How the kernels of the device were launched."""
    place = (device.capture, device.rank, device.device)
    whose = f"rank {device.rank}, device {device.device}" if device.rank is not None else f"device {device.device}"
    kernels = [r for r in rows["launches"] if r[:5] == (*place, "kernel", "call end")]
    queues = [r for r in rows["queues"] if r[:3] == place]
    if not kernels or len(queues) != 1 or queues[0][11] is None:
        return []
    median, empty, depth = int(str(kernels[0][9])), float(str(queues[0][11])), queues[0][6]
    text = (
        f"{whose}: kernels start {median / 1e3:,.1f} us after their launch returns (median), {depth} operations are"
        f" queued at a launch (median), and for {100 * empty:.1f} % of the span nothing is queued"
    )
    return [Finding("launch_delay", text, device.rank, None)]
