"""Events of one thread as a timeline of what was innermost, with the cause that each decides."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import groups
from traceanalyzer.numeric.intervals import union
from traceanalyzer.numeric.nesting import Timeline, cut_intervals, nest, timeline
from traceanalyzer.passes.causes import (
    Cause,
    cause_of_event,
    cause_of_overhead,
    is_asynchronous_copy,
    outermost_cause,
)
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import NESTED_KINDS, CopyKind, EventKind, MemoryKind, OpKind

Ints = NDArray[np.int64]
_NESTED = ", ".join(str(int(kind)) for kind in NESTED_KINDS)


@dataclass(frozen=True, slots=True)
class Changes:
    """Of events that go on after one around them has ended: position, instant, and the stack from there on.

    Sorted by position and instant.
    """

    event: Ints
    instant: Ints
    node: Ints

    def cut(self, event: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Intervals of events cut where their stacks change: (interval, start, end, node), node -1 before the first
        change. All lie within the time of their events."""
        # All events share one axis, on which instants count by their order: that of the n-th begins n lengths later.
        edges = np.unique(np.concatenate((low, high, self.instant)))
        low, high, instant = (np.searchsorted(edges, times) for times in (low, high, self.instant))
        changing = self.event[np.append(True, self.event[1:] != self.event[:-1])]
        base = np.arange(len(changing)) * len(edges)
        at = np.concatenate((base, np.searchsorted(changing, self.event) * len(edges) + instant))
        node = np.concatenate((np.full(len(base), -1, np.int64), self.node))
        order = np.argsort(at, kind="stable")  # a change at the very start comes after the base, and holds
        at, node = at[order], node[order]
        holds = np.append(at[1:] != at[:-1], True)
        shift = np.searchsorted(changing, event) * len(edges)
        which, start, end, found = cut_intervals(at[holds], node[holds], low + shift, high + shift)
        return which, edges[start - shift[which]], edges[end - shift[which]], found


@dataclass(frozen=True, slots=True)
class ThreadEvents:
    """Nested events of a thread in the order of their numbers, and the innermost one at each instant."""

    event_id: Ints
    start: Ints
    end: Ints
    name: Ints
    node: Ints
    cause: Ints
    timeline: Timeline
    names: dict[int, str]
    changes: "Changes"

    def cause_of(self, event: Ints) -> Ints:
        """Cause of time in which an event (a position, -1 for none) is innermost."""
        padded = np.append(self.cause, int(Cause.OUTSIDE_EVENTS))
        return padded[event]


def load_thread(
    scope: Scope, capture: int, process: int, thread: int, input_range: re.Pattern[str] | None
) -> ThreadEvents:
    """The nested events of a thread and what each says of a gap."""
    got = scope.connection.execute(
        f"""SELECT event_id, start_ns, end_ns, kind::BIGINT AS kind, coalesce(name, -1)::BIGINT AS name,
            coalesce(node_id, -1) AS node
        FROM stored.cpu_events WHERE capture = ? AND process = ? AND thread = ? AND kind IN ({_NESTED})
        ORDER BY event_id""",
        [capture, process, thread],
    ).fetchnumpy()
    column = {key: np.asarray(values, np.int64) for key, values in got.items()}
    nesting = nest(column["start_ns"], column["end_ns"])
    line = timeline(column["start_ns"], column["end_ns"], nesting)
    names = scope.texts(np.unique(column["name"]).tolist())
    cause = _causes(column["kind"], column["name"], nesting.parent, nesting.depth, names, input_range)
    changes = _changes(scope, capture, column["event_id"])
    return ThreadEvents(
        column["event_id"],
        column["start_ns"],
        column["end_ns"],
        column["name"],
        column["node"],
        cause,
        line,
        names,
        changes,
    )


def _changes(scope: Scope, capture: int, event_id: Ints) -> Changes:
    got = scope.connection.execute(
        "SELECT event_id, from_ns, node_id FROM stored.stack_changes WHERE capture = ? ORDER BY event_id, from_ns",
        [capture],
    ).fetchnumpy()
    event, instant, node = (np.asarray(got[name], np.int64) for name in ("event_id", "from_ns", "node_id"))
    mine = np.flatnonzero(np.isin(event, event_id))
    return Changes(np.searchsorted(event_id, event[mine]), instant[mine], node[mine])


def _causes(
    kind: Ints, name: Ints, parent: Ints, depth: Ints, names: dict[int, str], input_range: re.Pattern[str] | None
) -> Ints:
    """Cause of each event; the outermost event that decides for what is inside it decides there, but in API calls."""
    labels = groups(kind, name)
    inverse = labels.of_row
    own, outer = [], []
    for k, n in zip(kind[labels.row].tolist(), name[labels.row].tolist(), strict=True):
        text = names.get(n, "")
        own.append(int(cause_of_event(EventKind(k), text, input_range)))
        decides = outermost_cause(EventKind(k), text, input_range)
        outer.append(-1 if decides is None else int(decides))
    cause = np.array(own, np.int64)[inverse]
    inherited = np.array(outer, np.int64)[inverse]
    if (inherited >= 0).any():
        for level in range(1, int(depth.max(initial=0)) + 1):
            here = np.flatnonzero(depth == level)
            above = inherited[parent[here]]
            inherited[here] = np.where(above >= 0, above, inherited[here])
        inside = (inherited >= 0) & (kind != int(EventKind.API_CALL))
        cause[inside] = inherited[inside]
    return cause


