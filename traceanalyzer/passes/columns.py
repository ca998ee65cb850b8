"""Columns that many result tables share."""

from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit

RUN = Column("run", Type.TEXT, "Run.")
CAPTURE = Column("capture", Type.INT32, "Capture: `captures.capture`.")
RANK = Column("rank", Type.INT32, "Rank; null where the device serves several, or none is known.")
DEVICE = Column("device", Type.INT32, "Device of the capture.")
IDLE = Column("idle_ns", Type.INT64, "Idle time.", Unit.NS)
PIECES = Column("n_pieces", Type.INT64, "Pieces of gaps that it consists of.", Unit.COUNT)
START = Column("start_ns", Type.INT64, "Start on the file's own clock.", Unit.NS)
END = Column("end_ns", Type.INT64, "End on the file's own clock.", Unit.NS)
IDLE_SHARE = Column("share", Type.FLOAT64, "Share of the device's idle time.", Unit.SHARE)
