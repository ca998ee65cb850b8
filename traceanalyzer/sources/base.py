"""What a source is: it recognises a file by its first bytes and reads it into a sink."""

from collections.abc import Callable
from dataclasses import dataclass

from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.files import TraceFile


def _nothing_to_prepare(_file: TraceFile) -> None:
    return


def _nothing_to_say(_file: TraceFile) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Source:
    """One format. A new one is a module with such a constant and one line in `traceanalyzer.sources.SOURCES`.

    `recognise` looks at the file's head only and must be cheap; `read` writes everything to the sink, reports what is
    odd with `Sink.note`, and raises `SourceError` where nothing of the file can be used. `why_not` says of a file that
    is not recognised why it cannot be read and what to do, where it is the same tool's output in another form; `lacks`
    says so only where nothing but an optional package is missing to read it.
    `has_ranks` is false where captures are not one of each rank: they have a rank only if the file or its name states
    one. `has_timeline` is false where they record what single kernels do, and not when. A single later file of a source
    that `joins_newest_run` belongs to the newest run. `prepare` is called in a thread of its own before `read`, while
    the store is opened: it loads what reading such a file will need, and never fails.
    """

    name: str
    title: str
    recognise: Callable[[TraceFile], bool]
    read: Callable[[TraceFile, Sink], None]
    why_not: Callable[[TraceFile], str | None] = _nothing_to_say
    lacks: Callable[[TraceFile], str | None] = _nothing_to_say
    has_ranks: bool = True
    has_timeline: bool = True
    joins_newest_run: bool = False
    prepare: Callable[[TraceFile], None] = _nothing_to_prepare
