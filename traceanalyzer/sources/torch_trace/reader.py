"""Reads a torch.profiler trace into the common schema, block by block."""

from collections import Counter
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.errors import SourceError, UnknownFormatError
from traceanalyzer.schema.kinds import EventKind, Severity
from traceanalyzer.schema.sink import Sink
from traceanalyzer.schema.timeline_file import ALIGNED, DERIVED
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
from traceanalyzer.sources.torch_trace.recognise import SCAN_FROM_BYTES
from traceanalyzer.sources.torch_trace.rows import Rows
from traceanalyzer.sources.torch_trace.scanner import load_scanner
from traceanalyzer.sources.torch_trace.timeline_header import TimelineHeader
from traceanalyzer.sources.torch_trace.uncategorised import DERIVED_ROWS, Uncategorised

Times = NDArray[np.int64]
_FLOWS_AND_COMPLETE = frozenset("stfX")  # flows repeat the correlation and are not read
_INSTANTS = "i", "I"


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
    DERIVED = 101
    UNKNOWN = 102


class _Classes(dict[str, int]):
    """Class of every category, in whatever case it is written."""

    def __missing__(self, category: str) -> int:
        self[category] = value = _class_of(category.lower())
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
    if category.startswith(DERIVED):
        return _Class.DERIVED
    known = {
        "overhead": _Class.OVERHEAD,
        "trace": _Class.SPAN,
        "cuda_profiler_range": _Class.RANGE_PROFILER,
        "": _Class.NO_CATEGORY,
    }
    return known.get(category, _Class.UNKNOWN)


