"""Info: what a store holds, what can be asked of it, and what is odd about it."""

import re
from dataclasses import dataclass

from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.columns import CAPTURE, RANK
from traceanalyzer.passes.fitness import fitness
from traceanalyzer.passes.scope import PROFILERS, TELEMETRY, Scope
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import EventKind, Lane, OpKind, SampleKind, Severity
from traceanalyzer.schema.tables import CAPTURES, DEVICES
from traceanalyzer.units import Unit, counted

_CAPTURE_COLUMNS = [
    "run",
    "capture",
    "path",
    "source",
    "tool_version",
    "format_version",
    "host",
    "rank",
    "rank_source",
    "world_size",
    "start_ns",
    "end_ns",
    "utc_offset_ns",
    "whole",
]
_DEVICE_COLUMNS = [
    "capture",
    "rank",
    "device",
    "name",
    "n_ops",
    "uuid",
    "memory_bytes",
    "multiprocessors",
    "compute_capability",
    "ambiguous",
]

CAPTURE_TABLE = TableSpec("captures", CAPTURES.meaning, tuple(CAPTURES.by_name[c] for c in _CAPTURE_COLUMNS), cut=False)
DEVICE_TABLE = TableSpec("devices", DEVICES.meaning, tuple(DEVICES.by_name[c] for c in _DEVICE_COLUMNS), cut=False)
ANSWERS = TableSpec(
    "answers",
    "Which questions a capture can answer, and why not.",
    (
        CAPTURE,
        RANK,
        Column("question", Type.TEXT, "Question."),
        Column("answerable", Type.BOOL, "Whether the capture can answer it; null: only in part."),
        Column("reason", Type.TEXT, "Why not, or what the answer rests on."),
    ),
    cut=False,
)
QUALITY_TABLE = TableSpec(
    "quality",
    "What was odd, dropped or repaired.",
    (
        CAPTURE,
        Column("code", Type.TEXT, "Stable name of the finding."),
        Column("severity", Type.TEXT, "info, warning or error."),
        Column("count", Type.INT64, "Records concerned.", Unit.COUNT),
        Column("text", Type.TEXT, "What it means."),
    ),
    cut=False,
)

