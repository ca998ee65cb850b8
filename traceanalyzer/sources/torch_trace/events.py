"""What threads did: calls, operators, annotations, Python frames -> `cpu_events`, and the threads themselves."""

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.kinds import EventKind, Severity
from traceanalyzer.schema.sink import NO_TEXT, Sink, Values
from traceanalyzer.sources.torch_trace.categories import is_launch, special_kind
from traceanalyzer.sources.torch_trace.collectives import Collectives
from traceanalyzer.sources.torch_trace.columns import Identities, PerText, either, unless, with_values
from traceanalyzer.sources.torch_trace.operations import external_ids
from traceanalyzer.sources.torch_trace.payload import Payloads
from traceanalyzer.sources.torch_trace.records import (
    ABSENT,
    CallArguments,
    DeviceRowArguments,
    FrameArguments,
    OperatorArguments,
)
from traceanalyzer.sources.torch_trace.rows import Identity, Index, Rows
from traceanalyzer.sources.torch_trace.timeline_header import TimelineHeader

Times = NDArray[np.int64]
_NAMED_KINDS = (EventKind.OPERATOR, EventKind.RANGE, EventKind.PYTHON_FRAME)


class ThreadEvents:
    """Collects what stands on the rows of threads, and writes it block by block in the order of the file."""

    def __init__(self, sink: Sink, identities: Identities, collectives: Collectives) -> None:
        self.threads: set[tuple[int, int]] = set()
        self.calls: dict[int, list[NDArray[np.int64]]] = defaultdict(list)
        self.launches = 0
        self._sink = sink
        self._identities = identities
        self._collectives = collectives
        self._payloads = Payloads(sink)
        self._kinds_of_names = {
            kind: PerText(sink.texts, partial(special_kind, kind=kind), np.uint8) for kind in _NAMED_KINDS
        }
        self._is_launch = PerText(sink.texts, is_launch, np.bool_)
        self._is_module = PerText(sink.texts, lambda name: name.startswith("nn.Module"), np.bool_)
        self._overhead: list[dict[str, Values]] = []
        self._next = 0
        self.header: TimelineHeader | None = None
        """Of an aligned timeline: its processes have their own overhead."""

    def add(self, rows: Rows, kinds: NDArray[np.uint8], start: Times, end: Times) -> None:
        """Takes calls, operators, annotations and frames in the order of the file."""
        processes, threads = rows.processes(self._identities), rows.threads(self._identities)
        if self.header is not None:
            threads = self.header.threads(threads)
        names = rows.names(self._sink.texts)
        columns: dict[str, Values] = {
            "process": np.ma.MaskedArray(processes, processes == ABSENT),
            "thread": np.ma.MaskedArray(threads, threads == ABSENT),
            "kind": self._special_kinds(names, kinds),
            "name": names,
            "domain": rows.categories(self._sink.texts),
            "start_ns": start,
            "end_ns": end,
        }
        self._see_threads(processes, threads)
        filler = _Filler(len(rows))
        self._add_calls(rows, np.flatnonzero(kinds == EventKind.API_CALL), names, processes, filler)
        operators = np.flatnonzero((kinds == EventKind.OPERATOR) | (kinds == EventKind.RANGE))
        self._add_operators(rows, operators, processes, filler)
        self._add_modules(rows, np.flatnonzero(kinds == EventKind.PYTHON_FRAME), names, filler)
        self._write(with_values(columns | filler.columns))

    def _write(self, columns: dict[str, Values]) -> None:
        self._next += len(columns["start_ns"])
        self._sink.write("cpu_events", columns)

    def _special_kinds(self, names: NDArray[np.int32], kinds: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Kinds with step marks, host communication and collector runs told by name."""
        out = kinds.copy()
        for kind in _NAMED_KINDS:
            rows = np.flatnonzero(kinds == kind)
            if len(rows):
                out[rows] = self._kinds_of_names[kind][names[rows]]
        return out

    def _see_threads(self, processes: Times, threads: Times) -> None:
        fresh = np.ones(len(processes), np.bool_)
        fresh[1:] = (processes[1:] != processes[:-1]) | (threads[1:] != threads[:-1])
        self.threads.update(zip(processes[fresh].tolist(), threads[fresh].tolist(), strict=True))

    def _add_calls(
        self, rows: Rows, index: Index, names: NDArray[np.int32], processes: Times, filler: "_Filler"
    ) -> None:
        if not len(index):
            return
        arguments = rows.take(index).arguments(CallArguments)
        correlation = arguments.integers("correlation", 0)
        correlation = unless(correlation, correlation.data == -1)
        external = external_ids(arguments)
        # Calls outside of any operator, and all calls before PyTorch 2.4, repeat the correlation there.
        external = unless(external, external.data == correlation.data)
        filler.put("correlation_id", index, correlation)
        filler.put("external_id", index, external)
        filler.put("bytes", index, either(arguments.integers("bytes"), arguments.integers("size")))
        owners = processes[index]
        for process in np.unique(owners).tolist():
            self.calls[process].append(correlation[owners == process].compressed())
        self.launches += int(self._is_launch[names[index]].sum())

    def _add_operators(self, rows: Rows, index: Index, processes: Times, filler: "_Filler") -> None:
        if not len(index):
            return
        chosen = rows.take(index)
        arguments = chosen.arguments(OperatorArguments)
        filler.put("external_id", index, external_ids(arguments))
        filler.put("sequence_number", index, arguments.integers("sequence_number", -1))
        filler.put("forward_thread", index, arguments.integers("forward_thread", 0))
        filler.put_codes("args", index, self._payloads.of_operators(chosen, arguments))
        stacks = arguments.having("call_stack")
        if len(stacks):
            records = chosen.take(stacks).records(OperatorArguments)
            nodes = np.array([self._payloads.node(a.call_stack or "") for a in records], np.int64)
            filler.put("backtrace_node_id", index[stacks], np.ma.MaskedArray(nodes, nodes < 0))
        collective = arguments.having("collective")
        if len(collective):
            places = index[collective]
            self._collectives.on_host(chosen.take(collective), places + self._next, processes[places])
        unfinished = len(arguments.having("finished"))
        if unfinished:
            text = "Annotations that were still open when recording ended have the end that the profiler gave them."
            self._sink.note("unfinished_events", text, unfinished, Severity.INFO)

    def _add_modules(self, rows: Rows, frames: Index, names: NDArray[np.int32], filler: "_Filler") -> None:
        """Frames that are calls of a module carry the number that tells its instances apart."""
        modules = frames[self._is_module[names[frames]]]
        if len(modules):
            arguments = rows.take(modules).arguments(FrameArguments)
            filler.put_codes("args", modules, self._payloads.of_modules(arguments.values("module_id")))

    def add_device_rows(self, rows: Rows, kind: EventKind, start: Times, end: Times) -> None:
        """Takes annotations and records of synchronisation from the rows of devices: they belong to no thread."""
        columns = self._plain(rows, kind, start, end)
        device: Iterable[Identity] = rows.process_ids()
        stream: Iterable[Identity] = rows.thread_ids()
        if self.header is not None:  # whose rows have numbers of their own
            processes = rows.processes(self._identities)
            columns["process"] = self.header.processes_of(processes)
            device, stream = [self.header.devices.get(pid) for pid in processes.tolist()], [None] * len(rows)
        records = zip(device, stream, rows.records(DeviceRowArguments), strict=True)
        columns["args"] = self._payloads.of_rows([_device_row(*row) for row in records])
        self._write(columns)

    def add_marks(self, rows: Rows, instants: Times) -> None:
        """Takes instants of the profiler itself."""
        self._write(self._plain(rows, EventKind.MARK, instants, instants))

    def add_overhead(self, rows: Rows, start: Times, end: Times) -> None:
        """Takes the profiler's own cost. But for timelines it names no process: that is known only at the end."""
        columns = self._plain(rows, EventKind.OVERHEAD, start, end)
        if self.header is not None:
            columns["process"] = self.header.recorded(rows.processes(self._identities))
        self._overhead.append(columns)

    def _plain(self, rows: Rows, kind: EventKind, start: Times, end: Times) -> dict[str, Values]:
        return {
            "kind": np.full(len(rows), kind, np.uint8),
            "name": rows.names(self._sink.texts),
            "domain": rows.categories(self._sink.texts),
            "start_ns": start,
            "end_ns": end,
        }

    def finish(self, process: int | None) -> None:
        """Writes what waited for the end: overhead, with the process that was profiled where it is the only one."""
        for columns in self._overhead:
            if process is not None and self.header is None:
                columns["process"] = np.full(len(columns["start_ns"]), process, np.int64)
            self._write(columns)
        self._overhead = []


class _Filler:
    """Columns of a batch of which several kinds of events fill their rows."""

    def __init__(self, count: int) -> None:
        self.columns: dict[str, Values] = {}
        self._count = count

    def put(self, name: str, rows: NDArray[np.intp], values: np.ma.MaskedArray[Any, Any]) -> None:
        if name not in self.columns:
            self.columns[name] = np.ma.MaskedArray(np.zeros(self._count, np.int64), np.ones(self._count, np.bool_))
        column = self.columns[name]
        column[rows] = values

    def put_codes(self, name: str, rows: NDArray[np.intp], values: NDArray[np.int32]) -> None:
        if name not in self.columns:
            self.columns[name] = np.full(self._count, NO_TEXT, np.int32)
        self.columns[name][rows] = values


def _device_row(device: Identity, stream: Identity, arguments: DeviceRowArguments) -> dict[str, Any]:
    """What tells the row of a device: its number and stream, and what a record of synchronisation waits for.

    `device` and `stream` are those of its place in the file.
    """
    values = {
        "device": arguments.device if arguments.device != ABSENT else device,
        "stream": arguments.stream if arguments.stream != ABSENT else stream,
        "correlation": arguments.correlation,
        "wait_on_stream": arguments.wait_on_stream,
        "wait_on_cuda_event_record_corr_id": arguments.wait_on_record,
    }
    return {key: value for key, value in values.items() if value not in (ABSENT, None)}
