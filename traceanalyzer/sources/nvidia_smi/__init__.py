"""Reader of nvidia-smi: dmon, pmon, `--query-...`, `topo -m`, `-q`, `-q -x`, `nvlink`, `-L`, the plain table."""

from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.base import Source
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.nvidia_smi.recognise import looks_like_nvidia_smi, why_not


def _read(file: TraceFile, sink: Sink) -> None:
    from traceanalyzer.sources.nvidia_smi.reader import Reader

    Reader(file, sink).read()


SOURCE = Source(
    "nvidia_smi",
    "nvidia-smi",
    looks_like_nvidia_smi,
    _read,
    why_not=why_not,
    has_ranks=False,
    has_timeline=False,
    joins_newest_run=True,
)
