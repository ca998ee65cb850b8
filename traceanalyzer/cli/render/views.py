"""What people see of each answer: which tables, which columns, and what to do next. Programs get everything."""

from dataclasses import dataclass, field, replace

from traceanalyzer.cli.render.telemetry_views import TELEMETRY_COLUMNS, TELEMETRY_TABLES
from traceanalyzer.passes.answer import Answer, Frame
from traceanalyzer.schema.column import Column


@dataclass(frozen=True, slots=True)
class View:
    """The view of one command.

    `shown` are the tables on a terminal, in order; none: all of them. `columns` picks the columns of a table; a table
    that is not named there, and a name that a table lacks, is no error. `beneath` names the column of a table that gets
    a line of its own beneath each row. `spare` names columns of a table that are left out, the first one first, where a
    row would not fit the terminal. `nulls` says what null means in a column where it means something, and `marks`
    names columns that are shown only where a value is not zero or false. `hints` are commands worth running next.
    `heat` names a table of ranks and steps, and its column that is drawn as a heat map. `hidden` names columns that
    are left out of tables which are shown whole, unless they tell rows apart. `unless_empty` names tables that are
    shown only where they have rows, or no table has any. `is_card` says that what is behind each row of the first table
    is told beneath it.
    """

    shown: tuple[str, ...] = ()
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    beneath: dict[str, str] = field(default_factory=dict)
    spare: dict[str, tuple[str, ...]] = field(default_factory=dict)
    nulls: dict[str, str] = field(default_factory=dict)
    marks: frozenset[str] = frozenset()
    hints: tuple[tuple[str, str], ...] = ()
    heat: tuple[str, str] | None = None
    hidden: frozenset[str] = frozenset()
    unless_empty: frozenset[str] = frozenset()
    is_card: bool = False


SENTENCES = frozenset({"reason", "text", "note", "title", "question", "capture_command", "value"})
"""Columns of sentences and lists, which wrap where they do not fit; other text is names, which are shortened."""

WHEN_SEVERAL = frozenset({"run", "capture", "process", "other_process", "group"})
"""Columns that are shown only where they tell rows apart."""

_TELLING = ("run", "rank", "device")
"""Columns that people know a device by; where these tell the rows apart, the number of the capture is noise."""

_OPERATOR_COLUMNS = (
    "device_self_ns",
    "device_share",
    "device_total_ns",
    "host_self_ns",
    "host_share",
    "host_total_ns",
    "calls",
    "host_mean_ns",
    "n_ops",
)

