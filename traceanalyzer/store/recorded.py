"""What derivation needs of the rows of a capture, gathered in narrow columns while they are written."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.frames import STEP_RANGE
from traceanalyzer.schema.kinds import NESTED_KINDS, EventKind
from traceanalyzer.schema.sink import NO_TEXT, Texts, Values

NULL = np.iinfo(np.int64).min
"""Stands for a process, thread or correlation that is null."""

_STEP_RANGE = re.compile(STEP_RANGE, re.IGNORECASE)
_NESTED = np.zeros(256, np.bool_)
_NESTED[[int(kind) for kind in NESTED_KINDS]] = True

StepMark = tuple[int, int, int, int, int]
"""Process, thread, code of the name, start, end."""


_FIRST_ROOM = 1 << 10


class Columns:
    """Columns of integers that grow. Their room doubles, so that in large columns no memory is lost between pieces.

    `types` are narrow ones to begin with; a column becomes wider when a value does not fit.
    """

    def __init__(self, **types: type[np.integer[Any]]) -> None:
        self._types: dict[str, type[np.integer[Any]]] = types
        self._room: dict[str, NDArray[Any]] = {}
        self._count = 0

    def add(self, **pieces: NDArray[Any]) -> None:
        """Appends one piece to each column."""
        count = self._count + len(next(iter(pieces.values())))
        for name, piece in pieces.items():
            room = self._room.get(name)
            if not _fits(piece, self._types[name]):
                enough = np.can_cast(self._types[name], np.int32) and _fits(piece, np.int32)
                self._types[name] = np.int32 if enough else np.int64
                room = None
            if room is None or len(room) < count:
                room = self._grown(name, count)
            room[self._count : count] = piece
        self._count = count

    def _grown(self, name: str, count: int) -> NDArray[Any]:
        size = max(_FIRST_ROOM, 1 << (count - 1).bit_length())
        room = np.empty(size, self._types[name])
        room[: self._count] = self._room.pop(name, room)[: self._count]
        self._room[name] = room
        return room

    def take(self, name: str) -> NDArray[Any]:
        """One column as a whole, which is forgotten here."""
        room = self._room.pop(name, None)
        return np.zeros(0, self._types[name]) if room is None else room[: self._count]


class Ascending:
    """Numbers that grow, kept as the steps between them, which are small."""

    def __init__(self) -> None:
        self._steps = Columns(step=np.uint8)
        self._last = 0

    def add(self, numbers: NDArray[np.int32]) -> None:
        """Appends numbers, each larger than those before, the first of all 0 or larger."""
        if len(numbers):
            self._steps.add(step=np.diff(numbers, prepend=self._last))
            self._last = int(numbers[-1])

    def take(self) -> NDArray[np.int32]:
        """All numbers, which are forgotten here."""
        return np.cumsum(self._steps.take("step"), dtype=np.int32)


def narrowest(values: NDArray[np.int32]) -> NDArray[Any]:
    """The same integers with fewer bytes, if they fit."""
    return values.astype(np.int16) if _fits(values, np.int16) else values


def _fits(piece: NDArray[Any], kind: type[np.integer[Any]]) -> bool:
    if kind is np.int64 or not len(piece):
        return True
    limits = np.iinfo(kind)
    return bool(limits.min <= piece.min() and piece.max() <= limits.max)


class ThreadColumns(Columns):
    """Columns for the nesting events of a thread: `numbers`, start, length, kind and name."""

    def __init__(self) -> None:
        super().__init__(start_ns=np.int64, length_ns=np.uint32, kind=np.uint8, name=np.int16)
        self.numbers = Ascending()


def call_columns() -> Columns:
    """Columns for the API calls of a process."""
    return Columns(event_id=np.int32, correlation_id=np.int32, start_ns=np.int64)


class Recorded:
    """The columns of one capture.

    `threads`: of each (process, thread) its nesting events; `calls`: of each process its API calls with a correlation;
    `operations`: all device operations; `marks`: step marks, or, where `has_marks` is false, ranges that are named like
    some; `device_operations`: operations of each device; `collective_operations`: numbers of operations that carry a
    collective; `first_ns`, `last_ns`: the time that events, operations and metrics cover; `processes`: all of them.
    """

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self.threads: dict[tuple[int, int], ThreadColumns] = defaultdict(ThreadColumns)
        self.calls: dict[int, Columns] = defaultdict(call_columns)
        self.operations = Columns(
            op_id=np.int32, process=np.int32, correlation_id=np.int32, kind=np.uint8, name=np.int16
        )
        self.device_operations: Counter[int] = Counter()
        self.collective_operations: list[NDArray[Any]] = []
        self.processes: set[int | None] = set()
        self.has_marks = False
        self.marks: list[StepMark] = []
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self._named_like_steps = np.zeros(0, np.bool_)

    def see(self, table: str, batch: Mapping[str, Values]) -> None:
        """Takes what is needed of a batch of rows."""
        if table == "cpu_events":
            self._see_events(batch)
        elif table == "gpu_ops":
            self._see_operations(batch)
        elif table == "collectives" and "op_id" in batch:
            self.collective_operations.append(np.ma.MaskedArray(batch["op_id"]).compressed())
        elif table == "processes":
            self.processes.update(np.ma.MaskedArray(batch["process"]).tolist())
        elif table == "metric_samples":
            instants = np.ma.MaskedArray(batch["t_ns"]).compressed() if "t_ns" in batch else np.empty(0, np.int64)
            self._see_times(instants, instants)

    def _see_times(self, start: Values, end: Values) -> None:
        if len(start):
            first, last = int(start.min()), int(end.max())
            self.first_ns = first if self.first_ns is None else min(first, self.first_ns)
            self.last_ns = last if self.last_ns is None else max(last, self.last_ns)

    def _see_operations(self, batch: Mapping[str, Values]) -> None:
        self._see_times(batch["start_ns"], batch["end_ns"])
        devices, counts = np.unique(np.ma.getdata(batch["device"]), return_counts=True)
        self.device_operations.update(dict(zip(devices.tolist(), counts.tolist(), strict=True)))
        self.operations.add(
            op_id=batch["op_id"],
            process=_filled(batch, "process", NULL),
            correlation_id=_filled(batch, "correlation_id", NULL),
            kind=np.ma.getdata(batch["kind"]),
            name=_filled(batch, "name", NO_TEXT),
        )

    def _see_events(self, batch: Mapping[str, Values]) -> None:
        self._see_times(batch["start_ns"], batch["end_ns"])
        process, thread = _filled(batch, "process", NULL), _filled(batch, "thread", NULL)
        events = {
            "event_id": batch["event_id"],
            "start_ns": np.ma.getdata(batch["start_ns"]),
            "length_ns": np.ma.getdata(batch["end_ns"]) - np.ma.getdata(batch["start_ns"]),
            "kind": np.ma.getdata(batch["kind"]),
            "name": _filled(batch, "name", NO_TEXT),
        }
        nested = _NESTED[events["kind"]] & (thread != NULL)
        for (of_process, of_thread), rows in _groups(process, thread, nested):
            picked = {name: _picked(values, rows) for name, values in events.items()}
            of_events = self.threads[of_process, of_thread]
            of_events.numbers.add(picked.pop("event_id"))
            of_events.add(**picked)
        if "correlation_id" in batch:
            self._see_calls(events | {"correlation_id": _filled(batch, "correlation_id", NULL)}, process)
        self._see_marks(events, process, thread)

    def _see_calls(self, events: dict[str, NDArray[Any]], process: NDArray[Any]) -> None:
        calls = (events["kind"] == EventKind.API_CALL) & (events["correlation_id"] != NULL) & (process != NULL)
        for (of_process, _), rows in _groups(process, np.zeros_like(process), calls):
            picked = {name: _picked(events[name], rows) for name in ("event_id", "correlation_id", "start_ns")}
            self.calls[of_process].add(**picked)

    def _see_marks(self, events: dict[str, NDArray[Any]], process: NDArray[Any], thread: NDArray[Any]) -> None:
        kind, name = events["kind"], events["name"]
        marks = np.flatnonzero(kind == EventKind.STEP_MARK)
        if len(marks) and not self.has_marks:
            self.has_marks, self.marks = True, []
        if not self.has_marks:
            ranges = np.flatnonzero((kind == EventKind.RANGE) & (name != NO_TEXT))
            marks = ranges[self.named_like_steps()[name[ranges]]] if len(ranges) else ranges
        if len(marks):
            columns = (process, thread, name, events["start_ns"], events["start_ns"] + events["length_ns"])
            self.marks += zip(*(column[marks].tolist() for column in columns), strict=True)

    def forget_ranges(self) -> None:
        """Takes no range as a step mark, whatever its name."""
        if not self.has_marks:
            self.marks = []

    def named_like_steps(self) -> NDArray[np.bool_]:
        """Of every text known so far, whether a range of that name marks a step."""
        known, texts = self._named_like_steps, self._texts.all
        if len(known) < len(texts):
            more = np.array([_STEP_RANGE.fullmatch(text) is not None for text in texts[len(known) :]], np.bool_)
            known = self._named_like_steps = np.concatenate((known, more))
        return known

    def event_kinds(self, kind: NDArray[np.uint8], name: Values) -> NDArray[np.uint8]:
        """Kinds of events as they are to be stored: ranges named like steps are marks where the file has no others."""
        if self.has_marks or not self.marks:
            return kind
        codes = np.ma.filled(name, NO_TEXT)
        marks = (kind == EventKind.RANGE) & (codes != NO_TEXT) & self.named_like_steps()[codes]
        return np.where(marks, np.uint8(EventKind.STEP_MARK), kind)


def _filled(batch: Mapping[str, Values], name: str, null: int) -> NDArray[Any]:
    values = batch.get(name)
    if values is None:
        count = len(next(iter(batch.values())))
        return np.broadcast_to(np.int64(null), (count,))
    if isinstance(values, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(values), null, values.data)
    return values


Rows = NDArray[np.intp] | None
"""Chosen rows; None is all of them."""


def _groups(first: NDArray[Any], second: NDArray[Any], chosen: NDArray[np.bool_]) -> list[tuple[tuple[int, int], Rows]]:
    """The chosen rows of each pair of values, in their order."""
    rows: Rows = None
    if not chosen.all():
        rows = np.flatnonzero(chosen)
        first, second = first[rows], second[rows]
    if not len(first):
        return []
    if (first == first[0]).all() and (second == second[0]).all():
        return [((int(first[0]), int(second[0])), rows)]
    order = np.lexsort((second, first))
    edges = np.flatnonzero((np.diff(first[order]) != 0) | (np.diff(second[order]) != 0)) + 1
    parts = np.split(order, edges)
    return [((int(first[p[0]]), int(second[p[0]])), p if rows is None else rows[p]) for p in parts]


def _picked(column: NDArray[Any], rows: Rows) -> NDArray[Any]:
    return column if rows is None else column[rows]