@dataclass(frozen=True, slots=True)
class Copies:
    """Copy calls of a thread: position of the event, when the device began to copy, cause before and after that."""

    event: Ints
    begun: Ints
    cause_before: Ints
    cause_after: Ints


def copies_of(scope: Scope, capture: int, events: ThreadEvents, positions: Ints) -> Copies:
    """What the copy calls among these events waited for, and when that ended. Sorted by position."""
    got = scope.connection.execute(
        f"""SELECT launch_event_id AS event_id, min(start_ns) AS begun, arg_min(copy_kind, start_ns)::BIGINT AS way,
            arg_min(source_memory, start_ns)::BIGINT AS source,
            arg_min(destination_memory, start_ns)::BIGINT AS destination
        FROM stored.gpu_ops WHERE capture = ? AND kind = {int(OpKind.MEMCPY)}
            AND launch_event_id IN (SELECT unnest(?::BIGINT[]))
        GROUP BY launch_event_id ORDER BY launch_event_id""",
        [capture, events.event_id[positions]],
    ).fetchnumpy()
    event = np.searchsorted(events.event_id, np.asarray(got["event_id"], np.int64))
    way, source, destination = (np.ma.filled(np.ma.asarray(got[c]), -1) for c in ("way", "source", "destination"))
    to_device, to_host = way == int(CopyKind.HTOD), way == int(CopyKind.DTOH)
    pageable = (to_device & (source == int(MemoryKind.PAGEABLE))) | (
        to_host & (destination == int(MemoryKind.PAGEABLE))
    )
    asynchronous = np.array([is_asynchronous_copy(events.names.get(n, "")) for n in events.name[event].tolist()], bool)
    waits = (to_host & pageable) | ~asynchronous
    before = np.where(pageable & to_device, Cause.HOST_COPY, np.where(waits, Cause.SYNC, Cause.LAUNCH_CALL))
    after = np.where(pageable, Cause.HOST_COPY, Cause.LAUNCH_CALL)
    return Copies(
        event.astype(np.int64), np.asarray(got["begun"], np.int64), before.astype(np.int64), after.astype(np.int64)
    )


def load_overhead(scope: Scope, capture: int, process: int, thread: int) -> tuple[Ints, Ints]:
    """The profiler's own work on a thread as a step function (at, cause or -1). Rows without a thread count for all.

    Where its loading of libraries and other work overlap, the loading decides.
    """
    rows = scope.connection.execute(
        f"""SELECT start_ns, end_ns, coalesce(name, -1) FROM stored.cpu_events
        WHERE capture = $capture AND kind = {int(EventKind.OVERHEAD)} AND end_ns > start_ns
            AND (process IS NULL OR process = $process) AND (thread IS NULL OR thread = $thread)
        ORDER BY start_ns""",
        {"capture": capture, "process": process, "thread": thread},
    ).fetchall()
    if not rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    names = scope.texts(n for _, _, n in rows)
    start, end = (np.array([row[k] for row in rows], np.int64) for k in (0, 1))
    cause = np.array([int(cause_of_overhead(names.get(n, ""))) for _, _, n in rows], np.int64)
    spans = [(int(c), *union(start[cause == c], end[cause == c])) for c in (Cause.PROFILER, Cause.MODULE_LOAD)]
    at = np.unique(np.concatenate([edge for _, low, high in spans for edge in (low, high)]))
    value = np.full(len(at), -1, np.int64)
    for number, low, high in spans:
        if len(low):
            k = np.searchsorted(low, at, side="right") - 1
            value[(k >= 0) & (at < high[np.maximum(k, 0)])] = number
    return at, value


def load_lock(scope: Scope, capture: int, process: int, thread: int) -> tuple[Ints, Ints]:
    """When a thread holds the interpreter lock, as a step function (at, the cause `python` or -1)."""
    got = scope.connection.execute(
        f"""SELECT start_ns, end_ns FROM stored.cpu_events
        WHERE capture = ? AND kind = {int(EventKind.GIL_HOLD)} AND process = ? AND thread = ?""",
        [capture, process, thread],
    ).fetchnumpy()
    low, high = union(np.asarray(got["start_ns"], np.int64), np.asarray(got["end_ns"], np.int64))
    at = np.stack((low, high), axis=1).reshape(-1)
    return at, np.tile(np.array([int(Cause.PYTHON), -1], np.int64), len(low))
