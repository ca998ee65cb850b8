"""Metrics: what GPUs, NICs and telemetry were sampled at, and what that was while the devices were busy and idle."""

import re
from collections.abc import Iterator
from dataclasses import astuple
from itertools import groupby

import numpy as np

from traceanalyzer.numeric.intervals import union
from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.columns import CAPTURE, RANK
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.limits.activity import Activity, Reading, reading_of
from traceanalyzer.passes.limits.sampled import (
    NO_MEAN,
    Mean,
    Series,
    Times,
    activity_of,
    is_activity,
    load_devices,
    load_series,
)
from traceanalyzer.passes.operations import load_operations, window_of
from traceanalyzer.passes.ranges import operations_of_ranges
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import device_steps, step_window
from traceanalyzer.passes.telemetry.answer import read_telemetry
from traceanalyzer.passes.telemetry.tables import TABLES as OF_TELEMETRY
from traceanalyzer.passes.telemetry.watched import Watched
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit

_DEVICE = Column("device", Type.INT32, "Device of the capture; null where it is none, such as a NIC.")
_INSTANCE = Column("instance", Type.TEXT, "What is measured where it is no GPU of the capture: a NIC, a port.")
_PROCESS = Column("process", Type.INT64, "Process that it is told of: its pid; null where it is told of the whole.")
_METRIC = Column("metric", Type.TEXT, "Name of the metric, as the source has it.")
_UNIT = Column("unit", Type.TEXT, "Unit of the value: % of peak, Hz, bytes ...")
_MEAN_COLUMNS = (
    Column("mean", Type.FLOAT64, "Mean over the samples of which nine tenths or more lie inside, by their time there."),
    Column("min", Type.FLOAT64, "Smallest of these samples."),
    Column("max", Type.FLOAT64, "Largest of these samples."),
    Column("n_samples", Type.INT64, "Samples of which nine tenths or more lie inside.", Unit.COUNT),
    Column("time_ns", Type.INT64, "Time that is asked about.", Unit.NS),
    Column("covered_ns", Type.INT64, "Time of it that these samples cover.", Unit.NS),
)

METRICS = TableSpec(
    "metrics",
    "Every sample, in the order of time.",
    (
        CAPTURE,
        RANK,
        Column("source", Type.TEXT, "Where the metric comes from: gpu_metrics, nic ..."),
        _DEVICE,
        _INSTANCE,
        _PROCESS,
        _METRIC,
        _UNIT,
        Column("t_ns", Type.INT64, "Instant on the file's own clock; a GPU metric stands from there on.", Unit.NS),
        Column("tick", Type.INT64, "Place of its round of readings, where the source tells no time."),
        Column("value", Type.FLOAT64, "Value; null where the source had none."),
    ),
)
ROLLUP = TableSpec(
    "rollup",
    "Each metric over the time in which its device was busy, over its gaps, and over both.",
    (
        CAPTURE,
        RANK,
        _DEVICE,
        _INSTANCE,
        _PROCESS,
        _METRIC,
        _UNIT,
        Column("busy_mean", Type.FLOAT64, "Mean while operations run."),
        Column("gaps_mean", Type.FLOAT64, "Mean while none runs; null where no gap is as long as a sample."),
        Column("mean", Type.FLOAT64, "Mean over the span of the device; of other things over all samples."),
        Column("min", Type.FLOAT64, "Smallest sample of the span."),
        Column("max", Type.FLOAT64, "Largest sample of the span."),
        Column(
            "period_ns",
            Type.INT64,
            "Median time from one sample to the next; null where the source tells no times.",
            Unit.NS,
        ),
        Column("busy_samples", Type.INT64, "Samples of which nine tenths or more lie in busy time.", Unit.COUNT),
        Column("gaps_samples", Type.INT64, "Samples of which nine tenths or more lie in gaps.", Unit.COUNT),
        Column("n_samples", Type.INT64, "Samples of the span.", Unit.COUNT),
        Column("busy_ns", Type.INT64, "Busy time of the device; null where it is none.", Unit.NS),
        Column("busy_covered_ns", Type.INT64, "Time of it that its samples cover.", Unit.NS),
        Column("gaps_ns", Type.INT64, "Time of the gaps.", Unit.NS),
        Column("gaps_covered_ns", Type.INT64, "Time of it that their samples cover.", Unit.NS),
    ),
    cut=False,
)
BY_STEP = TableSpec(
    "by_step",
    "Each metric over each device step.",
    (CAPTURE, RANK, _DEVICE, Column("step", Type.INT64, "Step."), _METRIC, _UNIT, *_MEAN_COLUMNS),
)
BY_RANGE = TableSpec(
    "by_range",
    "Each metric over the operations that were launched inside each range.",
    (CAPTURE, RANK, _DEVICE, Column("range", Type.TEXT, "Range or annotation."), _METRIC, _UNIT, *_MEAN_COLUMNS),
)
READINGS = TableSpec(
    "readings",
    "What the metrics of a device mean together, over its busy time and over its gaps.",
    (
        CAPTURE,
        RANK,
        _DEVICE,
        Column("over", Type.TEXT, "busy: operations run; gaps: none runs; all: every sample of telemetry."),
        Column(
            "reading",
            Type.TEXT,
            "tensor_busy, memory_limited, compute_busy, kernel_efficiency, few_sms, starved or moderate.",
        ),
        Column("text", Type.TEXT, "The metrics and thresholds behind it."),
        Column("sm_active_pct", Type.FLOAT64, "Multiprocessors with a warp on them.", Unit.PERCENT),
        Column("sm_issue_pct", Type.FLOAT64, "Cycles in which a multiprocessor issues.", Unit.PERCENT),
        Column("tensor_pct", Type.FLOAT64, "Cycles of the tensor pipe.", Unit.PERCENT),
        Column("dram_pct", Type.FLOAT64, "DRAM, reading and writing together.", Unit.PERCENT),
    ),
    cut=False,
)
TABLES = (METRICS, ROLLUP, BY_STEP, BY_RANGE, READINGS, *OF_TELEMETRY)

