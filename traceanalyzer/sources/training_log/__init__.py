"""Reader of training logs: what each step took, by the job's own count.

Samples have the source `training_log`, and `tick` is the number of the step. Metrics: `step_time` (s), `samples` (per
step), `samples_per_second`, `tokens`, `tokens_per_second`, `tflops`, `loss`; `loader_time` (s) is what a batch of the
loader alone takes. Everything else keeps the name that it has in the log.

CSV needs a header with usual names, in any order: `step,time,loss,samples`. `time` is that of a step, or the time since
the start where it only grows; samples that only grow are all samples since the start. Units stand in the names
(`step_time_ms`, `elapsed_s`, `time (ms)`); times without one are taken for seconds, with a warning. A table of `batch`
and `time` alone, or of a column named `loader...`, is what `for batch in loader: pass` takes.
"""

from traceanalyzer.errors import SourceError
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.base import Source
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.training_log.recognise import is_log, is_table


def _recognise(file: TraceFile) -> bool:
    return is_table(file) or is_log(file)


def _read(file: TraceFile, sink: Sink) -> None:
    if is_table(file):
        from traceanalyzer.sources.training_log.table import Table

        count = Table(file, sink).read()
    else:
        from traceanalyzer.sources.training_log.lines import LogLines

        count = LogLines(file, sink).read()
    if not count:
        raise SourceError(file.path, "a training log without a whole step", "give it again when it has some")


SOURCE = Source(
    "training_log",
    "training logs (CSV, Megatron, nanoGPT)",
    _recognise,
    _read,
    has_ranks=False,
    has_timeline=False,
    joins_newest_run=True,
)
