"""Kernels: which take the device's time, what limits them, and what is idle before them; and its copies by kind."""

from typing import Any

from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.chosen import Chosen, chosen_operations, warmup_warning
from traceanalyzer.passes.columns import CAPTURE, DEVICE, RANK
from traceanalyzer.passes.gaps import nothing_selected
from traceanalyzer.passes.limits.device_limits import (
    NO_LIMIT,
    KernelLimits,
    coverage_finding,
    limit_findings,
    limit_rows,
)
from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.limits.limit import COMMUNICATION_REASON
from traceanalyzer.passes.limits.timeline import KernelOnTimeline, TimelineKernels, together
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.short_kernels import SHORT, short_findings, short_kernels
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import CopyKind, Lane, MemoryKind, OpKind
from traceanalyzer.store.database import first_row
from traceanalyzer.units import Unit, counted, format_value

_FAMILY = Column(
    "family",
    Type.TEXT,
    "What it computes, by its name or its operator: matmul, convolution, attention, elementwise, normalization,"
    " softmax, reduction, embedding, copy, optimizer, communication or other.",
)
_CLASS = Column(
    "class", Type.TEXT, "What limits it: compute_bound, memory_bound, latency_bound or balanced; null if unknown."
)
_CLASS_SOURCE = Column(
    "class_source",
    Type.TEXT,
    "ncu: profiled launches of the same name; gpu_metrics: samples during which it ran alone; estimated: from shapes.",
)
_REASON = Column("reason", Type.TEXT, "Metric and threshold behind the class.")
KERNELS = TableSpec(
    "kernels",
    "Kernels of each device, the largest total first; the shares of a device add up to 1.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("kernel", Type.TEXT, "Name of the kernel as recorded."),
        Column("calls", Type.INT64, "How often it ran inside the selection.", Unit.COUNT),
        Column("total_ns", Type.INT64, "Sum of its durations; kernels that overlap count each.", Unit.NS),
        Column("share", Type.FLOAT64, "Share of the summed kernel time of the device, not of its span.", Unit.SHARE),
        Column("mean_ns", Type.FLOAT64, "Mean duration.", Unit.NS),
        Column("median_ns", Type.FLOAT64, "Median duration; of an even number the mean of the middle two.", Unit.NS),
        Column("min_ns", Type.INT64, "Shortest duration.", Unit.NS),
        Column("max_ns", Type.INT64, "Longest duration.", Unit.NS),
        Column("lane", Type.TEXT, "compute or communication; null where its calls are in both."),
        Column("grid", Type.TEXT, "Blocks of the grid, (x, y, z), of its most frequent geometry."),
        Column("block", Type.TEXT, "Threads of a block, (x, y, z), of its most frequent geometry."),
        Column("n_geometries", Type.INT64, "Different pairs of grid and block; 0 where not recorded.", Unit.COUNT),
        Column("stream", Type.INT64, "Stream, where all of its calls ran on one."),
        Column("n_streams", Type.INT64, "Streams that it ran on, each of its process and context.", Unit.COUNT),
        _FAMILY,
        _CLASS,
        _CLASS_SOURCE,
        _REASON,
        Column("compute_pct", Type.FLOAT64, "Use of compute that the class rests on, of its peak.", Unit.PERCENT),
        Column("memory_pct", Type.FLOAT64, "Use of memory that the class rests on, of its peak.", Unit.PERCENT),
        Column("class_share", Type.FLOAT64, "Share of its time that the class speaks of.", Unit.SHARE),
        Column("tensor_cores", Type.BOOL, "Whether it uses tensor cores; null where nothing tells."),
        Column("tensor_evidence", Type.TEXT, "What tells that: a measurement, else its name."),
        Column("step_share", Type.FLOAT64, "Share of the selected device steps that it takes.", Unit.SHARE),
        Column("gap_before_ns", Type.INT64, "Idle time of the device directly before its calls.", Unit.NS),
    ),
)
FAMILIES = TableSpec(
    "families",
    "Kernels by what they compute, the largest total first; the shares of a device add up to 1.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        _FAMILY,
        Column("kernels", Type.INT64, "Different kernels.", Unit.COUNT),
        Column("calls", Type.INT64, "How often they ran.", Unit.COUNT),
        Column("total_ns", Type.INT64, "Sum of their durations.", Unit.NS),
        Column("share", Type.FLOAT64, "Share of the summed kernel time of the device.", Unit.SHARE),
        _CLASS,
        _CLASS_SOURCE,
        _REASON,
        Column("compute_pct", Type.FLOAT64, "Mean use of compute, by their time.", Unit.PERCENT),
        Column("memory_pct", Type.FLOAT64, "Mean use of memory, by their time.", Unit.PERCENT),
        Column("tensor_share", Type.FLOAT64, "Share of their time in kernels that use tensor cores.", Unit.SHARE),
        Column("gap_before_ns", Type.INT64, "Idle time of the device directly before them.", Unit.NS),
    ),
    cut=False,
)
LIMITS = TableSpec(
    "limits",
    "The time of the kernels by what limits them; the shares of a device add up to 1.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("class", Type.TEXT, "What limits them, or communication; null where it is not known."),
        _CLASS_SOURCE,
        Column("kernels", Type.INT64, "Different kernels.", Unit.COUNT),
        Column("total_ns", Type.INT64, "Sum of their durations.", Unit.NS),
        Column("share", Type.FLOAT64, "Share of the summed kernel time of the device.", Unit.SHARE),
    ),
    cut=False,
)
OPERATIONS = TableSpec(
    "operations",
    "Copies and memory sets of each device by kind, the largest total first.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("operation", Type.TEXT, "memcpy with its direction, or memset, and the kinds of memory."),
        Column("calls", Type.INT64, "How many ran inside the selection.", Unit.COUNT),
        Column("total_ns", Type.INT64, "Sum of their durations; those that overlap count each.", Unit.NS),
        Column("bytes", Type.INT64, "Bytes moved or set by all of them; null where none tells it.", Unit.BYTES),
        Column(
            "mean_bytes_per_s",
            Type.FLOAT64,
            "Bytes over the whole durations of those that tell them; null where these took 0 ns.",
            Unit.BYTES_PER_S,
        ),
    ),
)
TABLES = (KERNELS, FAMILIES, LIMITS, SHORT, OPERATIONS)

