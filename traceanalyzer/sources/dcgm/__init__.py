"""Reader of DCGM: scrapes of its exporters, answers of Prometheus, `dcgmi dmon` and tables of field values."""

from traceanalyzer.errors import SourceError
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.base import Source
from traceanalyzer.sources.dcgm.recognise import Form, form_of, why_not
from traceanalyzer.sources.files import TraceFile


def _recognise(file: TraceFile) -> bool:
    return form_of(file) is not None


def _read(file: TraceFile, sink: Sink) -> None:
    form = form_of(file)
    count = 0
    if form is Form.API:
        from traceanalyzer.sources.dcgm.prometheus_api import ApiAnswer

        count = ApiAnswer(file, sink).read()
    elif form is Form.DMON:
        from traceanalyzer.sources.dcgm.dmon import DmonTable

        count = DmonTable(file, sink).read()
    elif form is Form.FIELD_DUMP:
        from traceanalyzer.sources.dcgm.field_dump import read_field_dump

        count = read_field_dump(file, sink)
    elif form is Form.EXPOSITION:
        from traceanalyzer.sources.dcgm.exposition import Exposition

        count = Exposition(file, sink).read()
    if not count:
        raise SourceError(file.path, "holds no whole sample of a GPU", "give it again when it is whole")
    sink.facts.format_version = None if form is None else form.value


SOURCE = Source(
    "dcgm",
    "DCGM (exporter, Prometheus, dcgmi dmon)",
    _recognise,
    _read,
    why_not=why_not,
    has_ranks=False,
    has_timeline=False,
    joins_newest_run=True,
)
