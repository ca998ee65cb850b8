"""Reads a torch.profiler trace into the common schema, block by block."""

from collections import Counter
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.errors import SourceError, UnknownFormatError
from traceanalyzer.schema.kinds import EventKind, Severity
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.torch_trace.blocks import BLOCK_BYTES, TraceText
from traceanalyzer.sources.torch_trace.categories import (
    DEVICE_ROW_KINDS,
    EVENT_KINDS,
    OPERATION_KINDS,
    OTHER_DEVICE_CATEGORIES,
)
from traceanalyzer.sources.torch_trace.collectives import Collectives
from traceanalyzer.sources.torch_trace.columns import Identities
from traceanalyzer.sources.torch_trace.events import ThreadEvents
from traceanalyzer.sources.torch_trace.extent import Extent
from traceanalyzer.sources.torch_trace.memory import write_memory
from traceanalyzer.sources.torch_trace.metadata import write_devices, write_facts
from traceanalyzer.sources.torch_trace.names import Names
from traceanalyzer.sources.torch_trace.operations import Operations, ProcessOf
from traceanalyzer.sources.torch_trace.records import Event
from traceanalyzer.sources.torch_trace.times import nanoseconds
from traceanalyzer.sources.torch_trace.uncategorised import Uncategorised

Times = NDArray[np.int64]
_FLOWS_AND_COMPLETE = frozenset("stfX")  # flows repeat the correlation and are not read


class _Class(IntEnum):
    """What is done with complete events of a category; operations and events of threads carry their kind on top."""

    OPERATION = 0
    THREAD = 16
    DEVICE_ROW = 64
    OVERHEAD = 96
    SPAN = 97
    OTHER_DEVICE = 98
    RANGE_PROFILER = 99
    NO_CATEGORY = 100
    UNKNOWN = 101


class _Classes(dict[str | None, int]):
    """Class of every category, in whatever case it is written."""

    def __missing__(self, category: str | None) -> int:
        self[category] = value = _class_of((category or "").lower())
        return value


def _class_of(category: str) -> int:
    if category in OPERATION_KINDS:
        return _Class.OPERATION + OPERATION_KINDS[category]
    if category in EVENT_KINDS:
        return _Class.THREAD + EVENT_KINDS[category]
    if category in DEVICE_ROW_KINDS:
        return _Class.DEVICE_ROW + DEVICE_ROW_KINDS[category]
    if category in OTHER_DEVICE_CATEGORIES:
        return _Class.OTHER_DEVICE
    known = {
        "overhead": _Class.OVERHEAD,
        "trace": _Class.SPAN,
        "cuda_profiler_range": _Class.RANGE_PROFILER,
        "": _Class.NO_CATEGORY,
    }
    return known.get(category, _Class.UNKNOWN)


