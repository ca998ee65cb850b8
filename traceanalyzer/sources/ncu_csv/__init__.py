"""Reader of Nsight Compute (ncu): its CSV pages of every version, and its reports where `ncu-report` is installed."""

from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.base import Source
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.ncu_csv.recognise import is_report, lacks_package, looks_like_ncu, why_not


def _read(file: TraceFile, sink: Sink) -> None:
    if is_report(file):
        from traceanalyzer.sources.ncu_csv.report import read_report

        read_report(file, sink)
    else:
        from traceanalyzer.sources.ncu_csv.reader import CsvReader

        CsvReader(file, sink).read()


SOURCE = Source(
    "ncu",
    "Nsight Compute CSV (ncu --csv)",
    looks_like_ncu,
    _read,
    why_not=why_not,
    lacks=lacks_package,
    has_ranks=False,
    has_timeline=False,
    joins_newest_run=True,
)
