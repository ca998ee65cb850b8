"""What telemetry adds to the answer of `metrics`: tables, findings, and the readings of activity."""

import re
from dataclasses import dataclass, field

from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.limits.activity import Activity, Reading, reading_of
from traceanalyzer.passes.telemetry import tables
from traceanalyzer.passes.telemetry.alignment import alignment_findings
from traceanalyzer.passes.telemetry.contradictions import activity_of_place, contradictions
from traceanalyzer.passes.telemetry.errors import error_findings
from traceanalyzer.passes.telemetry.patterns import Pattern, aliased, find_patterns, pattern_findings, row_of
from traceanalyzer.passes.telemetry.processes import find_processes, process_findings
from traceanalyzer.passes.telemetry.series import Measured, Place, Telemetry, telemetry_captures
from traceanalyzer.passes.telemetry.throttling import throttling_findings
from traceanalyzer.passes.telemetry.traces import Traces
from traceanalyzer.passes.telemetry.watched import Watched

_WORTH_A_SENTENCE = frozenset({Reading.MEMORY_LIMITED, Reading.KERNEL_EFFICIENCY, Reading.FEW_SMS, Reading.STARVED})


@dataclass
class TelemetryAnswer:
    """Rows of the tables of `tables.TABLES` by name, what is worth a sentence, and the activity that was read."""

    rows: dict[str, list[tuple[object, ...]]] = field(default_factory=lambda: {spec.name: [] for spec in tables.TABLES})
    findings: list[Finding] = field(default_factory=list)
    readings: list[tuple[Place, Activity, Reading, str]] = field(default_factory=list)


def read_telemetry(watched: Watched) -> TelemetryAnswer:
    """Everything that the selected captures of telemetry say."""
    out = TelemetryAnswer()
    scope = watched.scope
    if not telemetry_captures(scope):
        return out
    telemetry, traces, aligned = watched.telemetry, watched.traces, watched.alignments
    patterns = _patterns(telemetry, traces)
    processes = find_processes(scope, traces)
    wanted = re.compile(scope.selection.metric or "")
    out.rows["telemetry"] = [
        _row(m) for m in telemetry.measured if wanted.search(m.metric.value) or wanted.search(m.raw.name)
    ]
    out.rows["patterns"] = [row_of(pattern) for pattern in patterns]
    out.rows["throttling"] = [seen.row() for seen in watched.reasons]
    out.rows["errors"] = [counter.row() for counter in watched.counters]
    out.rows["processes"] = [process.row() for process in processes]
    out.rows["alignment"] = [each.row() for each in aligned]
    out.readings = _readings(telemetry)
    out.findings = [
        *error_findings(watched.errors),
        *throttling_findings(watched.throttled),
        *pattern_findings(patterns, traces),
        *(
            Finding(reading.value, f"{place.words()}, over all samples: {text}")
            for place, _activity, reading, text in out.readings
            if reading in _WORTH_A_SENTENCE
        ),
        *alignment_findings(aligned),
        *contradictions(watched),
        *process_findings(processes, traces),
    ]
    return out


def _patterns(telemetry: Telemetry, traces: Traces) -> list[Pattern]:
    found = []
    for place in telemetry.places:
        step = traces.step_ns(traces.clocks[place.capture].run)
        found += [aliased(pattern, step) for pattern in find_patterns(telemetry, place)]
    return found


def _readings(telemetry: Telemetry) -> list[tuple[Place, Activity, Reading, str]]:
    """What activity means where multiprocessors and DRAM were measured: over all samples, idle ones too."""
    out = []
    for place in telemetry.places:
        found = activity_of_place(telemetry, place)
        reading = None if found is None else reading_of(found[0], idle=True)
        if found is not None and reading is not None:
            out.append((place, found[0], *reading))
    return out


def _row(measured: Measured) -> tuple[object, ...]:
    """A row of the table `telemetry`."""
    raw, scale = measured.raw, measured.scale
    numbers = (None if x is None else x * scale for x in (raw.mean, raw.least, raw.most))
    return (
        *(raw.place.capture, raw.place.device, raw.place.instance or None, measured.metric.value, measured.unit),
        *(*numbers, raw.samples, raw.samples - raw.values, measured.interval_ns, raw.source, raw.name),
    )
