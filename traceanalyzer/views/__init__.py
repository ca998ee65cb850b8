"""What people see of each answer: which tables, which columns, and what to do next. Programs get everything."""

from dataclasses import replace

from traceanalyzer.passes.answer import Answer, Frame
from traceanalyzer.schema.column import Column
from traceanalyzer.views import gpu, ranks, start, time
from traceanalyzer.views.telemetry import TELEMETRY_COLUMNS, TELEMETRY_TABLES
from traceanalyzer.views.view import View

SENTENCES = frozenset({"reason", "text", "note", "title", "question", "capture_command", "value"})
"""Columns of sentences and lists, which wrap where they do not fit; other text is names, which are shortened."""

WHEN_SEVERAL = frozenset({"run", "capture", "process", "other_process", "group"})
"""Columns that are shown only where they tell rows apart."""

_TELLING = ("run", "rank", "device")
"""Columns that people know a device by; where these tell the rows apart, the number of the capture is noise."""

VIEWS: dict[str, View] = start.VIEWS | time.VIEWS | gpu.VIEWS | ranks.VIEWS
"""Views of all commands; one that is missing here shows its tables whole."""

_LIMITS = ("traceanalyzer throughput", "what limits the profiled kernels")
OF_PROFILES = {
    "ingest": replace(
        VIEWS["ingest"],
        columns={"files": ("status", "source", "rank", "n_launches", "seconds", "path", "note")},
        hints=(_LIMITS, VIEWS["ingest"].hints[0]),
    ),
    "info": replace(VIEWS["info"], hints=(_LIMITS,)),
}
"""The same where every file is of a profiler of single kernels: there is no timeline to ask about."""
_SAMPLED = ("traceanalyzer metrics", "what was sampled")
OF_TELEMETRY = {
    "ingest": replace(
        VIEWS["ingest"],
        columns={"files": ("status", "source", "n_samples", "seconds", "path", "note")},
        hints=(_SAMPLED, VIEWS["ingest"].hints[0]),
    ),
    "info": replace(VIEWS["info"], hints=(_SAMPLED,)),
    "metrics": View(
        shown=(*TELEMETRY_TABLES, "rollup"),
        columns=TELEMETRY_COLUMNS
        | {"rollup": ("capture", "device", "instance", "process", "metric", "unit", "mean", "min", "max", "n_samples")},
        marks=frozenset({"missing"}),
        unless_empty=frozenset(TELEMETRY_TABLES),
        hints=(
            ("traceanalyzer metrics --table rollup", "every metric as its source names it"),
            ("traceanalyzer metrics --format csv --top 0", "every sample"),
        ),
    ),
}
"""The same where every file is telemetry."""
_OF_SOURCES = (({"ncu"}, OF_PROFILES), ({"nvidia_smi", "dcgm", "nccl_tests", "training_log", "nccl_log"}, OF_TELEMETRY))


def view_of(answer: Answer) -> View:
    """The view of an answer; one without choices of its own where the command has none."""
    if answer.command in ("ingest", "info"):
        sources = answer.table().columns.get("source")
        for which, views in _OF_SOURCES:
            if sources and which.issuperset(sources):
                return views[answer.command]
    if answer.command == "metrics" and "rollup" in answer.tables:
        rollup = answer.tables["rollup"]
        if len(rollup) and not any(busy is not None for busy in rollup.columns["busy_ns"]):
            view = OF_TELEMETRY["metrics"]
            return replace(view, shown=TELEMETRY_TABLES) if len(answer.tables.get("telemetry", ())) else view
    if answer.command == "checkup" and not len(answer.tables.get("charges", ())):
        return replace(VIEWS["checkup"], hints=())
    if answer.command == "throughput" and not len(answer.tables.get("operators", ())):
        return replace(VIEWS["throughput"], hints=VIEWS["throughput"].hints[:1])
    if answer.command == "ops":
        by = answer.default_table.replace("_", " ")
        hints = tuple(hint for hint in VIEWS["ops"].hints if not hint[0].endswith(by))
        return replace(VIEWS["ops"], shown=(answer.default_table,), hints=hints)
    return VIEWS.get(answer.command, View())


def frames_shown(answer: Answer, table: str | None) -> list[Frame]:
    """Tables to print on a terminal: `table` alone, else those of the view. Raises `UsageError` for an unknown one."""
    if table is not None:
        return [answer.table(table)]
    view = view_of(answer)
    names = [name for name in view.shown if name in answer.tables]
    frames = [answer.tables[name] for name in names or answer.tables]
    with_rows = [frame for frame in frames if len(frame) or frame.spec.name not in view.unless_empty]
    return with_rows or frames


def columns_shown(answer: Answer, frame: Frame, rows: Frame) -> list[Column]:
    """Columns of a table that people see: those of the view, but for those without a value or without a difference.

    `rows` are the rows of `frame` that they see: it is there that a column has to have a value.
    """
    by_name = {column.name: column for column in frame.spec.columns}
    view = view_of(answer)
    chosen = view.columns.get(frame.spec.name)
    if chosen is None:
        return [c for c in frame.spec.columns if c.name not in view.hidden or _worth(c.name, frame, rows, view.marks)]
    return [by_name[name] for name in chosen if name in by_name and _worth(name, frame, rows, view.marks)]


def _worth(name: str, frame: Frame, rows: Frame, marks: frozenset[str]) -> bool:
    values = frame.columns[name]
    if name in marks:
        return any(values)
    if name not in WHEN_SEVERAL:
        return not values or any(value is not None for value in rows.columns[name])
    if name == "capture" and {"rank", "device"} <= set(frame.columns):
        telling = [frame.columns[column] for column in _TELLING if column in frame.columns]
        return len(set(zip(values, *telling, strict=True))) > len(set(zip(*telling, strict=True)))
    return len(set(values)) > 1
