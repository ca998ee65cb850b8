"""The closed sets of kinds in the schema, as numbers for the passes and as text for people."""

from enum import IntEnum


class _Kind(IntEnum):
    @classmethod
    def texts(cls) -> tuple[str, ...]:
        """Texts of all members in the order of their numbers, as `Column.choices` wants them."""
        return tuple(member.name.lower() for member in cls)


class OpKind(_Kind):
    """What a device operation is."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    GRAPH = 3  # a whole CUDA graph launch whose nodes were not recorded


class Lane(_Kind):
    """Which lane of the device an operation occupies."""

    COMPUTE = 0
    COMMUNICATION = 1
    COPY = 2


class MemoryKind(_Kind):
    """Kind of memory at one end of a copy."""

    PAGEABLE = 0
    PINNED = 1
    DEVICE = 2
    ARRAY = 3
    MANAGED = 4
    UNKNOWN = 5


class CopyKind(_Kind):
    """Direction of a copy."""

    HTOD = 0
    DTOH = 1
    DTOD = 2
    HTOH = 3
    PTOP = 4
    OTHER = 5


class EventKind(_Kind):
    """What a row of `cpu_events` is. Kinds up to GIL_WAIT nest on their thread and make up its stacks."""

    API_CALL = 0  # CUDA or HIP runtime and driver calls
    OPERATOR = 1  # operators of the framework
    RANGE = 2  # user annotations, NVTX push/pop ranges
    PYTHON_FRAME = 3
    OS_CALL = 4
    HOST_COMMUNICATION = 5  # MPI, Gloo and the like on the host
    GARBAGE_COLLECTION = 6
    GIL_WAIT = 7
    GIL_HOLD = 8  # holding the interpreter lock: no part of a stack
    STEP_MARK = 9  # ProfilerStep#n: no part of a stack
    PROCESS_RANGE = 10  # NVTX start/end ranges, which belong to a process and may end on another thread
    OVERHEAD = 11  # what the profiler tells of its own cost; without a thread it counts for every thread
    DEVICE_ANNOTATION = 12  # an annotation repeated on the device's row
    SYNC_RECORD = 13  # the device's record of a synchronisation
    MARK = 14  # an instant
    UNIFIED_MEMORY = 15  # migrations and page faults of unified memory


NESTED_KINDS = (
    EventKind.API_CALL,
    EventKind.OPERATOR,
    EventKind.RANGE,
    EventKind.PYTHON_FRAME,
    EventKind.OS_CALL,
    EventKind.HOST_COMMUNICATION,
    EventKind.GARBAGE_COLLECTION,
    EventKind.GIL_WAIT,
)


class SampleKind(_Kind):
    """Who took a sample of a thread."""

    PYTHON = 0
    NATIVE = 1


class ThreadState(_Kind):
    """What the scheduler says of a thread."""

    RUNNING = 0
    BLOCKED = 1
    UNKNOWN = 2


class RankSource(_Kind):
    """Where the rank of a capture or process was learned."""

    METADATA = 0
    ENVIRONMENT = 1
    MPI = 2
    RANGES = 3
    FILE_NAME = 4
    ORDER = 5
    PROCESS = 6  # the same process as another capture of the run, in another window


class Severity(_Kind):
    """How much a quality row matters."""

    INFO = 0
    WARNING = 1
    ERROR = 2
