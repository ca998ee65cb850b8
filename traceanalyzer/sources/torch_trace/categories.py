"""What the categories and names of events say: the spellings of every era and of every backend."""

import re

from traceanalyzer.schema.kinds import CopyKind, EventKind, MemoryKind, OpKind
from traceanalyzer.schema.timeline_file import CATEGORY_OF_OPERATION, OWN_KINDS

OPERATION_KINDS = {
    "kernel": OpKind.KERNEL,
    "concurrent_kernel": OpKind.KERNEL,
    "gpu_memcpy": OpKind.MEMCPY,
    "memcpy": OpKind.MEMCPY,
    "gpu_memset": OpKind.MEMSET,
    "memset": OpKind.MEMSET,
    CATEGORY_OF_OPERATION[OpKind.GRAPH]: OpKind.GRAPH,
}

CALL_CATEGORIES = (
    "cuda_runtime",
    "cuda_driver",
    "runtime",
    "hip_runtime",
    "hip_driver",
    "privateuse1_runtime",
    "privateuse1_driver",
    "mtia_runtime",
    "xpu_runtime",
    "xpu_driver",
    "glow_runtime",
)

EVENT_KINDS = {
    **dict.fromkeys(CALL_CATEGORIES, EventKind.API_CALL),
    "cpu_op": EventKind.OPERATOR,
    "operator": EventKind.OPERATOR,
    "user_annotation": EventKind.RANGE,
    "python_function": EventKind.PYTHON_FRAME,
    **OWN_KINDS,
}

DEVICE_ROW_KINDS = {
    "gpu_user_annotation": EventKind.DEVICE_ANNOTATION,
    "cuda_sync": EventKind.SYNC_RECORD,
}

OTHER_DEVICE_CATEGORIES = frozenset({"mtia_ccp_events", "mtia_insight", "hpu_op", "async_npu"})

STEP = re.compile(r"ProfilerStep#?\s*\d+")
_HOST_COMMUNICATION = re.compile(r"(?:gloo|mpi):", re.IGNORECASE)
_COLLECTION = re.compile(r"python gc\b|garbage[ _]collect", re.IGNORECASE)

_HOST_TO_HOST = re.compile(r"mem(?:ory )?cpy\s*HtoH|copyHostToHost|memcpy\s*\(?Host -> Host", re.IGNORECASE)
_DIRECTION = re.compile(r"\b([HDPA])(?:to|2)([HDPA])\b|(Host|Device)\s*To\s*(Host|Device)|Peer", re.IGNORECASE)
_MEMORIES = re.compile(r"\(([A-Za-z ]+)->([A-Za-z ]+)\)")
_MEMORY_KINDS = {
    "pageable": MemoryKind.PAGEABLE,
    "pinned": MemoryKind.PINNED,
    "device": MemoryKind.DEVICE,
    "array": MemoryKind.ARRAY,
    "managed": MemoryKind.MANAGED,
    "host": MemoryKind.UNKNOWN,
    "unknown": MemoryKind.UNKNOWN,
}
_COPY_KINDS = {
    "HD": CopyKind.HTOD,
    "DH": CopyKind.DTOH,
    "DD": CopyKind.DTOD,
    "HH": CopyKind.HTOH,
    "PP": CopyKind.PTOP,
    "HA": CopyKind.HTOD,
    "AH": CopyKind.DTOH,
    "AD": CopyKind.DTOD,
    "DA": CopyKind.DTOD,
    "AA": CopyKind.DTOD,
}


def special_kind(name: str, kind: EventKind) -> EventKind:
    """The kind of an operator, annotation or frame by its name, where that says more than its category."""
    if kind is not EventKind.PYTHON_FRAME and STEP.fullmatch(name):
        return EventKind.STEP_MARK
    if kind is EventKind.RANGE and _HOST_COMMUNICATION.match(name):
        return EventKind.HOST_COMMUNICATION
    if kind is not EventKind.OPERATOR and ("gc.collect" in name or _COLLECTION.match(name)):
        return EventKind.GARBAGE_COLLECTION
    return kind


def is_launch(name: str) -> bool:
    """Whether a call enqueues work on a device: without any device record there is something wrong."""
    return name.startswith(("cuda", "cu", "hip")) and (
        "LaunchKernel" in name or "GraphLaunch" in name or "ModuleLaunch" in name
    )


def is_host_to_host(name: str) -> bool:
    """Whether a copy never touches the device, by its name."""
    return _HOST_TO_HOST.match(name) is not None


def copy_of(name: str) -> tuple[CopyKind, MemoryKind, MemoryKind]:
    """Direction, source and destination memory of a copy, as its name says them."""
    source = destination = None
    if found := _MEMORIES.search(name):
        source, destination = (_MEMORY_KINDS.get(side.strip().lower()) for side in found.groups())
        ends = "".join("D" if side.strip().lower() in ("device", "array") else "H" for side in found.groups())
    else:
        ends = ""
    if found := _DIRECTION.search(name):
        ends = "".join((side or "")[:1].upper() for side in found.groups() if side) or "PP"
    kind = _COPY_KINDS.get(ends, CopyKind.OTHER)
    device = MemoryKind.DEVICE
    if source is None:
        source = device if ends[:1] in ("D", "P") else MemoryKind.UNKNOWN
    if destination is None:
        destination = device if ends[1:] in ("D", "P") else MemoryKind.UNKNOWN
    return kind, source, destination


def set_memory_of(name: str) -> MemoryKind:
    """The memory that a memory set writes, as its name says it."""
    found = re.search(r"\(\s*(\w+)\s*\)", name)
    return _MEMORY_KINDS.get(found.group(1).lower(), MemoryKind.UNKNOWN) if found else MemoryKind.UNKNOWN
