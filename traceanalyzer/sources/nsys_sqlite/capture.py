"""The capture that is being read: who the events belong to, how rows reach the sink, what is counted on the way."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.column import Type
from traceanalyzer.schema.kinds import EventKind, Severity
from traceanalyzer.schema.sink import CaptureFacts, Sink, Values
from traceanalyzer.schema.tables import TABLE_BY_NAME
from traceanalyzer.sources.nsys_sqlite.database import NULL, Database, Integers
from traceanalyzer.sources.nsys_sqlite.names import Names

_DTYPES = {
    Type.INT64: np.int64,
    Type.INT32: np.int32,
    Type.FLOAT64: np.float64,
    Type.BOOL: np.bool_,
    Type.NAME: np.int32,
    Type.CHOICE: np.uint8,
}
_PID_BITS = 24
_ENDS = (
    ("CUPTI_ACTIVITY_KIND_KERNEL", "end"),
    ("CUPTI_ACTIVITY_KIND_MEMCPY", "end"),
    ("CUPTI_ACTIVITY_KIND_MEMSET", "end"),
    ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "end"),
    ("CUPTI_ACTIVITY_KIND_RUNTIME", "end"),
    ("NVTX_EVENTS", "end"),
    ("NVTX_EVENTS", "start"),
    ("OSRT_API", "end"),
    ("MPI_COLLECTIVES_EVENTS", "end"),
    ("MPI_P2P_EVENTS", "end"),
)


class Capture:
    """Writes to the sink and keeps what later parts of the reader need to know of earlier ones.

    `globalTid` and `globalPid` are taken apart here (NVIDIA's documentation of the export: bits 0-23 thread,
    24-47 process, above them the machine).
    """

    def __init__(self, database: Database, sink: Sink) -> None:
        self.database = database
        self.sink = sink
        self.names = Names(database, sink.texts)
        self.facts: CaptureFacts = sink.facts
        self.operations = 0
        self.events = 0
        self.rows = 0
        self.global_threads: set[int] = set()
        self.global_processes: set[int] = set()
        self.gpu_processes: set[int] = set()
        self.first: int | None = None
        self.last: int | None = None
        self._machines: dict[int, int] = {}

    # ------------------------------------------------------------ processes and threads

    def process(self, global_ids: Integers) -> Integers:
        """Process numbers of globalTid or globalPid values; `NULL` stays.

        The process number is the pid. Where a report holds several machines, whose pids may clash, processes of the
        second, third ... machine get 2^24, 2 x 2^24 ... added.
        """
        pid = (global_ids >> _PID_BITS) & 0xFFFFFF
        missing = global_ids == NULL
        machine = global_ids >> 48
        present = machine[~missing]
        if (present.size and (present[0] != present).any()) or not self._machines.keys() >= set(present[:1].tolist()):
            for value in dict.fromkeys(present.tolist()):
                self._machines.setdefault(value, len(self._machines))
        if len(self._machines) > 1:
            for value, index in self._machines.items():
                pid[machine == value] += index << _PID_BITS
        return np.where(missing, NULL, pid)

    def process_of(self, global_id: int) -> int:
        """Process number of one globalTid or globalPid."""
        return int(self.process(np.array([global_id], np.int64))[0])

    def machine_of(self, process: int) -> int:
        """Number of the machine of a process, from 0."""
        return process >> _PID_BITS

    @property
    def machines(self) -> int:
        """Number of machines seen in ids so far."""
        return len(self._machines)

    def threads(self, global_tids: Integers) -> dict[str, Values]:
        """The columns `process` and `thread`; remembers both for the tables of processes and threads."""
        self.global_threads.update(distinct(global_tids))
        thread = np.where(global_tids == NULL, NULL, global_tids & 0xFFFFFF)
        return {"process": masked(self.process(global_tids)), "thread": masked(thread)}

    def processes(self, global_pids: Integers) -> dict[str, Values]:
        """The column `process`; remembers it for the table of processes."""
        self.global_processes.update(distinct(global_pids))
        return {"process": masked(self.process(global_pids))}

    # ------------------------------------------------------------ time

    @cached_property
    def duration(self) -> int | None:
        """Length of the session in nanoseconds, where the file states it."""
        found = [row[0] for row in self.database.rows("ANALYSIS_DETAILS", "duration") if isinstance(row[0], int)]
        return max(found, default=None)

    @cached_property
    def end_of_capture(self) -> int:
        """Where events end that never ended: the stated duration, else the last time of the file."""
        if self.duration is not None:
            return self.duration
        ends = (self.database.largest(table, column) for table, column in _ENDS)
        return max((e for e in ends if e is not None), default=0)

    def repaired(self, start: Integers, end: Integers, what: str) -> Integers:
        """Ends that are not before their starts; says how many were."""
        early = end < start
        if early.any():
            self.note(
                "negative_duration",
                f"Some {what} ended before they started; they were given length 0.",
                int(early.sum()),
            )
            end = np.maximum(start, end)
        return end

    # ------------------------------------------------------------ writing

    def note(self, code: str, text: str, count: int = 1, severity: Severity = Severity.WARNING) -> None:
        """Say what was odd; nothing is said of no records."""
        if count:
            self.sink.note(code, text, count, severity)

    def write(self, table: str, columns: Mapping[str, Any]) -> None:
        """Write rows, each column in the type that the schema declares."""
        declared = TABLE_BY_NAME[table].by_name
        typed = {name: _typed(values, declared[name].type) for name, values in columns.items()}
        rows = len(next(iter(typed.values())))
        if rows:
            self.rows += rows
            self.sink.write(table, typed)

    def write_operations(self, columns: Mapping[str, Any]) -> None:
        """Write device operations whose times are sound."""
        start, end = columns["start_ns"], columns["end_ns"]
        self._see(start, end)
        self.operations += len(start)
        self.write("gpu_ops", columns)

    def write_events(self, kind: EventKind | NDArray[np.uint8], what: str, columns: Mapping[str, Any]) -> int:
        """Write events of the host and return the number of the first: events are numbered in the order of writing.

        `what` names the events in notes, in the plural. Callers drop rows without a start and fill in open ends.
        """
        start = columns["start_ns"]
        if not len(start):
            return self.events
        end = self.repaired(start, columns["end_ns"], what)
        self._see(start, end)
        first = self.events
        self.events += len(start)
        kinds = np.full(len(start), kind, np.uint8) if isinstance(kind, EventKind) else kind
        self.write("cpu_events", {**columns, "kind": kinds, "end_ns": end})
        return first

    def _see(self, start: Integers, end: Integers) -> None:
        if len(start):
            first, last = int(start.min()), int(end.max())
            self.first = first if self.first is None else min(self.first, first)
            self.last = last if self.last is None else max(self.last, last)


def masked(values: Integers) -> Values:
    """The values with their nulls masked."""
    missing = values == NULL
    return np.ma.masked_array(values, missing) if missing.any() else values


def distinct(values: Integers) -> list[int]:
    """Distinct values in order; most blocks hold one thread or process only, so that is looked at first."""
    if not len(values):
        return []
    if (values == values[0]).all():
        return [int(values[0])]
    found: list[int] = np.unique(values).tolist()
    return found


def positive(values: Integers) -> Values:
    """The values with nulls and zeros masked, for ids of which 0 says none."""
    missing = (values == NULL) | (values == 0)
    return np.ma.masked_array(values, missing) if missing.any() else values


def _typed(values: Any, kind: Type) -> Values:
    if kind is Type.TEXT:
        return np.asarray(values, object)
    wanted = _DTYPES[kind]
    if not isinstance(values, np.ndarray):
        if kind in (Type.INT32, Type.INT64):
            limits = np.iinfo(wanted)
            values = [min(max(v, limits.min), limits.max) if isinstance(v, int) else v for v in values]
        return np.asarray(values, wanted)
    if values.dtype == wanted:
        return values
    if kind is Type.INT32 and not isinstance(values, np.ma.MaskedArray):
        return np.clip(values, -(2**31), 2**31 - 1).astype(np.int32)
    return values.astype(wanted)
