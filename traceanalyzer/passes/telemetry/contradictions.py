"""Where sources contradict each other, or speak of something else than it seems: shown, never averaged."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.limits.activity import Activity
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.telemetry.alignment import DISAGREE, Alignment
from traceanalyzer.passes.telemetry.names import Metric
from traceanalyzer.passes.telemetry.series import Measured, Place, Telemetry, finest
from traceanalyzer.passes.telemetry.traces import Traces
from traceanalyzer.passes.telemetry.watched import Watched
from traceanalyzer.units import Unit, format_value

HIGH_UTILIZATION_PCT = 80.0
LOW_ACTIVITY_PCT = 30.0
"""Utilization above the one with activity below the other says that kernels run and leave most of the GPU unused."""
MIG_POWER_W = 150.0
"""More power than an idle card draws."""
_SAMPLE_A_STEP = 2
_RESOLUTION = {
    Metric.UTILIZATION: 10.0,
    Metric.MEMORY_ACTIVITY: 10.0,
    Metric.POWER: 30.0,
    Metric.SM_CLOCK: 100.0,
    Metric.MEMORY_CLOCK: 100.0,
    Metric.TEMPERATURE: 4.0,
    Metric.MEMORY_TEMPERATURE: 4.0,
    Metric.MEMORY_USED: 1024.0,
}
"""Means of two sources over the same time that are farther apart than this, in the unit of the metric, disagree."""
_LEAST_SAMPLES = 5
_LEAST_COMMON = 0.5


def contradictions(watched: Watched) -> list[Finding]:
    """What contradicts what: codes `utilization_without_activity`, `hidden_pulses`, `whole_card`, `sources_disagree`,
    `coarse_sampling`."""
    telemetry, traces = watched.telemetry, watched.traces
    return [
        *_unused(telemetry),
        *_hidden(watched.alignments),
        *_whole_card(watched.scope, telemetry),
        *_disagreeing(telemetry, traces),
        *coarse_sampling(telemetry, traces),
    ]


def activity_of_place(telemetry: Telemetry, place: Place) -> tuple[Activity, Measured] | None:
    """Mean activity of multiprocessors, tensor pipe and DRAM of a place, and the metric of the first."""
    means: dict[Metric, float | None] = {}
    first: Measured | None = None
    for metric in (Metric.SM_ACTIVE, Metric.TENSOR_ACTIVE, Metric.DRAM_ACTIVE):
        measured = finest(telemetry.of(place, metric))
        means[metric] = None if measured is None or measured.raw.mean is None else measured.raw.mean * measured.scale
        first = first or measured
    if first is None:
        return None
    return Activity(means[Metric.SM_ACTIVE], None, means[Metric.TENSOR_ACTIVE], means[Metric.DRAM_ACTIVE]), first


def _unused(telemetry: Telemetry) -> Iterator[Finding]:
    """High utilization while multiprocessors, or memory, do little."""
    for place in telemetry.places:
        use, found = finest(telemetry.of(place, Metric.UTILIZATION)), activity_of_place(telemetry, place)
        if use is None or found is None or use.raw.mean is None or use.raw.mean * use.scale < HIGH_UTILIZATION_PCT:
            continue
        activity = found[0]
        sm, dram = activity.sm_active_pct, activity.dram_pct
        if sm is not None and sm < LOW_ACTIVITY_PCT:
            what = f"only {sm:.0f} % of the multiprocessors have a warp on them"
        elif sm is None and dram is not None and dram < LOW_ACTIVITY_PCT:
            what = f"device memory is active for {dram:.0f} % of the time only"
        else:
            continue
        text = (
            f"{place.words()}: utilization is {use.raw.mean * use.scale:.0f} %, yet {what}: utilization counts the time"
            " with any kernel, however small"
        )
        yield Finding("utilization_without_activity", text)


def _hidden(aligned: Sequence[Alignment]) -> Iterator[Finding]:
    """Utilization that is much higher than the trace's busy share: pulses shorter than its sampling window."""
    for each in aligned:
        if each.state != DISAGREE or each.utilization_pct is None or each.busy_pct is None:
            continue
        if each.utilization_pct > each.busy_pct:
            rank = each.match.device.rank
            text = (
                f"{each.place.words()}: utilization is {each.utilization_pct:.0f} %, and the trace is busy for"
                f" {each.busy_pct:.0f} % of the same time: its sampling hides gaps of milliseconds, or another process"
                " uses the card"
            )
            yield Finding("hidden_pulses", text, rank)


