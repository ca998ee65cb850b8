"""Sampled metrics of a device as step functions, and their means over parts of its time.

A sample of nsys' GPU metrics stands from its instant to the next one: measured on captures with known gaps, where the
activity of the graphics engine follows the recorded operations with a correlation of 0.9995 that way, and of 0.988 one
period earlier or later. A sample counts for what is asked about where nine tenths of it or more lie inside, as others
mix it with what was before and after; so a mean may be off by a tenth of the difference to what is outside.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.intervals import Ints, measure_before
from traceanalyzer.passes.limits.activity import Activity
from traceanalyzer.passes.scope import Scope

Floats = NDArray[np.float64]

LEAST_INSIDE = 0.9
"""Share of a sample that has to lie inside of what is asked about."""
NO_NAME = NO_DEVICE = -1
LOST_AFTER = 1.5
"""A sample stands no longer than this times the median period: then samples were lost, and it stands one period."""

_ROLES = {
    "sm_active_pct": re.compile(r"SMs? Active( \[Throughput %\])?"),
    "sm_issue_pct": re.compile(r"SM Issue( \[Throughput %\])?"),
    "tensor_pct": re.compile(r"Tensor Active( \[Throughput %\])?"),
    "dram_read": re.compile(r"DRAM Read (Bandwidth|Throughput)( \[Throughput %\])?"),
    "dram_write": re.compile(r"DRAM Write (Bandwidth|Throughput)( \[Throughput %\])?"),
}


class Times:
    """When the samples of a metric stand: each from its start to its end. Metrics of a device mostly share them.

    Where the source tells no time, they are its rounds of readings, and not `timed`.
    """

    def __init__(self, start: Ints, timed: bool = True) -> None:
        self.start, self.timed = start, timed
        self.end = _ends(start)

    @property
    def period_ns(self) -> int:
        """The median time that a sample stands for; 0 of less than two."""
        return int(np.median(self.end - self.start)) if len(self.start) else 0

    def inside(self, start: Ints, end: Ints) -> tuple[NDArray[np.intp], Ints]:
        """Samples of which `LEAST_INSIDE` or more lies in some disjoint sorted intervals, and their time there."""
        overlap = measure_before(start, end, self.end) - measure_before(start, end, self.start)
        rows = np.flatnonzero((overlap > 0) & (overlap >= LEAST_INSIDE * (self.end - self.start)))
        return rows, overlap[rows]

    def by_interval(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Of each sample the number of the interval, of disjoint sorted ones, that it lies in, and its time there."""
        middle = self.start + (self.end - self.start) // 2
        number = np.maximum(np.searchsorted(start, middle, side="right") - 1, 0)
        overlap = np.minimum(self.end, end[number]) - np.maximum(self.start, start[number])
        return number, np.where(overlap >= LEAST_INSIDE * (self.end - self.start), np.maximum(overlap, 0), 0)


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one device: samples with their times and values (nan: none)."""

    source: str
    metric: str
    unit: str | None
    instance: str | None
    process: int | None
    times: Times
    value: Floats

    def mean(self, rows: NDArray[np.intp], weight: Ints) -> "Mean":
        """Mean and extremes over some samples, each with the time that it counts with."""
        values = self.value[rows]
        known = ~np.isnan(values)
        values, weight = values[known], weight[known]
        if not len(values):
            return NO_MEAN
        covered = int(weight.sum())
        mean = float((values * weight).sum()) / covered
        return Mean(len(values), covered, mean, float(values.min()), float(values.max()))

    def means(self, number: Ints, weight: Ints, count: int) -> "list[Mean]":
        """The same for the samples of each number below `count`."""
        mine = np.flatnonzero((weight > 0) & ~np.isnan(self.value))
        mine = mine[np.argsort(number[mine], kind="stable")]
        edges = np.searchsorted(number[mine], np.arange(count + 1))
        return [
            self.mean(mine[first:last], weight[mine[first:last]])
            for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean and extremes of a metric over samples, and the time that these cover; None without samples."""

    n_samples: int
    covered_ns: int
    mean: float | None
    least: float | None
    most: float | None


NO_MEAN = Mean(0, 0, None, None, None)


MOST_AT_ONCE = 4_000_000
"""Samples that are read in one go; of a device with more each metric is read on its own."""


def load_series(
    scope: Scope, capture: int, device: int | None, wanted: Callable[[str], bool] = lambda _name: True
) -> Iterator[Series]:
    """Every wanted metric of a device of a capture, one after the other; without a device those of none, as NICs."""
    for _device, series in load_devices(scope, capture, [device], wanted):
        yield series


def load_devices(
    scope: Scope, capture: int, devices: Sequence[int | None], wanted: Callable[[str], bool] = lambda _name: True
) -> Iterator[tuple[int | None, Series]]:
    """The same for several devices of a capture at once, device after device."""
    here, place = _place(capture, devices)
    keys = scope.connection.execute(
        f"""SELECT coalesce(device, {NO_DEVICE}), source, metric, coalesce(metric_unit, {NO_NAME}),
            coalesce(instance, {NO_NAME}), coalesce(process, {NO_NAME}), count(*)
        FROM stored.metric_samples WHERE {here} GROUP BY ALL""",
        place,
    ).fetchall()
    texts = scope.texts(k for key in keys for k in key[1:5] if k != NO_NAME)
    keys = [key for key in keys if wanted(texts.get(key[2], ""))]
    keys.sort(key=lambda key: (key[0], [texts.get(k, "") for k in key[1:5]], key[5]))
    for chosen in _at_once(keys):
        numbers = [None if number == NO_DEVICE else number for number in dict.fromkeys(key[0] for key in chosen)]
        here, place = _place(capture, numbers)
        yield from _loaded(scope, here, place, chosen, texts)


