"""The tables of the common schema. DDL, comments, headers and the reference page are made from these declarations."""

from traceanalyzer.schema.column import Column, Table, Type
from traceanalyzer.schema.kernel_tables import KERNEL_METRICS, KERNEL_PROFILES, KERNEL_RULES, KERNEL_SUMMARIES
from traceanalyzer.schema.kinds import (
    CopyKind,
    EventKind,
    Lane,
    MemoryKind,
    OpKind,
    RankSource,
    SampleKind,
    Severity,
    ThreadState,
)
from traceanalyzer.schema.shared_columns import CAPTURE, DEVICE, END, INSTANT, NODE, PROCESS, START, THREAD
from traceanalyzer.units import Unit

RUNS = Table(
    "runs",
    "A run: the captures that were taken of one execution of a job.",
    (
        Column("run_id", Type.INT32, "Number of the run in this store.", nullable=False),
        Column("run", Type.TEXT, "Name of the run: of its file, its folder, or given by `--run`.", nullable=False),
        Column("folder", Type.TEXT, "Folder of its first file, by which later files of the same job find it."),
        Column("created_ns", Type.INT64, "When the run was made, Unix time.", Unit.NS),
        Column("touched", Type.INT64, "Order of the last change: the newest run has the largest.", Unit.NONE),
    ),
    keys=("run_id",),
)

CAPTURES = Table(
    "captures",
    "A capture: one file that was ingested.",
    (
        Column("capture", Type.INT32, "Number of the capture in this store.", nullable=False),
        Column("run", Type.TEXT, "Run that it belongs to: `runs.run`.", nullable=False),
        Column("path", Type.TEXT, "Path of the file as it was given."),
        Column("source", Type.TEXT, "Kind of output: torch, nsys, ncu, nvidia_smi, dcgm ...", nullable=False),
        Column("tool_version", Type.TEXT, "Version of the program that wrote the file; null where it does not say."),
        Column("format_version", Type.TEXT, "Version of the file's own schema; null where it does not say."),
        Column("host", Type.TEXT, "Host name, where the file tells it."),
        Column("rank", Type.INT32, "Rank; null where the file holds several ranks, or none is known."),
        Column(
            "rank_source", Type.CHOICE, "Where the rank was learned; null without a rank.", choices=RankSource.texts()
        ),
        Column("world_size", Type.INT32, "Number of ranks of the job, where the file tells it."),
        Column("start_ns", Type.INT64, "First instant recorded, on the file's own clock.", Unit.NS),
        Column("end_ns", Type.INT64, "Last instant recorded, on the file's own clock.", Unit.NS),
        Column(
            "utc_offset_ns", Type.INT64, "Added to the file's clock this gives Unix time; null if unknown.", Unit.NS
        ),
        Column("whole", Type.BOOL, "False where the file is truncated or damaged and only a part could be read."),
        Column("content_hash", Type.TEXT, "SHA-1 of the file's bytes: the same content is ingested once."),
        Column("file_bytes", Type.INT64, "Size of the file.", Unit.BYTES),
        Column("metadata", Type.TEXT, "Facts of the file that are safe to keep, as JSON."),
    ),
    keys=("capture",),
)

PROCESSES = Table(
    "processes",
    "Processes that the recorded events belong to.",
    (
        CAPTURE,
        Column("process", Type.INT64, PROCESS.meaning, nullable=False),
        Column("name", Type.NAME, "Name of the executable."),
        Column("rank", Type.INT32, "Rank of the process, where known."),
        Column("rank_source", Type.CHOICE, "Where the rank was learned.", choices=RankSource.texts()),
    ),
    keys=("capture", "process"),
)

THREADS = Table(
    "threads",
    "Threads that the recorded events belong to.",
    (
        CAPTURE,
        Column("process", Type.INT64, PROCESS.meaning, nullable=False),
        Column("thread", Type.INT64, THREAD.meaning, nullable=False),
        Column("name", Type.NAME, "Name of the thread, all of its names joined where it had several."),
    ),
    keys=("capture", "process", "thread"),
    has_rank=True,
)

