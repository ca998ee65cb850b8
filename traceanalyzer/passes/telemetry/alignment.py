"""Telemetry beside the trace of the same run: one clock for both, and whether they tell one story."""

from dataclasses import dataclass

import numpy as np

from traceanalyzer.numeric.intervals import measure_before, union
from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.operations import Ints, load_operations
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.telemetry.names import Metric
from traceanalyzer.passes.telemetry.series import Floats, Loaded, Place, Telemetry, finest
from traceanalyzer.passes.telemetry.traces import CaptureClock, Match, Traces
from traceanalyzer.units import Unit, counted, format_value

AGREE, DISAGREE, UNKNOWN = "agree", "disagree", "could not look"

QUARTER_HOUR_NS = 15 * 60 * 10**9
"""Zones lie whole quarter hours from UTC, from 12 hours behind to 14 before."""
_EARLIEST, _LATEST = -14 * 4, 12 * 4
_DAY_NS = 96 * QUARTER_HOUR_NS
LEAST_OVERLAP = 0.5
"""An offset is possible where this share of the trace, or of the telemetry, lies in the time of the other."""
TELLING_CORRELATION = 0.7
"""Of several possible offsets one is taken where utilization follows the trace so well, and under no other nearly."""
CLEARLY_BETTER = 0.3
TOLERANCE_PCT = 10.0
"""Utilization and the trace's busy share agree within this many points, and twice the error of the mean."""
LEAST_SAMPLES = 3
SAMPLING_WINDOW_NS = 10**9
"""The longest window that utilization is a mean of: samples so soon after the start mix it with what was before."""
_WINDOWS_NS = (SAMPLING_WINDOW_NS // 6, SAMPLING_WINDOW_NS)
"""Shortest and longest window, by product (nvidia-smi's manual)."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """One device of telemetry beside the same device of a trace: a row of the table `alignment`."""

    place: Place
    match: Match
    state: str
    offset_ns: int | None
    overlap_ns: int
    utilization_pct: float | None
    busy_pct: float | None
    samples: int
    text: str

    def row(self) -> tuple[object, ...]:
        """Its row."""
        device = self.match.device
        return (
            *(self.place.capture, self.place.device, device.capture, device.device, self.match.matched_by, self.state),
            *(self.offset_ns, self.overlap_ns, self.utilization_pct, self.busy_pct, self.samples, self.text),
        )


@dataclass(frozen=True, slots=True)
class _Busy:
    """When a device of a trace was busy, in Unix time."""

    start: Ints
    end: Ints

    @property
    def span(self) -> tuple[int, int]:
        """First start and last end."""
        return (int(self.start[0]), int(self.end[-1])) if len(self.start) else (0, 0)

    def share(self, low: Ints, high: Ints) -> Floats:
        """The busy share of some intervals."""
        inside = measure_before(self.start, self.end, high) - measure_before(self.start, self.end, low)
        return np.asarray(inside / np.maximum(high - low, 1), np.float64)


def align(scope: Scope, telemetry: Telemetry, traces: Traces) -> list[Alignment]:
    """Each device of telemetry that has times and utilization beside each trace of it."""
    found = []
    for place in telemetry.places:
        if place.instance:
            continue
        measured = finest(telemetry.of(place, Metric.UTILIZATION, Metric.ENGINE_ACTIVE))
        matches = traces.devices(place)
        if measured is None or not matches:
            continue
        loaded = telemetry.load(measured)
        for match in matches:
            clock = traces.clocks[match.device.capture]
            found.append(_beside(place, match, loaded, _busy(scope, match, clock), traces.clocks[place.capture], clock))
    return found


def _busy(scope: Scope, match: Match, clock: CaptureClock) -> _Busy:
    ops = load_operations(scope, match.device, launched=False)
    start, end = union(ops.start, ops.end)
    shift = clock.utc_offset_ns or 0
    return _Busy(start + shift, end + shift)


def _beside(
    place: Place, match: Match, loaded: Loaded, busy: _Busy, own: CaptureClock, trace: CaptureClock
) -> Alignment:
    """One device beside one trace of it."""

    def unknown(why: str) -> Alignment:
        return Alignment(place, match, UNKNOWN, None, 0, None, None, 0, why)

    if not loaded.timed:
        return unknown("the telemetry states no times (nvidia-smi dmon and pmon: -o DT)")
    if trace.utc_offset_ns is None:
        return unknown("the trace does not tell the time of day")
    if busy.span[1] <= busy.span[0]:
        return unknown("the trace has no operation in what is selected")
    offset, how = _offset(loaded, busy, own)
    if offset is None:
        return unknown(how)
    return _compared(place, match, loaded, busy, offset, how)


def _offset(loaded: Loaded, busy: _Busy, own: CaptureClock) -> tuple[int | None, str]:
    """What makes Unix time of the telemetry's times, and how that is known; None with the reason."""
    first, last = int(loaded.t[0]), int(loaded.t[-1])
    if own.utc_offset_ns is not None:
        candidates = [own.utc_offset_ns]
        how = "the telemetry states Unix time"
    elif own.dateless:
        midnight = busy.span[0] // _DAY_NS * _DAY_NS
        candidates = [midnight + k * QUARTER_HOUR_NS for k in range(-96, 2 * 96)]
        how = "of the offsets that are whole quarter hours only this one puts it beside the trace"
    else:
        candidates = [k * QUARTER_HOUR_NS for k in range(_EARLIEST, _LATEST + 1)]
        how = "of the offsets that are whole quarter hours only this one puts it beside the trace"
    shortest = min(busy.span[1] - busy.span[0], last - first)
    possible = [c for c in candidates if _overlap(first + c, last + c, *busy.span) >= max(LEAST_OVERLAP * shortest, 1)]
    if not possible:
        return None, "under no offset of whole quarter hours does the telemetry cover the trace: not the same time"
    if len(possible) == 1:
        return possible[0], how
    scores = sorted(((_follows(loaded, busy, c), -abs(c), c) for c in possible), reverse=True)
    if scores[0][0] >= TELLING_CORRELATION and scores[0][0] - scores[1][0] >= CLEARLY_BETTER:
        return scores[0][2], f"of {len(possible)} possible offsets utilization follows the trace under this one only"
    return None, (
        f"the telemetry states no zone, and under {len(possible)} offsets of whole quarter hours it covers the trace:"
        " which one holds is not known"
    )


def _overlap(first: int, last: int, low: int, high: int) -> int:
    return min(last, high) - max(first, low)


def _follows(loaded: Loaded, busy: _Busy, offset: int) -> float:
    """How well utilization follows the trace under an offset: their correlation, sample by sample."""
    low, high = busy.span
    t = loaded.t + offset
    best = 0.0
    for window in _WINDOWS_NS:
        inside = (t - window >= low) & (t <= high) & ~np.isnan(loaded.value)
        if inside.sum() >= LEAST_SAMPLES:
            share, use = busy.share(t[inside] - window, t[inside]), loaded.value[inside]
            spread = float(share.std() * use.std())
            if spread > 0:
                best = max(best, float(((share - share.mean()) * (use - use.mean())).mean()) / spread)
    return best


def _compared(place: Place, match: Match, loaded: Loaded, busy: _Busy, offset: int, how: str) -> Alignment:
    low, high = busy.span
    window = min(SAMPLING_WINDOW_NS, (high - low) // 4)
    t = loaded.t + offset
    inside = (t >= low + window) & (t <= high) & ~np.isnan(loaded.value)
    count = int(inside.sum())
    overlap = max(_overlap(int(t[0]), int(t[-1]), low, high), 0)
    if count < LEAST_SAMPLES:
        text = f"{counted(count, 'sample')} of utilization while the trace runs: too few to compare"
        return Alignment(place, match, UNKNOWN, offset, overlap, None, None, count, text)
    values = loaded.value[inside]
    use = float(values.mean())
    begun, ended = np.array([int(t[inside][0]) - window]), np.array([int(t[inside][-1])])
    share = 100 * float(busy.share(begun, ended)[0])
    error = float(values.std()) / np.sqrt(count)
    agree = abs(use - share) <= TOLERANCE_PCT + 2 * error
    text = (
        f"utilization {use:.0f} % ({counted(count, 'sample')}), the trace is busy for {share:.0f} % of that time"
        f" (offset {_hours(offset)}: {how}; matched by {match.matched_by})"
    )
    return Alignment(place, match, AGREE if agree else DISAGREE, offset, overlap, use, share, count, text)


def _hours(offset: int) -> str:
    if offset % QUARTER_HOUR_NS or abs(offset) >= _DAY_NS:
        return format_value(offset, Unit.NS)
    minutes = offset // (60 * 10**9)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60}:{abs(minutes) % 60:02d} h"


def alignment_findings(found: list[Alignment]) -> list[Finding]:
    """Whether telemetry and trace tell one story, a sentence a device of a trace; what could not be looked at too."""
    findings = []
    for each in _best(found):
        device, rank = each.match.device, each.match.device.rank
        where = f"device {device.device}" if rank is None else f"rank {rank}, device {device.device}"
        if each.state == AGREE:
            text = f"{where}: telemetry and trace tell one story: {each.text}"
            findings.append(Finding("telemetry_agrees", text, rank))
        elif each.state == DISAGREE:
            text = f"{where}: telemetry and trace disagree: {each.text}"
            findings.append(Finding("telemetry_disagrees", text, rank))
        else:
            text = f"{where}: telemetry could not be held against the trace: {each.text}"
            findings.append(Finding("telemetry_not_aligned", text, rank))
    return findings


def _best(found: list[Alignment]) -> list[Alignment]:
    """Of several telemetry captures of one device of a trace the one that could be looked at, with the most samples."""
    best: dict[tuple[int, int], Alignment] = {}
    for each in found:
        key = each.match.device.capture, each.match.device.device
        if key not in best or (each.state != UNKNOWN, each.samples) > (best[key].state != UNKNOWN, best[key].samples):
            best[key] = each
    return [best[key] for key in sorted(best)]