_DIRECTIONS = {
    CopyKind.HTOD: "HtoD",
    CopyKind.DTOH: "DtoH",
    CopyKind.DTOD: "DtoD",
    CopyKind.HTOH: "HtoH",
    CopyKind.PTOP: "PtoP",
}

NAME_IN_FINDING = 100
"""Characters of a kernel's name in a sentence; some have thousands."""

_GEOMETRY = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")


def kernels(scope: Scope) -> Answer:
    """Tables `kernels`, `families`, `limits`, `short` and `operations` of the selected devices. Times in ns, exact.

    Durations are whole; with `--window` those of operations that reach beyond it are cut there, and that is said.
    With `--steps`, an operation counts for the step in which it was launched. Graphs that were recorded without their
    nodes are no kernels: a warning says how many there are. What limits a kernel is what ncu measured of launches with
    its name, else what was sampled while it ran alone, else estimated from shapes.
    """
    rows: dict[str, list[tuple[Any, ...]]] = {spec.name: [] for spec in TABLES}
    findings: list[Finding] = []
    limited = KernelLimits(scope)
    timelines: dict[tuple[int, int], TimelineKernels] = {}
    graphs = cut = 0
    for device in scope.devices:
        chosen = chosen_operations(scope, device)
        timeline = limited.kernels(device, chosen)
        kernels_of_device = _kernel_rows(scope, device, chosen, timeline)
        rows["kernels"] += kernels_of_device
        rows["families"] += _family_rows(device, timeline)
        timelines[device.capture, device.device] = timeline
        rows["limits"] += limit_rows(device, timeline)
        rows["short"] += short_kernels(scope, lambda: limited.tree, device, timeline)
        rows["operations"] += _copy_rows(scope, device, chosen)
        findings += coverage_finding(scope, device, timeline) if limited.has_profiles else []
        findings += limit_findings(scope, device, timeline)
        found = first_row(
            scope.connection.execute(
                f"SELECT count(*) FILTER (kind = {int(OpKind.GRAPH)}), count(*) FILTER (cut) FROM ({chosen.sql})",
                chosen.parameters,
            )
        )
        graphs, cut = graphs + (found or (0, 0))[0], cut + (found or (0, 0))[1]
    rows["kernels"].sort(key=lambda r: (-r[5], r[0], r[2], r[3] or ""))
    rows["families"].sort(key=lambda r: (r[0], r[2], -r[6], r[3]))
    rows["short"].sort(key=lambda r: (-r[7], -r[5], r[0], r[2], r[3] or ""))
    rows["operations"].sort(key=lambda r: (-r[5], r[0], r[2], r[3]))
    answer = Answer(
        "kernels",
        {spec.name: Frame.of_rows(spec, rows[spec.name]) for spec in TABLES},
        findings=[*_findings(scope, rows["kernels"]), *findings, *short_findings(scope, rows["short"], timelines)],
        warnings=[*scope.warnings, *warmup_warning(scope), *limited.said],
        default_table="kernels",
        notes=[f"{scope.note()}; shares are of the summed kernel time of a device"],
    )
    if graphs:
        answer.warnings.append(
            f"{counted(graphs, 'graph launch was', 'graph launches were')} recorded without nodes: the kernels inside"
            " are not listed; nsys records them with --cuda-graph-trace=node"
        )
    if any(row[9] is None for row in rows["short"]):
        answer.warnings.append("what short kernels could gain is not told of so many operations: --steps selects fewer")
    if cut:
        answer.warnings.append(
            f"{counted(cut, 'operation reaches', 'operations reach')} beyond the window and"
            f" {'counts' if cut == 1 else 'count'} with the time inside it"
        )
    if not rows["kernels"] and not rows["operations"] and not graphs:
        answer.warnings.append(nothing_selected(scope))
    return answer