DEVICES = Table(
    "devices",
    "Physical GPUs of a capture: those listed by the file and those that operations ran on.",
    (
        CAPTURE,
        Column("device", Type.INT32, "Number of the device in its capture.", nullable=False),
        Column("rank", Type.INT32, "Rank of the processes that use it; null if several or unknown.", derived=True),
        Column("name", Type.NAME, "Product name."),
        Column("n_ops", Type.INT64, "Operations recorded on it.", Unit.COUNT, derived=True),
        Column("uuid", Type.NAME, "Unique id of the GPU."),
        Column("memory_bytes", Type.INT64, "Memory.", Unit.BYTES),
        Column("multiprocessors", Type.INT32, "Streaming multiprocessors (compute units).", Unit.COUNT),
        Column("compute_capability", Type.NAME, "Compute capability, such as 9.0."),
        Column("clock_rate_hz", Type.INT64, "Highest clock of the multiprocessors in Hz."),
        Column("memory_bandwidth_bytes_per_s", Type.INT64, "Peak memory bandwidth that the file states."),
        Column("ambiguous", Type.BOOL, "True where several physical GPUs may hide behind this number."),
    ),
    keys=("capture", "device"),
)

GPU_OPS = Table(
    "gpu_ops",
    "Device operations: kernels, copies, memory sets, and graph launches whose nodes were not recorded.",
    (
        Column("op_id", Type.INT64, "Number of the operation in its capture.", nullable=False),
        CAPTURE,
        PROCESS,
        Column("device", Type.INT32, DEVICE.meaning, nullable=False, steady=True),
        Column("context", Type.INT64, "Context, as the source numbers it.", steady=True),
        Column("stream", Type.INT64, "Stream, as the source numbers it within its process and context."),
        Column("kind", Type.CHOICE, "What the operation is.", nullable=False, choices=OpKind.texts()),
        Column(
            "lane",
            Type.CHOICE,
            "compute, communication (by metadata or kernel name) or copy.",
            choices=Lane.texts(),
            derived=True,
        ),
        Column("name", Type.NAME, "Name: of kernels the demangled one."),
        START,
        END,
        Column(
            "correlation_id", Type.INT64, "Joins the operation to its launch call within the process; null if none."
        ),
        Column(
            "launch_event_id",
            Type.INT64,
            "The call that launched it: `cpu_events.event_id`; null where none was recorded.",
            derived=True,
        ),
        Column("step", Type.INT64, "Step in which it was launched; null outside of all steps.", derived=True),
        Column("bytes", Type.INT64, "Bytes copied or set.", Unit.BYTES, steady=True),
        Column("copy_kind", Type.CHOICE, "Direction of a copy.", choices=CopyKind.texts(), steady=True),
        Column("source_memory", Type.CHOICE, "Memory that a copy reads.", choices=MemoryKind.texts(), steady=True),
        Column(
            "destination_memory",
            Type.CHOICE,
            "Memory that a copy or set writes.",
            choices=MemoryKind.texts(),
            steady=True,
        ),
        Column("graph_id", Type.INT64, "CUDA graph that it belongs to, where recorded.", steady=True),
        Column("graph_node_id", Type.INT64, "Node of the graph, where recorded."),
        Column("external_id", Type.INT64, "Id that the framework gave to the operator that launched it."),
        Column("grid_x", Type.INT32, "Blocks of the grid in x."),
        Column("grid_y", Type.INT32, "Blocks of the grid in y."),
        Column("grid_z", Type.INT32, "Blocks of the grid in z."),
        Column("block_x", Type.INT32, "Threads of a block in x."),
        Column("block_y", Type.INT32, "Threads of a block in y."),
        Column("block_z", Type.INT32, "Threads of a block in z."),
        Column("registers_per_thread", Type.INT32, "Registers a thread.", Unit.COUNT),
        Column("static_shared_bytes", Type.INT64, "Static shared memory a block.", Unit.BYTES, steady=True),
        Column(
            "dynamic_shared_bytes",
            Type.INT64,
            "Dynamic shared memory a block (all of it where not told apart).",
            Unit.BYTES,
        ),
        Column(
            "occupancy_pct",
            Type.FLOAT64,
            "Occupancy as the profiler estimates it; 0 is unknown and stored as null.",
            Unit.PERCENT,
        ),
    ),
    keys=("capture", "op_id"),
    has_rank=True,
)

