"""Reading an export: which parts there are, in which order, and what is refused."""

from pathlib import Path

from traceanalyzer.errors import SourceError
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.nsys_sqlite.api_calls import Backtraces, read_api_calls
from traceanalyzer.sources.nsys_sqlite.capture import Capture
from traceanalyzer.sources.nsys_sqlite.database import BROKEN, Database
from traceanalyzer.sources.nsys_sqlite.device_operations import DeviceOperations
from traceanalyzer.sources.nsys_sqlite.devices import Devices
from traceanalyzer.sources.nsys_sqlite.facts import finish_facts, note_lost_tables, read_diagnostics, read_metadata
from traceanalyzer.sources.nsys_sqlite.host_events import read_host_events
from traceanalyzer.sources.nsys_sqlite.metrics import read_memory, read_metrics
from traceanalyzer.sources.nsys_sqlite.nvtx import NvtxEvents, read_names
from traceanalyzer.sources.nsys_sqlite.processes import write_processes, write_threads
from traceanalyzer.sources.nsys_sqlite.ranks import find_ranks
from traceanalyzer.sources.nsys_sqlite.recognise import is_report
from traceanalyzer.sources.nsys_sqlite.report import exported
from traceanalyzer.sources.nsys_sqlite.samples import read_cpu_samples, read_scheduling

_META_TABLES = {"META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE", "TARGET_INFO_SESSION_START_TIME"}
_EVENT_TABLES = {
    "NVTX_EVENTS",
    "OSRT_API",
    "COMPOSITE_EVENTS",
    "SCHED_EVENTS",
    "GPU_METRICS",
    "GENERIC_EVENTS",
    "NET_NIC_METRIC",
    "PROFILER_OVERHEAD",
    "CUDNN_EVENTS",
    "CUBLAS_EVENTS",
}
_LONGEST_MESSAGE = 200
_EVENT_PREFIXES = ("CUPTI_ACTIVITY_KIND_", "MPI_", "UCP_", "OPENMP_EVENT_KIND_", "CUDA_UM_", "CUDA_GPU_MEMORY_")


def read(file: TraceFile, sink: Sink) -> None:
    """Read an export, or export a report and read that. Raises `SourceError` where nothing of it can be used."""
    with file.on_disk() as path:
        if not is_report(file.stem, file.head):
            _read_export(path, file, sink)
            return
        with exported(path, file.path) as (target, version):
            sink.note(
                "report_exported",
                f"The report was exported to a temporary file with nsys {version}.",
            )
            _read_export(target, file, sink)


def _read_export(path: Path, file: TraceFile, sink: Sink) -> None:
    try:
        database = Database(path)
    except BROKEN as error:
        why = str(error).splitlines()[0][:_LONGEST_MESSAGE]  # SQLite quotes whole statements of the schema
        if isinstance(error, UnicodeDecodeError):
            why = "its schema is damaged"
        raise SourceError(
            file.path, f"cannot be read as an SQLite database ({why})", "export the report again"
        ) from error
    try:
        _refuse_others(database, file)
        capture = Capture(database, sink)
        _read_tables(capture)
        note_lost_tables(capture, file.damage)
        if not capture.rows and (database.cut or database.lost or file.damage):
            raise SourceError(
                file.path, "an nsys export that is damaged: no table of events can be read", "export it again"
            )
    finally:
        database.close()


def _refuse_others(database: Database, file: TraceFile) -> None:
    tables = database.tables | set(database.lost)
    events = {t for t in tables if t in _EVENT_TABLES or t.startswith(_EVENT_PREFIXES)}
    if events or tables & _META_TABLES:
        return
    if not tables:
        raise SourceError(file.path, "an SQLite database without any table", "export the report again")
    if "StringIds" in tables:
        raise SourceError(
            file.path,
            "a broken nsys export: it holds texts but neither events nor meta data",
            "export the report again with an nsys as new as the one that recorded it",
        )
    raise SourceError(file.path, "an SQLite database, but no nsys export: it has none of its tables")


def _read_tables(capture: Capture) -> None:
    environment = read_metadata(capture)
    devices = Devices(capture)
    DeviceOperations(capture, devices).read()
    nvtx_names = read_names(capture)
    backtraces = Backtraces()
    # Ranges come before the API calls: the Python back traces of the calls are among them.
    nvtx = NvtxEvents(capture, nvtx_names, backtraces)
    nvtx.read()
    read_api_calls(capture, backtraces)
    read_host_events(capture)
    read_cpu_samples(capture)
    read_scheduling(capture)
    read_metrics(capture)
    read_memory(capture, devices)
    if not capture.rows:
        capture.note("no_events", "The export holds no event: nothing was recorded, or nothing was traced.")
    ranks = find_ranks(capture, environment, nvtx_names, nvtx.collectives, devices)
    devices.write()
    write_processes(capture, ranks)
    write_threads(capture, nvtx_names)
    read_diagnostics(capture)
    finish_facts(capture, ranks, nvtx.collectives.processes)
