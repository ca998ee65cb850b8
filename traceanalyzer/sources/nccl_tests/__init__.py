"""Reader of nccl-tests: what is printed, by every version, and its JSON.

Rows become `metric_samples` of the source `nccl_tests`: metrics `time` (us), `algbw` and `busbw` (GB/s), `wrong`
(elements that were not right; of old versions `error`), and where printed `cpu_time`, `time_min`, `time_max`,
`time_p99` (us), `time_variation` (%), `iterations`. `instance` tells what a row is about, as `instance.py` says:
`collective=all_reduce bytes=1048576 dtype=float redop=sum ranks=8 place=in-place`. `tick` is the number of the row in
the file. Of a whole output there are `average_busbw`, a mean over all sizes and so no peak, and `out_of_bounds_values`.
"""

import re

from traceanalyzer.errors import SourceError
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.base import Source
from traceanalyzer.sources.files import TraceFile

_TEXT = re.compile(
    rb"#\s*size\s+count\s+type[^\n]*\balgbw|# Collective test starting: |# nccl-tests version |# nThread \d+ nGpus \d+ "
    rb"|(?:^|\n)[^\n]{0,80}?\d+\s+\d+\s+(?:half|float|double|bfloat16|u?int(?:8|32|64))\s+(?:sum|prod|max|min|avg)\s+-1"
)
_JSON = re.compile(rb'\{\s*"version"\s*:\s*\d+\s*,\s*"start_time"\s*:')


def _json(file: TraceFile) -> bool:
    return _JSON.match(file.head.removeprefix(b"\xef\xbb\xbf").lstrip()) is not None


def _recognise(file: TraceFile) -> bool:
    return _json(file) or (b"\0" not in file.head[:512] and _TEXT.search(file.head) is not None)


def _read(file: TraceFile, sink: Sink) -> None:
    if _json(file):
        from traceanalyzer.sources.nccl_tests.json_output import JsonOutput

        count = JsonOutput(file, sink).read()
    else:
        from traceanalyzer.sources.nccl_tests.text_output import TextOutput

        count = TextOutput(file, sink).read()
    if not count:
        raise SourceError(file.path, "output of nccl-tests without a whole row", "give it again when it is whole")


SOURCE = Source(
    "nccl_tests",
    "nccl-tests",
    _recognise,
    _read,
    has_ranks=False,
    has_timeline=False,
    joins_newest_run=True,
)
