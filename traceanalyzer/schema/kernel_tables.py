"""The tables of the common schema that hold profiles of single kernels."""

from traceanalyzer.schema.column import Column, Table, Type
from traceanalyzer.schema.shared_columns import CAPTURE, DEVICE, PROCESS
from traceanalyzer.units import Unit

_LAUNCH = Column("launch", Type.INT64, "Number of the launch in its capture: `kernel_profiles.launch`.", nullable=False)
_NCU_ID = Column(
    "id", Type.INT64, "ncu's own ID of the launch; repeats where a file holds several reports.", nullable=False
)
_SECTION = Column("section", Type.NAME, "Section of the report, by its title or identifier; null on the raw page.")
_ITEM = Column("item", Type.NAME, "Part of the section that a metric stands in, where all details were printed.")
_METRIC = Column("metric", Type.NAME, "Metric as printed: its name, its label, or `label (name)`.", nullable=False)
_METRIC_UNIT = Column("metric_unit", Type.NAME, "Unit of the numbers, in base units: ns, byte, Hz, byte/s, %, inst ...")
_PRINTED_UNIT = Column("printed_unit", Type.NAME, "Unit that the source printed the numbers in.")
_NVTX = Column("nvtx_ranges", Type.NAME, "NVTX ranges around it, outermost first, joined with ` > `.")

KERNEL_PROFILES = Table(
    "kernel_profiles",
    "Kernels profiled by ncu: the typed columns of each profiled launch. A metric that the file lacks is null.",
    (
        CAPTURE,
        PROCESS,
        Column("launch", Type.INT64, "Number of the launch in its capture, in the order of the file.", nullable=False),
        Column("table_number", Type.INT32, "Table of the file (or range of the report) that holds it.", nullable=False),
        _NCU_ID,
        Column("kernel", Type.NAME, "Name of the kernel, as printed."),
        Column("grid_x", Type.INT64, "Blocks of the grid in x."),
        Column("grid_y", Type.INT64, "Blocks of the grid in y."),
        Column("grid_z", Type.INT64, "Blocks of the grid in z."),
        Column("block_x", Type.INT64, "Threads of a block in x."),
        Column("block_y", Type.INT64, "Threads of a block in y."),
        Column("block_z", Type.INT64, "Threads of a block in z."),
        Column("context", Type.INT64, "Context, as the source numbers it."),
        Column("stream", Type.INT64, "Stream, as the source numbers it."),
        DEVICE,
        Column("compute_capability", Type.NAME, "Compute capability of the device, such as 9.0."),
        Column(
            "duration_ns",
            Type.INT64,
            "Duration under the profiler, which locks clocks and flushes caches by default.",
            Unit.NS,
        ),
        Column("compute_pct", Type.FLOAT64, "Compute throughput, of its peak; may exceed 100.", Unit.PERCENT),
        Column("memory_pct", Type.FLOAT64, "Memory throughput: the largest of its parts, of its peak.", Unit.PERCENT),
        Column("dram_pct", Type.FLOAT64, "DRAM throughput (gpu__dram_throughput), of its peak.", Unit.PERCENT),
        Column("l1_pct", Type.FLOAT64, "L1 and texture cache throughput, of its peak.", Unit.PERCENT),
        Column("l2_pct", Type.FLOAT64, "L2 cache throughput, of its peak.", Unit.PERCENT),
        Column(
            "tensor_pct",
            Type.FLOAT64,
            "Activity of the tensor pipe, of its peak over active cycles, where the file lacks that over elapsed ones;"
            " details pages have it only with `--print-details all`.",
            Unit.PERCENT,
        ),
        Column("occupancy_pct", Type.FLOAT64, "Achieved occupancy.", Unit.PERCENT),
        Column("theoretical_occupancy_pct", Type.FLOAT64, "Theoretical occupancy.", Unit.PERCENT),
        Column("waves_per_multiprocessor", Type.FLOAT64, "Waves of blocks a multiprocessor."),
        Column("registers_per_thread", Type.INT64, "Registers a thread.", Unit.COUNT),
        Column("static_shared_bytes", Type.INT64, "Static shared memory a block.", Unit.BYTES),
        Column("dynamic_shared_bytes", Type.INT64, "Dynamic shared memory a block.", Unit.BYTES),
        Column("l1_hit_pct", Type.FLOAT64, "Hit rate of the L1 and texture cache.", Unit.PERCENT),
        Column("l2_hit_pct", Type.FLOAT64, "Hit rate of the L2 cache.", Unit.PERCENT),
        Column("dram_bytes", Type.INT64, "Bytes read from and written to DRAM.", Unit.BYTES),
        Column("dram_bytes_per_s", Type.FLOAT64, "Traffic of DRAM in bytes a second."),
        Column(
            "flop",
            Type.FLOAT64,
            "Floating-point operations of the add, mul and fma counters that the file has (fma counts 2); those of"
            " tensor cores are not among them. Where the file has counts a cycle only, as full sets do, they are"
            " multiplied by the elapsed cycles: that needs the raw page or a report, and is null where the digits"
            " printed leave an error of more than 0.1 %.",
        ),
        Column("nvidia_verdict", Type.NAME, "Result of NVIDIA's rule SOLBottleneck, as the file words it."),
        Column("nvidia_verdict_type", Type.NAME, "Type of that result: OK, INF, OPT, WRN, ERR."),
        _NVTX,
    ),
    keys=("capture", "launch"),
    has_rank=True,
)

