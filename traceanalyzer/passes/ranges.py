"""Ranges: what the host and the devices did inside annotations and NVTX ranges."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import groups
from traceanalyzer.numeric.intervals import union
from traceanalyzer.passes.answer import Answer, Frame, TableSpec
from traceanalyzer.passes.columns import CAPTURE
from traceanalyzer.passes.gaps import no_timeline
from traceanalyzer.passes.idle.backward import load_waiting
from traceanalyzer.passes.idle.lanes import DeviceGaps, devices_with_gaps
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.operations import Operations, window_of
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import load_marks
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.units import Unit

Ints = NDArray[np.int64]
_ANNOTATIONS = "user_annotation"
"""Category of annotations: those of communication on the host, and of the collector, are ranges as well."""
_KINDS = (EventKind.RANGE, EventKind.HOST_COMMUNICATION, EventKind.GARBAGE_COLLECTION)

RANGES = TableSpec(
    "ranges",
    "Ranges by name, the most idle time first: host time, and what the devices did for what was launched inside.",
    (
        CAPTURE,
        Column("rank", Type.INT32, "Rank of the process; null if unknown."),
        Column("range", Type.TEXT, "Name of the range or annotation, as recorded."),
        Column("calls", Type.INT64, "How often it was opened.", Unit.COUNT),
        Column("host_ns", Type.INT64, "Sum of its durations on the host.", Unit.NS),
        Column(
            "busy_ns",
            Type.INT64,
            "Union of the operations launched inside: by its thread, or by one that it waits for in a backward pass.",
            Unit.NS,
        ),
        Column(
            "idle_ns", Type.INT64, "Idle time of the devices whose stack has the range: of the pieces of gaps.", Unit.NS
        ),
        Column("n_ops", Type.INT64, "Operations launched inside.", Unit.COUNT),
    ),
)


def ranges(scope: Scope) -> Answer:
    """Table `ranges`. Ranges nest, and one inside another counts for both, so the rows do not add up.

    `busy_ns` and `idle_ns` are sums over the devices of the capture. With steps, a range counts in the step in which it
    was opened; with a window, the part of it that lies inside.
    """
    tree = StackTree(scope)
    found = _on_host(scope)
    busy, idle, count = ([0] * len(found) for _ in range(3))
    for part in devices_with_gaps(scope, tree):
        rows_of = _RowsOfStacks(tree, part, found)
        for pieces in part.pieces():
            sums = np.bincount(pieces.node + 1, pieces.length).astype(np.int64)[1:]
            for node in np.flatnonzero(sums).tolist():
                for row in rows_of.node(node):
                    idle[row] += int(sums[node])
        for row, ops in _launched_inside(scope, tree, part, rows_of):
            low, high = union(part.ops.start[ops], part.ops.end[ops])
            busy[row] += int((high - low).sum())
            count[row] += len(ops)
    rows = [(*row, b, i, n) for row, b, i, n in zip(found, busy, idle, count, strict=True)]
    rows.sort(key=lambda r: (-r[6], -r[4], r[0], str(r[1]), r[2]))
    answer = Answer(
        "ranges",
        {"ranges": Frame.of_rows(RANGES, rows)},
        warnings=list(scope.warnings),
        default_table="ranges",
        notes=[scope.note()],
    )
    if not rows:
        answer.warnings.append(no_timeline(scope) or "no ranges or annotations were recorded in what is selected")
    return answer


_Row = tuple[int, int | None, str, int, int]


def operations_of_ranges(
    scope: Scope, tree: StackTree, device: DeviceOfCapture
) -> tuple[Operations, list[tuple[str, NDArray[np.intp]]]] | None:
    """The selected operations of a device, and of every range by its name those that were launched inside.

    None where nothing of the device is selected.
    """
    found = _on_host(scope)
    for part in devices_with_gaps(replace(scope, devices=(device,)), tree):
        inside = _launched_inside(scope, tree, part, _RowsOfStacks(tree, part, found))
        return part.ops, sorted((found[row][2], launched) for row, launched in inside)
    return None


def _on_host(scope: Scope) -> list[_Row]:
    """(capture, rank, name, calls, host time) of every range; names as they stand in stacks."""
    selected, host, parameters = _selected_time(scope)
    return scope.connection.execute(
        f"""SELECT e.capture, coalesce(p.rank, c.rank) AS rank, coalesce(f.text, n.text) AS range, count(*),
            sum({host})::BIGINT
        FROM stored.cpu_events e JOIN stored.names n ON n.name_id = e.name
        LEFT JOIN stored.stack_nodes s ON s.node_id = e.node_id LEFT JOIN stored.names f ON f.name_id = s.frame
        JOIN stored.captures c ON c.capture = e.capture
        LEFT JOIN stored.processes p ON p.capture = e.capture AND p.process = e.process {selected}
        WHERE e.capture IN {scope.numbers()} AND (e.kind = {int(EventKind.RANGE)} OR (
            e.kind IN ({int(EventKind.HOST_COMMUNICATION)}, {int(EventKind.GARBAGE_COLLECTION)})
            AND e.domain IN (SELECT name_id FROM stored.names WHERE text = '{_ANNOTATIONS}')))
        GROUP BY ALL ORDER BY e.capture, rank, range""",
        parameters,
    ).fetchall()


def _selected_time(scope: Scope) -> tuple[str, str, dict[str, list[int]]]:
    """What of the host's time is selected: a join that keeps it, the part of a range's time, and the parameters.

    A step is selected by the mark of the process in which a range was opened, the window by the clock of the capture.
    """
    spans: list[tuple[int, int, int, int]] = []
    if scope.selection.steps is not None:
        low, high = scope.selection.steps
        for capture in scope.captures:
            marks = [mark for mark in load_marks(scope, capture) if low <= mark.step <= high]
            spans += [(capture, mark.process, mark.start, mark.end) for mark in marks]
        which = "t.process = e.process AND e.start_ns >= t.low AND e.start_ns < t.high"
        host = "e.end_ns - e.start_ns"
    elif scope.selection.window_ns is not None:
        for capture in scope.captures:
            window = window_of(scope, capture)
            spans += [] if window is None else [(capture, 0, *window)]
        which = "e.start_ns < t.high AND (e.end_ns > t.low OR e.start_ns >= t.low)"
        host = "least(e.end_ns, t.high) - greatest(e.start_ns, t.low)"
    else:
        return "", "e.end_ns - e.start_ns", {}
    join = f"""JOIN (SELECT unnest($captures::INTEGER[]) AS capture, unnest($processes::BIGINT[]) AS process,
        unnest($lows::BIGINT[]) AS low, unnest($highs::BIGINT[]) AS high) t ON t.capture = e.capture AND {which}"""
    names = ("captures", "processes", "lows", "highs")
    return join, host, {name: [span[k] for span in spans] for k, name in enumerate(names)}


class _RowsOfStacks:
    """Which rows of the answer each stack of a device belongs to: those of the ranges on it."""

    def __init__(self, tree: StackTree, part: DeviceGaps, rows: list[_Row]) -> None:
        self._tree = tree
        self._of_text: dict[str, int] = {}
        for k, (capture, rank, name, _, _) in enumerate(rows):
            if capture == part.device.capture and (rank == part.device.rank or name not in self._of_text):
                self._of_text[name] = k
        self._known: dict[int, tuple[int, ...]] = {-1: ()}

    def node(self, node: int) -> tuple[int, ...]:
        """Rows of the ranges on a stack, each once."""
        path = []
        while node not in self._known:
            path.append(node)
            node = int(self._tree.parent[node])
        rows = self._known[node]
        for each in reversed(path):
            label = self._tree.labels[self._tree.label[each]]
            row = self._of_text.get(label.text) if label.kind in _KINDS else None
            rows = rows if row is None or row in rows else (*rows, row)
            self._known[each] = rows
        return rows


def _launched_inside(
    scope: Scope, tree: StackTree, part: DeviceGaps, rows_of: _RowsOfStacks
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """(row, operations) of every range in which operations of the device were launched."""
    ops, device = part.ops, part.device
    got = scope.connection.execute(
        """SELECT o.op_id, coalesce(e.node_id, -1)::INTEGER AS node, coalesce(e.process, -1)::BIGINT AS process,
            coalesce(e.thread, -1)::BIGINT AS thread, e.start_ns AS launched
        FROM stored.gpu_ops o JOIN stored.cpu_events e ON e.capture = o.capture AND e.event_id = o.launch_event_id
        WHERE o.capture = ? AND o.device = ? ORDER BY o.op_id""",
        [device.capture, device.device],
    ).fetchnumpy()
    order = np.argsort(ops.op_id, kind="stable")
    at = np.searchsorted(ops.op_id, got["op_id"], sorter=order)
    known = at < len(order)
    known[known] &= ops.op_id[order[at[known]]] == got["op_id"][known]
    op = order[at[known]]
    if not len(op):
        return
    node, process, thread, launched = (np.asarray(got[c])[known] for c in ("node", "process", "thread", "launched"))
    waiting = np.full(len(op), -1, np.int32)
    threads = groups(process, thread)
    loaded = {(owner.process, owner.thread): owner.events for owner in part.attribution.gaps.threads}
    for number, row in enumerate(threads.row.tolist()):
        mine = threads.of_row == number
        place = device.capture, int(process[row]), int(thread[row])
        function = load_waiting(scope, tree, *place, known=loaded).node
        waiting[mine] = function.at_instants(launched[mine])
    inside: dict[int, list[NDArray[np.intp]]] = {}
    stacks = groups(node, waiting)
    by_stack = np.split(np.argsort(stacks.of_row, kind="stable"), np.cumsum(stacks.counts())[:-1])
    for row, members in zip(stacks.row.tolist(), by_stack, strict=True):
        for k in {*rows_of.node(int(node[row])), *rows_of.node(int(waiting[row]))}:
            inside.setdefault(k, []).append(op[members])
    for k, parts in inside.items():
        yield k, np.concatenate(parts)
