"""Every gap of a device cut into pieces, each with one cause and one stack.

The rule (docs/reference/causes.md): the next operation of a gap has a launch, the launch a thread. Before the launch
began, the innermost event open on that thread decides the cause; during it, the launch does; after it, the device.
"""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import groups
from traceanalyzer.numeric.nesting import cut_intervals
from traceanalyzer.passes.causes import Cause, Reason
from traceanalyzer.passes.operations import NULL, Operations
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.threads import ThreadEvents, copies_of, load_lock, load_overhead, load_thread
from traceanalyzer.schema.kinds import CopyKind, EventKind, MemoryKind, OpKind
from traceanalyzer.store.database import first_row

Ints = NDArray[np.int64]

LAUNCH_LATENCY_NS = 20_000
"""Up to this long after its launch an operation may start without anything being in its way."""
FIRST_LAUNCH_NS = 200_000
"""A first launch of a kernel in its process that takes longer is loading its module."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps of a device and the operation that ends each: positions in `Operations`, launches, threads."""

    start: Ints
    end: Ints
    next_op: Ints
    process: Ints
    thread: Ints
    launch_start: Ints
    launch_end: Ints
    launch_node: Ints

    def __len__(self) -> int:
        return len(self.start)

    @property
    def launched(self) -> NDArray[np.bool_]:
        """Which gaps end with an operation whose launch was recorded."""
        return np.not_equal(self.launch_start, NULL)


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of gaps, in the order of gaps and time; `node` is -1 for an empty stack."""

    gap: Ints
    start: Ints
    end: Ints
    cause: Ints
    reason: Ints
    node: Ints

    def __len__(self) -> int:
        return len(self.gap)

    def lengths_by_gap(self, count: int) -> Ints:
        """Sum of the pieces of each of `count` gaps."""
        out = np.zeros(count, np.int64)
        np.add.at(out, self.gap, self.end - self.start)
        return out


def find_gaps(scope: Scope, ops: Operations) -> Gaps:
    """Gaps of the device with the launches of the operations that end them.

    Of several operations that start together the one whose launch began first counts.
    """
    start, end = ops.gaps()
    next_op = np.minimum(np.searchsorted(ops.start, end, side="left"), max(len(ops) - 1, 0)).astype(np.int64)
    launch = ops.launch[next_op] if len(ops) else np.zeros(0, np.int64)
    calls = scope.connection.execute(
        """SELECT event_id, start_ns, end_ns, process, thread, coalesce(node_id, -1) AS node
        FROM stored.cpu_events WHERE capture = ? AND event_id IN (SELECT unnest(?::BIGINT[])) AND thread IS NOT NULL
        ORDER BY event_id""",
        [ops.device.capture, np.unique(launch[launch != NULL])],
    ).fetchnumpy()
    event_id = np.asarray(calls["event_id"], np.int64)
    at = np.searchsorted(event_id, launch)
    found = np.zeros(len(launch), bool)
    if len(event_id):
        found = (event_id[np.minimum(at, len(event_id) - 1)] == launch) & (launch != NULL)

    def of_launch(name: str) -> Ints:
        out = np.full(len(launch), NULL, np.int64)
        out[found] = np.asarray(calls[name], np.int64)[at[found]]
        return out

    names = ("process", "thread", "start_ns", "end_ns", "node")
    process, thread, launch_start, launch_end, node = (of_launch(name) for name in names)
    return Gaps(start, end, next_op, process, thread, launch_start, launch_end, node)


def attribute(scope: Scope, ops: Operations, gaps: Gaps) -> Pieces:
    """Pieces of all gaps; the pieces of a gap add up to it, which is checked.

    Raises `AssertionError` if they do not: a fault of this program, never of the input.
    """
    parts = [_before_launch(scope, ops, gaps), _from_launch(scope, ops, gaps), _without_launch(scope, ops, gaps)]
    pieces = Pieces(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    order = np.lexsort((pieces.start, pieces.gap))
    pieces = _merged(Pieces(*(getattr(pieces, name)[order] for name in Pieces.__slots__)))
    if not np.array_equal(pieces.lengths_by_gap(len(gaps)), gaps.end - gaps.start):
        raise AssertionError("the pieces of a gap do not add up to it")
    return pieces


_Part = tuple[Ints, Ints, Ints, Ints, Ints, Ints]


def _part(gap: Ints, start: Ints, end: Ints, cause: Ints, node: Ints, reason: Ints | None = None) -> _Part:
    return gap, start, end, cause, np.zeros(len(gap), np.int64) if reason is None else reason, node


def _empty() -> _Part:
    none = np.zeros(0, np.int64)
    return none, none, none, none, none, none


def _before_launch(scope: Scope, ops: Operations, gaps: Gaps) -> _Part:
    """From the gap's start to the launch: what the launching thread was doing."""
    input_range = re.compile(scope.selection.input_range) if scope.selection.input_range else None
    upto = np.minimum(np.where(gaps.launched, gaps.launch_start, NULL), gaps.end)
    waiting = np.flatnonzero(gaps.launched & (upto > gaps.start))
    if not len(waiting):
        return _empty()
    parts: list[_Part] = []
    threads = groups(gaps.process[waiting], gaps.thread[waiting])
    for number, row in enumerate(waiting[threads.row].tolist()):
        process, thread = int(gaps.process[row]), int(gaps.thread[row])
        mine = waiting[threads.of_row == number]
        events = load_thread(scope, ops.device.capture, process, thread, input_range)
        which, low, high, event = events.timeline.cut(gaps.start[mine], upto[mine])
        gap = mine[which]
        gap, low, high, event, cause = _split_copies(scope, ops.device.capture, events, gap, low, high, event)
        part = _holding_lock(
            scope, ops.device.capture, process, thread, _with_stacks(events, event, gap, low, high, cause)
        )
        parts.append(_with_overhead(scope, ops.device.capture, process, thread, part))
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))  # type: ignore[return-value]


