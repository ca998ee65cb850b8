"""Throughput: what each profiled kernel reaches of its device, and what limits it by NVIDIA's SpeedOfLight rule."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.columns import CAPTURE, RANK
from traceanalyzer.passes.kernel_averages import averaged_kernels
from traceanalyzer.passes.limits.profiled import ProfiledLaunch, profiled_launches
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kernel_tables import KERNEL_PROFILES
from traceanalyzer.units import Unit

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
    ),
    cut=False,
)


@dataclass
class _Total:
    """Launches of a kernel, their time, and the time by class."""

    launches: int = 0
    total_ns: int | None = None

    def __post_init__(self) -> None:
        self.by_class: dict[str | None, int] = defaultdict(int)
        self.by_sol_class: dict[str | None, int] = defaultdict(int)

    def add(self, launch: ProfiledLaunch) -> None:
        """One launch."""
        self.launches += 1
        duration_ns = launch["duration_ns"]
        if duration_ns is not None:
            self.total_ns = (self.total_ns or 0) + duration_ns
        self.by_class[launch["class"]] += duration_ns or 0
        self.by_sol_class[launch["sol_class"]] += duration_ns or 0


def _most(times: dict[str | None, int]) -> str | None:
    """The class that most time is in."""
    return max(times, key=lambda kind: (times[kind], kind or ""), default=None)


def throughput(scope: Scope) -> Answer:
    """Tables `kernels`, one row a profiled launch, longest first, and `rollup`, one row a kernel. Times in ns.

    A launch that several pages of a report hold counts once. Without any launch, `rollup` is from the averages of
    summaries. Warnings say both.
    """
    rows: list[tuple[Any, ...]] = []
    totals: dict[str, _Total] = defaultdict(_Total)
    launches, said = profiled_launches(scope)
    for row in launches:
        rows.append(tuple(row[column.name] for column in KERNELS.columns))
        totals[row["kernel"]].add(row)
    warnings = [*scope.warnings, *said]
    if not rows:
        averages, said = averaged_kernels(scope)
        for kernel, count, total_ns in averages:
            totals[kernel] = _Total(count, total_ns)
        warnings += said or [f"no profiled launch: {_HOW}"]
    elif names := _with_averages_only(scope):
        warnings.append(f"{', '.join(names)}: left out, for averages over launches do not count beside launches")
    rollup = _rollup(totals, averaged=not rows)
    frames = {"kernels": Frame.of_rows(KERNELS, rows), "rollup": Frame.of_rows(ROLLUP, rollup)}
    return Answer("throughput", frames, _findings(rollup), warnings, notes=[scope.note()])


def _rollup(totals: dict[str, _Total], averaged: bool) -> list[tuple[Any, ...]]:
    all_ns = sum(total.total_ns or 0 for total in totals.values())
    return [
        (
            *(kernel, t.launches, t.total_ns, _most(t.by_class), (t.total_ns or 0) / all_ns if all_ns else None),
            *(_most(t.by_sol_class), averaged),
        )
        for kernel, t in sorted(totals.items(), key=lambda item: (-(item[1].total_ns or 0), item[0] or ""))
    ]


_HOW = "ingest what ncu prints with: ncu --import REPORT --csv --page raw"


def _with_averages_only(scope: Scope) -> list[str]:
    """Names of the files that hold averages and no launch."""
    rows = scope.connection.execute(
        f"""SELECT DISTINCT regexp_extract(path, '[^/\\\\]*$') FROM stored.captures
        WHERE capture IN {scope.numbers()} AND capture IN (SELECT capture FROM stored.kernel_summaries)
        AND capture NOT IN (SELECT capture FROM stored.kernel_profiles) ORDER BY 1"""
    ).fetchall()
    return [name for (name,) in rows]


def _findings(rollup: list[tuple[Any, ...]]) -> list[Finding]:
    """The kernel that takes most of the profiled time, and its class."""
    if not rollup or not rollup[0][4]:
        return []
    kernel, launches, total_ns, _, share, kind, _ = rollup[0]
    short = kernel if len(kernel) <= 80 else f"{kernel[:77]}..."
    words = f"; NVIDIA's rule: {kind.replace('_', ' ')}" if kind else ""
    count = f"{launches:,} launches" if launches > 1 else "1 launch"
    text = f"{short} takes {100 * share:.1f} % of the profiled time in {count}{words}"
    return [Finding("longest_kernel", text, None, total_ns)]
