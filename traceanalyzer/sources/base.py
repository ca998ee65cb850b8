"""What a source is: it recognises a file by its first bytes and reads it into a sink."""

from collections.abc import Callable
from dataclasses import dataclass

from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.files import TraceFile


@dataclass(frozen=True, slots=True)
class Source:
    """One format. A new one is a module with such a constant and one line in `traceanalyzer.sources.SOURCES`.

    `recognise` looks at the file's head only and must be cheap; `read` writes everything to the sink, reports what is
    odd with `Sink.note`, and raises `SourceError` where nothing of the file can be used.
    """

    name: str
    title: str
    recognise: Callable[[TraceFile], bool]
    read: Callable[[TraceFile, Sink], None]
