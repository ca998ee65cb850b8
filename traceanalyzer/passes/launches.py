"""Launches: how long after its call an operation starts, and how many operations wait in the queue of a device.

Definitions, all of one device:

- The *launch* of an operation is the API call with its correlation in its process. A call that launches several, as
  that of a graph does, is one launch, with the first of them to start as its operation: so a graph counts the same
  whether its nodes were recorded or not. Operations without a launch in the file are counted in a warning.
- The *delay* of a launch is the start of its first operation minus the end of its call: the queue time of Nsight
  Systems' `cuda_kern_exec` reports, which leave out negative ones. They are real, for an operation may start before
  its call returns, so they are kept and counted here. Measured from the start of the call it includes the call itself.
- A launch is *queued* from the start of its call to the start of its operation. The *queue depth* of a process at an
  instant is the number of its launches that are queued on the device then.
- At a launch the depth is that of earlier calls: `call start < this call start < operation start`.
- While an operation runs whose launch is not in the file, and in the pauses between two such that follow each other,
  the depth is *unknown*: more of them may wait. Where the first operation has no launch, so is the time before it. That
  time has a row of its own in `depth`, and is no part of the shares, percentiles and means of `queues`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.intervals import depths, open_before, union
from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.chosen import warmup_warning
from traceanalyzer.passes.columns import CAPTURE, DEVICE, RANK
from traceanalyzer.passes.gaps import nothing_selected
from traceanalyzer.passes.operations import NULL, Operations, clip, load_operations, window_of
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import step_window, with_steps
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import OpKind
from traceanalyzer.units import Unit, counted, format_value

Ints = NDArray[np.int64]

_FARTHEST = 2**62
_SPOKEN = {"kernel": "kernels", "graph": "graphs"}
"""Kinds that the sentence speaks of where there are several, the first that there is; and their plurals."""

PROCESS = Column("process", Type.INT64, "Process that launches.")
DELAYS = TableSpec(
    "launches",
    "Delay from the launch call to the start of its first operation; percentiles are delays that occur (nearest rank).",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("kind", Type.TEXT, "What was launched: kernel, memcpy, memset or graph (whatever its nodes are)."),
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
    "Queue of each device: launches whose operation has not started, seen by the launch calls and over the span.",
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
        Column("mean_depth", Type.FLOAT64, "Mean queue depth over the time of known depth.", Unit.COUNT),
        Column("empty_ns", Type.INT64, "Time of the span in which nothing is queued.", Unit.NS),
        Column("empty_share", Type.FLOAT64, "The same as a share of the time of known depth.", Unit.SHARE),
        Column(
            "unknown_ns",
            Type.INT64,
            "Time of the span in which operations run whose launch is not in the file: the depth is unknown then.",
            Unit.NS,
        ),
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
        Column("depth", Type.INT64, "Launches in the queue; null where unknown.", Unit.COUNT),
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
        mine = _chosen(every, _selected(scope, every, window))
        rows["launches"] += _delay_rows(device, mine)
        for process in np.unique(every.process).tolist():
            place = (device.capture, device.rank, device.device, process)
            of_process = _chosen(every, every.process == process)
            met_by = mine.start[mine.process == process]
            _add_queue(rows, place, of_process, _unknown(whole, process), ops.span, met_by)
        findings += _finding(scope, device, rows)
    warnings = [*scope.warnings, *warmup_warning(scope)]
    if without:
        have, take = ("has", "takes") if without == 1 else ("have", "take")
        warnings.append(
            f"{counted(without, 'operation')} {have} no launch in the file and {take} no part in delays and depths"
        )
    elif not rows["launches"]:
        warnings.append(nothing_selected(scope))
    return Answer(
        "launches",
        {s.name: Frame.of_rows(s, rows[s.name]) for s in (DELAYS, QUEUES, DEPTH)},
        findings,
        warnings,
        default_table="launches",
        notes=[f"{scope.note()}; a graph is one launch, of which the first node to start counts"],
    )


def _launches_of(scope: Scope, ops: Operations) -> _Launches:
    """The launches of a device's operations, whatever is selected of them."""
    known = np.flatnonzero(ops.launch != NULL)
    # Operations stand in the order of their start, so the first of each launch is the first to start.
    event, first = np.unique(ops.launch[known], return_index=True)
    first = known[first]
    calls = scope.connection.execute(
        """SELECT e.end_ns, coalesce(regexp_matches(n.text, 'GraphLaunch', 'i'), false) AS of_graph
        FROM stored.cpu_events e LEFT JOIN stored.names n ON n.name_id = e.name
        WHERE e.capture = ? AND e.event_id IN (SELECT unnest(?::BIGINT[])) ORDER BY e.event_id""",
        [ops.device.capture, event],
    ).fetchnumpy()
    return _Launches(
        ops.process[first],
        ops.launched[first],
        np.asarray(calls["end_ns"], np.int64),
        ops.original_start[first],
        np.where(np.asarray(calls["of_graph"], bool), int(OpKind.GRAPH), ops.kind[first]),
        ops.step[first],
    )


