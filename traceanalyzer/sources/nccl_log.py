"""Reader of logs that hold nothing but what NCCL printed with NCCL_DEBUG=INFO: facts of the environment, no samples."""

import re

from traceanalyzer.errors import SourceError
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.base import Source
from traceanalyzer.sources.files import TraceFile

_LINE = re.compile(rb"(?:^|\n)(?![{<])[^\n]{0,200}?\S+:\d+:\d+ (?:\[\d+\] )?NCCL INFO \S")
_HOST = re.compile(r"(?:^|[\s>])([A-Za-z][\w.-]{0,62}):\d+:\d+ (?:\[\d+\] )?NCCL ")


def _recognise(file: TraceFile) -> bool:
    head = file.head
    return b"\0" not in head[:512] and b"NCCL INFO" in head and _LINE.search(head) is not None


def _read(file: TraceFile, sink: Sink) -> None:
    from traceanalyzer.sources.nccl_lines import Environment
    from traceanalyzer.sources.text_lines import Lines

    found, hosts = Environment(sink), set[str]()
    lines = Lines(file)
    for line in lines:
        if "NCCL" in line:
            found.line(line)
            if len(hosts) < 2 and (host := _HOST.search(line)):
                hosts.add(host[1])
    if len(hosts) == 1:
        sink.facts.host = hosts.pop()
    if not found.finish():
        raise SourceError(
            file.path, "lines of NCCL that tell neither version nor network nor settings", "let the job start fully"
        )


SOURCE = Source(
    "nccl_log",
    "NCCL's log (NCCL_DEBUG=INFO)",
    _recognise,
    _read,
    has_ranks=False,
    has_timeline=False,
    joins_newest_run=True,
)