VIEWS = {
    "checkup": View(
        shown=("verdicts", "next", "environment"),
        columns={"verdicts": ("order", "verdict", "cost_ns", "share", "confidence", "title")},
        unless_empty=frozenset({"next", "environment"}),
        is_card=True,
        hints=(
            ("traceanalyzer gaps", "why the GPUs were idle, down to the line of Python"),
            (
                "traceanalyzer checkup --table charges",
                "what each verdict is charged with: the ledger of the steps, cut",
            ),
        ),
    ),
    "ingest": View(
        columns={
            "files": (
                "status",
                "source",
                "rank",
                "n_ops",
                "n_events",
                "n_launches",
                "n_samples",
                "seconds",
                "path",
                "note",
            )
        },
        hints=(
            ("traceanalyzer info", "what was captured, and which questions it can answer"),
            ("traceanalyzer gaps", "why the GPUs were idle"),
        ),
    ),
    "info": View(
        shown=("captures", "devices", "answers", "fitness", "quality"),
        columns={
            "captures": ("run", "capture", "source", "tool_version", "rank", "world_size", "host", "path"),
            "devices": ("run", "capture", "rank", "device", "name", "n_ops"),
            "answers": ("run", "capture", "question", "answerable", "reason"),
            "fitness": ("capture", "check", "state", "text", "spoils"),
            "quality": ("run", "capture", "severity", "code", "count", "text"),
        },
        spare={"captures": ("tool_version", "host")},
        nulls={"answerable": "in part"},
        hints=(("traceanalyzer gaps", "why the GPUs were idle"),),
    ),
    "gaps": View(
        shown=("devices", "causes", "by", "blames", "stacks"),
        columns={
            "devices": (
                "run",
                "capture",
                "rank",
                "device",
                "span_ns",
                "busy_ns",
                "idle_ns",
                "idle_share",
                "compute_ns",
                "communication_ns",
                "copy_ns",
                "n_ops",
                "n_gaps",
            ),
            "causes": ("capture", "rank", "device", "cause", "reason", "idle_ns", "share", "gain_ns", "n_pieces"),
            "by": ("capture", "rank", "device", "key", "idle_ns", "share", "n_pieces"),
            "blames": (
                "blame",
                "cause",
                "gain_ns",
                "idle_ns",
                "share",
                "n_steps",
                "n_pieces",
                "capture",
                "rank",
                "device",
            ),
            "stacks": (
                "blame",
                "cause",
                "idle_ns",
                "share",
                "n_pieces",
                "capture",
                "rank",
                "device",
                "reason",
                "stack",
            ),
            "threads": (
                "capture",
                "rank",
                "device",
                "process",
                "thread",
                "name",
                "idle_ns",
                "share",
                "running_share",
                "runnable_share",
                "blocked_share",
            ),
            "lock": ("blame", "idle_ns", "share", "capture", "rank", "device", "process", "thread", "name"),
            "gaps": (
                "duration_ns",
                "cause",
                "capture",
                "rank",
                "device",
                "step",
                "gap",
                "start_ns",
                "previous_op",
                "next_op",
                "stack",
            ),
        },
        beneath={"stacks": "stack", "gaps": "stack"},
        hints=(
            ("traceanalyzer gaps --format tree", "the stacks as a tree; folded is for flame-graph tools"),
            ("traceanalyzer gaps --table gaps", "the longest gaps one by one"),
            ("traceanalyzer gaps --lane compute", "when no compute kernel ran, also under copies and communication"),
            ("traceanalyzer steps", "which steps lose the time"),
        ),
    ),
    "summary": View(
        columns={
            "summary": ("run", "capture", "rank", "device", "part", "per_step_ns", "share", "ns", "categories"),
        },
        spare={"summary": ("ns",)},
        hints=(
            ("traceanalyzer gaps", "why the GPUs were idle, down to the line of Python"),
            ("traceanalyzer ledger", "the categories that the parts are made of"),
            ("traceanalyzer steps", "which steps take longer, and what pauses recur"),
            ("traceanalyzer kernels", "what the compute is, and what limits it"),
        ),
    ),
    "ledger": View(
        shown=("totals",),
        columns={
            "ledger": ("capture", "rank", "device", "step", "category", "ns", "share"),
            "totals": ("run", "capture", "rank", "device", "category", "ns", "share"),
        },
        hints=(
            ("traceanalyzer ledger --table ledger", "the same for each step"),
            ("traceanalyzer gaps", "the stacks behind the idle categories"),
        ),
    ),
    "steps": View(
        shown=("steps", "pauses"),
        columns={
            "pauses": (
                "capture",
                "rank",
                "device",
                "kind",
                "period_steps",
                "n_pauses",
                "excess_ns",
                "cost_ns",
                "cause",
                "blame",
                "steps",
            ),
            "steps": (
                "capture",
                "rank",
                "device",
                "step",
                "warmup",
                "incomplete",
                "outlier",
                "duration_ns",
                "device_duration_ns",
                "busy_ns",
                "idle_ns",
                "compute_ns",
                "communication_ns",
                "exposed_communication_ns",
            ),
        },
        marks=frozenset({"warmup", "incomplete", "outlier"}),
        spare={"steps": ("communication_ns", "compute_ns"), "pauses": ("cause", "n_pauses")},
        unless_empty=frozenset({"steps", "pauses"}),
        nulls={"period_steps": "irregular"},
        hints=(("traceanalyzer gaps --steps A-B", "why the GPUs were idle in some of them"),),
    ),
    "ranges": View(
        columns={
            "ranges": ("capture", "rank", "range", "calls", "host_ns", "busy_ns", "idle_ns", "n_ops"),
        },
        hints=(("traceanalyzer gaps --under RANGE", "why the GPUs were idle inside of one"),),
    ),
    "ops": View(
        shown=("ops",),
        columns={
            "ops": ("capture", "rank", *_OPERATOR_COLUMNS, "op"),
            "by_shape": ("capture", "rank", *_OPERATOR_COLUMNS, "op", "shapes"),
            "by_module": ("capture", "rank", *_OPERATOR_COLUMNS, "module"),
        },
        beneath={"by_shape": "shapes"},
        spare=dict.fromkeys(("ops", "by_shape", "by_module"), ("host_mean_ns", "n_ops", "host_share")),
        hints=(
            ("traceanalyzer ops --by shape", "the same by shapes of inputs"),
            ("traceanalyzer ops --by module", "modules (nn.Module) in their place"),
            ("traceanalyzer kernels", "the kernels behind the device time"),
        ),
    ),
    "memory": View(
        shown=("memory", "growth", "growing", "peak"),
        columns={
            "memory": (
                "capture",
                "rank",
                "device",
                "peak_allocated_bytes",
                "peak_reserved_bytes",
                "fragmentation_bytes",
                "card_bytes",
                "card_share",
                "growth_bytes_per_step",
                "n_growing",
                "n_steps",
                "steps_to_full",
            ),
            "growth": ("capture", "rank", "device", "step", "warmup", "bytes", "change_bytes"),
            "growing": (
                "capture",
                "rank",
                "device",
                "bytes_per_step",
                "n_steps",
                "n_allocations",
                "op",
                "blame",
                "next_call",
                "stack",
            ),
            "peak": ("capture", "rank", "device", "bytes", "share", "n_allocations", "part", "op", "blame", "stack"),
        },
        beneath={"peak": "stack", "growing": "stack"},
        nulls={"stack": "(no stack)"},
        marks=frozenset({"warmup"}),
        unless_empty=frozenset({"growth", "growing"}),
        hints=(
            ("traceanalyzer memory --table curve", "memory over time"),
            ("traceanalyzer memory --table peak --top 0", "everything that holds memory at the peak"),
        ),
    ),
    "collectives": View(
        shown=("collectives", "clocks", "bandwidth"),
        columns={
            "collectives": (
                "run",
                "kind",
                "bytes",
                "duration_ns",
                "wait_ns",
                "transfer_ns",
                "exposed_ns",
                "rank",
                "last_rank",
                "step",
                "ordinal",
                "group",
            ),
        },
        hidden=frozenset({"run", "group"}),
        spare={"collectives": ("ordinal", "bytes", "step", "exposed_ns")},
        nulls={"wait_ns": "unresolved"},
        hints=(
            ("traceanalyzer imbalance", "which rank is late, and why"),
            ("traceanalyzer collectives --table bandwidth", "how fast each kind and size is"),
            ("traceanalyzer ledger", "waiting and transfer beside everything else"),
        ),
    ),
    "imbalance": View(
        shown=("ranks", "stragglers", "efficiency"),
        columns={
            "stragglers": (
                "run",
                "rank",
                "kind",
                "excess_ns",
                "late_steps",
                "period",
                "others_wait_ns",
                "reason",
                "stack",
            ),
        },
        beneath={"stragglers": "stack"},
        hidden=frozenset({"run"}),
        heat=("excess", "excess_ns"),
        hints=(
            ("traceanalyzer collectives", "the waits one by one"),
            ("traceanalyzer gaps --by rank", "idle time of each rank"),
        ),
    ),
    "kernels": View(
        shown=("families", "kernels", "operations"),
        columns={
            "families": (
                "capture",
                "rank",
                "device",
                "family",
                "total_ns",
                "share",
                "calls",
                "class",
                "tensor_share",
                "gap_before_ns",
                "reason",
            ),
            "kernels": (
                "capture",
                "rank",
                "device",
                "total_ns",
                "share",
                "calls",
                "mean_ns",
                "min_ns",
                "max_ns",
                "gap_before_ns",
                "family",
                "class",
                "class_source",
                "tensor_cores",
                "kernel",
            ),
            "short": (
                "capture",
                "rank",
                "device",
                "calls",
                "total_ns",
                "mean_ns",
                "gap_before_ns",
                "mean_gap_ns",
                "graph_gain_ns",
                "fusion_gain_ns",
                "kernel",
            ),
            "operations": ("capture", "rank", "device", "operation", "calls", "total_ns", "bytes", "mean_bytes_per_s"),
        },
        beneath={"kernels": "kernel", "short": "kernel"},
        spare={"kernels": ("min_ns", "max_ns", "mean_ns", "family"), "families": ("calls",)},
        hints=(
            ("traceanalyzer kernels --table short", "kernels under 10 us, and what graphs or fusion could gain"),
            ("traceanalyzer throughput", "what limits them, operator by operator or launch by launch"),
            ("traceanalyzer launches", "whether the host keeps up with them"),
            ("traceanalyzer streams", "which of them run at the same time"),
        ),
    ),
    "streams": View(
        columns={
            "streams": ("capture", "rank", "device", "process", "stream", "n_ops", "busy_ns", "share"),
            "overlap": (
                "capture",
                "rank",
                "device",
                "process",
                "stream",
                "other_process",
                "other_stream",
                "overlap_ns",
                "share",
            ),
            "concurrency": ("capture", "rank", "device", "operations", "ns", "share"),
        },
        hints=(("traceanalyzer kernels", "what runs on them"),),
    ),
    "launches": View(
        shown=("launches", "queues"),
        columns={
            "launches": (
                "capture",
                "rank",
                "device",
                "kind",
                "since",
                "count",
                "negative",
                "p5_ns",
                "p50_ns",
                "p95_ns",
                "max_ns",
            ),
            "queues": (
                "capture",
                "rank",
                "device",
                "process",
                "n_launches",
                "p5_depth",
                "p50_depth",
                "p95_depth",
                "max_depth",
                "mean_depth",
                "empty_ns",
                "empty_share",
                "unknown_ns",
            ),
            "depth": ("capture", "rank", "device", "process", "depth", "ns", "share", "n_launches"),
        },
        nulls={"depth": "unknown"},
        marks=frozenset({"unknown_ns"}),
        hints=(
            ("traceanalyzer launches --table depth", "time and launches by queue depth"),
            ("traceanalyzer gaps", "what the host did while nothing was queued"),
        ),
    ),
    "metrics": View(
        shown=("readings", *TELEMETRY_TABLES, "rollup"),
        unless_empty=frozenset(TELEMETRY_TABLES),
        marks=frozenset({"missing"}),
        columns=TELEMETRY_COLUMNS
        | {
            "readings": ("capture", "rank", "device", "over", "reading", "text"),
            "rollup": (
                "capture",
                "rank",
                "device",
                "instance",
                "metric",
                "unit",
                "busy_mean",
                "gaps_mean",
                "mean",
            ),
        },
        hints=(
            ("traceanalyzer metrics --table by_step", "the same for each step; by_range for each range"),
            ("traceanalyzer metrics --format csv --top 0", "every sample"),
            ("traceanalyzer kernels", "what limits each kernel"),
        ),
    ),
    "throughput": View(
        shown=("rollup", "kernels", "operators", "utilization"),
        columns={
            "operators": (
                "capture",
                "rank",
                "device",
                "total_ns",
                "share",
                "calls",
                "class",
                "tflops",
                "gbs",
                "compute_share",
                "memory_share",
                "dtype",
                "op",
                "shapes",
            ),
            "utilization": ("capture", "rank", "device", "steps", "step_ns", "tflops", "mfu", "precisions"),
            "kernels": (
                "capture",
                "id",
                "duration_ns",
                "class",
                "compute_pct",
                "memory_pct",
                "dram_pct",
                "tensor_pct",
                "occupancy_pct",
                "roof_share",
                "reason",
                "kernel",
            ),
            "rollup": (
                "launches",
                "total_ns",
                "share",
                "class",
                "compute_pct",
                "memory_pct",
                "dram_pct",
                "kernel",
            ),
        },
        spare={"kernels": ("tensor_pct", "roof_share", "occupancy_pct"), "operators": ("dtype", "gbs")},
        beneath={"kernels": "kernel", "operators": "shapes"},
        unless_empty=frozenset({"rollup", "kernels", "operators", "utilization"}),
        hints=(
            ("traceanalyzer throughput --table peaks", "what the devices can do at most, and where that is known from"),
            ("traceanalyzer kernels", "the same beside every kernel of the timeline, and the gaps before it"),
        ),
    ),
    "scaling": View(
        columns={
            "scaling": ("ranks", "run", "throughput", "efficiency", "lost_share", "step_ns"),
            "lost": ("ranks", "category", "lost_ns"),
        },
        hints=(
            ("traceanalyzer steps --run all", "the steps that the runs are compared by"),
            ("traceanalyzer gaps --run all", "why the GPUs were idle in each of them"),
        ),
    ),
}


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
_OF_SOURCES = (({"ncu"}, OF_PROFILES), ({"nvidia_smi", "dcgm", "nccl_tests", "training_log"}, OF_TELEMETRY))


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