_Row = tuple[object, ...]
_Place = tuple[int, int | None, int | None]


def metrics(scope: Scope, watched: Watched | None = None) -> Answer:
    """Tables `metrics`, `rollup`, `by_step`, `by_range`, `readings`, and of telemetry those of `telemetry.tables`.

    Means are over the samples of which nine tenths or more lie inside of what they speak of.

    With a window or steps only samples inside of it count. Metrics of no device, and of devices without operations,
    have their samples and a roll-up over all of these. `watched` is what telemetry watched of the scope, where that was
    read before.
    """
    rows: dict[str, list[_Row]] = {spec.name: [] for spec in TABLES}
    findings: list[Finding] = []
    warnings = list(scope.warnings)
    pattern = re.compile(scope.selection.metric or "")
    tree: StackTree | None = None
    working = {(device.capture, device.device): device for device in scope.devices}
    without_operations: dict[tuple[int, int | None], list[int | None]] = {}
    for capture, rank, number in _measured(scope):
        device = None if number is None else working.get((capture, number))
        place = (capture, rank, number)
        if device is None:
            without_operations.setdefault((capture, rank), []).append(number)
            continue
        tree = tree or StackTree(scope)
        parts = _Parts(scope, tree, device)
        means: dict[str, dict[str, float | None]] = {over: {} for over in parts.rolled}
        for series in load_series(scope, capture, number, lambda name: is_activity(name) or bool(pattern.search(name))):
            found, row = parts.rollup(place, series)
            if series.unit == "%":
                for over, mean in found.items():
                    means[over].setdefault(series.metric, mean.mean)
            if pattern.search(series.metric):
                rows["by_step"] += parts.by_step(place, series)
                rows["by_range"] += parts.by_range(place, series)
                rows["rollup"].append(row)
        for over in ("busy", "gaps"):
            reading = _reading(place, over, activity_of(means[over]))
            rows["readings"] += [] if reading is None else [reading]
            findings += _finding(scope, device, reading)
    for (capture, rank), numbers in without_operations.items():
        window = _selected(scope, capture, numbers[0])
        for number, series in load_devices(scope, capture, numbers, lambda name: bool(pattern.search(name))):
            rows["rollup"].append(_whole((capture, rank, number), series, *window))
    told = read_telemetry(watched or Watched(scope))
    rows |= told.rows
    findings += told.findings
    rows["readings"] += [
        (seen.capture, None, seen.device, "all", reading.value, text, *astuple(activity))
        for seen, activity, reading, text in told.readings
    ]
    rows["metrics"] = _samples(scope)
    rows["rollup"].sort(key=_telling_first)
    if not rows["rollup"]:
        warnings.append(_NONE if not scope.selection.metric else f"no metric matches --metric {scope.selection.metric}")
    frames = {spec.name: Frame.of_rows(spec, rows[spec.name]) for spec in TABLES}
    return Answer("metrics", frames, findings, warnings, default_table="metrics", notes=[scope.note()])


