"""Causes of idle time: what an open event on the launching thread says of a gap (docs/reference/causes.md)."""

import re
from enum import IntEnum

from traceanalyzer.schema.kinds import EventKind

LAUNCH_LATENCY_NS = 20_000
"""Up to this long after its launch an operation may start without anything being in its way."""


class Cause(IntEnum):
    """Why a device was idle. Every nanosecond of idle time has exactly one."""

    INPUT_WAIT = 0
    SYNC = 1
    HOST_COPY = 2
    MEMORY_MANAGEMENT = 3
    MODULE_LOAD = 4
    LAUNCH_CALL = 5
    API_CALL = 6
    FRAMEWORK = 7
    PYTHON = 8
    RANGE = 9
    GIL_WAIT = 10
    GARBAGE_COLLECTION = 11
    OS_BLOCKED = 12
    HOST_COMMUNICATION = 13
    PROFILER = 14
    LAUNCH_LATENCY = 15
    DEVICE_GAP = 16
    DEVICE_WAIT = 17
    OUTSIDE_EVENTS = 18
    UNATTRIBUTED = 19
    COMMUNICATION_ONLY = 20
    COPY_ONLY = 21

    @property
    def text(self) -> str:
        """Name of the cause in every output."""
        return self.name.lower()

    @property
    def meaning(self) -> str:
        """What the thread does that launches next."""
        return _MEANINGS[self]


_MEANINGS = {
    Cause.INPUT_WAIT: "waits for the next batch of a DataLoader, or is in a range that `--input-range` matches",
    Cause.SYNC: "blocks until the device is done: a synchronisation, or a synchronous copy back until the copy starts",
    Cause.HOST_COPY: "copies pageable memory to or from the device",
    Cause.MEMORY_MANAGEMENT: "allocates, frees or registers memory through the driver",
    Cause.MODULE_LOAD: "loads a module or library, or compiles",
    Cause.LAUNCH_CALL: "issues launches: of other operations meanwhile, or this one",
    Cause.API_CALL: "is in another call of the runtime or driver",
    Cause.FRAMEWORK: "is inside an operator, between calls",
    Cause.PYTHON: "runs Python and nothing else that was recorded",
    Cause.RANGE: "is in a range of yours that holds nothing deeper",
    Cause.GIL_WAIT: "waits for the interpreter lock",
    Cause.GARBAGE_COLLECTION: "runs the garbage collector",
    Cause.OS_BLOCKED: "is in a call of the operating system that blocks",
    Cause.HOST_COMMUNICATION: "is in an MPI or Gloo call on the host",
    Cause.PROFILER: "is held up by the profiler itself",
    Cause.LAUNCH_LATENCY: "has launched: the launch is on its way to the device",
    Cause.DEVICE_GAP: "had launched long before: the device pauses between operations",
    Cause.DEVICE_WAIT: "has launched: the device waits for another stream, an event or another device",
    Cause.OUTSIDE_EVENTS: "does nothing that was recorded",
    Cause.UNATTRIBUTED: "is unknown; `reason` says why",
    Cause.COMMUNICATION_ONLY: "`--lane compute` only: no compute kernel runs, but communication does",
    Cause.COPY_ONLY: "`--lane compute` only: no compute kernel runs, but copies do",
}


class Reason(IntEnum):
    """Why idle time could not be attributed."""

    NONE = 0
    LAUNCHED_BEFORE_RECORDING = 1
    LAUNCH_NOT_RECORDED = 2
    NO_CALLS_RECORDED = 3

    @property
    def text(self) -> str | None:
        """The reason in words; None for none."""
        return _REASONS[self]


_REASONS = {
    Reason.NONE: None,
    Reason.LAUNCHED_BEFORE_RECORDING: "launched before recording",
    Reason.LAUNCH_NOT_RECORDED: "launch not recorded",
    Reason.NO_CALLS_RECORDED: "no API calls recorded",
}