def _split_copies(
    scope: Scope, capture: int, events: ThreadEvents, gap: Ints, low: Ints, high: Ints, event: Ints
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Pieces inside copy calls cut where the device began to copy; and the cause of every piece.

    Until then a call that blocks waits for the device (sync); from then on a copy of pageable memory is the host's.
    """
    cause = events.cause_of(event)
    copies = copies_of(scope, capture, events, np.unique(event[event >= 0]))
    if not len(copies.event):
        return gap, low, high, event, cause
    at = np.searchsorted(copies.event, event)
    is_copy = copies.event[np.minimum(at, len(copies.event) - 1)] == event
    at = np.where(is_copy, np.minimum(at, len(copies.event) - 1), 0)
    begun = np.where(is_copy, np.clip(copies.begun[at], low, high), high)
    before = np.where(is_copy, copies.cause_before[at], cause)
    after = copies.cause_after[at]
    late = is_copy & (begun < high)
    early = begun > low
    joined = [
        np.concatenate((a[early], b[late]))
        for a, b in ((gap, gap), (low, begun), (begun, high), (event, event), (before, after))
    ]
    return joined[0], joined[1], joined[2], joined[3], joined[4]


def _with_stacks(events: ThreadEvents, event: Ints, gap: Ints, low: Ints, high: Ints, cause: Ints) -> _Part:
    """Pieces with the stack of their innermost event, cut where an event around it ends before it does."""
    node = np.append(events.node, -1)[event]
    changing = np.isin(event, events.changes.event)
    if not changing.any():
        return _part(gap, low, high, cause, node)
    which, start, end, later = events.changes.cut(event[changing], low[changing], high[changing])
    which = np.flatnonzero(changing)[which]
    parts = (
        _part(gap[~changing], low[~changing], high[~changing], cause[~changing], node[~changing]),
        _part(gap[which], start, end, cause[which], np.where(later >= 0, later, node[which])),
    )
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))  # type: ignore[return-value]


def _holding_lock(scope: Scope, capture: int, process: int, thread: int, part: _Part) -> _Part:
    """Where nothing is open but the thread holds the interpreter lock, it runs Python."""
    gap, start, end, cause, reason, node = part
    idle = cause == int(Cause.OUTSIDE_EVENTS)
    at, held = load_lock(scope, capture, process, thread) if idle.any() else (start[:0], start[:0])
    if not len(at):
        return part
    which, low, high, own = cut_intervals(at, held, start[idle], end[idle])
    which = np.flatnonzero(idle)[which]
    loose = (gap[which], low, high, np.where(own >= 0, own, cause[which]), reason[which], node[which])
    rest = tuple(column[~idle] for column in part)
    return tuple(np.concatenate(columns) for columns in zip(rest, loose, strict=True))  # type: ignore[return-value]


def _with_overhead(scope: Scope, capture: int, process: int, thread: int, part: _Part) -> _Part:
    """What the profiler says of its own work decides wherever it is open."""
    gap, start, end, cause, reason, node = part
    at, own = load_overhead(scope, capture, process, thread)
    if not len(at):
        return part
    which, low, high, over = cut_intervals(at, own, start, end)
    return gap[which], low, high, np.where(over >= 0, over, cause[which]), reason[which], node[which]


def _from_launch(scope: Scope, ops: Operations, gaps: Gaps) -> _Part:
    """From the launch to the gap's end: the call itself, then the way to the device, then the device's own wait."""
    with_launch = np.flatnonzero(gaps.launched)
    if not len(with_launch):
        return _empty()
    g0, g1 = gaps.start[with_launch], gaps.end[with_launch]
    l0, l1 = gaps.launch_start[with_launch], gaps.launch_end[with_launch]
    begin = np.clip(l0, g0, g1)
    returned = np.clip(l1, begin, g1)
    late = np.minimum(returned + LAUNCH_LATENCY_NS, g1)
    latency = np.where(l1 > g0, Cause.LAUNCH_LATENCY, Cause.DEVICE_GAP)
    own = _cause_of_launch(scope, ops, gaps, with_launch)
    node = gaps.launch_node[with_launch]
    parts = [
        _part(with_launch, begin, returned, own, node),
        _part(with_launch, returned, late, latency.astype(np.int64), node),
        _part(with_launch, late, g1, np.full(len(g0), Cause.DEVICE_WAIT, np.int64), node),
    ]
    kept = []
    for gap, start, end, cause, reason, stack in parts:
        long = end > start
        kept.append((gap[long], start[long], end[long], cause[long], reason[long], stack[long]))
    return tuple(np.concatenate(columns) for columns in zip(*kept, strict=True))  # type: ignore[return-value]


def _cause_of_launch(scope: Scope, ops: Operations, gaps: Gaps, which: Ints) -> Ints:
    """Cause of the time inside the launch of the next operation."""
    launches = ops.launch[gaps.next_op[which]]
    got = scope.connection.execute(
        f"""WITH launched AS (
            SELECT o.launch_event_id AS event_id, o.op_id, o.kind, o.name, o.process, e.start_ns, e.end_ns,
                o.kind = {int(OpKind.MEMCPY)} AND {PAGEABLE} AS pageable
            FROM stored.gpu_ops o JOIN stored.cpu_events e ON e.capture = o.capture AND e.event_id = o.launch_event_id
            WHERE o.capture = $capture
        ), first AS (
            SELECT process, name, min(start_ns) AS start_ns FROM launched
            WHERE kind = {int(OpKind.KERNEL)} GROUP BY process, name
        ), before AS (
            SELECT DISTINCT process, name FROM stored.gpu_ops
            WHERE capture = $capture AND launch_event_id IS NULL AND kind = {int(OpKind.KERNEL)}
        )
        SELECT l.event_id, bool_or(l.pageable) AS pageable,
            bool_or(f.start_ns = l.start_ns AND l.end_ns - l.start_ns > {FIRST_LAUNCH_NS} AND b.name IS NULL) AS loads
        FROM launched l
        LEFT JOIN first f ON l.kind = {int(OpKind.KERNEL)} AND f.process = l.process AND f.name = l.name
        LEFT JOIN before b ON b.process = l.process AND b.name = l.name
        WHERE l.event_id IN (SELECT unnest($launches::BIGINT[])) GROUP BY l.event_id ORDER BY l.event_id""",
        {"capture": ops.device.capture, "launches": np.unique(launches)},
    ).fetchnumpy()
    at = np.searchsorted(np.asarray(got["event_id"], np.int64), launches)
    pageable = np.ma.filled(np.ma.asarray(got["pageable"]), False).astype(bool)[at]
    loads = np.ma.filled(np.ma.asarray(got["loads"]), False).astype(bool)[at]
    return np.where(pageable, Cause.HOST_COPY, np.where(loads, Cause.MODULE_LOAD, Cause.LAUNCH_CALL)).astype(np.int64)


PAGEABLE = (
    f"((o.copy_kind = {int(CopyKind.HTOD)} AND o.source_memory = {int(MemoryKind.PAGEABLE)})"
    f" OR (o.copy_kind = {int(CopyKind.DTOH)} AND o.destination_memory = {int(MemoryKind.PAGEABLE)}))"
)
"""SQL: the copy `o` reads or writes pageable host memory."""


def _without_launch(scope: Scope, ops: Operations, gaps: Gaps) -> _Part:
    """Gaps whose next operation has no launch in the file."""
    bare = np.flatnonzero(~gaps.launched)
    if not len(bare):
        return _empty()
    start, end = gaps.start[bare], gaps.end[bare]
    row = first_row(
        scope.connection.execute(
            f"""SELECT min(start_ns) FROM stored.cpu_events WHERE capture = ? AND kind = {int(EventKind.API_CALL)}""",
            [ops.device.capture],
        )
    )
    first_call = row[0] if row else None
    in_flight, known_stream = _in_flight(scope, ops)
    op = gaps.next_op[bare]
    flying = in_flight[op]
    recording = start >= first_call if first_call is not None else np.zeros(len(bare), bool)
    reason = np.full(len(bare), int(Reason.LAUNCH_NOT_RECORDED), np.int64)
    reason[flying & known_stream[op]] = int(Reason.LAUNCHED_BEFORE_RECORDING)
    if first_call is None:
        reason[:] = int(Reason.NO_CALLS_RECORDED)
    device = flying & recording
    late = np.where(device, np.minimum(start + LAUNCH_LATENCY_NS, end), end)
    none = np.full(len(bare), -1, np.int64)
    cause = np.where(device, Cause.DEVICE_GAP, Cause.UNATTRIBUTED).astype(np.int64)
    rest = end > late
    first = _part(bare, start, late, cause, none, np.where(device, 0, reason))
    second = _part(bare[rest], late[rest], end[rest], np.full(int(rest.sum()), Cause.DEVICE_WAIT, np.int64), none[rest])
    return tuple(np.concatenate(columns) for columns in zip(first, second, strict=True))  # type: ignore[return-value]


def _in_flight(scope: Scope, ops: Operations) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which operations were in flight when recording began: the first ones of each stream that have no launch.

    Second: whether the operation's stream has any launch in the file; without one it is not known to be in flight.
    """
    got = scope.connection.execute(
        """SELECT process, stream, min(start_ns) FROM stored.gpu_ops
        WHERE capture = ? AND device = ? AND launch_event_id IS NOT NULL GROUP BY ALL""",
        [ops.device.capture, ops.device.device],
    ).fetchall()
    first = {(NULL if p is None else p, NULL if s is None else s): start for p, s, start in got}
    streams = groups(ops.process, ops.stream)
    keys = zip(ops.process[streams.row].tolist(), ops.stream[streams.row].tolist(), strict=True)
    limits = np.array([first.get(key, NULL) for key in keys], np.int64)[streams.of_row]
    known = limits != NULL
    return (ops.launch == NULL) & known & (ops.original_start <= limits), known


def _merged(pieces: Pieces) -> Pieces:
    """Equal neighbouring pieces of a gap become one."""
    if not len(pieces):
        return pieces
    same = np.append(
        False,
        (pieces.gap[1:] == pieces.gap[:-1])
        & (pieces.cause[1:] == pieces.cause[:-1])
        & (pieces.reason[1:] == pieces.reason[:-1])
        & (pieces.node[1:] == pieces.node[:-1])
        & (pieces.start[1:] == pieces.end[:-1]),
    )
    first = np.flatnonzero(~same)
    last = np.append(first[1:] - 1, len(pieces) - 1)
    return Pieces(
        pieces.gap[first],
        pieces.start[first],
        pieces.end[last],
        pieces.cause[first],
        pieces.reason[first],
        pieces.node[first],
    )
