"""Telemetry of each device under canonical names: what was measured, by which source, and its samples."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.operations import window_of
from traceanalyzer.passes.scope import TELEMETRY, Scope
from traceanalyzer.passes.telemetry.names import UNITS, Metric, known

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_NO_NAME = -1


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """What is measured: a device of a capture, or a part of one. `instance` is empty for the whole device."""

    capture: int
    device: int
    instance: str = ""

    def words(self) -> str:
        """The place in a sentence."""
        return f"device {self.device}" + (f" ({self.instance})" if self.instance else "")


@dataclass(frozen=True, slots=True)
class Raw:
    """One metric of one source at a place, as the store has it; process rows are none of it.

    `source_id`, `name_id`, `instance_id` are its names in the store. `first_ns` and `last_ns` are None without times.
    """

    place: Place
    source: str
    name: str
    unit: str | None
    source_id: int
    name_id: int
    instance_id: int
    samples: int
    values: int
    mean: float | None
    least: float | None
    most: float | None
    first_ns: int | None
    last_ns: int | None
    instants: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A canonical metric of a place by one source; its numbers are in the canonical unit."""

    raw: Raw
    metric: Metric
    scale: float

    @property
    def unit(self) -> str:
        """The canonical unit."""
        return UNITS[self.metric]

    @property
    def interval_ns(self) -> int | None:
        """Mean time from one sample to the next; None where there are no times or only one sample."""
        raw = self.raw
        if raw.first_ns is None or raw.last_ns is None or raw.instants < 2:
            return None
        return round((raw.last_ns - raw.first_ns) / (raw.instants - 1))


@dataclass(frozen=True, slots=True)
class Loaded:
    """Samples in the order of time: instants (or rounds of readings, where not `timed`) and values, nan where none."""

    t: Ints
    value: Floats
    timed: bool

    def within(self, low: int, high: int) -> Floats:
        """Known values of the samples from `low` to before `high`."""
        values = self.value[np.searchsorted(self.t, low) : np.searchsorted(self.t, high)]
        return values[~np.isnan(values)]


class Telemetry:
    """Everything that telemetry captures of a scope say of devices."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.raw = list(_raw(scope))
        best: dict[tuple[Place, str, Metric], tuple[tuple[bool, int, str], Measured]] = {}
        for raw in self.raw:
            found = known(raw.source, raw.name, raw.unit)
            if found is None:
                continue
            key = raw.place, raw.source, found.metric
            fit = (not raw.values, found.order, raw.name)
            if key not in best or fit < best[key][0]:
                best[key] = fit, Measured(raw, found.metric, found.scale)
        self.measured = [best[key][1] for key in sorted(best, key=_in_order)]

    @property
    def places(self) -> list[Place]:
        """Places of which anything is known, in order."""
        return sorted({raw.place for raw in self.raw})

    def of(self, place: Place, *metrics: Metric) -> list[Measured]:
        """The canonical metrics of a place that are asked for and have a value, in the order asked; all sources."""
        mine = [m for m in self.measured if m.raw.place == place and m.raw.values]
        return [m for metric in metrics for m in mine if m.metric is metric]

    def load(self, measured: Measured) -> Loaded:
        """Samples of a canonical metric, in its unit."""
        return self.load_raw(measured.raw, measured.scale)

    def load_raw(self, raw: Raw, scale: float = 1.0) -> Loaded:
        """Samples of a metric as the store has them, times `scale`."""
        low, high = _bounds(self._scope, raw.place.capture)
        got = self._scope.connection.execute(
            f"""SELECT coalesce(t_ns, tick, 0) AS t, coalesce(value, 'nan'::DOUBLE) AS value
            FROM stored.metric_samples WHERE capture = $capture AND device = $device AND source = $source
                AND metric = $metric AND coalesce(instance, {_NO_NAME}) = $instance AND process IS NULL
                AND (t_ns IS NULL OR (t_ns >= $low AND t_ns < $high)) ORDER BY t""",
            {
                "capture": raw.place.capture,
                "device": raw.place.device,
                "source": raw.source_id,
                "metric": raw.name_id,
                "instance": raw.instance_id,
                "low": low,
                "high": high,
            },
        ).fetchnumpy()
        value = np.asarray(got["value"], np.float64)
        value = np.where(np.isfinite(value), value, np.nan) * scale
        return Loaded(np.asarray(got["t"], np.int64), value, raw.instants > 0)


_ORDER = {metric: number for number, metric in enumerate(Metric)}
_FARTHEST = 2**62


def _in_order(key: tuple[Place, str, Metric]) -> tuple[Place, int, str]:
    place, source, metric = key
    return place, _ORDER[metric], source


def _bounds(scope: Scope, capture: int) -> tuple[int, int]:
    """The time that is selected: seconds of `--window` count from the first sample."""
    return window_of(scope, capture) or (-_FARTHEST, _FARTHEST)


def telemetry_captures(scope: Scope) -> list[int]:
    """The selected captures of telemetry."""
    return scope.of_source(TELEMETRY)


def _raw(scope: Scope) -> Iterator[Raw]:
    """Every metric of every device of the selected captures of telemetry."""
    for capture in telemetry_captures(scope):
        low, high = _bounds(scope, capture)
        rows = scope.connection.execute(
            f"""SELECT device, coalesce(instance, {_NO_NAME}) AS instance, source, metric, max(metric_unit),
                count(*), count(value), avg(value), min(value), max(value), min(t_ns), max(t_ns),
                count(t_ns)
            FROM (
                SELECT * REPLACE (CASE WHEN isfinite(value) THEN value END AS value) FROM stored.metric_samples
                WHERE capture = $capture AND device IS NOT NULL AND process IS NULL
                    AND (t_ns IS NULL OR (t_ns >= $low AND t_ns < $high))
            ) GROUP BY ALL ORDER BY ALL""",
            {"capture": capture, "low": low, "high": high},
        ).fetchall()
        yield from _named(scope, capture, rows)


def _named(scope: Scope, capture: int, rows: list[tuple[Any, ...]]) -> Iterator[Raw]:
    chosen = scope.selection
    texts = scope.texts(n for row in rows for n in row[1:5] if n is not None and n != _NO_NAME)
    for device, instance, source, metric, unit, *numbers in rows:
        if chosen.device not in (None, device):
            continue
        place = Place(capture, device, texts.get(instance, ""))
        yield Raw(
            place,
            texts.get(source, ""),
            texts.get(metric, ""),
            texts.get(unit) if unit is not None else None,
            source,
            metric,
            instance,
            *numbers,
        )


def finest(measured: Iterable[Measured]) -> Measured | None:
    """Of several sources of one metric the one with the most samples."""
    return max(measured, key=lambda m: (m.raw.values, m.raw.source), default=None)
