"""Short ways to read a torch.profiler trace in a test."""

import json
from pathlib import Path
from typing import Any

from tests.support.memory_sink import MemorySink
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.torch_trace.blocks import BLOCK_BYTES
from traceanalyzer.sources.torch_trace.reader import TorchReader


def read_file(path: Path, block_bytes: int = BLOCK_BYTES) -> MemorySink:
    sink = MemorySink()
    TorchReader(TraceFile(path), sink, block_bytes).read()
    return sink


def read_text(folder: Path, text: str | bytes, block_bytes: int = BLOCK_BYTES) -> MemorySink:
    path = folder / "trace.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_file(path, block_bytes)


def read_events(folder: Path, events: list[dict[str, Any]], **metadata: Any) -> MemorySink:
    return read_text(folder, json.dumps(metadata | {"traceEvents": events}))


def operator(
    name: str = "aten::mm", ts: Any = 1, dur: Any = 1, pid: Any = 10, tid: Any = 11, cat: str = "cpu_op", **args: Any
) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def call(
    name: str = "cudaLaunchKernel", ts: Any = 2, dur: Any = 1, pid: Any = 10, tid: Any = 11, **args: Any
) -> dict[str, Any]:
    return operator(name, ts, dur, pid, tid, "cuda_runtime", **args)


def kernel(
    name: str = "gemm", ts: Any = 5, dur: Any = 1, pid: Any = 0, tid: Any = 7, cat: str = "kernel", **args: Any
) -> dict[str, Any]:
    return operator(name, ts, dur, pid, tid, cat, **args)


def notes(sink: MemorySink) -> dict[str, int]:
    """Counts of the notes by code."""
    out: dict[str, int] = {}
    for (code, text), count in sink.notes.items():
        assert text[0].isupper() and text.endswith("."), text
        out[code] = out.get(code, 0) + count
    return out
