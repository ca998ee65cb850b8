"""Reader of Nsight Systems: SQLite exports of nsys 2020 to 2026, and reports where nsys is installed."""

from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.base import Source
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.nsys_sqlite.recognise import recognise


def _read(file: TraceFile, sink: Sink) -> None:
    from traceanalyzer.sources.nsys_sqlite.reader import read

    read(file, sink)


SOURCE = Source("nsys", "Nsight Systems SQLite export", recognise, _read)
