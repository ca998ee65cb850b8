"""Sampled metrics of a device as step functions, and their means over parts of its time.

A sample of nsys' GPU metrics stands from its instant to the next one: measured on captures with known gaps, where the
activity of the graphics engine follows the recorded operations with a correlation of 0.9995 that way, and of 0.988 one
period earlier or later. A sample counts for what is asked about where nine tenths of it or more lie inside, as others
mix it with what was before and after; so a mean may be off by a tenth of the difference to what is outside.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.intervals import Ints, measure_before
from traceanalyzer.passes.limits.activity import Activity
from traceanalyzer.passes.scope import Scope

Floats = NDArray[np.float64]

LEAST_INSIDE = 0.9
"""Share of a sample that has to lie inside of what is asked about."""
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
    """When the samples of a metric stand: each from its start to its end. Metrics of a device mostly share them."""

    def __init__(self, start: Ints) -> None:
        self.start = start
        self.end = _ends(start)

    @property
    def period_ns(self) -> int:
        """The median time that a sample stands for; 0 of less than two."""
        return int(np.median(self.end - self.start)) if len(self.start) else 0

    def inside(self, start: Ints, end: Ints) -> Ints:
        """Of each sample the time in some disjoint sorted intervals; 0 where that is less than `LEAST_INSIDE` of it."""
        overlap = measure_before(start, end, self.end) - measure_before(start, end, self.start)
        return np.where(overlap >= LEAST_INSIDE * (self.end - self.start), overlap, 0)

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
    times: Times
    value: Floats

    def mean(self, weight: Ints) -> "Mean":
        """Mean and extremes over the samples that have a weight, the time that each counts with."""
        mine = (weight > 0) & ~np.isnan(self.value)
        if not mine.any():
            return NO_MEAN
        values, weight = self.value[mine], weight[mine]
        covered = int(weight.sum())
        mean = float((values * weight).sum()) / covered
        return Mean(len(values), covered, mean, float(values.min()), float(values.max()))

    def means(self, number: Ints, weight: Ints, count: int) -> "list[Mean]":
        """The same for the samples of each number below `count`."""
        mine = np.flatnonzero((weight > 0) & ~np.isnan(self.value))
        mine = mine[np.argsort(number[mine], kind="stable")]
        edges = np.searchsorted(number[mine], np.arange(count + 1))
        out = []
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            rows = mine[first:last]
            part = Series(self.source, self.metric, self.unit, self.instance, self.times, self.value[rows])
            out.append(part.mean(weight[rows]))
        return out


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean and extremes of a metric over samples, and the time that these cover; None without samples."""

    n_samples: int
    covered_ns: int
    mean: float | None
    least: float | None
    most: float | None


NO_MEAN = Mean(0, 0, None, None, None)


def load_series(
    scope: Scope, capture: int, device: int | None, wanted: Callable[[str], bool] = bool
) -> Iterator[Series]:
    """Every wanted metric of a device of a capture, one after the other; without a device those of none, as NICs."""
    here = "capture = $capture AND device IS NOT DISTINCT FROM $device"
    place = {"capture": capture, "device": device}
    keys = scope.connection.execute(
        f"SELECT DISTINCT source, metric, metric_unit, instance FROM stored.metric_samples WHERE {here}", place
    ).fetchall()
    times: Times | None = None
    texts = scope.texts(k for key in keys for k in key if k is not None)
    for key in sorted(keys, key=lambda key: [texts.get(k, "") for k in key]):
        if not wanted(texts.get(key[1], "")):
            continue
        got = scope.connection.execute(
            f"""SELECT t_ns, coalesce(value, 'nan'::DOUBLE) AS value FROM stored.metric_samples
            WHERE {here} AND source = $source AND metric = $metric AND metric_unit IS NOT DISTINCT FROM $unit
                AND instance IS NOT DISTINCT FROM $instance ORDER BY t_ns""",
            place | dict(zip(("source", "metric", "unit", "instance"), key, strict=True)),
        ).fetchnumpy()
        source, metric, unit, instance = (texts.get(k) for k in key)
        start, value = np.asarray(got["t_ns"], np.int64), np.asarray(got["value"], np.float64)
        if times is None or not np.array_equal(times.start, start):
            times = Times(start)
        yield Series(source or "", metric or "", unit, instance, times, value)


def _ends(start: Ints) -> Ints:
    """Where samples end: at the next one, or a median period later where it is the last or the next one is lost."""
    if len(start) < 2:
        return start.copy()
    step = np.diff(start)
    period = int(np.median(step))
    return start + np.append(np.where(step > LOST_AFTER * period, period, step), period).astype(np.int64)


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