def _unknown(ops: Operations, process: int) -> tuple[Ints, Ints]:
    """When the queue of a process is of unknown depth, as disjoint intervals; the first may begin before all time."""
    mine = np.flatnonzero((ops.process == process) | ((ops.process == NULL) & (ops.launch == NULL)))
    bare = ops.launch[mine] == NULL
    first = np.flatnonzero(bare & np.append(True, ~bare[:-1]))
    if not len(first):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    start, end = ops.original_start[mine], ops.end[mine]
    low, high = start[first], np.maximum.reduceat(np.where(bare, end, np.iinfo(np.int64).min), first)
    if bare[0]:
        low[0] = -_FARTHEST
    return union(low, high)


def _selected(scope: Scope, every: _Launches, window: tuple[int, int] | None) -> NDArray[np.bool_]:
    chosen = np.ones(len(every.start), bool)
    if window is not None:
        chosen &= (every.first >= window[0]) & (every.first < window[1])
    if scope.selection.steps is not None:
        low, high = scope.selection.steps
        chosen &= (every.step >= low) & (every.step <= high)
    return chosen


def _chosen(every: _Launches, which: NDArray[np.bool_]) -> _Launches:
    return _Launches(*(getattr(every, name)[which] for name in _Launches.__slots__))


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
    place: tuple[object, ...],
    every: _Launches,
    unknown: tuple[Ints, Ints],
    span: tuple[int, int],
    met_by: Ints,
) -> None:
    """Rows of `queues` and `depth` of one process. What was queued before the span is in the queue as well."""
    depth, ns = depths(every.start, every.first, *span, without=unknown)
    in_unknown = open_before(unknown[0] - 1, unknown[1], met_by) > 0
    at_launch = open_before(every.start, every.first, met_by[~in_unknown])
    met, count = np.unique(at_launch, return_counts=True)
    lasting: dict[int | None, int] = dict(zip(depth.tolist(), ns.tolist(), strict=True))
    meeting: dict[int | None, int] = dict(zip(met.tolist(), count.tolist(), strict=True))
    length, known = span[1] - span[0], int(ns.sum())
    weighted = float((depth * ns).sum())
    if known < length or in_unknown.any():
        lasting[None], meeting[None] = length - known, int(in_unknown.sum())
    for each in sorted(lasting.keys() | meeting.keys(), key=lambda depth: -1 if depth is None else depth):
        time = lasting.get(each, 0)
        rows["depth"].append((*place, each, time, time / length if length else None, meeting.get(each, 0)))
    percentiles = [nearest_rank(at_launch, percent) for percent in (5, 50, 95, 100)] if len(at_launch) else [None] * 4
    empty = lasting.get(0, 0)
    over_span = (weighted / known, empty, empty / known) if known else (None, empty, None)
    rows["queues"].append((*place, len(met_by), *percentiles, *over_span, length - known))


def _finding(scope: Scope, device: DeviceOfCapture, rows: dict[str, list[tuple[object, ...]]]) -> list[Finding]:
    """How the kernels of the device were launched; without kernels its graphs, else whatever was launched most."""
    place = (device.capture, device.rank, device.device)
    queues = [r for r in rows["queues"] if r[:3] == place]
    of_kind = {str(r[3]): r for r in rows["launches"] if r[:3] == place and r[4] == "call end"}
    if not of_kind or len(queues) != 1:
        return []
    queue = dict(zip((c.name for c in QUEUES.columns), queues[0], strict=True))
    kind = next((k for k in _SPOKEN if k in of_kind), max(of_kind, key=lambda k: (int(str(of_kind[k][5])), k)))
    parts = [f"{_SPOKEN.get(kind, kind)} start {_delay(int(str(of_kind[kind][9])))} (median)"]
    if queue["p50_depth"] is not None:
        waits = counted(int(str(queue["p50_depth"])), "launch waits", "launches wait")
        parts.append(f"{waits} in the queue at a launch (median)")
    if queue["empty_share"] is not None:
        share = format_value(queue["empty_share"], Unit.SHARE)
        parts.append(f"for {share} of the {'known time' if queue['unknown_ns'] else 'span'} nothing is queued")
    text = f"{scope.whose(device)}: {', '.join(parts[:-1])}{', and ' if parts[1:] else ''}{parts[-1]}"
    if queue["unknown_ns"]:
        text += (
            f"; for {format_value(queue['unknown_ns'], Unit.NS)} operations run whose launch is not in the file, so"
            " that the depth is unknown"
        )
    return [Finding("launch_delay", text, device.rank, None)]


def _delay(median: int) -> str:
    when = "after their launch returns" if median >= 0 else "before their launch returns"
    return f"{format_value(abs(median), Unit.NS)} {when}"
