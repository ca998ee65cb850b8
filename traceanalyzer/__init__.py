"""Why the GPU was idle, down to the line of Python.

import traceanalyzer

with traceanalyzer.open("traceanalyzer.duckdb") as traces:
    print(traces.gaps(rank="all").to_polars())
"""

from traceanalyzer.errors import (
    ExportError,
    SchemaVersionError,
    SourceError,
    StoreBusyError,
    StoreError,
    TraceAnalyzerError,
    UnknownFormatError,
    UsageError,
)
from traceanalyzer.version import __version__

TYPE_CHECKING = False  # as type checkers know it; the module `typing` would take longer to import than all of this
if TYPE_CHECKING:
    from traceanalyzer.ingestion import ingest
    from traceanalyzer.traceset import TraceSet, open, scaling_of_file  # noqa: A004

__all__ = [
    "ExportError",
    "SchemaVersionError",
    "SourceError",
    "StoreBusyError",
    "StoreError",
    "TraceAnalyzerError",
    "TraceSet",
    "UnknownFormatError",
    "UsageError",
    "__version__",
    "ingest",
    "open",
    "scaling_of_file",
]


def __getattr__(name: str) -> object:
    """The engine is imported when it is first asked for, so that `import traceanalyzer` costs nothing."""
    if name in ("open", "scaling_of_file", "TraceSet"):
        from traceanalyzer import traceset

        return getattr(traceset, name)
    if name == "ingest":
        from traceanalyzer.ingestion import ingest

        return ingest
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