class TorchReader:
    """One trace on its way into a sink.

    Raises `UnknownFormatError` where the file is no trace and `SourceError` where nothing of it can be used.
    """

    def __init__(self, file: TraceFile, sink: Sink, block_bytes: int = BLOCK_BYTES) -> None:
        self._file = file
        self._sink = sink
        self._text = TraceText(file, block_bytes)
        self._classes = _Classes()
        self._identities = Identities()
        self._names = Names(self._identities)
        self._collectives = Collectives(sink, file.path)
        self._operations = Operations(sink, file.path, self._collectives)
        self._threads = ThreadEvents(sink, self._identities, self._collectives)
        self._uncategorised = Uncategorised()
        self._extent = Extent()
        self._events = 0
        self._unknown: Counter[str] = Counter()
        self._counts: Counter[_Class] = Counter()

    def read(self) -> None:
        """Reads everything."""
        for events in self._text:
            self._take(events)
        if not self._events:
            self._refuse()
        self._finish()

    def _refuse(self) -> None:
        """No event was found: an empty trace is one that says so in whole."""
        if self._text.not_events or not self._text.is_object:
            raise UnknownFormatError(self._file.path, "not a torch.profiler trace: JSON without trace events")
        if not self._text.whole or self._text.lost:
            raise SourceError(self._file.path, "damaged before the first whole event: nothing of it can be read")

    def _take(self, events: list[Event]) -> None:
        complete = [event for event in events if event.ph == "X"]
        others = [event for event in events if event.ph not in _FLOWS_AND_COMPLETE]
        self._events += len(events) - len(others)
        if others:
            self._take_others(others)
        if complete:
            self._take_complete(complete)

    def _take_others(self, events: list[Event]) -> None:
        phases = Counter(event.ph for event in events)
        self._events += len(events) - phases[""]
        self._text.not_events += phases[""]
        if phases["M"]:
            self._names.add([event for event in events if event.ph == "M"])
        if phases["i"] or phases["I"]:
            self._take_instants([event for event in events if event.ph in ("i", "I")])
        for phase in phases.keys() - {"", "M", "i", "I"}:
            self._unknown[f"phase {phase}"] += phases[phase]

    def _take_instants(self, events: list[Event]) -> None:
        instants, valid = nanoseconds([event.ts for event in events])
        events, instants = self._readable(events, valid), instants[valid]
        memory = np.array([event.name == "[memory]" for event in events], np.bool_)
        if memory.any():
            chosen = [event for event, is_memory in zip(events, memory.tolist(), strict=True) if is_memory]
            self._extent.see(instants[memory], instants[memory])
            write_memory(self._sink, self._identities, chosen, instants[memory])
        if not memory.all():
            chosen = [event for event, is_memory in zip(events, memory.tolist(), strict=True) if not is_memory]
            self._threads.add_marks(chosen, instants[~memory])

    def _readable(self, events: list[Event], valid: NDArray[np.bool_]) -> list[Event]:
        """Only the events whose times could be read."""
        if valid.all():
            return events
        text = "Events without a readable time, or with one beyond 64 bits, were left out."
        self._sink.note("time_unreadable", text, int((~valid).sum()))
        return [events[i] for i in np.flatnonzero(valid).tolist()]

    def _take_complete(self, events: list[Event]) -> None:
        start, valid = nanoseconds([event.ts for event in events])
        length, length_valid = nanoseconds([event.dur or b"0" for event in events])
        end = start + length
        valid &= length_valid & ~((length > 0) & (end < start))
        events, start, end = self._readable(events, valid), start[valid], end[valid]
        if not events:
            return
        negative = end < start
        if negative.any():
            text = "Events that end before they start, as an unfinished one does, were given the length 0."
            self._sink.note("negative_durations", text, int(negative.sum()))
            end = np.where(negative, start, end)
        classes = np.fromiter(map(self._classes.__getitem__, [event.cat for event in events]), np.uint8, len(events))
        self._take_operations(events, classes, start, end)
        on_thread = (classes >= _Class.THREAD) & (classes < _Class.DEVICE_ROW)
        if (uncategorised := classes == _Class.NO_CATEGORY).any():
            operators = self._uncategorised.operators(events, uncategorised)
            classes = np.where(operators, _Class.THREAD + EventKind.OPERATOR, classes).astype(np.uint8)
            on_thread |= operators
        self._take_threads(events, classes, on_thread, start, end)
        if (classes >= _Class.DEVICE_ROW).any():
            self._take_rest(events, classes, start, end)

    def _take_operations(self, events: list[Event], classes: NDArray[np.uint8], start: Times, end: Times) -> None:
        rows = np.flatnonzero(classes < _Class.THREAD)
        if len(rows):
            self._extent.see(start[rows], end[rows])
            self._operations.add([events[i] for i in rows.tolist()], classes[rows], start[rows], end[rows])

    def _take_threads(
        self, events: list[Event], classes: NDArray[np.uint8], chosen: NDArray[np.bool_], start: Times, end: Times
    ) -> None:
        rows = np.flatnonzero(chosen)
        if len(rows):
            self._extent.see(start[rows], end[rows])
            kinds = (classes[rows] - _Class.THREAD).astype(np.uint8)
            self._threads.add([events[i] for i in rows.tolist()], kinds, start[rows], end[rows])

    def _take_rest(self, events: list[Event], classes: NDArray[np.uint8], start: Times, end: Times) -> None:
        for value in np.unique(classes[classes >= _Class.DEVICE_ROW]).tolist():
            rows = np.flatnonzero(classes == value)
            chosen = [events[i] for i in rows.tolist()]
            if value < _Class.OVERHEAD:
                self._threads.add_device_rows(chosen, EventKind(value - _Class.DEVICE_ROW), start[rows], end[rows])
            elif value == _Class.OVERHEAD:
                self._threads.add_overhead(chosen, start[rows], end[rows])
            elif value == _Class.SPAN:
                self._extent.see_spans([event.name or "" for event in chosen], start[rows], end[rows])
            elif value == _Class.UNKNOWN:
                self._unknown.update(event.cat or "" for event in chosen)
            else:
                self._counts[_Class(value)] += len(rows)

    def _finish(self) -> None:
        process_of = ProcessOf(self._threads.calls, self._only_process())
        self._operations.write(process_of)
        self._collectives.write(process_of.only)
        self._threads.finish(process_of.only)
        self._names.write(self._sink, self._threads.threads)
        write_devices(self._sink, self._text.metadata, self._operations.devices)
        self._sink.facts.whole = self._text.whole and self._file.damage is None
        self._sink.facts.several_ranks = self._has_several_processes()
        self._sink.facts.ranges_mark_steps = False  # steps are those of the profiler
        write_facts(self._sink, self._text.metadata, self._collectives.ranks, self._extent.of_recording())
        self._note_damage()
        self._note_gaps_in_records()

    def _only_process(self) -> int | None:
        processes = {process for process, _thread in self._threads.threads}
        return next(iter(processes)) if len(processes) == 1 else None

    def _has_several_processes(self) -> bool:
        """Whether operations may belong to one of several processes (accelerators of other kinds call themselves)."""
        return len(self._threads.calls) > 1 and self._operations.count > 0

    def _note_damage(self) -> None:
        note, text = self._sink.note, self._text
        if self._file.damage:
            note("compression_damaged", f"The file could not be unpacked to its end: {self._file.damage}.")
        if not text.whole:
            note("truncated", f"The file ends early: what came after its last whole event is lost{_tail(text)}.")
        if text.lost:
            note("events_lost", "Events whose text is damaged beyond repair were left out.", text.lost)
        if text.repaired:
            sentence = "Events with bad bytes, escapes, quotes or bare words in their text were repaired."
            note("events_repaired", sentence, text.repaired)
        if text.not_events:
            note("not_events", "Entries of the list of events that are no events were left out.", text.not_events)
        if text.metadata_damaged:
            note("metadata_damaged", "The facts that stand around the events could not all be read.")

    def _note_gaps_in_records(self) -> None:
        note = self._sink.note
        if others := self._counts[_Class.OTHER_DEVICE]:
            sentence = (
                "Work of devices that are neither CUDA nor HIP devices was recorded; it is not counted as operations."
            )
            note("other_device", sentence, others, Severity.INFO)
        if ranges := self._counts[_Class.RANGE_PROFILER]:
            sentence = "The file was recorded with the range profiler, which replaces records of kernels by counters."
            note("range_profiler", sentence, ranges)
        self._uncategorised.note(self._sink, self._names)
        if self._threads.launches and not self._operations.count:
            sentence = (
                "Launches were recorded but no device operation: the records of the device are lost, so nothing can be"
                " said of its busy or idle time."
            )
            note("no_device_records", sentence, self._threads.launches)
        for category, count in sorted(self._unknown.items()):
            sentence = f"Events of the unknown category {category[:60]!r} were left out."
            note("unknown_category", sentence, count, Severity.INFO)
        if self._has_several_processes():
            sentence = (
                "Several processes made calls to the device; operations belong to the one whose call has their"
                " correlation, where only one has."
            )
            note("several_processes", sentence, len(self._threads.calls))


def _tail(text: TraceText) -> str:
    return f" ({text.lost_bytes} bytes of an unfinished one were left out)" if text.lost_bytes else ""
