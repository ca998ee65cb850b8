"""Reads a trace with and without the compiled scanner and compares all that was written."""

from pathlib import Path
from typing import Any

import numpy as np

from tests.support.memory_sink import MemorySink
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.torch_trace.blocks import BLOCK_BYTES
from traceanalyzer.sources.torch_trace.reader import TorchReader

NEVER = 1 << 62


def outcome(path: Path, block_bytes: int = BLOCK_BYTES, scan_from_bytes: int = 0) -> tuple[MemorySink, str, int]:
    """The sink after reading, the error of a file that was refused, and how many blocks were scanned."""
    sink, error = MemorySink(), ""
    reader = TorchReader(TraceFile(path), sink, block_bytes, scan_from_bytes)
    try:
        reader.read()
    except TraceAnalyzerError as refused:
        error = f"{type(refused).__name__}: {refused}"
    return sink, error, reader.scanned_blocks


def assert_same(path: Path, block_bytes: int = BLOCK_BYTES) -> int:
    """Both decoders write the same batches, texts, stacks, facts and notes; how many blocks were scanned."""
    plain, plain_error, none = outcome(path, block_bytes, NEVER)
    scanned, scanned_error, count = outcome(path, block_bytes)
    assert none == 0
    assert scanned_error == plain_error
    assert scanned.texts.all == plain.texts.all
    assert list(scanned.stacks.nodes) == list(plain.stacks.nodes)
    assert scanned.facts == plain.facts
    assert scanned.notes == plain.notes
    assert scanned.batches.keys() == plain.batches.keys()
    for table, batches in plain.batches.items():
        assert len(scanned.batches[table]) == len(batches), table
        for got, expected in zip(scanned.batches[table], batches, strict=True):
            assert got.keys() == expected.keys(), table
            for name in expected:
                _same(got[name], expected[name], f"{table}.{name}")
    return count


def _same(got: Any, expected: Any, place: str) -> None:
    assert got.dtype == expected.dtype, place
    masks = np.ma.getmaskarray(got), np.ma.getmaskarray(expected)
    np.testing.assert_array_equal(masks[0], masks[1], place)
    np.testing.assert_array_equal(np.ma.getdata(got)[~masks[0]], np.ma.getdata(expected)[~masks[0]], place)