_FOLDER = re.compile(r".*[/\\]", re.DOTALL)
INSTEAD_OF_OPS = ("other_device", "range_profiler")
"""Notes of readers that say why a file has no operations although a device worked."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """Counts of what a capture holds."""

    ops: int
    launched: int
    calls: int
    launches: int
    frames: int
    operators: int
    ranges: int
    python_samples: int
    native_samples: int
    steps: int
    collectives: int
    communication: int
    memory: int
    metrics: int
    graphs: int
    shapes: int
    host_communication: int
    instead_of_ops: str | None
    """What the reader said of device work that is no operation of a CUDA or HIP device."""
    profiles: int
    summaries: int
    is_ncu: bool
    is_telemetry: bool


def info(scope: Scope) -> Answer:
    """Tables `captures`, `devices`, `answers`, `fitness`, `quality` of the selected captures."""
    where = f"WHERE capture IN {scope.numbers()}"
    connection = scope.connection
    captures = connection.execute(
        f"SELECT {', '.join(_CAPTURE_COLUMNS)} FROM captures {where} ORDER BY capture"
    ).fetchall()
    devices = connection.execute(
        # Those that operations ran on come first: a file may list many more.
        f"""SELECT {", ".join(_DEVICE_COLUMNS)} FROM devices {where}
        ORDER BY n_ops > 0 DESC NULLS LAST, CASE WHEN n_ops > 0 THEN capture END, device, capture"""
    ).fetchall()
    selection = scope.selection
    devices = [
        d
        for d in devices
        if selection.device in (None, d[2]) and (selection.ranks is None or d[1] is None or d[1] in selection.ranks)
    ]
    quality = connection.execute(
        f"""SELECT capture, code, severity, count, text FROM quality {where}
        ORDER BY capture, CASE severity WHEN 'error' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, code"""
    ).fetchall()
    ranks, sources = {row[1]: row[7] for row in captures}, {row[1]: row[3] for row in captures}
    answers: list[tuple[object, ...]] = []
    for capture, facts in _facts(scope).items():
        for question, answerable, reason in _answers(facts):
            answers.append((capture, ranks[capture], question, answerable, reason))
    frames = (
        Frame.of_rows(CAPTURE_TABLE, captures),
        Frame.of_rows(DEVICE_TABLE, devices),
        Frame.of_rows(ANSWERS, answers),
        fitness(scope),
        Frame.of_rows(QUALITY_TABLE, quality),
    )
    loud = {s.name.lower() for s in (Severity.WARNING, Severity.ERROR)}
    names = {row[1]: _FOLDER.sub("", row[2]) for row in captures}
    many = len(set(names.values())) < len(names)
    warnings = [
        f"{names[row[0]]}{f' (capture {row[0]})' if many else ''}: {row[4]}"
        + (f" ({row[3]:,} times)" if row[3] > 1 else "")
        for row in quality
        if row[2] in loud
    ]
    findings = [
        Finding("cannot_answer", f"capture {row[0]} cannot tell {row[2]}: {row[4]}", None)
        for row in answers
        if row[3] is False and row[2] in ("gaps", "causes") and sources[row[0]] not in (*PROFILERS, *TELEMETRY)
    ]
    answer = Answer("info", {f.spec.name: f for f in frames}, findings, [*scope.warnings, *warnings], "captures")
    answer.notes.append(scope.note())
    return answer


_LAUNCHES = (
    f"kind = {int(EventKind.API_CALL)} AND name IN (SELECT name_id FROM stored.names"
    " WHERE regexp_matches(text, '^(cuda|cu|hip)\\w*(LaunchKernel|LaunchCooperative|GraphLaunch)', 'i'))"
)
_COUNTED = {
    "gpu_ops": {
        "ops": "true",
        "launched": "launch_event_id IS NOT NULL",
        "communication": f"lane = {int(Lane.COMMUNICATION)}",
        "graphs": f"kind = {int(OpKind.GRAPH)}",
    },
    "cpu_events": {
        "calls": f"kind = {int(EventKind.API_CALL)}",
        "launches": _LAUNCHES,
        "frames": f"kind = {int(EventKind.PYTHON_FRAME)}",
        "operators": f"kind = {int(EventKind.OPERATOR)}",
        "ranges": f"kind = {int(EventKind.RANGE)}",
        "shapes": f"kind = {int(EventKind.OPERATOR)} AND args IS NOT NULL",
        "host_communication": f"kind = {int(EventKind.HOST_COMMUNICATION)}",
    },
    "samples": {
        "python_samples": f"kind = {int(SampleKind.PYTHON)}",
        "native_samples": f"kind = {int(SampleKind.NATIVE)}",
    },
    "steps": {"steps": "true"},
    "collectives": {"collectives": "true"},
    "memory_events": {"memory": "true"},
    "metric_samples": {"metrics": "true"},
    "kernel_profiles": {"profiles": "true"},
    "kernel_summaries": {"summaries": "true"},
}
"""What is counted of a capture: by tables, the facts and which rows count for them."""


def _facts(scope: Scope) -> dict[int, _Facts]:
    """What each capture holds."""
    counts = {capture: {fact: 0 for facts in _COUNTED.values() for fact in facts} for capture in scope.captures}
    for table, facts in _COUNTED.items():
        sums = ", ".join(f"count(*) FILTER ({condition})" for condition in facts.values())
        query = f"SELECT capture, {sums} FROM stored.{table} WHERE capture IN {scope.numbers()} GROUP BY capture"
        for capture, *found in scope.connection.execute(query).fetchall():
            counts[capture].update(zip(facts, found, strict=True))
    instead = dict(
        scope.connection.execute(
            f"""SELECT capture, string_agg(text, ' ' ORDER BY text) FROM stored.quality
            WHERE capture IN {scope.numbers()} AND code IN (SELECT unnest(?::VARCHAR[])) GROUP BY capture""",
            [list(INSTEAD_OF_OPS)],
        ).fetchall()
    )
    sources = dict(scope.connection.execute("SELECT capture, source FROM stored.captures").fetchall())
    return {
        capture: _Facts(
            instead_of_ops=instead.get(capture),
            is_ncu=sources[capture] in PROFILERS,
            is_telemetry=sources[capture] in TELEMETRY,
            **found,
        )
        for capture, found in counts.items()
    }


def _answers(facts: _Facts) -> list[tuple[str, bool | None, str]]:
    """(question, answerable, reason): None where only a part can be answered."""
    answers = _answers_of_timeline(facts)
    if not facts.is_telemetry:
        return answers
    # Of what watches from outside there is one reason for all that it does not tell.
    return [a if a[1] else (a[0], False, _WATCHED.get(a[0], _NO_TIMELINE)) for a in answers]


_NO_TIMELINE = "no timeline: telemetry samples a host from outside; record one with nsys or torch.profiler"
_WATCHED = {
    "gpu_metrics": "no samples in the file",
    "kernel_limits": "no kernels: record some with ncu, and ingest ncu --import REPORT --csv --page raw",
}


def _answers_of_timeline(facts: _Facts) -> list[tuple[str, bool | None, str]]:
    if facts.ops:
        gaps: tuple[bool | None, str] = (True, counted(facts.ops, "device operation"))
    elif facts.instead_of_ops:
        gaps = (False, facts.instead_of_ops)
    elif facts.launches:
        gaps = (
            False,
            f"{counted(facts.launches, 'launch', 'launches')} but no device operation: the device's records were lost"
            " or not asked for",
        )
    elif facts.is_ncu:
        gaps = (False, "no timeline: ncu profiles kernels one by one; record one with nsys or torch.profiler")
    else:
        gaps = (False, "no device operations: the file was recorded without the device, or nothing ran on it")
    return [
        ("gaps", *gaps),
        ("causes", *_causes(facts)),
        ("python_stacks", *_python(facts)),
        (
            "steps",
            *_some(
                facts.steps,
                "step mark",
                "no ProfilerStep marks, no range named step or iteration; give --step-range",
            ),
        ),
        ("collectives", *_collectives(facts)),
        ("memory", *_some(facts.memory, "allocation or free", "recorded without profile_memory")),
        ("gpu_metrics", *_some(facts.metrics, "sample", "recorded without GPU metrics")),
        ("operator_shapes", *_some(facts.shapes, "operator with shapes", "recorded without record_shapes")),
        ("kernel_limits", *_kernel_limits(facts)),
    ]


_PLURALS = {"allocation or free": "allocations and frees", "operator with shapes": "operators with shapes"}


def _some(count: int, one: str, otherwise: str) -> tuple[bool | None, str]:
    return (True, counted(count, one, _PLURALS.get(one))) if count else (False, otherwise)


def _kernel_limits(facts: _Facts) -> tuple[bool | None, str]:
    if facts.profiles:
        return True, counted(facts.profiles, "profiled launch", "profiled launches")
    if facts.summaries:
        return None, "averages over launches only, in kernel_summaries; print --page raw for each launch"
    if facts.metrics and facts.ops:
        return None, "sampled only: of kernels that run alone for longer than a sample"
    if facts.shapes and facts.ops:
        return None, "estimated only, from the shapes of operators"
    return False, "no kernel was profiled: record some with ncu, and ingest ncu --import REPORT --csv --page raw"


def _causes(facts: _Facts) -> tuple[bool | None, str]:
    if not facts.ops:
        return False, "no gaps"
    if not facts.launched:
        return False, "no operation has a launch in the file: recorded without API calls, or they were cut off"
    share = facts.launched / facts.ops
    text = f"{100 * share:.1f} % of the operations have their launch in the file"
    return (True if share > 0.95 else None), text + (
        f"; {counted(facts.graphs, 'graph')} recorded without nodes" if facts.graphs else ""
    )


def _python(facts: _Facts) -> tuple[bool | None, str]:
    if facts.frames:
        return True, counted(facts.frames, "Python frame")
    if facts.python_samples:
        return True, counted(facts.python_samples, "sample of a Python stack", "samples of Python stacks")
    if facts.operators or facts.ranges:
        instead = f"{counted(facts.operators, 'operator')} and {counted(facts.ranges, 'range')}"
        return None, f"no Python frames; {instead} stand in for them"
    return False, "no Python frames, operators or ranges: record with_stack=True, or nsys --python-sampling=true"


def _collectives(facts: _Facts) -> tuple[bool | None, str]:
    if facts.collectives:
        return True, f"{counted(facts.collectives, 'record')} of collectives with metadata"
    if facts.communication:
        return None, f"{counted(facts.communication, 'communication kernel')}, known by name only"
    if facts.host_communication:
        return None, f"{counted(facts.host_communication, 'call')} of communication on the host, none on the device"
    return False, "no communication recorded"