_Key = tuple[int, ...]
"""Device, source, metric, unit, instance, process, number of samples."""


def _place(capture: int, devices: Sequence[int | None]) -> tuple[str, dict[str, object]]:
    """The condition that selects devices, and its parameters."""
    if len(devices) == 1:
        return "capture = $capture AND device IS NOT DISTINCT FROM $device", {"capture": capture, "device": devices[0]}
    numbers = [NO_DEVICE if device is None else device for device in devices]
    here = f"capture = $capture AND coalesce(device, {NO_DEVICE}) IN (SELECT unnest($devices::INTEGER[]))"
    return here, {"capture": capture, "devices": numbers}


def _at_once(keys: list[_Key]) -> Iterator[list[_Key]]:
    """Keys that are read together: those of whole devices, while they are not too many; else one at a time."""
    block: list[_Key] = []
    size = 0
    for _device, several in groupby(keys, lambda key: key[0]):
        mine = list(several)
        more = sum(key[6] for key in mine)
        if block and size + more > MOST_AT_ONCE:
            yield block
            block, size = [], 0
        if more > MOST_AT_ONCE:
            yield from ([key] for key in mine)
        else:
            block.extend(mine)
            size += more
    if block:
        yield block


def _loaded(
    scope: Scope, here: str, place: dict[str, object], keys: list[_Key], texts: dict[int, str]
) -> Iterator[tuple[int | None, Series]]:
    """The series of some keys, each with its device."""
    names = ("device", "source", "metric", "unit", "instance", "process")
    got = scope.connection.execute(
        f"""SELECT coalesce(device, {NO_DEVICE})::INTEGER AS device,
            source::INTEGER AS source, metric::INTEGER AS metric,
            coalesce(metric_unit, {NO_NAME})::INTEGER AS unit, coalesce(instance, {NO_NAME})::INTEGER AS instance,
            coalesce(process, {NO_NAME})::BIGINT AS process,
            coalesce(t_ns, tick, 0) AS t_ns, t_ns IS NOT NULL AS timed, coalesce(value, 'nan'::DOUBLE) AS value
        FROM stored.metric_samples WHERE {here} AND metric IN (SELECT unnest($metrics::INTEGER[]))
        ORDER BY device, source, metric, unit, instance, process, coalesce(t_ns, tick, 0)""",
        place | {"metrics": sorted({key[2] for key in keys})},
    ).fetchnumpy()
    columns = np.stack([np.asarray(got[name]) for name in names])
    fresh = np.append(True, (columns[:, 1:] != columns[:, :-1]).any(axis=0))
    starts = np.flatnonzero(fresh[: columns.shape[1]]).tolist()
    ends = [*starts[1:], columns.shape[1]]
    place_of = {tuple(columns[:, k].tolist()): (k, e) for k, e in zip(starts, ends, strict=True)}
    times: Times | None = None
    for key in keys:
        first, last = place_of[key[:6]]
        start, value = np.asarray(got["t_ns"][first:last], np.int64), np.asarray(got["value"][first:last], np.float64)
        timed = bool(np.all(got["timed"][first:last]))
        if times is None or times.timed != timed or not np.array_equal(times.start, start):
            times = Times(start, timed)
        source, metric, unit, instance = (texts.get(k) for k in key[1:5])
        process = None if key[5] == NO_NAME else key[5]
        value = np.where(np.isfinite(value), value, np.nan)
        device = None if key[0] == NO_DEVICE else key[0]
        yield device, Series(source or "", metric or "", unit, instance, process, times, value)


def _ends(start: Ints) -> Ints:
    """Where samples end: at the next instant, or a median period later where it is the last or the next one is lost."""
    if not len(start):
        return start.copy()
    instants, which = np.unique(start, return_inverse=True)
    step = np.diff(instants)
    period = int(np.median(step)) if len(step) else 0
    ends = instants + np.append(np.where(step > LOST_AFTER * period, period, step), period).astype(np.int64)
    return ends[which.reshape(-1)]


def activity_of(means: dict[str, float | None]) -> Activity:
    """The activity that metrics, by their names, tell of; DRAM where reading and writing both were sampled."""
    found: dict[str, float | None] = {}
    for role, pattern in _ROLES.items():
        found[role] = next((value for name, value in means.items() if pattern.fullmatch(name)), None)
    read, write = found.pop("dram_read"), found.pop("dram_write")
    return Activity(**found, dram_pct=None if read is None or write is None else read + write)


def is_activity(metric: str) -> bool:
    """Whether `activity_of` knows a metric."""
    return any(pattern.fullmatch(metric) for pattern in _ROLES.values())


def alone(times: Times, start: Ints, end: Ints) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(samples, operations): samples during each of which one operation runs, and no other.

    `start` and `end` are of all operations of the device, sorted by start.
    """
    if not len(start):
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    begun = np.searchsorted(start, times.end, side="left")
    running = begun - np.searchsorted(np.sort(end), times.start, side="right")
    # Where one alone runs it is the one that ends last of all that began.
    farthest = np.maximum.accumulate(np.where(end >= np.maximum.accumulate(end), np.arange(len(end)), 0))
    op = farthest[np.maximum(begun - 1, 0)]
    covers = (start[op] <= times.start) & (end[op] >= times.end) & (times.end > times.start)
    samples = np.flatnonzero((running == 1) & covers)
    return samples, op[samples]