class TorchReader:
    """One trace on its way into a sink.

    Texts of at least `scan_from_bytes` are scanned by compiled code where that can be had.
    Raises `UnknownFormatError` where the file is no trace and `SourceError` where nothing of it can be used.
    """

    def __init__(
        self, file: TraceFile, sink: Sink, block_bytes: int = BLOCK_BYTES, scan_from_bytes: int = SCAN_FROM_BYTES
    ) -> None:
        self._file = file
        self._sink = sink
        scanner = load_scanner() if file.text_bytes >= scan_from_bytes else None
        self._text = TraceText(file, block_bytes, scanner)
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
        self._header: TimelineHeader | None = None

    @property
    def scanned_blocks(self) -> int:
        """How many blocks the compiled scanner read so far."""
        return self._text.scanned_blocks

    def read(self) -> None:
        """Reads everything."""
        try:
            for rows in self._text:
                if not self._events:
                    self._begin()
                self._take(rows)
        finally:
            self._text.close()
        if not self._events:
            self._refuse()
        self._finish()

    def _begin(self) -> None:
        """What stands before the events was read: in an aligned timeline it says whose the processes are."""
        header = TimelineHeader.of(self._text.metadata)
        self._header = self._operations.header = self._threads.header = header

    def _refuse(self) -> None:
        """No event was found: an empty trace is one that says so in whole."""
        if self._text.not_events or not self._text.is_object:
            raise UnknownFormatError(self._file.path, "not a torch.profiler trace: JSON without trace events")
        if not self._text.whole or self._text.lost:
            raise SourceError(self._file.path, "damaged before the first whole event: nothing of it can be read")

    def _take(self, rows: Rows) -> None:
        phases = rows.by_phase()
        no_events = len(phases.get("", ()))
        self._events += rows.flows + len(rows) - no_events
        self._text.not_events += no_events
        if "M" in phases:
            self._names.add(rows.take(phases["M"]))
        instants = [phases[phase] for phase in _INSTANTS if phase in phases]
        if instants:
            self._take_instants(rows.take(np.sort(np.concatenate(instants))))
        if "C" in phases and self._header is not None:  # an aligned timeline has its counters from other records
            self._counts[_Class.DERIVED] += len(phases.pop("C"))
        for phase in phases.keys() - {"", "M", *_INSTANTS, *_FLOWS_AND_COMPLETE}:
            self._unknown[f"phase {phase}"] += len(phases[phase])
        if "X" in phases:
            self._take_complete(rows.take(phases["X"]))

    def _take_instants(self, rows: Rows) -> None:
        instants, valid = rows.starts()
        rows, instants = self._readable(rows, valid), instants[valid]
        memory = np.array([name == "[memory]" for name in rows.name_texts()], np.bool_)
        if memory.any():
            self._extent.see(instants[memory], instants[memory])
            write_memory(self._sink, self._identities, rows.take(np.flatnonzero(memory)), instants[memory])
        if not memory.all():
            self._threads.add_marks(rows.take(np.flatnonzero(~memory)), instants[~memory])

    def _readable(self, rows: Rows, valid: NDArray[np.bool_]) -> Rows:
        """Only the events whose times could be read."""
        if valid.all():
            return rows
        text = "Events without a readable time, or with one beyond 64 bits, were left out."
        self._sink.note("time_unreadable", text, int((~valid).sum()))
        return rows.take(np.flatnonzero(valid))

    def _take_complete(self, rows: Rows) -> None:
        start, valid = rows.starts()
        length, length_valid = rows.lengths()
        end = start + length
        valid &= length_valid & ~((length > 0) & (end < start))
        rows, start, end = self._readable(rows, valid), start[valid], end[valid]
        if not len(rows):
            return
        negative = end < start
        if negative.any():
            text = "Events that end before they start, as an unfinished one does, were given the length 0."
            self._sink.note("negative_durations", text, int(negative.sum()))
            end = np.where(negative, start, end)
        classes = rows.of_categories(self._classes.__getitem__, np.uint8)
        self._take_operations(rows, classes, start, end)
        on_thread = (classes >= _Class.THREAD) & (classes < _Class.DEVICE_ROW)
        if (uncategorised := classes == _Class.NO_CATEGORY).any():
            operators = self._uncategorised.operators(rows, uncategorised)
            classes = np.where(operators, _Class.THREAD + EventKind.OPERATOR, classes).astype(np.uint8)
            on_thread |= operators
        self._take_threads(rows, classes, on_thread, start, end)
        if (classes >= _Class.DEVICE_ROW).any():
            self._take_rest(rows, classes, start, end)

    def _take_operations(self, rows: Rows, classes: NDArray[np.uint8], start: Times, end: Times) -> None:
        index = np.flatnonzero(classes < _Class.THREAD)
        if len(index):
            self._extent.see(start[index], end[index])
            self._operations.add(rows.take(index), classes[index], start[index], end[index])

    def _take_threads(
        self, rows: Rows, classes: NDArray[np.uint8], chosen: NDArray[np.bool_], start: Times, end: Times
    ) -> None:
        index = np.flatnonzero(chosen)
        if len(index):
            self._extent.see(start[index], end[index])
            kinds = (classes[index] - _Class.THREAD).astype(np.uint8)
            self._threads.add(rows.take(index), kinds, start[index], end[index])

    def _take_rest(self, rows: Rows, classes: NDArray[np.uint8], start: Times, end: Times) -> None:
        for value in np.unique(classes[classes >= _Class.DEVICE_ROW]).tolist():
            index = np.flatnonzero(classes == value)
            chosen = rows.take(index)
            if value < _Class.OVERHEAD:
                self._threads.add_device_rows(chosen, EventKind(value - _Class.DEVICE_ROW), start[index], end[index])
            elif value == _Class.OVERHEAD:
                self._threads.add_overhead(chosen, start[index], end[index])
            elif value == _Class.SPAN:
                self._extent.see_spans(chosen.name_texts(), start[index], end[index])
            elif value == _Class.UNKNOWN:
                self._unknown.update(chosen.category_texts())
            else:
                self._counts[_Class(value)] += len(index)

    def _finish(self) -> None:
        process_of = ProcessOf(self._threads.calls, self._only_process())
        self._operations.write(process_of)
        self._collectives.write(process_of.only)
        self._threads.finish(process_of.only)
        self._names.write(self._sink, self._threads.threads, self._header)
        write_devices(self._sink, self._text.metadata, self._operations.devices)
        self._sink.facts.whole = self._text.whole and self._file.damage is None
        self._sink.facts.several_ranks = self._has_several_processes()
        self._sink.facts.ranges_mark_steps = False  # steps are those of the profiler
        ranks = self._collectives.ranks
        if self._header is not None:
            ranks = {self._header.rank} if self._header.rank is not None else set()
            self._sink.facts.ranks = self._header.stated
        write_facts(self._sink, self._text.metadata, ranks, self._extent.of_recording())
        if self._header is not None:
            self._sink.facts.metadata[ALIGNED] = True
        self._note_damage()
        self._note_gaps_in_records()

    def _only_process(self) -> int | None:
        processes = {process for process, _thread in self._threads.threads}
        return next(iter(processes)) if len(processes) == 1 else None

    def _has_several_processes(self) -> bool:
        """Whether operations may belong to one of several processes (accelerators of other kinds call themselves)."""
        if self._header is not None:
            return self._header.several_ranks
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
        if derived := self._counts[_Class.DERIVED]:
            self._sink.note("derived_rows", DERIVED_ROWS, derived, Severity.INFO)
        if self._has_several_processes() and self._header is None:
            sentence = (
                "Several processes made calls to the device; operations belong to the one whose call has their"
                " correlation, where only one has."
            )
            note("several_processes", sentence, len(self._threads.calls))


def _tail(text: TraceText) -> str:
    return f" ({text.lost_bytes} bytes of an unfinished one were left out)" if text.lost_bytes else ""