# The order matters: the first that fits decides.
_CALLS: tuple[tuple[re.Pattern[str], Cause], ...] = tuple(
    (re.compile(rf"(?:cuda|cu|hip)(?:{pattern})", re.IGNORECASE), cause)
    for pattern, cause in (
        (r"\w*Synchronize", Cause.SYNC),
        (r"\w*(?:LaunchKernel|LaunchCooperative|GraphLaunch|LaunchByPtr)", Cause.LAUNCH_CALL),
        (r"Malloc|Free|Mem(?:Alloc|Free)|ArrayCreate|ArrayDestroy", Cause.MEMORY_MANAGEMENT),
        (
            r"Host(?:Alloc|Register|Unregister|Malloc|Free)|MemHost|Mem(?:Pool|Create|Map|Unmap|Release|Address|SetAccess)",
            Cause.MEMORY_MANAGEMENT,
        ),
        (r"(?:Module|Library)(?:Load|Unload|Get)|Link|Kernel(?:Load|GetFunction)|FuncLoad", Cause.MODULE_LOAD),
        (r"Memcpy|Memset", Cause.LAUNCH_CALL),
    )
)
_COMPILER = re.compile(
    r"\btorch/_dynamo/(?:convert_frame|output_graph)\.py\b"
    r"|\btorch/_inductor/(?:compile_fx|codecache|async_compile)\.py\b|\btriton/compiler/"
)
_DATALOADER = re.compile(r"\btorch/utils/data/dataloader\.py\b")
_NEXT = re.compile(r"\b__next__")
_FRAMEWORK_RANGE = re.compile(r"(?:aten|autograd|c10d|torch|FSDP)::")
_COMPILE_OVERHEAD = re.compile(r"dlopen", re.IGNORECASE)


def cause_of_call(name: str) -> Cause:
    """Cause of time inside an API call. Copies are refined by `traceanalyzer.passes.attribution`."""
    return next((cause for pattern, cause in _CALLS if pattern.match(name)), Cause.API_CALL)


def cause_of_event(kind: EventKind, name: str, input_range: re.Pattern[str] | None = None) -> Cause:
    """Cause of time during which an event of this kind and name is innermost."""
    if kind is EventKind.API_CALL:
        return cause_of_call(name)
    if (outer := outermost_cause(kind, name, input_range)) is not None:
        return outer
    if kind is EventKind.RANGE and _FRAMEWORK_RANGE.match(name):
        return Cause.FRAMEWORK
    return _BY_KIND[kind]


_BY_KIND = {
    EventKind.OPERATOR: Cause.FRAMEWORK,
    EventKind.RANGE: Cause.RANGE,
    EventKind.PYTHON_FRAME: Cause.PYTHON,
    EventKind.OS_CALL: Cause.OS_BLOCKED,
    EventKind.HOST_COMMUNICATION: Cause.HOST_COMMUNICATION,
    EventKind.GARBAGE_COLLECTION: Cause.GARBAGE_COLLECTION,
    EventKind.GIL_WAIT: Cause.GIL_WAIT,
}


def outermost_cause(kind: EventKind, name: str, input_range: re.Pattern[str] | None = None) -> Cause | None:
    """Cause of an event that decides for everything inside it but API calls; None for other events.

    These are data loading, waiting for the interpreter lock, garbage collection, compilation, host communication.
    """
    if kind is EventKind.GIL_WAIT:
        return Cause.GIL_WAIT
    if kind is EventKind.GARBAGE_COLLECTION:
        return Cause.GARBAGE_COLLECTION
    if kind is EventKind.HOST_COMMUNICATION:
        return Cause.HOST_COMMUNICATION
    if kind in (EventKind.RANGE, EventKind.OPERATOR):
        named = input_range is not None and kind is EventKind.RANGE and input_range.search(name)
        if named or "enumerate(DataLoader)#" in name:
            return Cause.INPUT_WAIT
        return None
    if kind is EventKind.PYTHON_FRAME:
        if (file := _DATALOADER.search(name)) and _NEXT.search(name, file.end()):
            return Cause.INPUT_WAIT
        if _COMPILER.search(name):
            return Cause.MODULE_LOAD
    return None


def cause_of_overhead(name: str) -> Cause:
    """Cause of time in which the profiler says that it was at work: its loading of libraries counts as loading."""
    return Cause.MODULE_LOAD if _COMPILE_OVERHEAD.search(name) else Cause.PROFILER


def is_asynchronous_copy(name: str) -> bool:
    """Whether a copy call returns before its copy is done, as far as its name says."""
    return "async" in name.lower()
