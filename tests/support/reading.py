"""Reading a text with the source that recognises it, into memory."""

from collections import Counter
from pathlib import Path

from tests.support.memory_sink import MemorySink
from traceanalyzer.errors import SourceError
from traceanalyzer.ingestion import recognise
from traceanalyzer.sources.files import TraceFile


def read(path: Path, source: str | None = None, keep_environment: bool = False) -> MemorySink:
    """What the source of a file writes; with `source` it has to be that one."""
    file = TraceFile(path)
    found = recognise(file)
    assert found is not None, "no source recognises it"
    assert source in (None, found.name)
    sink = MemorySink(keep_environment)
    found.read(file, sink)
    return sink


def read_text(folder: Path, content: str | bytes, name: str = "file.txt", source: str | None = None) -> MemorySink:
    """The same for a text, in a file of that name."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read(path, source)


def samples(sink: MemorySink, *columns: str) -> list[tuple[object, ...]]:
    """Some columns of the samples, in the order of writing."""
    return [tuple(row.get(name) for name in columns) for row in sink.rows("metric_samples")]


EVERYTHING = ("device", "instance", "process", "metric", "metric_unit", "t_ns", "tick", "value")


def kept_of_cut(folder: Path, content: bytes, at: int, name: str) -> Counter[tuple[object, ...]] | None:
    """The samples of the first `at` bytes; None where they are refused, in one line, or by no source known."""
    path = folder / name
    path.write_bytes(content[:at])
    file = TraceFile(path)
    found = recognise(file)
    if found is None:
        return None
    sink = MemorySink()
    try:
        found.read(file, sink)
    except SourceError as error:
        assert "\n" not in str(error)
        return None
    return Counter(samples(sink, *EVERYTHING))
