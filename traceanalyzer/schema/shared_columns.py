"""Columns that many tables of the common schema share."""

from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit

CAPTURE = Column(
    "capture", Type.INT32, "Capture that the row comes from: `captures.capture`.", nullable=False, steady=True
)
START = Column("start_ns", Type.INT64, "Start on the file's own clock.", Unit.NS, nullable=False)
END = Column("end_ns", Type.INT64, "End on the file's own clock; never before the start.", Unit.NS, nullable=False)
INSTANT = Column("t_ns", Type.INT64, "Instant on the file's own clock.", Unit.NS, nullable=False)
PROCESS = Column(
    "process",
    Type.INT64,
    "Process: its pid; a negative number of our own where the source has a text instead.",
    steady=True,
)
THREAD = Column(
    "thread", Type.INT64, "Thread: its tid; a negative number of our own where the source has a text instead."
)
DEVICE = Column("device", Type.INT32, "Device of the capture: `devices.device`.")
NODE = Column("node_id", Type.INT64, "Innermost node of the stack: `stack_nodes.node_id`.")
