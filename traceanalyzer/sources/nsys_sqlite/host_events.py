"""Other events of the host: OS runtime, MPI and UCX, libraries, OpenACC, OpenMP, overhead, synchronisation records."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.schema.sink import NO_TEXT
from traceanalyzer.sources.nsys_sqlite.call_chains import read_call_chains
from traceanalyzer.sources.nsys_sqlite.capture import Capture, masked, positive
from traceanalyzer.sources.nsys_sqlite.database import NULL, Block, Integers
from traceanalyzer.sources.nsys_sqlite.payloads import compact

_MPI = ("MPI_COLLECTIVES_EVENTS", "MPI_P2P_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS")
_UCX = ("UCP_EVENTS", "UCP_SUBMIT_EVENTS", "UCP_PROGRESS_EVENTS")
_LIBRARIES = {"CUDNN_EVENTS": "cuDNN", "CUBLAS_EVENTS": "cuBLAS"}
_OPENACC = tuple(f"CUPTI_ACTIVITY_KIND_OPENACC_{part}" for part in ("DATA", "LAUNCH", "OTHER"))
# ENUM_CUPTI_OVERHEAD_TYPE, for rows without a name
_OVERHEADS = {
    2: "Driver compiler (JIT)",
    3: "CUPTI Buffer flush",
    4: "CUPTI Instrumentation",
    5: "CUPTI Resource Management",
    6: "Runtime Triggered Module Loading",
    7: "Lazy Function Loading",
    8: "Command Buffer Full",
}
# ENUM_CUPTI_SYNC_TYPE
_SYNCHRONISATIONS = {1: "Event sync", 2: "Stream wait event", 3: "Stream sync", 4: "Context sync"}


class _Spans:
    """Rows of a block that have a start, with open ends closed at the end of the capture where that is asked for."""

    def __init__(self, capture: Capture, block: Block, what: str, *, close: bool = False) -> None:
        start, end = block["start"], block["end"].copy()
        if close and (end == NULL).any():
            unfinished = (end == NULL) & (start != NULL)
            end[unfinished] = np.maximum(start[unfinished], capture.end_of_capture)
            capture.note(
                "calls_never_ended",
                f"Some {what} were never ended; they last to the end of the capture.",
                int(unfinished.sum()),
            )
        sound = (start != NULL) & (end != NULL)
        capture.note(
            "events_without_time", f"Some {what} have no start or no end; they were left out.", int((~sound).sum())
        )
        self._block = block
        self.rows = np.flatnonzero(sound)
        self.times = {"start_ns": start[self.rows], "end_ns": end[self.rows]}

    def __getitem__(self, column: str) -> Integers:
        return self._block[column][self.rows]


def read_host_events(capture: Capture) -> None:
    """Write all of them to `cpu_events`."""
    read_os_calls(capture)
    for table in _MPI:
        _communication(capture, table, "MPI", "MPI calls")
    for table in _UCX:
        _communication(capture, table, "UCX", "UCX calls")
    for table, domain in _LIBRARIES.items():
        _ranges(capture, table, domain, ())
    for table in _OPENACC:
        _ranges(capture, table, "OpenACC", ("bytes",))
    for table in sorted(t for t in capture.database.tables if t.startswith("OPENMP_EVENT_KIND_")):
        _ranges(capture, table, "OpenMP", ())
    read_overhead(capture)
    _synchronisation_records(capture)
    _page_faults(capture)


def read_os_calls(capture: Capture) -> None:
    """Calls of the OS runtime that nsys recorded: those that may block and lasted longer than its threshold."""
    chains = read_call_chains(capture, "OSRT_CALLCHAINS")
    for block in capture.database.blocks("OSRT_API", ("start", "end", "globalTid", "nameId", "callchainId")):
        spans = _Spans(capture, block, "OS calls")
        chain = spans["callchainId"]
        capture.write_events(
            EventKind.OS_CALL,
            "OS calls",
            {
                **capture.threads(spans["globalTid"]),
                "name": capture.names.codes(spans["nameId"]),
                **spans.times,
                # Unlike in the table of API calls, chain 0 says that there is none.
                "backtrace_node_id": chains.nodes(np.where(chain == 0, NULL, chain)),
            },
        )


def _communication(capture: Capture, table: str, domain: str, what: str) -> None:
    columns = ("start", "end", "globalTid", "textId", "size", "recvSize", "packedSize")
    domain_code: int | None = None
    for block in capture.database.blocks(table, columns):
        domain_code = capture.names.code(domain) if domain_code is None else domain_code
        spans = _Spans(capture, block, what, close=True)
        size = spans["size"]
        for other in ("recvSize", "packedSize"):
            size = np.where(size == NULL, spans[other], size)
        capture.write_events(
            EventKind.HOST_COMMUNICATION,
            what,
            {
                **capture.threads(spans["globalTid"]),
                "name": capture.names.codes(spans["textId"]),
                "domain": np.full(len(spans.rows), domain_code, np.int32),
                **spans.times,
                "bytes": masked(size),
            },
        )


def _ranges(capture: Capture, table: str, domain: str, more: Sequence[str]) -> None:
    for block in capture.database.blocks(table, ("start", "end", "globalTid", "nameId", *more)):
        spans = _Spans(capture, block, f"{domain} events")
        columns: dict[str, Any] = {
            **capture.threads(spans["globalTid"]),
            "name": capture.names.codes(spans["nameId"]),
            "domain": np.full(len(spans.rows), capture.names.code(domain), np.int32),
            **spans.times,
        }
        columns |= {name: masked(spans[name]) for name in more}
        capture.write_events(EventKind.RANGE, f"{domain} events", columns)


def read_overhead(capture: Capture) -> None:
    """What the profiler and the driver tell of their own cost, under all names that it had."""
    for table in ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"):
        columns = ("start", "end", "globalTid", "nameId", "overheadType", "correlationId")
        for block in capture.database.blocks(table, columns):
            spans = _Spans(capture, block, "overhead records")
            names = capture.names.codes(spans["nameId"])
            for number, text in _OVERHEADS.items():
                unnamed = (names == NO_TEXT) & (spans["overheadType"] == number)
                if unnamed.any():
                    names[unnamed] = capture.names.code(text)
            capture.write_events(
                EventKind.OVERHEAD,
                "overhead records",
                {
                    **capture.threads(spans["globalTid"]),
                    "name": names,
                    **spans.times,
                    "correlation_id": positive(spans["correlationId"]),
                },
            )


def _synchronisation_records(capture: Capture) -> None:
    """The device's side of synchronisations: rows without a thread, whose process may be that of several threads."""
    columns = ("start", "end", "globalPid", "correlationId", "syncType")
    for block in capture.database.blocks("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", columns):
        spans = _Spans(capture, block, "synchronisation records")
        names = np.full(len(spans.rows), NO_TEXT, np.int32)
        for number, text in _SYNCHRONISATIONS.items():
            which = spans["syncType"] == number
            if which.any():
                names[which] = capture.names.code(text)
        capture.write_events(
            EventKind.SYNC_RECORD,
            "synchronisation records",
            {
                **capture.processes(spans["globalPid"]),
                "name": names,
                **spans.times,
                "correlation_id": positive(spans["correlationId"]),
            },
        )


def _page_faults(capture: Capture) -> None:
    for table, name in (
        ("CUDA_UM_CPU_PAGE_FAULT_EVENTS", "CPU page fault"),
        ("CUDA_UM_GPU_PAGE_FAULT_EVENTS", "GPU page faults"),
    ):
        for block in capture.database.blocks(table, ("start", "end", "globalPid", "numberOfPageFaults")):
            keep = np.flatnonzero(block["start"] != NULL)
            start, end = block["start"][keep], block["end"][keep]
            faults = block["numberOfPageFaults"][keep].tolist()
            capture.write_events(
                EventKind.UNIFIED_MEMORY,
                "page faults",
                {
                    **capture.processes(block["globalPid"][keep]),
                    "name": np.full(len(keep), capture.names.code(name), np.int32),
                    "start_ns": start,
                    "end_ns": np.where(end == NULL, start, end),
                    "args": capture.sink.texts.codes(None if n == NULL else compact({"faults": n}) for n in faults),
                },
            )
