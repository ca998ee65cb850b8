"""What the store works out of a recorded capture: nesting and stacks of events, launches, lanes, steps."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.frames import step_number
from traceanalyzer.schema.kinds import EventKind, Lane, OpKind
from traceanalyzer.schema.sink import NO_TEXT, Texts, Values
from traceanalyzer.store.recorded import NULL, Columns, Recorded, StepMark, narrowest
from traceanalyzer.store.staging import Staging
from traceanalyzer.store.thread_stacks import Frames, ThreadStacks, stacks_of_thread

COMMUNICATION = re.compile(r"nccl|rccl|nvshmem|msccl|::ep::", re.IGNORECASE)
"""Names of communication kernels where no metadata tells them."""

_CROSS = (
    "Events of a thread cross so often that stacks were not worked out to the end: they may name events that are over."
)
_WIDEST = 4
"""Numbers that a table for looking up may have for each key."""
Ints = NDArray[np.int64]
Step = tuple[int, int, int, int, int, int, int]
"""Process, thread, number, code of the name, start, end, end of the mark."""


@dataclass(frozen=True, slots=True)
class _NestedThread:
    """Stacks of the events of a thread: their ascending numbers, the number of the event around each, and so on."""

    event_id: NDArray[np.int32]
    parent_id: NDArray[np.int32]
    depth: NDArray[np.integer[Any]]
    node: NDArray[np.integer[Any]]


class Nesting:
    """Stacks of the events of all threads, looked up by the numbers of events."""

    def __init__(self) -> None:
        self._threads: list[_NestedThread] = []
        self.changes: list[dict[str, Values]] = []
        """Rows of `stack_changes`, by threads."""

    def add(self, event_id: NDArray[np.int32], stacks: ThreadStacks) -> None:
        """Takes the stacks of a thread, whose events have these numbers, in ascending order."""
        parent_id = event_id[stacks.parent]
        parent_id[stacks.parent < 0] = -1
        self._threads.append(_NestedThread(event_id, parent_id, narrowest(stacks.depth), narrowest(stacks.node)))
        if len(stacks.change_event):
            changes: dict[str, Values] = {
                "event_id": event_id[stacks.change_event],
                "from_ns": stacks.change_ns,
                "node_id": stacks.change_node,
            }
            self.changes.append(changes)

    def of_events(self, event_id: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Parent, depth and stack node of events by their ascending numbers; -1 where they do not nest."""
        first, last = int(event_id[0]), int(event_id[-1])
        parent, depth, node = (np.full(last + 1 - first, -1, np.int32) for _ in range(3))
        for thread in self._threads:
            # Bounds of the same type: for others all numbers of the thread would be converted, every time.
            low = np.searchsorted(thread.event_id, np.int32(first))
            high = np.searchsorted(thread.event_id, np.int32(last), side="right")
            place = thread.event_id[low:high] - first
            parent[place] = thread.parent_id[low:high]
            depth[place], node[place] = thread.depth[low:high], thread.node[low:high]
        place = event_id - first
        return parent[place], depth[place], node[place]


@dataclass(frozen=True, slots=True)
class DerivedOperations:
    """By the numbers of operations their `lane`, `launch_event_id` (-1 is null) and `step` (masked); and all steps."""

    lane: NDArray[np.uint8]
    launch_event_id: Ints
    step: Values
    steps: list[Step]


def derive_stacks(staging: Staging) -> Nesting:
    """Parent, depth and stack node of every event that nests on a thread.

    Where events cross, an event may go on after one around it has ended: then its stack changes.
    """
    frames = Frames(staging.texts, staging.stacks)
    recorded = staging.recorded
    nesting = Nesting()
    for key in sorted(recorded.threads):
        columns = recorded.threads.pop(key)
        name = columns.take("name")
        kind = recorded.event_kinds(columns.take("kind"), name)
        start, length, numbers = columns.take("start_ns"), columns.take("length_ns"), columns.numbers.take()
        if (marks := kind == EventKind.STEP_MARK).any():  # ranges that turned out to mark steps are no part of a stack
            start, length, kind, name, numbers = (values[~marks] for values in (start, length, kind, name, numbers))
        stacks = stacks_of_thread(frames, start, length, kind, name)
        del start, length, kind, name  # of long threads they need much room
        if not stacks.complete:
            staging.note("events_cross", _CROSS)
        nesting.add(numbers, stacks)
    return nesting


def derive_operations(staging: Staging) -> DerivedOperations:
    """Launches, lanes and steps of operations. Comes before the stacks: it settles which ranges mark steps."""
    recorded = staging.recorded
    if not staging.facts.ranges_mark_steps:
        recorded.forget_ranges()
    steps = derive_steps(recorded, staging.texts.all)
    count = staging.rows["gpu_ops"]
    operations = recorded.operations
    op_id = operations.take("op_id")
    process, correlation = operations.take("process"), operations.take("correlation_id")
    call, launched = launch_calls(recorded.calls, process, correlation)
    launch_event_id = np.full(count, -1, np.int64)
    launch_event_id[op_id] = call
    number, known = steps_at(steps, process, np.where(call >= 0, launched, NULL))
    step = np.ma.MaskedArray(np.zeros(count, np.int64), np.ones(count, np.bool_))
    step[op_id] = np.ma.MaskedArray(number, ~known)
    kind, name = operations.take("kind"), operations.take("name")
    lane = np.zeros(count, np.uint8)
    lane[op_id] = lanes(staging.texts, kind, name)
    for numbers in recorded.collective_operations:
        within = numbers[(numbers >= 0) & (numbers < count)]
        lane[within[np.isin(within, op_id[kind == OpKind.KERNEL])]] = Lane.COMMUNICATION
    return DerivedOperations(lane, launch_event_id, step, steps)