def _kernel_rows(
    scope: Scope, device: DeviceOfCapture, chosen: Chosen, timeline: TimelineKernels
) -> list[tuple[Any, ...]]:
    got = scope.connection.execute(
        f"""WITH k AS (
            SELECT *, end_ns - start_ns AS ns FROM ({chosen.sql}) WHERE kind = {int(OpKind.KERNEL)}
        ), counted AS (
            SELECT name, {", ".join(_GEOMETRY)}, count(*) AS n FROM k WHERE grid_x IS NOT NULL OR block_x IS NOT NULL
            GROUP BY ALL
        ), geometry AS (
            SELECT *, count(*) OVER (PARTITION BY name) AS geometries,
                row_number() OVER (PARTITION BY name ORDER BY n DESC, {", ".join(_GEOMETRY)}) AS place
            FROM counted
        ), kernel AS (
            SELECT name, count(*) AS calls, sum(ns)::BIGINT AS total, avg(ns) AS mean, median(ns)::DOUBLE AS middle,
                min(ns) AS shortest, max(ns) AS longest, min(lane)::INTEGER AS lane, max(lane)::INTEGER AS other_lane,
                min(stream) AS stream, count(DISTINCT (process, context, stream)) AS streams
            FROM k GROUP BY name
        )
        SELECT n.text, calls, total, mean, middle, shortest, longest, k.lane, k.other_lane, k.stream, k.streams,
            coalesce(g.geometries, 0), {", ".join(f"g.{column}" for column in _GEOMETRY)}, k.name::INTEGER
        FROM kernel k LEFT JOIN stored.names n ON n.name_id = k.name
        LEFT JOIN geometry g ON g.name IS NOT DISTINCT FROM k.name AND g.place = 1""",
        chosen.parameters,
    ).fetchall()
    whole = sum(row[2] for row in got)
    rows = []
    for text, calls, total, mean, middle, shortest, longest, lane, other, stream, streams, geometries, *rest in got:
        *sizes, name = rest
        rows.append(
            (
                *(device.capture, device.rank, device.device, text, calls, total),
                total / whole if whole else None,
                *(mean, middle, shortest, longest),
                Lane.texts()[lane] if lane is not None and lane == other else None,
                *(_size(sizes[:3]), _size(sizes[3:]), geometries),
                stream if streams == 1 else None,
                streams,
                *_limit_cells(timeline.kernels.get(-1 if name is None else name)),
            )
        )
    return rows


