"""What threads did: calls, operators, annotations, Python frames -> `cpu_events`, and the threads themselves."""

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.kinds import EventKind, Severity
from traceanalyzer.schema.sink import NO_TEXT, Sink, Values
from traceanalyzer.sources.torch_trace.categories import is_launch, special_kind
from traceanalyzer.sources.torch_trace.collectives import Collectives
from traceanalyzer.sources.torch_trace.columns import Identities, codes, either, integers, unless, with_values
from traceanalyzer.sources.torch_trace.payload import Payloads
from traceanalyzer.sources.torch_trace.records import (
    ABSENT,
    CallArguments,
    DeviceRowArguments,
    Event,
    FrameArguments,
    OperatorArguments,
    arguments_of,
)

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
        self._kinds_of_names: dict[EventKind, NDArray[np.uint8]] = {}
        self._launch_names = np.zeros(0, np.bool_)
        self._overhead: list[dict[str, Values]] = []
        self._next = 0

    def add(self, events: list[Event], kinds: NDArray[np.uint8], start: Times, end: Times) -> None:
        """Takes calls, operators, annotations and frames in the order of the file."""
        count = len(events)
        processes = self._identities.numbers([event.pid for event in events])
        threads = self._identities.numbers([event.tid for event in events])
        names = codes(self._sink.texts, [event.name or "" for event in events], count)
        columns: dict[str, Values] = {
            "process": np.ma.MaskedArray(processes, processes == ABSENT),
            "thread": np.ma.MaskedArray(threads, threads == ABSENT),
            "kind": self._special_kinds(names, kinds),
            "name": names,
            "domain": codes(self._sink.texts, [event.cat or "" for event in events], count),
            "start_ns": start,
            "end_ns": end,
        }
        self._see_threads(processes, threads)
        filler = _Filler(count)
        self._add_calls(events, np.flatnonzero(kinds == EventKind.API_CALL), names, processes, filler)
        operators = np.flatnonzero((kinds == EventKind.OPERATOR) | (kinds == EventKind.RANGE))
        self._add_operators(events, operators, processes, filler)
        self._add_modules(events, kinds, filler)
        self._write(with_values(columns | filler.columns))

    def _write(self, columns: dict[str, Values]) -> None:
        self._next += len(columns["start_ns"])
        self._sink.write("cpu_events", columns)

    def _special_kinds(self, names: NDArray[np.int32], kinds: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Kinds with step marks, host communication and collector runs told by name."""
        out = kinds.copy()
        texts = self._sink.texts.all
        for kind in _NAMED_KINDS:
            rows = np.flatnonzero(kinds == kind)
            if len(rows):
                known = self._kinds_of_names.get(kind, np.zeros(0, np.uint8))
                if len(known) < len(texts):
                    more = np.array([special_kind(text, kind) for text in texts[len(known) :]], np.uint8)
                    known = self._kinds_of_names[kind] = np.concatenate((known, more))
                out[rows] = known[names[rows]]
        return out

    def _see_threads(self, processes: Times, threads: Times) -> None:
        fresh = np.ones(len(processes), np.bool_)
        fresh[1:] = (processes[1:] != processes[:-1]) | (threads[1:] != threads[:-1])
        self.threads.update(zip(processes[fresh].tolist(), threads[fresh].tolist(), strict=True))

    def _add_calls(
        self, events: list[Event], rows: NDArray[np.intp], names: NDArray[np.int32], processes: Times, filler: "_Filler"
    ) -> None:
        if not len(rows):
            return
        arguments = arguments_of([events[i] for i in rows.tolist()], CallArguments)
        correlation = integers([a.correlation for a in arguments], 0)
        correlation = unless(correlation, correlation.data == -1)
        external = _external(arguments)
        # Calls outside of any operator, and all calls before PyTorch 2.4, repeat the correlation there.
        external = unless(external, external.data == correlation.data)
        filler.put("correlation_id", rows, correlation)
        filler.put("external_id", rows, external)
        filler.put("bytes", rows, either(integers([a.bytes for a in arguments]), integers([a.size for a in arguments])))
        owners = processes[rows]
        for process in np.unique(owners).tolist():
            self.calls[process].append(correlation[owners == process].compressed())
        texts = self._sink.texts.all
        if len(self._launch_names) < len(texts):
            more = np.array([is_launch(text) for text in texts[len(self._launch_names) :]], np.bool_)
            self._launch_names = np.concatenate((self._launch_names, more))
        self.launches += int(self._launch_names[names[rows]].sum())

    def _add_operators(self, events: list[Event], rows: NDArray[np.intp], processes: Times, filler: "_Filler") -> None:
        if not len(rows):
            return
        chosen = [events[i] for i in rows.tolist()]
        arguments = arguments_of(chosen, OperatorArguments)
        filler.put("external_id", rows, _external(arguments))
        filler.put("sequence_number", rows, integers([a.sequence_number for a in arguments], -1))
        filler.put("forward_thread", rows, integers([a.forward_thread for a in arguments], 0))
        filler.put_codes("args", rows, self._payloads.of_operators(chosen, arguments))
        stacks = [i for i, a in enumerate(arguments) if a.call_stack]
        if stacks:
            nodes = np.array([self._payloads.node(arguments[i].call_stack or "") for i in stacks], np.int64)
            filler.put("backtrace_node_id", rows[stacks], np.ma.MaskedArray(nodes, nodes < 0))
        collective = [i for i, a in enumerate(arguments) if a.collective is not None]
        if collective:
            places = rows[collective]
            self._collectives.on_host([chosen[i] for i in collective], places + self._next, processes[places])
        unfinished = sum(a.finished is False for a in arguments)
        if unfinished:
            text = "Annotations that were still open when recording ended have the end that the profiler gave them."
            self._sink.note("unfinished_events", text, unfinished, Severity.INFO)

    def _add_modules(self, events: list[Event], kinds: NDArray[np.uint8], filler: "_Filler") -> None:
        """Frames that are calls of a module carry the number that tells its instances apart."""
        frames = np.flatnonzero(kinds == EventKind.PYTHON_FRAME).tolist()
        rows = [i for i in frames if (events[i].name or "").startswith("nn.Module")]
        if rows:
            arguments = arguments_of([events[i] for i in rows], FrameArguments)
            filler.put_codes("args", np.array(rows), self._payloads.of_modules([a.module_id for a in arguments]))

    def add_device_rows(self, events: list[Event], kind: EventKind, start: Times, end: Times) -> None:
        """Takes annotations and records of synchronisation from the rows of devices: they belong to no thread."""
        arguments = arguments_of(events, DeviceRowArguments)
        rows = [_device_row(event, a) for event, a in zip(events, arguments, strict=True)]
        self._write_plain(events, kind, start, end, self._payloads.of_rows(rows))

    def add_marks(self, events: list[Event], instants: Times) -> None:
        """Takes instants of the profiler itself."""
        self._write_plain(events, EventKind.MARK, instants, instants, None)

    def add_overhead(self, events: list[Event], start: Times, end: Times) -> None:
        """Takes the profiler's own cost. It names no process: that is known only at the end."""
        self._overhead.append(self._plain(events, EventKind.OVERHEAD, start, end))

    def _write_plain(
        self, events: list[Event], kind: EventKind, start: Times, end: Times, arguments: NDArray[np.int32] | None
    ) -> None:
        columns = self._plain(events, kind, start, end)
        if arguments is not None:
            columns["args"] = arguments
        self._write(columns)

    def _plain(self, events: list[Event], kind: EventKind, start: Times, end: Times) -> dict[str, Values]:
        return {
            "kind": np.full(len(events), kind, np.uint8),
            "name": codes(self._sink.texts, [event.name or "" for event in events], len(events)),
            "domain": codes(self._sink.texts, [event.cat or "" for event in events], len(events)),
            "start_ns": start,
            "end_ns": end,
        }

    def finish(self, process: int | None) -> None:
        """Writes what waited for the end: overhead, with the process that was profiled where it is the only one."""
        for columns in self._overhead:
            if process is not None:
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


def _external(arguments: list[Any]) -> np.ma.MaskedArray[Any, Any]:
    return either(
        integers([a.external_id for a in arguments], 0), integers([a.external_id_lower for a in arguments], 0)
    )


def _device_row(event: Event, arguments: DeviceRowArguments) -> dict[str, Any]:
    """What tells the row of a device: its number and stream, and what a record of synchronisation waits for."""
    values = {
        "device": arguments.device if arguments.device != ABSENT else event.pid,
        "stream": arguments.stream if arguments.stream != ABSENT else event.tid,
        "correlation": arguments.correlation,
        "wait_on_stream": arguments.wait_on_stream,
        "wait_on_cuda_event_record_corr_id": arguments.wait_on_record,
    }
    return {key: value for key, value in values.items() if value not in (ABSENT, None)}