def _telling_first(row: _Row) -> tuple[object, ...]:
    """Of each device the metrics that readings rest on, then others, and last those that were 0 all the time."""
    capture, _rank, device, instance, process, metric = row[:6]
    least, most = row[10:12]
    nothing = least == most == 0
    return (
        capture,
        device is None,
        device or 0,
        nothing,
        not is_activity(str(metric)),
        metric,
        instance or "",
        process or 0,
    )


_NONE = (
    "no sampled metrics in what is selected; nsys records them with --gpu-metrics-devices=all"
    " (traceanalyzer howto nsys)"
)


def _measured(scope: Scope) -> list[tuple[int, int | None, int | None]]:
    """(capture, rank, device) of everything that was sampled and is selected."""
    chosen = scope.selection
    rows = scope.connection.execute(
        f"""SELECT DISTINCT m.capture, coalesce(d.rank, c.rank) AS rank, m.device FROM stored.metric_samples m
        JOIN stored.captures c ON c.capture = m.capture
        LEFT JOIN stored.devices d ON d.capture = m.capture AND d.device = m.device
        WHERE m.capture IN {scope.numbers()} ORDER BY ALL"""
    ).fetchall()
    return [
        (capture, rank, device)
        for capture, rank, device in rows
        if chosen.device in (None, device) and (chosen.ranks is None or rank in chosen.ranks)
    ]


def _samples(scope: Scope) -> list[_Row]:
    """Samples that are selected, at most as many as are listed."""
    chosen = scope.selection
    rows: list[_Row] = []
    for (capture, rank, low, high), devices in _alike(scope):
        left = chosen.top - len(rows) if chosen.top else None
        if left is not None and left <= 0:
            break
        rows += scope.connection.execute(
            f"""SELECT m.capture, $rank::INTEGER, s.text, m.device, i.text, m.process, n.text, u.text,
                m.t_ns, m.tick, m.value
            FROM stored.metric_samples m JOIN stored.names n ON n.name_id = m.metric
            JOIN stored.names s ON s.name_id = m.source
            LEFT JOIN stored.names i ON i.name_id = m.instance LEFT JOIN stored.names u ON u.name_id = m.metric_unit
            WHERE m.capture = $capture AND coalesce(m.device, -1) IN (SELECT unnest($devices::INTEGER[]))
                AND (m.t_ns IS NULL OR (m.t_ns >= $low AND m.t_ns < $high))
                AND m.metric IN (SELECT unnest($metrics::INTEGER[]))
            ORDER BY m.device NULLS LAST, m.t_ns, m.tick, n.text, i.text, m.process
            {"" if left is None else f"LIMIT {left}"}""",
            {
                "rank": rank,
                "capture": capture,
                "devices": [-1 if device is None else device for device in devices],
                "low": low,
                "high": high,
                "metrics": _matching(scope, capture, chosen.metric),
            },
        ).fetchall()
    return rows


def _alike(scope: Scope) -> Iterator[tuple[tuple[int, int | None, int, int], list[int | None]]]:
    """(capture, rank, first and last of the time that is selected) with the neighbouring devices that share it."""

    def shared(place: _Place) -> tuple[int, int | None, int, int]:
        return place[0], place[1], *_selected(scope, place[0], place[2])

    for alike, places in groupby(_measured(scope), shared):
        yield alike, [place[2] for place in places]


def _matching(scope: Scope, capture: int, pattern: str | None) -> list[int]:
    """Numbers of the names of metrics of a capture that have a match."""
    rows = scope.connection.execute(
        """SELECT DISTINCT n.name_id, n.text FROM stored.metric_samples m JOIN stored.names n ON n.name_id = m.metric
        WHERE m.capture = ?""",
        [capture],
    ).fetchall()
    compiled = re.compile(pattern or "")
    return [number for number, text in rows if compiled.search(text)]


_FARTHEST = 2**62


def _selected(scope: Scope, capture: int, number: int | None) -> tuple[int, int]:
    """The time that is selected on a device, of a capture."""
    device = next((d for d in scope.devices if (d.capture, d.device) == (capture, number)), None)
    if scope.selection.steps is not None and device is not None:
        ops = step_window(scope, load_operations(scope, device))
        return ops.span
    return window_of(scope, capture) or (-_FARTHEST, _FARTHEST)


