"""Texts of nvidia-smi as samples, for the tests of their reader."""

import tempfile
from pathlib import Path
from typing import Any

from tests.support.memory_sink import MemorySink
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.nvidia_smi import SOURCE

FIRST = 1_795_968_600_000_000_000
"""2026-11-29 16:10:00, as nanoseconds since 1970."""


def read_path(path: Path) -> MemorySink:
    """What the reader makes of a file that it recognises."""
    file = TraceFile(path)
    assert SOURCE.recognise(file), path
    sink = MemorySink()
    SOURCE.read(file, sink)
    return sink


def read_text(text: str | bytes) -> MemorySink:
    """The same for a text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_path(path)


def samples(sink: MemorySink, metric: str, key: str = "value", **where: object) -> list[Any]:
    """One column of the samples of a metric, in the order of the file."""
    return [
        row.get(key)
        for row in sink.rows("metric_samples")
        if row["metric"] == metric and all(row.get(name) == value for name, value in where.items())
    ]


def codes(sink: MemorySink) -> set[str]:
    """Codes of what was noted."""
    return {code for code, _text in sink.notes}