def _limit_cells(kernel: KernelOnTimeline | None) -> tuple[Any, ...]:
    """Family, limit, tensor cores, share of steps and gap of a kernel."""
    if kernel is None:
        return (None,) * 11
    use, (tensor, evidence) = kernel.use, kernel.tensor_cores
    limit: tuple[Any, ...] = (None, None, NO_LIMIT, None, None, None)
    if kernel.is_communication:
        limit = (None, None, COMMUNICATION_REASON, None, None, None)
    elif use is not None:
        reason = f"{use.limited.reason}{f' ({use.note})' if use.note else ''}"
        covered = min(use.limit_ns / kernel.ns, 1.0) if kernel.ns else None
        known = use.limited.limit and use.limited.limit.value
        limit = (known, use.source.value, reason, use.compute_pct, use.memory_pct, covered)
    return (kernel.family.value, *limit, tensor, evidence, kernel.step_share, kernel.gap_before_ns)


def _family_rows(device: DeviceOfCapture, timeline: TimelineKernels) -> list[tuple[Any, ...]]:
    whole = timeline.whole_ns
    rows = []
    for family in Family:
        mine = [kernel for kernel in timeline.kernels.values() if kernel.family is family]
        if not mine:
            continue
        ns, use = sum(kernel.ns for kernel in mine), together(mine)
        tensor = sum(kernel.ns for kernel in mine if kernel.tensor_cores[0])
        why = COMMUNICATION_REASON if family is Family.COMMUNICATION else NO_LIMIT
        limit: tuple[Any, ...] = (None, None, why, None, None)
        if use is not None:
            known = use.limited.limit and use.limited.limit.value
            limit = (known, use.source.value, use.limited.reason, use.compute_pct, use.memory_pct)
        rows.append(
            (
                *(device.capture, device.rank, device.device, family.value, len(mine)),
                *(sum(kernel.calls for kernel in mine), ns, ns / whole if whole else None),
                *(*limit, tensor / ns if ns else None, sum(kernel.gap_before_ns for kernel in mine)),
            )
        )
    return rows


def _size(sizes: list[int | None]) -> str | None:
    return None if None in sizes else "({}, {}, {})".format(*sizes)


def _copy_rows(scope: Scope, device: DeviceOfCapture, chosen: Chosen) -> list[tuple[Any, ...]]:
    got = scope.connection.execute(
        f"""SELECT kind::INTEGER, copy_kind::INTEGER, source_memory::INTEGER, destination_memory::INTEGER, count(*),
            sum(end_ns - start_ns)::BIGINT, sum(bytes)::BIGINT,
            sum(bytes) / nullif(sum(whole_ns) FILTER (bytes IS NOT NULL), 0) * 1e9
        FROM ({chosen.sql}) WHERE kind IN ({int(OpKind.MEMCPY)}, {int(OpKind.MEMSET)}) GROUP BY ALL""",
        chosen.parameters,
    ).fetchall()
    return [
        (device.capture, device.rank, device.device, _operation(kind, way, source, destination), *numbers)
        for kind, way, source, destination, *numbers in got
    ]


def _operation(kind: int, way: int | None, source: int | None, destination: int | None) -> str:
    ends = [None if code is None else MemoryKind(code).name.lower() for code in (source, destination)]
    if kind == OpKind.MEMSET:
        return f"memset ({ends[1]})" if ends[1] else "memset"
    direction = "" if way is None else f" {_DIRECTIONS.get(CopyKind(way), 'other')}"
    memory = f" ({ends[0] or 'unknown'} -> {ends[1] or 'unknown'})" if any(ends) else ""
    return f"memcpy{direction}{memory}"


def _findings(scope: Scope, rows: list[tuple[Any, ...]]) -> list[Finding]:
    """The kernel with the largest total, where there is one."""
    if not rows or not rows[0][5]:
        return []
    capture, rank, number, kernel, calls, total, share = rows[0][:7]
    device = next(d for d in scope.devices if (d.capture, d.device) == (capture, number))
    name = str(kernel) if len(str(kernel)) <= NAME_IN_FINDING else f"{str(kernel)[:NAME_IN_FINDING]} ..."
    text = (
        f"{format_value(share, Unit.SHARE)} of the kernel time of {scope.whose(device)}: {name},"
        f" {counted(calls, 'call')}, {format_value(total, Unit.NS)}"
    )
    return [Finding("top_kernel", text, rank, total)]
