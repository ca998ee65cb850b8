"""What the writer and the reader of an aligned timeline agree on: its header, and the categories of its events.

An aligned timeline is a Chrome trace in the manner of torch.profiler, of all ranks in one file. What torch.profiler has
categories for has those; other recorded events have categories of our own, which are read as what they were. Events
that were derived from others have categories that begin with `DERIVED`: they are no records, and are not read.
"""

from traceanalyzer.schema.kinds import EventKind, OpKind

HEADER = "traceanalyzer"
"""Key of the header, before the events. `lanes_apart` tells the rows of a thread; `processes` have `pid`, `rank` and
`name`; `devices` have `pid`, that of the rows of their operations, and `process`, that of who launched these."""
ALIGNED = "aligned_timeline"
"""Among the facts of a capture: it was read from an aligned timeline, whose clock begins with its first event."""
LANES_APART = 1 << 22
"""Events of a thread that do not nest stand on rows below its own: row k has the thread's number and k times this. No
number of a thread is as large."""
DERIVED = "traceanalyzer."
"""How categories of derived events begin."""

CATEGORY_OF_OPERATION = {
    OpKind.KERNEL: "kernel",
    OpKind.MEMCPY: "gpu_memcpy",
    OpKind.MEMSET: "gpu_memset",
    OpKind.GRAPH: "gpu_graph",
}
CATEGORY_OF_EVENT = {
    EventKind.API_CALL: "cuda_runtime",
    EventKind.OPERATOR: "cpu_op",
    EventKind.RANGE: "user_annotation",
    EventKind.PYTHON_FRAME: "python_function",
    EventKind.OS_CALL: "os_call",
    EventKind.HOST_COMMUNICATION: "host_communication",
    EventKind.GARBAGE_COLLECTION: "garbage_collection",
    EventKind.GIL_WAIT: "gil_wait",
    EventKind.GIL_HOLD: "gil_hold",
    EventKind.STEP_MARK: "step_mark",
    EventKind.PROCESS_RANGE: f"{DERIVED}process_range",
    EventKind.OVERHEAD: "overhead",
    EventKind.DEVICE_ANNOTATION: "gpu_user_annotation",
    EventKind.SYNC_RECORD: "cuda_sync",
    EventKind.MARK: "mark",
    EventKind.UNIFIED_MEMORY: f"{DERIVED}unified_memory",
}
OWN_KINDS = {
    CATEGORY_OF_EVENT[kind]: kind
    for kind in (
        EventKind.OS_CALL,
        EventKind.HOST_COMMUNICATION,
        EventKind.GARBAGE_COLLECTION,
        EventKind.GIL_WAIT,
        EventKind.GIL_HOLD,
        EventKind.STEP_MARK,
    )
}
"""Categories of ours that stand on the rows of threads."""
