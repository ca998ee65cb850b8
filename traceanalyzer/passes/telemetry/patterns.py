"""How the use of each device goes on in time: pulses with a period, steady use, one stretch of it, nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.telemetry.names import Metric
from traceanalyzer.passes.telemetry.periods import Floats, Period, find_period, levels
from traceanalyzer.passes.telemetry.series import Loaded, Measured, Place, Telemetry, finest
from traceanalyzer.passes.telemetry.traces import Traces
from traceanalyzer.units import Unit, format_value

PULSED, HIGH, LOW, STEADY, IDLE, IRREGULAR = "pulsed", "steady high", "steady low", "steady", "idle", "irregular"

ACTIVE_PCT = 5.0
"""From here on a device is in use; a single tiny kernel in a sampling window gives less."""
HIGH_PCT, SELDOM_UNDER_PCT = 80.0, 60.0
"""A device is kept busy where the median is above the one, and the tenth percentile above the other."""
LOW_PCT, SELDOM_OVER_PCT = 30.0, 40.0
"""It starves where the median is below the one, and the ninetieth percentile below the other."""
APART_PCT = 40.0
"""Levels that are farther apart than this are two, not one that wanders."""
STEADY_SPREAD_PCT = 15.0
"""Tenth and ninetieth percentile that are no farther apart belong to steady use."""
LEAST_SWING = {"%": 20.0, "W": 30.0}
"""A period counts where high and low level are farther apart than this."""
_MEDIAN_OF = 5
_LEAST_SAMPLES = 3

_LOOKED_AT = (Metric.UTILIZATION, Metric.ENGINE_ACTIVE, Metric.SM_ACTIVE)


@dataclass(frozen=True, slots=True)
class Pattern:
    """The pattern of one series of a place; levels are in the unit of its metric."""

    measured: Measured
    pattern: str
    period: Period | None
    low: float | None
    high: float | None
    active_share: float | None
    samples: int
    timed: bool
    text: str

    @property
    def place(self) -> Place:
        """What it is about."""
        return self.measured.raw.place

    @property
    def metric(self) -> Metric:
        """The metric that was looked at."""
        return self.measured.metric


def find_patterns(telemetry: Telemetry, place: Place) -> list[Pattern]:
    """Patterns of a place: of utilization, or what stands for it, and of power."""
    looked_at = next((found for m in _LOOKED_AT if (found := finest(telemetry.of(place, m)))), None)
    power = finest(telemetry.of(place, Metric.POWER))
    seen = [pattern_of(m, telemetry.load(m)) for m in (looked_at, power) if m is not None]
    return [pattern for pattern in seen if pattern is not None]


def pattern_of(measured: Measured, loaded: Loaded) -> Pattern | None:
    """The pattern of a series; None of one with too few samples."""
    known = loaded.value[~np.isnan(loaded.value)]
    count = len(known)
    if count < _LEAST_SAMPLES:
        return None
    period = find_period(loaded.t, loaded.value)
    if period is not None and period.high - period.low >= LEAST_SWING.get(measured.unit, 0.0):
        text = _pulsed(measured, period, loaded.timed)
        return Pattern(measured, PULSED, period, period.low, period.high, None, count, loaded.timed, text)
    if measured.metric is Metric.POWER:
        low, high = _quantiles(known)
        same = high - low <= LEAST_SWING["W"]
        text = f"{measured.metric} {_range(low, high, measured.unit)}, {'steady' if same else 'without a period'}"
        return Pattern(measured, STEADY if same else IRREGULAR, None, low, high, None, count, loaded.timed, text)
    return _unpulsed(measured, known, loaded.timed)


def _unpulsed(measured: Measured, known: Floats, timed: bool) -> Pattern:
    """The pattern of a share in percent that has no period: over the samples from the first use to the last."""
    first, last = _active(known)
    if last <= first:
        text = f"{measured.metric} under {ACTIVE_PCT:.0f} % all the time: not in use"
        low, high = _quantiles(known)
        return Pattern(measured, IDLE, None, low, high, 0.0, len(known), timed, text)
    inside = known[first:last]
    low, high = _quantiles(inside)
    share = len(inside) / len(known)
    what = STEADY if high - low <= STEADY_SPREAD_PCT else IRREGULAR
    median = float(np.median(inside))
    if median >= HIGH_PCT and low >= SELDOM_UNDER_PCT:
        what = HIGH
    elif median <= LOW_PCT and high <= SELDOM_OVER_PCT:
        what = LOW
    text = f"{measured.metric} {_range(low, high, '%')}"
    if share < 1:
        text += f" in the {100 * share:.0f} % of the samples from the first use to the last"
    if what == IRREGULAR:
        text += ", without a period"
        lower, upper, middle = levels(inside)
        if upper - lower >= APART_PCT:
            text += (
                f": {100 * (inside > middle).mean():.0f} % of them near {upper:.0f} %, the others near {lower:.0f} %"
            )
    return Pattern(measured, what, None, low, high, share, len(known), timed, text)


def _active(value: Floats) -> tuple[int, int]:
    """First sample of use and the one behind the last; single samples and short blips are none."""
    reach = _MEDIAN_OF // 2
    if len(value) < _MEDIAN_OF:
        used = np.flatnonzero(value >= ACTIVE_PCT)
    else:
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(value, reach, mode="edge"), _MEDIAN_OF)
        # The median of five is as high where three of them are.
        used = np.flatnonzero((windows >= ACTIVE_PCT).sum(axis=1) > reach)
    return (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 0)


def _quantiles(value: Floats) -> tuple[float, float]:
    low, high = np.quantile(value, (0.1, 0.9))
    return float(low), float(high)


def _range(low: float, high: float, unit: str) -> str:
    ends = f"{low:.0f}", f"{high:.0f}"
    return f"about {ends[0]} {unit}" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]} {unit}"


def _pulsed(measured: Measured, period: Period, timed: bool) -> str:
    every = format_value(round(period.period), Unit.NS) if timed else f"{period.period:.1f} rounds of readings"
    text = (
        f"{measured.metric} swings with a period of {every}: {100 * period.duty:.0f} % of the time near"
        f" {period.high:.0f} {measured.unit}, else near {period.low:.0f} {measured.unit}"
        f" ({period.count:.1f} periods seen, correlation {period.correlation:.2f})"
    )
    if period.coarse:
        text += "; with so few samples a period it may be the alias of a faster swing"
    return text


def aliased(pattern: Pattern, step_ns: int | None) -> Pattern:
    """The pattern with a word of warning where samples lie farther apart than half a step of the run's trace."""
    interval = pattern.measured.interval_ns
    if pattern.pattern != PULSED or step_ns is None or interval is None or 2 * interval <= step_ns:
        return pattern
    text = (
        f"{pattern.text}; a sample every {format_value(interval, Unit.NS)} cannot follow steps of"
        f" {format_value(step_ns, Unit.NS)}: the period may be that of the sampling against the steps"
    )
    return replace(pattern, text=text)


