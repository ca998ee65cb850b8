"""Reader of Nsight Systems: SQLite exports of nsys 2020 to 2026, and reports where nsys is installed."""

from traceanalyzer.sources.base import Source
from traceanalyzer.sources.nsys_sqlite.reader import read, recognise

SOURCE = Source("nsys", "Nsight Systems SQLite export", recognise, read)
