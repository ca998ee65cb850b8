"""What derivation needs of the rows of a capture, gathered in narrow columns while they are written."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.kinds import NESTED_KINDS, EventKind
from traceanalyzer.schema.sink import NO_TEXT, Texts, Values
from traceanalyzer.store.frames import STEP_RANGE

NULL = np.iinfo(np.int64).min
"""Stands for a process, thread or correlation that is null."""

_STEP_RANGE = re.compile(STEP_RANGE, re.IGNORECASE)
_NESTED = np.zeros(256, np.bool_)
_NESTED[[int(kind) for kind in NESTED_KINDS]] = True

StepMark = tuple[int, int, int, int, int]
"""Process, thread, code of the name, start, end."""


class Columns:
    """Columns that grow by pieces."""

    def __init__(self, *names: str) -> None:
        self._pieces: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
        self._names = names

    def add(self, *pieces: NDArray[Any]) -> None:
        """Appends one piece to each column, in the order of their names."""
        for name, piece in zip(self._names, pieces, strict=True):
            self._pieces[name].append(piece)

    def take(self, name: str) -> NDArray[Any]:
        """One column as a whole; its pieces are forgotten."""
        pieces = self._pieces.pop(name)
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)


class Recorded:
    """The columns of one capture.

    `threads`: of each (process, thread) its nesting events; `calls`: of each process its API calls with a correlation;
    `operations`: all device operations; `marks`: step marks, or, where `has_marks` is false, ranges that are named like
    some; `device_operations`: operations of each device; `collective_operations`: numbers of operations that carry a
    collective; `first_ns`, `last_ns`: the time that events, operations and metrics cover; `processes`: all of them.
    """

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self.threads: dict[tuple[int, int], Columns] = defaultdict(
            lambda: Columns("event_id", "start_ns", "end_ns", "kind", "name")
        )
        self.calls: dict[int, Columns] = defaultdict(lambda: Columns("event_id", "correlation_id", "start_ns"))
        self.operations = Columns("op_id", "process", "correlation_id", "kind", "name")
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
            self._see_times(batch["t_ns"], batch["t_ns"])

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
            batch["op_id"],
            _filled(batch, "process", NULL),
            _filled(batch, "correlation_id", NULL),
            _filled(batch, "kind", 0),
            _filled(batch, "name", NO_TEXT),
        )

    def _see_events(self, batch: Mapping[str, Values]) -> None:
        self._see_times(batch["start_ns"], batch["end_ns"])
        process, thread = _filled(batch, "process", NULL), _filled(batch, "thread", NULL)
        kind = np.asarray(np.ma.getdata(batch["kind"]), np.uint8)
        columns = (
            batch["event_id"],
            np.asarray(np.ma.getdata(batch["start_ns"]), np.int64),
            np.asarray(np.ma.getdata(batch["end_ns"]), np.int64),
            kind,
            _filled(batch, "name", NO_TEXT).astype(np.int32, copy=False),
        )
        nested = _NESTED[kind] & (thread != NULL)
        for (of_process, of_thread), rows in _groups(process, thread, nested):
            self.threads[of_process, of_thread].add(*(_picked(column, rows) for column in columns))
        self._see_calls(batch, columns, process)
        self._see_marks(columns, process, thread)

    def _see_calls(self, batch: Mapping[str, Values], columns: tuple[NDArray[Any], ...], process: NDArray[Any]) -> None:
        if "correlation_id" not in batch:
            return
        event_id, start, _, kind, _ = columns
        correlation = _filled(batch, "correlation_id", NULL)
        calls = (kind == EventKind.API_CALL) & (correlation != NULL) & (process != NULL)
        for (of_process, _), rows in _groups(process, np.zeros_like(process), calls):
            self.calls[of_process].add(*(_picked(column, rows) for column in (event_id, correlation, start)))

    def _see_marks(self, columns: tuple[NDArray[Any], ...], process: NDArray[Any], thread: NDArray[Any]) -> None:
        _, start, end, kind, name = columns
        marks = np.flatnonzero(kind == EventKind.STEP_MARK)
        if len(marks) and not self.has_marks:
            self.has_marks, self.marks = True, []
        if not self.has_marks:
            ranges = np.flatnonzero((kind == EventKind.RANGE) & (name != NO_TEXT))
            marks = ranges[self.named_like_steps()[name[ranges]]] if len(ranges) else ranges
        if len(marks):
            picked = [column[marks].tolist() for column in (process, thread, name, start, end)]
            self.marks += zip(*picked, strict=True)

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