def row_of(pattern: Pattern) -> tuple[object, ...]:
    """Its row of the table `patterns`."""
    place, period = pattern.place, pattern.period
    return (
        *(place.capture, place.device, place.instance or None, pattern.metric.value, pattern.pattern),
        round(period.period) if period is not None and pattern.timed else None,
        *((period.period / period.step, period.count, period.correlation, period.duty) if period else (None,) * 4),
        *(pattern.low, pattern.high, pattern.active_share, pattern.samples, pattern.measured.raw.source, pattern.text),
    )


def pattern_findings(patterns: Sequence[Pattern], traces: Traces) -> list[Finding]:
    """What is worth a sentence: pulses; all devices low; one device low while others are high.

    Of several captures of one device in a run the one with the most samples speaks.
    """
    best: dict[tuple[str, int, str], Pattern] = {}
    for found in patterns:
        key = traces.clocks[found.place.capture].run, found.place.device, found.place.instance
        other = best.get(key)
        if other is None or _worth(found) > _worth(other):
            best[key] = found
    findings = []
    for run in sorted({key[0] for key in best}):
        mine = [found for key, found in sorted(best.items()) if key[0] == run]
        findings += [
            Finding("pulsed_utilization", f"{found.place.words()}: {found.text}")
            for found in mine
            if found.pattern == PULSED
        ]
        findings += _across([found for found in mine if not found.place.instance and found.metric is not Metric.POWER])
    return findings


def _worth(pattern: Pattern) -> tuple[bool, int]:
    return pattern.metric is not Metric.POWER, pattern.samples


def _across(use: Sequence[Pattern]) -> list[Finding]:
    """How the devices of one capture compare."""
    low = [p for p in use if p.pattern == LOW]
    high = [p for p in use if p.pattern == HIGH]
    if low and high:
        text = (
            f"{_devices(low)} low ({_levels(low)} while in use), {_devices(high)} high ({_levels(high)}):"
            " the low one waits for something that is its own"
        )
        return [Finding("one_device_low" if len(low) == 1 else "some_devices_low", text)]
    if low:
        text = (
            f"{_devices(low)} low while in use ({_levels(low)}): most of the time no kernel runs, so it waits for the"
            " host or for data"
        )
        return [Finding("all_devices_low" if len(low) > 1 else "device_low", text)]
    if high:
        text = (
            f"{_devices(high)} high ({_levels(high)}): a kernel runs nearly all the time, which says nothing of how"
            " much of the GPU it uses"
        )
        return [Finding("utilization_high", text)]
    return []


def _devices(patterns: Sequence[Pattern]) -> str:
    numbers = ", ".join(str(p.place.device) for p in patterns)
    return f"device {numbers} stays" if len(patterns) == 1 else f"devices {numbers} stay"


def _levels(patterns: Sequence[Pattern]) -> str:
    lows, highs = [p.low or 0.0 for p in patterns], [p.high or 0.0 for p in patterns]
    return f"{patterns[0].metric} {_range(min(lows), max(highs), '%')}"