CPU_EVENTS = Table(
    "cpu_events",
    "What threads did: API calls, operators, ranges, Python frames, OS calls, profiler overhead.",
    (
        Column("event_id", Type.INT64, "Number of the event in its capture.", nullable=False),
        CAPTURE,
        PROCESS,
        THREAD,
        Column("kind", Type.CHOICE, "What the event is.", nullable=False, choices=EventKind.texts()),
        Column("name", Type.NAME, "Name as recorded."),
        Column("domain", Type.NAME, "NVTX domain, or the category of the source where kinds are coarser.", steady=True),
        START,
        END,
        Column(
            "parent_id",
            Type.INT64,
            "The event open on the thread when this one began, innermost; null if none.",
            derived=True,
        ),
        Column("depth", Type.INT32, "Number of events open around it on its thread.", derived=True),
        Column("correlation_id", Type.INT64, "Of an API call: joins it to the operations it launched."),
        Column("external_id", Type.INT64, "Id of an operator, or of the operator around an API call."),
        Column("sequence_number", Type.INT64, "Joins a forward operator to its backward one."),
        Column("forward_thread", Type.INT64, "Of a backward operator: the thread of its forward one.", steady=True),
        Column("node_id", Type.INT64, "Stack of the events open at its start, itself innermost.", derived=True),
        Column("backtrace_node_id", Type.INT64, "Recorded call chain of the call: `stack_nodes.node_id`."),
        Column("bytes", Type.INT64, "Bytes that it moves, where the source says so.", Unit.BYTES, steady=True),
        Column("args", Type.NAME, "Shapes, types and payload of the event as JSON text, where recorded."),
    ),
    keys=("capture", "event_id"),
    has_rank=True,
)

SAMPLES = Table(
    "samples",
    "Stacks of threads, sampled.",
    (
        CAPTURE,
        PROCESS,
        THREAD,
        Column("kind", Type.CHOICE, "Who took it.", nullable=False, choices=SampleKind.texts()),
        INSTANT,
        NODE,
        Column("cpu", Type.INT32, "CPU that the thread ran on."),
        Column("state", Type.CHOICE, "State of the thread.", choices=ThreadState.texts()),
    ),
    has_rank=True,
)

STACK_NODES = Table(
    "stack_nodes",
    "Stacks as a prefix tree: each node is a frame called from its parent.",
    (
        Column("node_id", Type.INT64, "Number of the node in this store.", nullable=False),
        Column("parent_id", Type.INT64, "Node of the caller; null at the root."),
        Column("frame", Type.NAME, "Text of the frame: `function (file.py:123)`, an operator, a range, a call."),
        Column("file", Type.NAME, "File of the code, where known."),
        Column("line", Type.INT32, "Line of the code, where known."),
        Column("module", Type.NAME, "Library or executable of native code, where known."),
        Column("kind", Type.CHOICE, "What the frame is; null for native code.", choices=EventKind.texts()),
    ),
    keys=("node_id",),
)

STACK_CHANGES = Table(
    "stack_changes",
    "Events that an event around them does not outlive: from the instant on, their stack is without it.",
    (
        CAPTURE,
        Column("event_id", Type.INT64, "Event whose stack changes: `cpu_events.event_id`.", nullable=False),
        Column("from_ns", Type.INT64, "Instant at which an event around it ended.", Unit.NS, nullable=False),
        NODE,
    ),
)

SCHED_SLICES = Table(
    "sched_slices",
    "When threads ran on a CPU and when they were blocked.",
    (
        CAPTURE,
        PROCESS,
        THREAD,
        Column("cpu", Type.INT32, "CPU that the thread ran on, or left."),
        Column("state", Type.CHOICE, "Running or blocked.", nullable=False, choices=ThreadState.texts()),
        START,
        END,
        Column("reason", Type.NAME, "State that the scheduler gave when it took the thread off the CPU."),
    ),
    has_rank=True,
)

MEMORY_EVENTS = Table(
    "memory_events",
    "Allocations and frees.",
    (
        CAPTURE,
        PROCESS,
        THREAD,
        Column("device", Type.INT32, "Device of the memory; null for host memory."),
        INSTANT,
        Column("bytes", Type.INT64, "Size: positive for an allocation, negative for a free.", Unit.BYTES),
        Column("address", Type.INT64, "Address; unsigned 64-bit values wrap to negative."),
        Column("allocated_bytes", Type.INT64, "Allocated in all after the event, where told.", Unit.BYTES),
        Column("reserved_bytes", Type.INT64, "Reserved by the allocator after the event, where told.", Unit.BYTES),
    ),
    has_rank=True,
)

