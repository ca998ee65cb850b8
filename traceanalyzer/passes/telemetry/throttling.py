"""Throttling: which reasons for lower clocks were seen while a device was busy, and for what share of that time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.telemetry.names import Metric
from traceanalyzer.passes.telemetry.reasons import LOW_CLOCK, REASONS, Form, Telling, decode, telling
from traceanalyzer.passes.telemetry.series import Floats, Loaded, Measured, Place, Raw, Telemetry, finest, join
from traceanalyzer.units import Unit, format_value

BUSY_PCT = 50.0
"""Utilization from which on a sample counts as busy."""
LEAST_SHARE = 0.01
"""A reason that holds for less than this share of the busy samples is no finding."""
LOW_CLOCK_SHARE = 0.9
"""Clocks under this share of the highest one while busy are low; few cards keep the highest one under load."""
_LEAST_BUSY = 3
"""Busy samples that are needed where no more than the idle bit tells that they are busy, or for low clocks."""
MOST_OF_TIME = 1.05
"""A counter of time that grows by more than this times the time that passed counts in another unit."""
_MOST_BITS = 1 << 53


@dataclass(frozen=True, slots=True)
class Throttled:
    """A device that ran slower than it could, for a reason that costs speed.

    `busy_share` is the share of its busy samples in which the reason held, None where nothing tells which are busy;
    `share` that of all samples, of a counter that of the time, None where the file tells no time.
    `row` selects the row of table `throttling` of the answer of `metrics` that shows it.
    """

    capture: int
    device: int
    instance: str | None
    reason: str
    busy_share: float | None
    share: float | None
    clock_mhz: float | None
    max_clock_mhz: float | None
    text: str
    table: str
    row: dict[str, object]


@dataclass(frozen=True, slots=True)
class Seen:
    """One reason of one source at a place: a row of the table."""

    raw: Raw
    reason: str
    busy_share: float | None
    share: float | None
    busy_samples: int | None
    samples: int
    throttled_ns: int | None
    clock: float | None
    highest: float | None
    of_time: bool = False
    sure: bool = True

    @property
    def harmful(self) -> bool | None:
        """Whether the reason costs speed; None where none is stated."""
        if self.reason == LOW_CLOCK:
            return None
        return self.reason not in REASONS or REASONS[self.reason].harmful

    @property
    def text(self) -> str:
        """The row as a sentence."""
        by_busy = self.busy_share is not None and self.reason != "gpu_idle"
        share = self.busy_share if by_busy else self.share
        words = [self._clock() if self.reason == LOW_CLOCK else _meaning(self.reason)]
        if self.throttled_ns is not None:
            time = format_value(self.throttled_ns, Unit.NS)
            words.append(f"for {time} since the driver was loaded" if self.samples < 2 else f"for {time} in this file")
            if share is not None and share > 1:
                words.append("which is more than the time that passed: its unit is not the one that the file states")
        elif share is not None:
            what = f"{'busy ' if by_busy else ''}{'time' if self.of_time else 'samples'}"
            words.append(f"{'for' if self.of_time else 'in'} {100 * share:.0f} % of the {what}")
        if self.reason != LOW_CLOCK and self.clock is not None and self.highest is not None:
            words.append(f"clock {self.clock:.0f} of {self.highest:.0f} MHz meanwhile")
        return ", ".join(words)

    def _clock(self) -> str:
        return f"the median clock while busy is {self.clock:.0f} of {self.highest:.0f} MHz, and no reason is stated"

    def row(self) -> tuple[object, ...]:
        """Its row of the table `throttling`."""
        place = self.raw.place
        return (
            *(place.capture, place.device, place.instance or None, self.reason, self.harmful),
            *(self.busy_share, self.share, self.busy_samples, self.samples, self.throttled_ns),
            *(self.clock, self.highest, self.raw.source, self.raw.name, self.text),
        )


def _meaning(reason: str) -> str:
    return REASONS[reason].meaning if reason in REASONS else f"a reason that has no name here ({reason})"


def throttled(reasons: Sequence[Seen]) -> list[Throttled]:
    """Devices that were throttled for a reason that costs speed, most first; low clocks alone are no such reason.

    A reason is told once a device of a capture: by the source that tells of the busy samples, else the one that saw
    most.
    """
    found: dict[tuple[Place, str], Throttled] = {}
    for seen in reasons:
        share = seen.busy_share if seen.busy_share is not None else seen.share
        if not seen.harmful or not seen.sure or (LEAST_SHARE if share is None else share) < LEAST_SHARE:
            continue
        place = seen.raw.place
        slow = Throttled(
            capture=place.capture,
            device=place.device,
            instance=place.instance or None,
            reason=seen.reason,
            busy_share=seen.busy_share,
            share=seen.share,
            clock_mhz=seen.clock,
            max_clock_mhz=seen.highest,
            text=seen.text,
            table="throttling",
            row=seen.raw.selector(reason=seen.reason),
        )
        key = place, seen.reason
        if key not in found or _sureness(slow) > _sureness(found[key]):
            found[key] = slow
    return sorted(found.values(), key=lambda t: (-_sureness(t)[1], t.capture, t.device, t.instance or "", t.reason))


def _sureness(slow: Throttled) -> tuple[bool, float]:
    """Whether the busy samples tell, and how much of them, else of the time."""
    of_busy = slow.busy_share is not None
    return of_busy, (slow.busy_share if of_busy else slow.share) or 0.0


def throttling_findings(found: list[Throttled]) -> list[Finding]:
    """A sentence for each device and reason; of several captures the one that saw most."""
    told: set[tuple[int, str | None, str]] = set()
    findings = []
    for each in found:
        key = each.device, each.instance, each.reason
        if key not in told:
            told.add(key)
            where = Place(each.capture, each.device, each.instance or "").words()
            findings.append(Finding("clock_throttled", f"{where}: {each.reason}: {each.text}"))
    return findings


def find_reasons(telemetry: Telemetry) -> list[Seen]:
    """Every reason that was seen, place by place: the rows of the table `throttling`."""
    found = []
    for place in telemetry.places:
        telling_ones = [each for several in telemetry.named(place) for each in _told(several)]
        masked = {raw.source for raw, told in telling_ones if told.form is Form.MASK}
        context = _Context(telemetry, place)
        stated = False
        for raw, told in telling_ones:
            if told.form is Form.FLAG and raw.source in masked:
                continue  # the mask says the same
            for seen in _of_metric(telemetry, context, raw, told):
                stated |= bool(seen.harmful) or seen.reason == "applications_clocks_setting"
                found.append(seen)
        if not stated and (low := context.low_clock()) is not None:
            found.append(low)
    return found


def _told(several: Sequence[Raw]) -> Iterator[tuple[Raw, Telling]]:
    """What the series of one metric tell of reasons: those in other units too, as one counter in nanoseconds."""
    ways: dict[tuple[str, Form], list[tuple[Raw, Telling]]] = {}
    for raw in several:
        told = telling(raw.source, raw.name, raw.unit)
        if raw.values and told is not None:
            ways.setdefault((told.reason, told.form), []).append((raw, told))
    for (reason, form), found in ways.items():
        if len(found) == 1:
            yield found[0]
        else:
            unit = "ns" if form is Form.COUNTER else found[0][0].unit
            yield join([(raw, told.scale) for raw, told in found], unit), Telling(reason, form)


class _Context:
    """When a place was busy, and at which clocks."""

    def __init__(self, telemetry: Telemetry, place: Place) -> None:
        self._telemetry = telemetry
        self._utilization = telemetry.of(place, Metric.UTILIZATION, Metric.ENGINE_ACTIVE, Metric.SM_ACTIVE)
        self._clocks = telemetry.of(place, Metric.SM_CLOCK)
        stated = finest(telemetry.of(place, Metric.SM_CLOCK_MAX))
        seen = [m.raw.most * m.scale for m in self._clocks if m.raw.most is not None]
        self._stated = None if stated is None or stated.raw.most is None else stated.raw.most * stated.scale
        self.highest = self._stated or max(seen, default=None)

    def busy(self, source: str, loaded: Loaded) -> NDArray[np.bool_] | None:
        """Of each sample of a source whether the device was busy then; None where its source does not tell."""
        mine = next((m for m in self._utilization if m.raw.source == source), None)
        if mine is None:
            return None
        use = self._at(mine, loaded)
        return None if use is None else use >= BUSY_PCT

    def clock(self, source: str, loaded: Loaded, chosen: NDArray[np.bool_]) -> float | None:
        """Median clock of the chosen samples of a source; None where it is not known."""
        mine = next((m for m in self._clocks if m.raw.source == source), None)
        clocks = None if mine is None else self._at(mine, loaded)
        if clocks is None or not (chosen & ~np.isnan(clocks)).any():
            return None
        return float(np.nanmedian(clocks[chosen]))

    def _at(self, measured: Measured, loaded: Loaded) -> Floats | None:
        """Another metric of the same source at the instants of some samples: the latest value until then."""
        other = self._telemetry.load(measured)
        if other.timed != loaded.timed or not len(other.t):
            return None
        nearest = np.searchsorted(other.t, loaded.t, side="right") - 1
        return other.value[np.maximum(nearest, 0)]

    def low_clock(self) -> "Seen | None":
        """Clocks that are low while busy, where the highest one is stated in the file and a source tells both."""
        for measured in self._clocks if self._stated else ():
            loaded = self._telemetry.load(measured)
            busy = self.busy(measured.raw.source, loaded)
            if busy is None or busy.sum() < _LEAST_BUSY or self._stated is None:
                continue
            clock = float(np.nanmedian(loaded.value[busy]))
            if clock < LOW_CLOCK_SHARE * self._stated:
                low = busy & (loaded.value < LOW_CLOCK_SHARE * self._stated)
                counts = int(busy.sum()), len(loaded.t)
                share = float(low.sum()) / counts[0], float(low.sum()) / counts[1]
                return Seen(measured.raw, LOW_CLOCK, *share, *counts, None, clock, self._stated)
        return None


def _of_metric(telemetry: Telemetry, context: _Context, raw: Raw, told: Telling) -> Iterator[Seen]:
    loaded = telemetry.load_raw(raw)
    known = ~np.isnan(loaded.value)
    loaded = Loaded(loaded.t[known], loaded.value[known], loaded.timed)
    if told.form is Form.COUNTER:
        seen = _of_counter(raw, told, loaded)
        if seen is not None:
            yield seen
        return
    busy = context.busy(raw.source, loaded)
    by_use = busy is not None
    values = loaded.value
    if told.form is Form.MASK:
        masks = np.where((values >= 0) & (values < _MOST_BITS), values, 0).astype(np.int64)
        if busy is None:
            busy = (masks & REASONS["gpu_idle"].bit) == 0
        bits = int(np.bitwise_or.reduce(masks)) if len(masks) else 0
        parts = [(name, (masks & _bit(name)) != 0) for name in decode(bits)]
    else:
        parts = [(told.reason, values > 0)] if (values > 0).any() else []
    for reason, holds in parts:
        amount = values / 100 if told.form is Form.SHARE else holds.astype(np.float64)
        n_busy = None if busy is None else int(busy.sum())
        busy_share = float(amount[busy].mean()) if busy is not None and n_busy else None
        chosen = holds if busy is None or not (holds & busy).any() else holds & busy
        clock = context.clock(raw.source, loaded, chosen)
        yield Seen(
            *(raw, reason, busy_share, float(amount.mean()), n_busy, len(values), None),
            *(clock, context.highest if clock is not None else None),
            of_time=told.form is Form.SHARE,
            sure=by_use or int(holds.sum()) >= _LEAST_BUSY,
        )


def _bit(name: str) -> int:
    return REASONS[name].bit if name in REASONS else int(name, 16)


def _of_counter(raw: Raw, told: Telling, loaded: Loaded) -> Seen | None:
    """The growth of a counter of throttled time; of one reading what it stands at."""
    values = loaded.value
    if not len(values) or not values.any():
        return None
    if len(values) < 2:
        total = round(float(values[0]) * told.scale)
        return Seen(raw, told.reason, None, None, None, 1, total, None, None, sure=False)
    steps = np.diff(values)
    growth = float(steps[steps > 0].sum()) * told.scale  # a driver that is loaded anew counts from 0 again
    elapsed = int(loaded.t[-1] - loaded.t[0]) if loaded.timed else 0
    share = growth / elapsed if elapsed else None
    if growth <= 0:
        return None
    if share is not None and 1 < share <= MOST_OF_TIME:
        share = 1.0  # readings of the counter and of the clock are not of the same instant
    sure = share is None or share <= 1
    return Seen(raw, told.reason, None, share, None, len(values), round(growth), None, None, sure=sure)
