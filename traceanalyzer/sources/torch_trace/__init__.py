"""torch.profiler (Kineto) Chrome traces of every era, and those of the legacy autograd profiler."""

from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.base import Source
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.torch_trace.recognise import SCAN_FROM_BYTES, looks_like_trace


def _recognise(file: TraceFile) -> bool:
    return looks_like_trace(file.head)


def _prepare(file: TraceFile) -> None:
    if file.text_bytes >= SCAN_FROM_BYTES:
        from traceanalyzer.sources.torch_trace.scanner import load_scanner

        load_scanner()


def _read(file: TraceFile, sink: Sink) -> None:
    from traceanalyzer.sources.torch_trace.reader import TorchReader

    TorchReader(file, sink).read()


SOURCE = Source("torch", "torch.profiler trace (Chrome trace JSON)", _recognise, _read, prepare=_prepare)
