"""Tables of the pass `memory`."""

from traceanalyzer.passes.answer import TableSpec
from traceanalyzer.passes.columns import CAPTURE, DEVICE, RANK
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit

_ALLOCATED = "Memory in use; null where only memory taken from the driver was recorded (nsys)."
_RESERVED = "Memory that the processes took from the driver; null if not recorded."
_OP = Column("op", Type.TEXT, "Innermost operator that allocated it, else the call; null where none is known.")
_BLAME = Column("blame", Type.TEXT, "Innermost frame of the user's own code, else the innermost user range.")
_STACK = Column("stack", Type.TEXT, "What was open on the thread that allocated it, outermost first (a list).")
CURVE = TableSpec(
    "curve",
    "Memory of each device over time: before the first event, and after each; thinned to --top points, peaks kept.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("t_ns", Type.INT64, "Instant on the file's own clock.", Unit.NS),
        Column("allocated_bytes", Type.INT64, _ALLOCATED, Unit.BYTES),
        Column("reserved_bytes", Type.INT64, _RESERVED, Unit.BYTES),
    ),
)
PEAK = TableSpec(
    "peak",
    "Who holds the memory of each device at its peak: the row `peak` is the whole, the others add up to it.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column(
            "part",
            Type.TEXT,
            "peak: all; allocations: made while recording, by stack; before_recording: made earlier; unknown: by whom"
            " was not recorded.",
        ),
        _OP,
        Column("bytes", Type.INT64, "Bytes held at the peak.", Unit.BYTES),
        Column("share", Type.FLOAT64, "Share of the peak.", Unit.SHARE),
        Column("n_allocations", Type.INT64, "Allocations that it consists of; null where not known.", Unit.COUNT),
        _BLAME,
        _STACK,
    ),
)
GROWTH = TableSpec(
    "growth",
    "Memory at the end of each step, and the change since the end of the step before.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("step", Type.INT64, "Number of the step: the trace's own."),
        Column("warmup", Type.BOOL, "Whether it is a warm-up step, which does not count as growth."),
        Column("end_ns", Type.INT64, "End of the host's mark: the next one's start.", Unit.NS),
        Column("bytes", Type.INT64, "Memory in use, or taken from the driver where only that is known.", Unit.BYTES),
        Column("change_bytes", Type.INT64, "Change since the step before; of the first since its start.", Unit.BYTES),
    ),
)
GROWING = TableSpec(
    "growing",
    "Allocations that most steps make and that are alive when the last step ends, by stack, the largest first.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("bytes_per_step", Type.FLOAT64, "Bytes that a counted step leaves.", Unit.BYTES),
        Column("bytes", Type.INT64, "Bytes that the counted steps left.", Unit.BYTES),
        Column("n_steps", Type.INT64, "Counted steps that left some.", Unit.COUNT),
        Column("n_allocations", Type.INT64, "Allocations.", Unit.COUNT),
        _OP,
        _BLAME,
        Column(
            "next_call",
            Type.TEXT,
            "Function of the user's own code that the blamed one called next: it may be what keeps the memory.",
        ),
        _STACK,
    ),
)
MEMORY = TableSpec(
    "memory",
    "Memory of each device: peak, what the allocator reserves beyond it, and growth from step to step.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("peak_allocated_bytes", Type.INT64, f"Most that is in use at once. {_ALLOCATED}", Unit.BYTES),
        Column("peak_reserved_bytes", Type.INT64, f"Most at once. {_RESERVED}", Unit.BYTES),
        Column("fragmentation_bytes", Type.INT64, "Reserved and not in use at the peak of what is in use.", Unit.BYTES),
        Column("card_bytes", Type.INT64, "Memory of the device, where the file tells it.", Unit.BYTES),
        Column("card_share", Type.FLOAT64, "Share of it that is reserved, else in use, at most.", Unit.SHARE),
        Column("peak_t_ns", Type.INT64, "Instant of the peak on the file's own clock.", Unit.NS),
        Column("growth_bytes_per_step", Type.INT64, "Mean change of a counted step; null without.", Unit.BYTES),
        Column("n_growing", Type.INT64, "Counted steps in which it grows.", Unit.COUNT),
        Column("n_steps", Type.INT64, "Counted steps: without warm-up and the first one recorded.", Unit.COUNT),
        Column("steps_to_full", Type.INT64, "Steps until the card is full, where memory keeps growing.", Unit.COUNT),
        Column("n_allocations", Type.INT64, "Allocations recorded.", Unit.COUNT),
    ),
    cut=False,
)
TABLES = (CURVE, PEAK, GROWTH, GROWING, MEMORY)