def _whole_card(scope: Scope, telemetry: Telemetry) -> Iterator[Finding]:
    """Telemetry of a card that is cut into MIG instances: what it says is of the card, not of the instance."""
    stated = _mig_captures(scope)
    in_parts = {p.capture for p in telemetry.places if p.instance.startswith(("MIG", "GPU-I"))}
    for place in telemetry.places:
        if place.instance:
            continue
        use = [m for m in telemetry.at(place) if m.metric is Metric.UTILIZATION]
        power = finest(telemetry.of(place, Metric.POWER))
        drawn = None if power is None or power.raw.most is None else power.raw.most * power.scale
        parts = place.capture in in_parts
        silent = bool(use) and not any(m.raw.values for m in use)
        if not (place.capture in stated or parts or (silent and drawn is not None and drawn >= MIG_POWER_W)):
            continue
        is_mig = place.capture in stated or parts
        words = "the card is cut into MIG instances" if is_mig else "it has no utilization, as cards with MIG do"
        seen = "" if drawn is None else f": power (up to {drawn:.0f} W), clocks and memory are those of the whole card"
        yield Finding("whole_card", f"{place.words()}: {words}{seen or ': its numbers are those of the whole card'}")


def _mig_captures(scope: Scope) -> set[int]:
    """Captures whose file states that MIG is on."""
    rows = scope.connection.execute(
        f"""SELECT capture FROM stored.captures WHERE capture IN {scope.numbers()}
            AND 'enabled' IN (lower(json_extract_string(metadata, '$.mig_mode')),
                lower(json_extract_string(metadata, '$.environment.mig_mode')))"""
    ).fetchall()
    return {int(capture) for (capture,) in rows}


def _disagreeing(telemetry: Telemetry, traces: Traces) -> Iterator[Finding]:
    """Two sources with different means of one metric over the same time."""
    groups: dict[tuple[str, int, str, Metric], list[Measured]] = {}
    for measured in telemetry.measured:
        raw = measured.raw
        clock = traces.clocks[raw.place.capture]
        if measured.metric in _RESOLUTION and raw.values >= _LEAST_SAMPLES and raw.instants and not clock.dateless:
            groups.setdefault((clock.run, raw.place.device, raw.place.instance, measured.metric), []).append(measured)
    for (_run, _device, _instance, metric), several in groups.items():
        several.sort(key=lambda m: (-m.raw.values, m.raw.place, m.raw.source))
        for other in several[1:]:
            means = _common_means(telemetry, several[0], other, traces)
            if means is not None and abs(means[0] - means[1]) > _RESOLUTION[metric]:
                names = [f"{m.raw.source} ({m.raw.name}, capture {m.raw.place.capture})" for m in (several[0], other)]
                text = (
                    f"{other.raw.place.words()}: {metric} is {means[0]:.0f} {other.unit} by {names[0]} and"
                    f" {means[1]:.0f} {other.unit} by {names[1]} over the same time"
                )
                yield Finding("sources_disagree", text)
                break


def _common_means(telemetry: Telemetry, first: Measured, other: Measured, traces: Traces) -> tuple[float, float] | None:
    """Means over the time that both cover; None where that is too little of the shorter, or their clocks differ."""
    clocks = [traces.clocks[m.raw.place.capture] for m in (first, other)]
    if (clocks[0].utc_offset_ns is None) != (clocks[1].utc_offset_ns is None):
        return None
    shifts = [clock.utc_offset_ns or 0 for clock in clocks]
    spans = [((m.raw.first_ns or 0) + s, (m.raw.last_ns or 0) + s) for m, s in zip((first, other), shifts, strict=True)]
    low, high = max(span[0] for span in spans), min(span[1] for span in spans)
    if high - low < _LEAST_COMMON * min(span[1] - span[0] for span in spans) or high <= low:
        return None
    values = [
        telemetry.load(m).within(low - shift, high - shift) for m, shift in zip((first, other), shifts, strict=True)
    ]
    if min(map(len, values)) < _LEAST_SAMPLES:
        return None
    return float(np.mean(values[0])), float(np.mean(values[1]))


def coarse_sampling(telemetry: Telemetry, traces: Traces) -> list[Finding]:
    """Telemetry that is sampled too seldom to see the steps of the run's trace: it could not look."""
    seldom: Mapping[str, int] = _intervals(telemetry, traces)
    findings = []
    for run, interval in seldom.items():
        step = traces.step_ns(run)
        if step is not None and _SAMPLE_A_STEP * interval > step:
            text = (
                f"a sample every {format_value(interval, Unit.NS)}, a step takes {format_value(step, Unit.NS)} on the"
                " host: telemetry could not look into steps; what goes on inside one is in the trace only"
            )
            findings.append(Finding("coarse_sampling", text))
    return findings


def _intervals(telemetry: Telemetry, traces: Traces) -> dict[str, int]:
    """The shortest sampling interval of utilization of each run."""
    out: dict[str, int] = {}
    for measured in telemetry.measured:
        interval = measured.interval_ns
        if measured.metric in (Metric.UTILIZATION, Metric.SM_ACTIVE, Metric.ENGINE_ACTIVE) and interval is not None:
            run = traces.clocks[measured.raw.place.capture].run
            out[run] = min(interval, out.get(run, interval))
    return out