def launch_calls(calls: dict[int, Columns], process: Ints, correlation: Ints) -> tuple[Ints, Ints]:
    """The call that launched each operation (-1: none), and when it began. Correlation ids hold within a process only.

    Where several calls share an id (a runtime call around a driver call), the one that began first is the launch.
    """
    event_id, start = np.full(len(process), -1, np.int64), np.zeros(len(process), np.int64)
    for owner, columns in calls.items():
        mine = np.flatnonzero((process == owner) & (correlation != NULL))
        if not len(mine):
            continue
        number, key, began = columns.take("event_id"), columns.take("correlation_id"), columns.take("start_ns")
        order = np.arange(len(key))
        if (key[1:] <= key[:-1]).any():  # differences of far ids would not fit into 64 bits
            order = np.lexsort((number, began, key))
            key = key[order]
            first = np.append(True, key[1:] != key[:-1])
            order, key = order[first], key[first]
        at = _places(key, correlation[mine])
        found = at >= 0
        chosen = order[at[found]]
        event_id[mine[found]], start[mine[found]] = number[chosen], began[chosen]
    return event_id, start


def _places(key: NDArray[np.integer[Any]], wanted: Ints) -> NDArray[np.integer[Any]]:
    """Place of each number in ascending keys; -1 where it is none of them. Keys that lie close are quick to find."""
    if not len(key):
        return np.full(len(wanted), -1, np.int64)
    low, high = np.int64(key[0]), np.int64(key[-1])
    span = int(high) - int(low) + 1
    if span > _WIDEST * len(key):
        at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
        return np.where(key[at] == wanted, at, -1)
    place = np.full(span + 1, -1, np.int32)  # the last one is for what lies outside
    place[key - low] = np.arange(len(key), dtype=np.int32)
    inside = (wanted >= low) & (wanted <= high)
    return place[np.where(inside, wanted - low, span)]


def lanes(texts: Texts, kind: NDArray[np.uint8], name: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Lane of each operation by its kind and the name of its kernel."""
    lane = np.full(len(kind), Lane.COMPUTE, np.uint8)
    lane[(kind == OpKind.MEMCPY) | (kind == OpKind.MEMSET)] = Lane.COPY
    kernels = np.flatnonzero((kind == OpKind.KERNEL) & (name != NO_TEXT))
    codes, inverse = np.unique(name[kernels], return_inverse=True)
    communicates = np.array([COMMUNICATION.search(texts.all[code]) is not None for code in codes.tolist()], np.bool_)
    if communicates.any():
        lane[kernels[communicates[inverse.reshape(-1)]]] = Lane.COMMUNICATION
    return lane


def derive_steps(recorded: Recorded, texts: list[str]) -> list[Step]:
    """Steps by their marks."""
    marks = [mark for mark in recorded.marks if mark[0] != NULL]
    return step_marks(sorted(marks, key=lambda mark: (mark[0], mark[1], mark[3], -mark[4])), texts)


def steps_at(steps: list[Step], process: Ints, launched_ns: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """The step of its process in which each operation was launched (`NULL`: not known when); second: whether in any.

    Where no process that launches has marks of its own, those of the file's one marked process hold.
    """
    number, known = np.zeros(len(process), np.int64), np.zeros(len(process), np.bool_)
    marked = sorted({step[0] for step in steps})
    others = np.setdiff1d(marked, process).tolist()
    for owner in marked:
        mine = process == owner
        if others == [owner]:
            mine = ~np.isin(process, marked)
        rows = np.flatnonzero(mine & (launched_ns != NULL))
        own = [step for step in steps if step[0] == owner]
        numbers, starts, ends = (np.array([step[k] for step in own], np.int64) for k in (2, 4, 5))
        at = np.searchsorted(starts, launched_ns[rows], side="right") - 1
        inside = (at >= 0) & (launched_ns[rows] < ends[np.maximum(at, 0)])
        number[rows[inside]], known[rows[inside]] = numbers[at[inside]], True
    return number, known


def step_marks(rows: list[StepMark], texts: list[str]) -> list[Step]:
    """Steps of mark rows sorted by process, thread, start.

    Of a process the thread with most marks counts; marks inside a mark are left out. A step lasts to the next mark's
    start, the last one to its mark's end. Marks without a number, or whose numbers repeat, are numbered in order.
    """
    by_process: dict[int, dict[int, list[tuple[int, int, int]]]] = {}
    for process, thread, name, start, end in rows:
        marks = by_process.setdefault(process, {}).setdefault(thread, [])
        if not marks or start >= marks[-1][2]:
            marks.append((name, start, end))
    out = []
    for process, threads in by_process.items():
        thread, marks = max(threads.items(), key=lambda item: (len(item[1]), item[0] != NULL, -item[0]))
        numbers = [step_number(texts[name]) if name >= 0 else None for name, _, _ in marks]
        if None in numbers or len(set(numbers)) < len(numbers):
            numbers = list(range(len(marks)))
        ends = [start for _, start, _ in marks[1:]] + [marks[-1][2]]
        for number, (name, start, mark_end), end in zip(numbers, marks, ends, strict=True):
            out.append((process, thread, int(number or 0), name, start, end, mark_end))
    return out