def _mean_cells(time_ns: int, mean: Mean) -> _Row:
    return mean.mean, mean.least, mean.most, mean.n_samples, time_ns, mean.covered_ns


def _whole(place: _Place, series: Series, low: int, high: int) -> _Row:
    """The row of something that is no device with operations, over the samples of a window."""
    times = series.times
    inside = (times.start >= low) & (times.start < high)
    all_of_it = series.mean(np.flatnonzero(inside), np.maximum(times.end - times.start, 1)[inside])
    return _rolled(place, series, all_of_it, NO_MEAN, NO_MEAN, None, None)


def _rolled(
    place: _Place, series: Series, span: Mean, busy: Mean, gaps: Mean, busy_ns: int | None, gaps_ns: int | None
) -> _Row:
    return (
        *(*place, series.instance, series.process, series.metric, series.unit),
        *(
            busy.mean,
            gaps.mean,
            span.mean,
            span.least,
            span.most,
            series.times.period_ns if series.times.timed else None,
        ),
        *(busy.n_samples, gaps.n_samples, span.n_samples),
        *(busy_ns, busy.covered_ns, gaps_ns, gaps.covered_ns),
    )


class _Parts:
    """The parts of a device's time that metrics are rolled up over."""

    def __init__(self, scope: Scope, tree: StackTree, device: DeviceOfCapture) -> None:
        ops, ranges = operations_of_ranges(scope, tree, device) or (load_operations(scope, device), [])
        low, high = ops.span
        whole = np.array([low], np.int64), np.array([high], np.int64)
        self.rolled = {"busy": union(ops.start, ops.end), "gaps": ops.gaps(), "span": union(*whole)}
        self._steps = device_steps(ops)
        self._ranges = {name: union(ops.start[launched], ops.end[launched]) for name, launched in ranges}
        self._times: Times | None = None

    def _at(self, times: Times) -> None:
        """Work out which samples lie in which part, unless they are the same as those of the last metric."""
        if times is not self._times:
            self._times = times
            self._in_rolled = {over: times.inside(*part) for over, part in self.rolled.items()}
            self._in_ranges = {name: times.inside(*part) for name, part in self._ranges.items()}
            self._in_steps = times.by_interval(self._steps.start, self._steps.end) if len(self._steps) else None

    def rollup(self, place: _Place, series: Series) -> tuple[dict[str, Mean], _Row]:
        """What a metric is over busy time, over gaps, and over both: means, and the row that says so."""
        self._at(series.times)
        means = {over: series.mean(*inside) for over, inside in self._in_rolled.items()}
        busy_ns, gaps_ns = (int((high - low).sum()) for low, high in (self.rolled["busy"], self.rolled["gaps"]))
        return means, _rolled(place, series, means["span"], means["busy"], means["gaps"], busy_ns, gaps_ns)

    def by_step(self, place: _Place, series: Series) -> Iterator[_Row]:
        """What a metric is over each device step."""
        self._at(series.times)
        if self._in_steps is None:
            return
        lengths = (self._steps.end - self._steps.start).tolist()
        means = series.means(*self._in_steps, len(lengths))
        for step, length, mean in zip(self._steps.step.tolist(), lengths, means, strict=True):
            yield (*place, step, series.metric, series.unit, *_mean_cells(length, mean))

    def by_range(self, place: _Place, series: Series) -> Iterator[_Row]:
        """What a metric is over the operations that were launched inside each range."""
        self._at(series.times)
        for name, (low, high) in self._ranges.items():
            mean = series.mean(*self._in_ranges[name])
            yield (*place, name, series.metric, series.unit, *_mean_cells(int((high - low).sum()), mean))


def _reading(place: _Place, over: str, activity: Activity) -> _Row | None:
    found = reading_of(activity, idle=over == "gaps")
    return None if found is None else (*place, over, found[0].value, found[1], *astuple(activity))


_WORTH_A_SENTENCE = frozenset({Reading.MEMORY_LIMITED, Reading.KERNEL_EFFICIENCY, Reading.FEW_SMS, Reading.STARVED})
"""Readings that say where time is lost."""


def _finding(scope: Scope, device: DeviceOfCapture, reading: _Row | None) -> list[Finding]:
    if reading is None or reading[4] not in _WORTH_A_SENTENCE:
        return []
    when = "in the gaps" if reading[3] == "gaps" else "while operations run"
    return [Finding(str(reading[4]), f"{scope.whose(device)}, {when}: {reading[5]}", device.rank, None)]