KERNEL_METRICS = Table(
    "kernel_metrics",
    "Every metric of every launch that ncu profiled, long form.",
    (
        CAPTURE,
        _LAUNCH,
        _NCU_ID,
        _SECTION,
        _ITEM,
        _METRIC,
        _METRIC_UNIT,
        Column(
            "value",
            Type.FLOAT64,
            "Value in `metric_unit`; null where the source has none (n/a, nan), a text, or a number without unit.",
        ),
        Column("text", Type.NAME, "Value where it is text; of a metric with instances the list of theirs."),
        _PRINTED_UNIT,
    ),
)

KERNEL_RULES = Table(
    "kernel_rules",
    "What NVIDIA's own rules say of each launch that ncu profiled.",
    (
        CAPTURE,
        _LAUNCH,
        _NCU_ID,
        _SECTION,
        Column("rule", Type.NAME, "Rule, such as SOLBottleneck.", nullable=False),
        Column("title", Type.NAME, "Title of the result; only reports have it."),
        Column("type", Type.NAME, "Type of the result: OK, INF, OPT, WRN, ERR."),
        Column("text", Type.NAME, "The result, as the file words it."),
        Column("speedup_type", Type.NAME, "global: the speedup is of the whole kernel; local: of one part."),
        Column("speedup_pct", Type.FLOAT64, "Estimated speedup; estimates do not add up.", Unit.PERCENT),
    ),
)

KERNEL_SUMMARIES = Table(
    "kernel_summaries",
    "Metrics over all launches of a kernel, as `ncu --print-summary` prints them: no single launch is known of them.",
    (
        CAPTURE,
        PROCESS,
        Column("kernel", Type.NAME, "Name of the kernel."),
        Column("grid", Type.NAME, "Sizes of the grid, or their product, as printed."),
        Column("block", Type.NAME, "Sizes of a block, or their product, as printed."),
        DEVICE,
        _NVTX,
        Column("invocations", Type.INT64, "Launches that it stands for.", Unit.COUNT),
        _SECTION,
        _ITEM,
        _METRIC,
        _METRIC_UNIT,
        Column("minimum", Type.FLOAT64, "Smallest value, in `metric_unit`; null for attributes."),
        Column("maximum", Type.FLOAT64, "Largest value, in `metric_unit`; null for attributes."),
        Column("average", Type.FLOAT64, "Mean, in `metric_unit`."),
        Column("text", Type.NAME, "Value where it is text."),
        _PRINTED_UNIT,
    ),
    has_rank=True,
)