COLLECTIVES = Table(
    "collectives",
    "Collective and point-to-point communication as one rank recorded it.",
    (
        CAPTURE,
        PROCESS,
        Column("op_id", Type.INT64, "Device operation that carries it: `gpu_ops.op_id`; null on the host."),
        Column("event_id", Type.INT64, "Host event that issues it: `cpu_events.event_id`; null on the device."),
        Column("group_name", Type.NAME, "Process group or communicator."),
        Column("group_description", Type.NAME, "What the framework says of the group."),
        Column("group_ranks", Type.NAME, "Ranks of the group, as the source writes them."),
        Column("group_size", Type.INT32, "Number of ranks of the group.", Unit.COUNT),
        Column("kind", Type.NAME, "Collective as the source names it."),
        Column("dtype", Type.NAME, "Data type."),
        Column("elements_in", Type.INT64, "Elements that the rank puts in.", Unit.COUNT),
        Column("elements_out", Type.INT64, "Elements that the rank gets out.", Unit.COUNT),
        Column("bytes", Type.INT64, "Message size where the source states bytes.", Unit.BYTES),
        Column("sequence", Type.INT64, "Order on its group, where the source states it."),
        Column("communicator", Type.NAME, "Id of the communicator as text: it may exceed 64 bits."),
        Column("peer", Type.INT32, "Other rank of a send or receive."),
        Column("root", Type.INT32, "Root of a broadcast, reduce, gather or scatter."),
        Column("reduction", Type.NAME, "Reduction, where the source states it."),
    ),
    has_rank=True,
)

METRIC_SAMPLES = Table(
    "metric_samples",
    "Sampled metrics of GPUs, NICs and telemetry, long form.",
    (
        CAPTURE,
        Column("source", Type.NAME, "Where the metric comes from: gpu_metrics, nic, dmon ...", nullable=False),
        Column("device", Type.INT32, "Device, where it is a GPU of the capture."),
        Column("instance", Type.NAME, "What is measured where it is not a whole GPU: a MIG instance, a NIC, a port."),
        Column("process", Type.INT64, "Process that it is told of: its pid; null where it is told of the whole."),
        Column("metric", Type.NAME, "Name of the metric.", nullable=False),
        Column("metric_unit", Type.NAME, "Unit of the value."),
        Column("t_ns", Type.INT64, "Instant on the file's own clock; null where the source tells no time.", Unit.NS),
        Column("tick", Type.INT64, "Place of its round of readings in the file, where the source tells no time."),
        Column("value", Type.FLOAT64, "Value; null where the source had none."),
    ),
)

TOPOLOGY = Table(
    "topology",
    "How the GPUs and network cards of a host are connected, long form.",
    (
        CAPTURE,
        Column("place", Type.NAME, "GPU or network card: GPU0, NIC3.", nullable=False),
        Column("other", Type.NAME, "The other end, where the row is about the way to it."),
        Column(
            "attribute", Type.NAME, "What is told: link, cpu_affinity, numa_affinity, numa_node, name.", nullable=False
        ),
        Column("value", Type.NAME, "What it is: NV18, PIX, SYS; 0-31.", nullable=False),
    ),
)

STEPS = Table(
    "steps",
    "Step marks of the host, one row a rank and step.",
    (
        CAPTURE,
        PROCESS,
        THREAD,
        Column("step", Type.INT64, "Number of the step: the trace's own, else counted from 0.", nullable=False),
        Column("name", Type.NAME, "Text of the mark."),
        START,
        Column("end_ns", Type.INT64, "Start of the next mark; of the last one the end of its mark.", Unit.NS),
        Column("mark_end_ns", Type.INT64, "End of the mark itself.", Unit.NS),
    ),
    keys=("capture", "process", "step"),
    has_rank=True,
)

QUALITY = Table(
    "quality",
    "What was odd, dropped or repaired while a file was read, and what it spoils.",
    (
        CAPTURE,
        Column("code", Type.TEXT, "Stable name of the finding.", nullable=False),
        Column("severity", Type.CHOICE, "How much it matters.", nullable=False, choices=Severity.texts()),
        Column("count", Type.INT64, "How many records are concerned.", Unit.COUNT, nullable=False),
        Column("text", Type.TEXT, "What it means, in a sentence.", nullable=False),
    ),
)

TABLES: tuple[Table, ...] = (
    RUNS,
    CAPTURES,
    PROCESSES,
    THREADS,
    DEVICES,
    GPU_OPS,
    CPU_EVENTS,
    SAMPLES,
    STACK_NODES,
    STACK_CHANGES,
    SCHED_SLICES,
    MEMORY_EVENTS,
    COLLECTIVES,
    METRIC_SAMPLES,
    TOPOLOGY,
    KERNEL_PROFILES,
    KERNEL_METRICS,
    KERNEL_RULES,
    KERNEL_SUMMARIES,
    STEPS,
    QUALITY,
)
TABLE_BY_NAME: dict[str, Table] = {table.name: table for table in TABLES}
SCHEMA_VERSION = 3
