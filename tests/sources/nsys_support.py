"""Reading a file into memory, for the tests of the nsys reader."""

from pathlib import Path

from tests.support.memory_sink import MemorySink
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.nsys_sqlite import SOURCE


def read(path: Path, keep_environment: bool = False) -> MemorySink:
    sink = MemorySink(keep_environment)
    SOURCE.read(TraceFile(path), sink)
    return sink


def events(sink: MemorySink, *kinds: str) -> list[dict[str, object]]:
    return [row for row in sink.rows("cpu_events") if row["kind"] in kinds]


def codes(sink: MemorySink) -> set[str]:
    return {code for code, _ in sink.notes}
