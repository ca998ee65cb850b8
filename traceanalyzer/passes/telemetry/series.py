"""Telemetry of each device under canonical names: what was measured, by which source, and its samples."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from traceanalyzer.passes.scope import TELEMETRY, Scope
from traceanalyzer.passes.telemetry.loading import NO_NAME, Floats, Ints, Loaded, Samples, SeriesKey, bounds
from traceanalyzer.passes.telemetry.names import UNITS, Metric, known

__all__ = ["Floats", "Ints", "Loaded", "Measured", "Place", "Raw", "Telemetry", "finest", "join", "telemetry_captures"]


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
    """One metric of one source at a place in one unit, as the store has it; process rows are none of it.

    `source_id`, `name_id`, `instance_id`, `unit_id` are its names in the store. `first_ns` and `last_ns` are None
    without times. Where a file has the metric in several units, `parts` are those that are joined, each with what its
    values are multiplied with; numbers are of the joined ones then.
    """

    place: Place
    source: str
    name: str
    unit: str | None
    source_id: int
    name_id: int
    instance_id: int
    unit_id: int
    samples: int
    values: int
    mean: float | None
    least: float | None
    most: float | None
    first_ns: int | None
    last_ns: int | None
    instants: int
    parts: "tuple[tuple[Raw, float], ...]" = ()

    @property
    def key(self) -> SeriesKey:
        """What its samples are found by."""
        place = self.place
        return (place.capture, place.device, self.instance_id, self.source_id, self.name_id, self.unit_id)

    def selector(self, **told: str) -> dict[str, object]:
        """What selects the row of a table that tells something, such as `error="xid"`, by this metric."""
        place = {"capture": self.place.capture, "device": self.place.device, "instance": self.place.instance or None}
        return {**place, **told, "source": self.source, "name": self.name}


def join(parts: Sequence[tuple[Raw, float]], unit: str | None) -> Raw:
    """One metric out of its series in several units, each with what makes `unit` of its values."""
    first = parts[0][0]
    values = sum(raw.values for raw, _ in parts)
    known_ones = [(raw, scale) for raw, scale in parts if raw.values]
    total = sum((raw.mean or 0.0) * scale * raw.values for raw, scale in known_ones)
    return replace(
        first,
        unit=unit,
        samples=sum(raw.samples for raw, _ in parts),
        values=values,
        mean=total / values if values else None,
        least=min((raw.least * scale for raw, scale in known_ones if raw.least is not None), default=None),
        most=max((raw.most * scale for raw, scale in known_ones if raw.most is not None), default=None),
        first_ns=min((raw.first_ns for raw, _ in parts if raw.first_ns is not None), default=None),
        last_ns=max((raw.last_ns for raw, _ in parts if raw.last_ns is not None), default=None),
        instants=sum(raw.instants for raw, _ in parts),
        parts=tuple(parts),
    )


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


class Telemetry:
    """Everything that telemetry captures of a scope say of devices."""

    def __init__(self, scope: Scope) -> None:
        self.raw = list(_raw(scope))
        self._samples = Samples(scope, {raw.key: raw.samples for raw in self.raw})
        self._named: dict[Place, list[list[Raw]]] = defaultdict(list)
        for (place, *_), same in groupby(self.raw, lambda raw: (raw.place, raw.source_id, raw.name_id)):
            self._named[place].append(list(same))
        self.places = sorted(self._named)
        """Places of which anything is known, in order."""
        best: dict[tuple[Place, str, Metric], tuple[tuple[bool, int, str], Measured]] = {}
        for several in self.named():
            found = _measured(several)
            if found is None:
                continue
            measured, order = found
            raw = measured.raw
            key = raw.place, raw.source, measured.metric
            fit = (not raw.values, order, raw.name)
            if key not in best or fit < best[key][0]:
                best[key] = fit, measured
        self.measured = [best[key][1] for key in sorted(best, key=_in_order)]
        self._measured_at: dict[Place, list[Measured]] = defaultdict(list)
        for each in self.measured:
            self._measured_at[each.raw.place].append(each)

    def named(self, place: Place | None = None) -> Iterator[list[Raw]]:
        """Every metric of a place, or of all, as its series: one for each unit that the file has it in."""
        for each in self.places if place is None else [place]:
            yield from self._named.get(each, ())

    def at(self, place: Place) -> list[Measured]:
        """The canonical metrics of a place, those without any value too."""
        return self._measured_at.get(place, [])

    def of(self, place: Place, *metrics: Metric) -> list[Measured]:
        """The canonical metrics of a place that are asked for and have a value, in the order asked; all sources."""
        mine = [m for m in self.at(place) if m.raw.values]
        return [m for metric in metrics for m in mine if m.metric is metric]

    def load(self, measured: Measured) -> Loaded:
        """Samples of a canonical metric, in its unit."""
        return self.load_raw(measured.raw, measured.scale)

    def load_raw(self, raw: Raw, scale: float = 1.0) -> Loaded:
        """Samples of a metric as the store has them, times `scale`."""
        parts = [self._samples.of(part.key, own * scale) for part, own in raw.parts or ((raw, 1.0),)]
        t, value = parts[0]
        if len(parts) > 1:
            t, value = (np.concatenate(several) for several in zip(*parts, strict=True))
            order = np.argsort(t, kind="stable")
            t, value = t[order], value[order]
        return Loaded(t, value, raw.instants > 0)


def _measured(several: Sequence[Raw]) -> tuple[Measured, int] | None:
    """What the series of one metric are as a canonical one, and how well it fits; those in unknown units are left."""
    found = [(raw, told) for raw in several if (told := known(raw.source, raw.name, raw.unit)) is not None]
    if not found:
        return None
    raw, told = found[0]
    if len(found) == 1:
        return Measured(raw, told.metric, told.scale), told.order
    whole = join([(raw, one.scale) for raw, one in found], UNITS[told.metric])
    return Measured(whole, told.metric, 1.0), told.order


_ORDER = {metric: number for number, metric in enumerate(Metric)}


def _in_order(key: tuple[Place, str, Metric]) -> tuple[Place, int, str]:
    place, source, metric = key
    return place, _ORDER[metric], source


def telemetry_captures(scope: Scope) -> list[int]:
    """The selected captures of telemetry."""
    return scope.of_source(TELEMETRY)


def _raw(scope: Scope) -> Iterator[Raw]:
    """Every metric of every device of the selected captures of telemetry."""
    for capture in telemetry_captures(scope):
        low, high = bounds(scope, capture)
        rows = scope.connection.execute(
            f"""SELECT device, coalesce(instance, {NO_NAME}) AS instance, source, metric,
                coalesce(metric_unit, {NO_NAME}) AS unit,
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
    texts = scope.texts(n for row in rows for n in row[1:5] if n != NO_NAME)
    for device, instance, source, metric, unit, *numbers in rows:
        if chosen.device not in (None, device):
            continue
        place = Place(capture, device, texts.get(instance, ""))
        yield Raw(
            place,
            texts.get(source, ""),
            texts.get(metric, ""),
            texts.get(unit),
            source,
            metric,
            instance,
            unit,
            *numbers,
        )


def finest(measured: Iterable[Measured]) -> Measured | None:
    """Of several sources of one metric the one with the most samples."""
    return max(measured, key=lambda m: (m.raw.values, m.raw.source), default=None)
