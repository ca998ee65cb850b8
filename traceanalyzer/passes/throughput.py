"""Throughput: what kernels reach of their device and what limits them: as ncu measured, and estimated from shapes."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.chosen import chosen_operations
from traceanalyzer.passes.columns import CAPTURE, DEVICE, RANK
from traceanalyzer.passes.gaps import no_timeline
from traceanalyzer.passes.kernel_averages import averaged_kernels
from traceanalyzer.passes.limits.device_limits import KernelLimits, coverage_finding, limit_findings
from traceanalyzer.passes.limits.limit import Limit
from traceanalyzer.passes.limits.peaks import PEAKS
from traceanalyzer.passes.limits.profiled import ProfiledLaunch
from traceanalyzer.passes.limits.utilization import (
    operator_coverage,
    operator_rows,
    utilization_findings,
    utilization_row,
)
from traceanalyzer.passes.scope import PROFILERS, Scope
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kernel_tables import KERNEL_PROFILES
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.units import Unit, counted

_PROFILE = KERNEL_PROFILES.by_name
_KERNEL = Column("kernel", Type.TEXT, "Name of the kernel, as the file has it.")
_CLASS = Column(
    "class", Type.TEXT, "What limits it: compute_bound, memory_bound, latency_bound or balanced; null if unknown."
)

KERNELS = TableSpec(
    "kernels",
    "Profiled launches, longest first; durations under the profiler are not those of a timeline.",
    (
        CAPTURE,
        Column("id", Type.INT64, "ncu's own ID of the launch."),
        _KERNEL,
        Column("grid", Type.TEXT, "Blocks of the grid, such as (256, 1, 1); null where the file does not tell."),
        Column("block", Type.TEXT, "Threads of a block, such as (256, 1, 1); null where the file does not tell."),
        _PROFILE["duration_ns"],
        _PROFILE["compute_pct"],
        _PROFILE["memory_pct"],
        _PROFILE["dram_pct"],
        _PROFILE["occupancy_pct"],
        Column(
            "sol_class",
            Type.TEXT,
            "NVIDIA's SpeedOfLight rule: high_throughput, small_grid, latency_issue, high_compute, high_memory or"
            " balanced; null where the file lacks what the rule needs.",
        ),
        _CLASS,
        Column("reason", Type.TEXT, "Metric and threshold behind the class; without a class, why there is none."),
        Column("sol_source", Type.TEXT, "nvidia: the rule's result stands in the file; rule: it was worked out here."),
        Column("launch", Type.INT64, "Number of the launch in its capture: `kernel_profiles.launch`."),
        RANK,
        Column("process", Type.INT64, "Process: its pid."),
        Column("device", Type.INT32, "Device of the capture."),
        Column("stream", Type.INT64, "Stream, as the source numbers it."),
        _PROFILE["l1_pct"],
        _PROFILE["l2_pct"],
        _PROFILE["tensor_pct"],
        _PROFILE["theoretical_occupancy_pct"],
        _PROFILE["waves_per_multiprocessor"],
        _PROFILE["registers_per_thread"],
        _PROFILE["static_shared_bytes"],
        _PROFILE["dynamic_shared_bytes"],
        Column("dram_bytes", Type.INT64, "Bytes of DRAM: as counted, else their rate over the duration.", Unit.BYTES),
        _PROFILE["flop"],
        Column("tensor_flop", Type.FLOAT64, "Operations of the tensor cores, where the file counts them."),
        Column(
            "flop_per_s",
            Type.FLOAT64,
            "Operations a second: those of the tensor cores where they did any, else `flop`.",
        ),
        Column("intensity", Type.FLOAT64, "These operations a byte of DRAM."),
        Column(
            "ridge",
            Type.FLOAT64,
            "Intensity from which on arithmetic is the lower roof, by the peaks that ncu states for the launch.",
        ),
        Column("roof_flop_per_s", Type.FLOAT64, "The lower of both roofs at this intensity."),
        Column("roof_share", Type.FLOAT64, "Share of that roof that the launch reaches.", Unit.SHARE),
        Column("nvtx_ranges", Type.TEXT, "NVTX ranges around the launch, outermost first."),
        Column("context", Type.INT64, "Context, as the source numbers it."),
        Column("compute_capability", Type.TEXT, "Compute capability of the device, such as 9.0."),
        _PROFILE["l1_hit_pct"],
        _PROFILE["l2_hit_pct"],
        _PROFILE["dram_bytes_per_s"],
        Column("nvidia_verdict", Type.TEXT, "Result of NVIDIA's rule SOLBottleneck, as the file words it."),
    ),
)
KERNELS_BY_NAME = {column.name: column for column in KERNELS.columns}
MEANS = (
    *("compute_pct", "memory_pct", "dram_pct", "l1_pct", "l2_pct", "tensor_pct"),
    *("occupancy_pct", "theoretical_occupancy_pct", "waves_per_multiprocessor", "registers_per_thread"),
    *("flop_per_s", "intensity", "roof_share"),
)
"""Columns of launches that the roll-up has means of."""


def _mean_of(name: str) -> Column:
    own = KERNELS_BY_NAME[name]
    return Column(name, Type.FLOAT64, f"Mean over its launches, by their time: {own.meaning}", own.unit)


ROLLUP = TableSpec(
    "rollup",
    "Kernels by the time of their profiled launches; the shares add up to 1.",
    (
        _KERNEL,
        Column("launches", Type.INT64, "Profiled launches.", Unit.COUNT),
        Column("total_ns", Type.INT64, "Time of the launches; null where the file has no durations.", Unit.NS),
        _CLASS,
        Column("share", Type.FLOAT64, "Share of the time of all profiled launches.", Unit.SHARE),
        Column("sol_class", Type.TEXT, "NVIDIA's class in which the kernel spends most time."),
        Column(
            "averaged",
            Type.BOOL,
            "Whether there are averages over launches only, as summaries have them: the time is the average duration x"
            " invocations.",
        ),
        Column("reason", Type.TEXT, "Metric and threshold behind the class, of its longest launch in that class."),
        *(_mean_of(name) for name in MEANS),
    ),
    cut=False,
)


OPERATORS = TableSpec(
    "operators",
    "Estimated: operators with the same arguments, the most kernel time first, and what they reach of the device.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("op", Type.TEXT, "Operator that launched the kernels: the innermost one."),
        Column("shapes", Type.TEXT, "Shapes of its inputs."),
        Column("dtype", Type.TEXT, "Precision: of matrices, else of the input."),
        Column("family", Type.TEXT, "What it computes; null where the operator is not known."),
        Column("calls", Type.INT64, "Calls that launched kernels.", Unit.COUNT),
        Column("kernels", Type.INT64, "Kernels that they launched.", Unit.COUNT),
        Column(
            "total_ns",
            Type.INT64,
            "Sum of their durations, whole also where a window cuts them.",
            Unit.NS,
        ),
        Column("share", Type.FLOAT64, "Share of the summed kernel time of the device.", Unit.SHARE),
        Column("flop", Type.FLOAT64, "Operations of one call: a multiply-add is two. Estimated."),
        Column("bytes", Type.INT64, "Bytes of one call: each operand once, compulsory traffic. Estimated.", Unit.BYTES),
        Column("tflops", Type.FLOAT64, "Operations a second over the time of the kernels, in 1e12."),
        Column("gbs", Type.FLOAT64, "Bytes a second over that time.", Unit.GB_PER_S),
        Column("intensity", Type.FLOAT64, "Operations a byte."),
        Column("ridge", Type.FLOAT64, "Intensity from which on arithmetic is the lower roof."),
        Column("compute_share", Type.FLOAT64, "Share of the peak of arithmetic in its precision.", Unit.SHARE),
        Column("memory_share", Type.FLOAT64, "Share of the peak of the device's memory.", Unit.SHARE),
        Column("class", Type.TEXT, "What limits it, estimated; null where shapes cannot tell."),
        Column("reason", Type.TEXT, "What it reaches of both peaks, and the thresholds."),
        Column("peak", Type.TEXT, "Precision that the peak of arithmetic is of."),
        Column("note", Type.TEXT, "What the estimate assumes."),
    ),
)
UTILIZATION = TableSpec(
    "utilization",
    "Estimated: operations of matrix products, convolutions and attention a device step, against the peak (MFU).",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("steps", Type.INT64, "Device steps that count: warm-up and incomplete ones left out.", Unit.COUNT),
        Column("step_ns", Type.FLOAT64, "Mean length of these device steps.", Unit.NS),
        Column("flop_per_step", Type.FLOAT64, "Operations launched in them, in the mean of a step. Estimated."),
        Column("tflops", Type.FLOAT64, "Operations a second over the step, in 1e12."),
        Column("mfu", Type.FLOAT64, "Share of the peaks: each operation by the peak of its precision.", Unit.SHARE),
        Column("precisions", Type.TEXT, "Precisions of these operations."),
        Column(
            "estimated_share",
            Type.FLOAT64,
            "Share of the time of such kernels that an estimate is known of; the rest counts as no operations.",
            Unit.SHARE,
        ),
    ),
    cut=False,
)
TABLES = (KERNELS, ROLLUP, OPERATORS, UTILIZATION, PEAKS)


@dataclass
class _Total:
    """Launches of a kernel, their time, and the time by class."""

    launches: int = 0
    total_ns: int | None = None

    def __post_init__(self) -> None:
        self._launches: list[ProfiledLaunch] = []
        self.by_class: dict[str | None, int] = defaultdict(int)
        self.by_sol_class: dict[str | None, int] = defaultdict(int)

    def add(self, launch: ProfiledLaunch) -> None:
        """One launch."""
        self.launches += 1
        self._launches.append(launch)
        duration_ns = launch["duration_ns"]
        if duration_ns is not None:
            self.total_ns = (self.total_ns or 0) + duration_ns
        self.by_class[launch["class"]] += duration_ns or 0
        self.by_sol_class[launch["sol_class"]] += duration_ns or 0

    @property
    def reason(self) -> str | None:
        """The reason of the longest launch that is in the class of most of the time."""
        kind = _most(self.by_class)
        return next((launch["reason"] for launch in self._launches if launch["class"] == kind), None)

    def mean(self, name: str) -> float | None:
        """Mean of a column over the launches that have it, each with its time, or alike without times."""
        known = [(launch["duration_ns"] or 0, launch[name]) for launch in self._launches if launch[name] is not None]
        weight = sum(ns for ns, _ in known)
        if weight:
            return float(sum(ns * value for ns, value in known)) / weight
        return sum(value for _, value in known) / len(known) if known else None

    def add_average(self, launches: int, total_ns: int | None) -> None:
        """Launches that only an average is known of."""
        self.launches += launches
        if total_ns is not None:
            self.total_ns = (self.total_ns or 0) + total_ns


def _most(times: dict[str | None, int]) -> str | None:
    """The class that most time is in."""
    return max(times, key=lambda kind: (times[kind], kind or ""), default=None)


def throughput(scope: Scope) -> Answer:
    """Tables `kernels`, one row a profiled launch, longest first, and `rollup`, one row a kernel. Times in ns.

    A launch that several pages of a report hold counts once. Without any launch, `rollup` is from the averages of
    summaries. Warnings say both. Of timelines with shapes `operators` and `utilization` are estimates, and `peaks` says
    what they are held against; where a run has both, a finding says what share of the kernel time the profile covers.
    """
    limited = KernelLimits(scope)
    launches = limited.launches
    totals: dict[str, _Total] = defaultdict(_Total)
    for row in launches:
        totals[row["kernel"]].add(row)
    warnings = [*scope.warnings, *limited.said]
    if not launches:
        averages, said = averaged_kernels(scope)
        for kernel, count, total_ns in averages:
            totals[kernel].add_average(count, total_ns)
        warnings += said
    elif names := _with_averages_only(scope):
        warnings.append(f"{', '.join(names)}: left out, for averages over launches do not count beside launches")
    rollup = _rollup(totals, averaged=not launches)
    operators, utilization, findings = _estimated(scope, limited)
    if not rollup and not operators:
        warnings.append(_nothing(scope))
    frames = {
        "kernels": Frame.of_rows(KERNELS, [tuple(row[c.name] for c in KERNELS.columns) for row in launches]),
        "rollup": Frame.of_rows(ROLLUP, rollup),
        "operators": Frame.of_rows(OPERATORS, operators),
        "utilization": Frame.of_rows(UTILIZATION, utilization),
        "peaks": Frame.of_rows(PEAKS, limited.peaks.rows()),
    }
    warnings += limited.peaks.unknown() if operators else []
    default = "kernels" if rollup or not operators else "operators"
    all_findings = [*_findings(rollup, totals), *findings]
    return Answer("throughput", frames, all_findings, warnings, default_table=default, notes=[scope.note()])


def _estimated(
    scope: Scope, limited: KernelLimits
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], list[Finding]]:
    """Rows of `operators` and `utilization`, and what the kernels of the timelines are limited by."""
    operators: list[tuple[Any, ...]] = []
    utilization: list[tuple[Any, ...]] = []
    findings: list[Finding] = []
    for device in scope.devices:
        chosen = chosen_operations(scope, device)
        estimates = limited.estimates(device, chosen)
        operators += operator_rows(device, estimates)
        used = utilization_row(scope, device, estimates)
        utilization += [] if used is None else [used]
        findings += operator_coverage(scope, device, estimates)
        findings += utilization_findings(scope, device, used)
        if limited.has_profiles:
            timeline = limited.kernels(device, chosen, estimates)
            findings += coverage_finding(scope, device, timeline) + limit_findings(scope, device, timeline)
    operators.sort(key=lambda row: (-row[9], row[0], row[2], row[3], row[4] or ""))
    return operators, utilization, findings


def _rollup(totals: dict[str, _Total], averaged: bool) -> list[tuple[Any, ...]]:
    all_ns = sum(total.total_ns or 0 for total in totals.values())
    return [
        (
            *(kernel, t.launches, t.total_ns, _most(t.by_class), (t.total_ns or 0) / all_ns if all_ns else None),
            *(_most(t.by_sol_class), averaged, t.reason, *(t.mean(name) for name in MEANS)),
        )
        for kernel, t in sorted(totals.items(), key=lambda item: (-(item[1].total_ns or 0), item[0] or ""))
    ]


def _nothing(scope: Scope) -> str:
    """Why there is nothing to say, and what there is instead."""
    shapes = f"kind = {int(EventKind.OPERATOR)} AND args IS NOT NULL"
    if any(scope.holds("cpu_events", capture, shapes) for capture in scope.captures):
        return "no profiled launch, and no kernel of an operator with shapes: graphs launched them, or nothing around"
    sampled = any(scope.holds("metric_samples", capture) for capture in scope.captures)
    beside = "; what GPU metrics say of each kernel is in kernels" if sampled else ""
    if not scope.of_source(PROFILERS) and (watched := no_timeline(scope)):
        return watched
    return f"no profiled launch, and no operators with shapes: {_HOW}{beside}"


_HOW = "ncu --import REPORT --csv --page raw prints launches, record_shapes=True of torch.profiler records shapes"


def _with_averages_only(scope: Scope) -> list[str]:
    """Names of the files that hold averages and no launch."""
    rows = scope.connection.execute(
        f"""SELECT DISTINCT regexp_extract(path, '[^/\\\\]*$') FROM stored.captures
        WHERE capture IN {scope.numbers()} AND capture IN (SELECT capture FROM stored.kernel_summaries)
        AND capture NOT IN (SELECT capture FROM stored.kernel_profiles) ORDER BY 1"""
    ).fetchall()
    return [name for (name,) in rows]


def _findings(rollup: list[tuple[Any, ...]], totals: dict[str, _Total]) -> list[Finding]:
    """The kernel that takes most of the profiled time and its class, and how much of the time is in which class."""
    if not rollup or not rollup[0][4]:
        return []
    kernel, launches, total_ns, kind, share = rollup[0][:5]
    short = kernel if len(kernel) <= 80 else f"{kernel[:77]}..."
    words = f"; {Limit(kind).words}: {totals[kernel].reason}" if kind else ""
    text = f"{short} takes {100 * share:.1f} % of the profiled time in {counted(launches, 'launch', 'launches')}{words}"
    times: dict[str | None, int] = defaultdict(int)
    for total in totals.values():
        for kind, ns in total.by_class.items():
            times[kind] += ns
    whole = sum(times.values())
    findings = [Finding("longest_kernel", text, None, total_ns)]
    if whole and set(times) != {None}:
        parts = sorted(times.items(), key=lambda item: (-item[1], item[0] or ""))
        told = ", ".join(f"{100 * ns / whole:.1f} % {_words(kind)}" for kind, ns in parts if ns)
        findings.append(Finding("profiled_limits", f"of the profiled time {told}", None, None))
    return findings


def _words(kind: str | None) -> str:
    return "of unknown limit" if kind is None else f"in {Limit(kind).words} launches"
