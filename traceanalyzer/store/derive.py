"""What the store works out of a staged capture: nesting and stacks of events, launches, lanes, steps.

Each function makes one temporary table beside the staged ones, which `traceanalyzer.store.commit` joins to them.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator

import duckdb
import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.nesting import Nesting, nest, timeline
from traceanalyzer.schema.kinds import NESTED_KINDS, EventKind, Lane, OpKind
from traceanalyzer.schema.sink import NO_TEXT
from traceanalyzer.store.frames import STEP_RANGE, Frame, frame_of, step_number
from traceanalyzer.store.staging import Staging, append

COMMUNICATION = re.compile(r"nccl|rccl|nvshmem|msccl|::ep::", re.IGNORECASE)
"""Names of communication kernels where no metadata tells them."""

_NESTED = ", ".join(str(int(kind)) for kind in NESTED_KINDS)
Ints = NDArray[np.int64]


def derive(staging: Staging) -> None:
    """Make all derived tables of a staged capture."""
    connection = staging.connection
    mark_steps_in_ranges(staging)
    derive_nesting(staging)
    derive_launches(connection)
    derive_lanes(staging)
    derive_steps(staging)


def drop_derived(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop what `derive` made."""
    for table in ("nesting", "stack_changes", "launches", "communication_names", "steps", "op_steps"):
        connection.execute(f"DROP TABLE IF EXISTS stage_{table}")


def mark_steps_in_ranges(staging: Staging) -> None:
    """Ranges whose text is that of a step mark become step marks, where the file has no better ones."""
    connection = staging.connection
    known = connection.execute(f"SELECT 1 FROM stage_cpu_events WHERE kind = {int(EventKind.STEP_MARK)} LIMIT 1")
    if known.fetchall():
        return
    rows = connection.execute(
        f"SELECT DISTINCT name FROM stage_cpu_events WHERE kind = {int(EventKind.RANGE)} AND name IS NOT NULL"
    ).fetchall()
    pattern = re.compile(STEP_RANGE, re.IGNORECASE)
    marks = [code for (code,) in rows if pattern.fullmatch(staging.texts.all[code])]
    if marks:
        connection.execute(
            f"UPDATE stage_cpu_events SET kind = {int(EventKind.STEP_MARK)}"
            f" WHERE kind = {int(EventKind.RANGE)} AND name IN ({', '.join(map(str, marks))})"
        )


def derive_nesting(staging: Staging) -> None:
    """Parent, depth and stack node of every event that nests on a thread: `stage_nesting`.

    Where events cross, an event may go on after one around it has ended: `stage_stack_changes`.
    """
    connection = staging.connection
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE stage_nesting (event_id BIGINT, parent_id BIGINT, depth INTEGER, node_id BIGINT)"
    )
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE stage_stack_changes (event_id BIGINT, from_ns BIGINT, node_id BIGINT)"
    )
    frames = _Frames(staging)
    for event_id, start, end, kind, name in _threads(connection):
        nesting = nest(start, end)
        inside = nesting.parent >= 0
        parent_id = np.ma.masked_array(event_id[np.maximum(nesting.parent, 0)], mask=~inside)
        changes, complete = _changes(frames, nesting, start, end, kind, name)
        if not complete:
            staging.note("events_cross", _CROSS)
        node = _nodes(frames, nesting, start, kind, name, changes)
        if changes:
            counts = [len(instants) for instants, _ in changes.values()]
            columns = {
                "event_id": event_id[np.repeat(np.array(list(changes), np.int64), counts)],
                "from_ns": np.concatenate([instants for instants, _ in changes.values()]),
                "node_id": np.concatenate([nodes for _, nodes in changes.values()]),
            }
            append(connection, "stage_stack_changes", columns)
        append(
            connection,
            "stage_nesting",
            {
                "event_id": event_id,
                "parent_id": parent_id,
                "depth": nesting.depth.astype(np.int32),
                "node_id": node,
            },
        )


def _threads(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[Ints, Ints, Ints, Ints, Ints]]:
    """(event_id, start, end, kind, name) of the nested events of each thread."""
    where = f"kind IN ({_NESTED}) AND thread IS NOT NULL"
    threads = connection.execute(
        f"SELECT process, thread FROM stage_cpu_events WHERE {where} GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    for process, thread in threads:
        got = connection.execute(
            "SELECT event_id, start_ns, end_ns, kind::BIGINT AS kind, coalesce(name, -1)::BIGINT AS name"
            f" FROM stage_cpu_events WHERE {where} AND process IS NOT DISTINCT FROM ? AND thread = ? ORDER BY event_id",
            [process, thread],
        ).fetchnumpy()
        yield tuple(np.asarray(got[c], np.int64) for c in ("event_id", "start_ns", "end_ns", "kind", "name"))  # type: ignore[misc]


class _Frames:
    """Frames of events in the prefix tree of the capture."""

    def __init__(self, staging: Staging) -> None:
        self._texts, self._stacks = staging.texts, staging.stacks
        self._known: dict[tuple[int, int], Frame] = {}

    def node(self, parent: int, kind: int, name: int) -> int:
        """Number of the node of an event below the node of its parent."""
        frame = self._known.get((kind, name))
        if frame is None:
            frame = frame_of(EventKind(kind), "" if name == NO_TEXT else self._texts.all[name])
            self._known[kind, name] = frame
        return self._stacks.node(parent, frame.text, frame.file, frame.line, kind=EventKind(kind))


_MOST_STEPS = 100_000
"""Steps that working out the crossings of a thread may take, beside some for every event."""
_CROSS = (
    "Events of a thread cross so often that stacks were not worked out to the end: they may name events that are over."
)

Changes = dict[int, tuple[Ints, Ints]]
"""Of events (positions) that go on after one around them has ended: instants, and the stack from each on."""


def _changes(frames: _Frames, nesting: Nesting, start: Ints, end: Ints, kind: Ints, name: Ints) -> tuple[Changes, bool]:
    """Where events cross, one ends below others that go on; from then on their stacks are without it.

    Second: whether all could be worked out. Of n events that are all open at once there are n * n changes.
    """
    ended_below = np.flatnonzero(nesting.extent > end)
    if not len(ended_below):
        return {}, True
    line = timeline(start, end, nesting)
    ended_below = ended_below[np.argsort(end[ended_below], kind="stable")]
    innermost = line.event[np.searchsorted(line.at, end[ended_below], side="right") - 1]
    # Lists: single values are read from them several times faster than from arrays.
    parent, starts, ends = nesting.parent.tolist(), start.tolist(), end.tolist()
    kinds, names = kind.tolist(), name.tolist()
    later_parent = parent.copy()  # without those that were over when they were last met: instants only grow
    left = _MOST_STEPS + 4 * len(starts)
    found: dict[int, tuple[list[int], list[int]]] = {}
    at_start: dict[int, int] = {}

    def open_around(position: int, instant: int) -> int:
        met, above = [position], int(later_parent[position])
        while above >= 0 and ends[above] <= instant:
            met.append(above)
            above = later_parent[above]
        for each in met:
            later_parent[each] = above
        return above

    def known(position: int, instant: int) -> int | None:
        """The stack from the last change on, or at the start, as far as it was worked out."""
        instants, nodes = found.get(position, ([], []))
        k = bisect_right(instants, instant) - 1
        return nodes[k] if k >= 0 else at_start.get(position)

    def node_at(position: int, instant: int) -> int:
        """Stack of an event that is open at the instant; -1 for none. All changes up to the instant are known."""
        missing: list[int] = []
        while position >= 0 and known(position, instant) is None:
            missing.append(position)
            instant = starts[position]
            position = parent[position]  # what is on top of the stack when an event begins is open
        node = -1 if position < 0 else int(known(position, instant) or 0)
        for inner in reversed(missing):
            node = at_start[inner] = frames.node(node, kinds[inner], names[inner])
        return node

    for below, first in zip(ended_below.tolist(), innermost.tolist(), strict=True):
        instant, chain, above = ends[below], [], first
        while above not in (below, -1):
            if starts[above] < instant < ends[above]:
                chain.append(above)
            above = parent[above]
            left -= 1
        if left < 0:
            break
        for position in reversed(chain):
            around = node_at(open_around(position, instant), instant)
            node = frames.node(around, kinds[position], names[position])
            instants, nodes = found.setdefault(position, ([], []))
            if instants and instants[-1] == instant:
                nodes[-1] = node
            else:
                instants.append(instant)
                nodes.append(node)
    return {k: (np.array(i, np.int64), np.array(n, np.int64)) for k, (i, n) in found.items()}, left >= 0


def _nodes(frames: _Frames, nesting: Nesting, start: Ints, kind: Ints, name: Ints, changes: Changes) -> Ints:
    """Stack of each event at its start, level by level from the outermost, each distinct (parent node, frame) once."""
    node = np.full(len(start), -1, np.int64)
    order = np.argsort(nesting.depth, kind="stable")
    edges = np.flatnonzero(np.diff(nesting.depth[order], prepend=-1))
    if len(edges) > _MOST_LEVELS:
        return _nodes_one_by_one(frames, nesting, order, start, kind, name, changes)
    label = np.unique(kind * (int(name.max(initial=0)) + 2) + name + 1, return_inverse=True)[1].reshape(-1)
    labels = int(label.max(initial=0)) + 1
    later = _LaterStacks(changes, len(start))
    for low, high in zip(edges, np.append(edges[1:], len(order)), strict=True):
        level = order[low:high]
        parent = nesting.parent[level]
        above = np.where(parent >= 0, node[np.maximum(parent, 0)], -1)
        above = later.around(parent, start[level], above)
        keys = (above + 1) * labels + label[level]
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        new = [frames.node(int(above[k]), int(kind[level[k]]), int(name[level[k]])) for k in first]
        node[level] = np.array(new, np.int64)[inverse.reshape(-1)]
    return node


class _LaterStacks:
    """The stacks of events after their changes, looked up for many instants at once."""

    def __init__(self, changes: Changes, count: int) -> None:
        self._changing = np.zeros(count + 1, bool)  # the last one stands for -1, no event
        self._changing[list(changes)] = True
        if not changes:
            return
        position = np.repeat(np.array(list(changes), np.int64), [len(i) for i, _ in changes.values()])
        instant = np.concatenate([i for i, _ in changes.values()])
        node = np.concatenate([n for _, n in changes.values()])
        self._instants = np.unique(instant)
        key = position * (len(self._instants) + 1) + np.searchsorted(self._instants, instant) + 1
        turn = np.argsort(key)
        self._key, self._position, self._node = key[turn], position[turn], node[turn]

    def around(self, parent: Ints, instant: Ints, node: Ints) -> Ints:
        """The stack of each parent at an instant: its last change up to then, else `node`."""
        mine = np.flatnonzero(self._changing[parent])
        if not len(mine):
            return node
        rank = np.searchsorted(self._instants, instant[mine], side="right")
        k = np.searchsorted(self._key, parent[mine] * (len(self._instants) + 1) + rank, side="right") - 1
        found = (k >= 0) & (self._position[np.maximum(k, 0)] == parent[mine])
        out = node.copy()
        out[mine[found]] = self._node[k[found]]
        return out


_MOST_LEVELS = 1000
"""Beyond this depth levels hold few events each, and are slower together than one by one."""


def _nodes_one_by_one(
    frames: _Frames, nesting: Nesting, order: Ints, start: Ints, kind: Ints, name: Ints, changes: Changes
) -> Ints:
    """The same for very deep stacks."""
    parents, starts, kinds, names = nesting.parent.tolist(), start.tolist(), kind.tolist(), name.tolist()
    node = [-1] * len(starts)
    for position in order.tolist():
        parent = parents[position]
        above = node[parent] if parent >= 0 else -1
        if parent in changes:
            instants, later = changes[parent]
            k = int(np.searchsorted(instants, starts[position], side="right")) - 1
            above = int(later[k]) if k >= 0 else above
        node[position] = frames.node(above, kinds[position], names[position])
    return np.array(node, np.int64)


def derive_launches(connection: duckdb.DuckDBPyConnection) -> None:
    """The call that launched each operation: `stage_launches`. Correlation ids hold within a process only.

    Where several calls share an id (a runtime call around a driver call), the one that began first is the launch.
    """
    connection.execute(
        f"""CREATE OR REPLACE TEMP TABLE stage_launches AS
        WITH calls AS (
            SELECT process, correlation_id, arg_min(event_id, (start_ns, event_id)) AS event_id,
                min(start_ns) AS start_ns
            FROM stage_cpu_events
            WHERE kind = {int(EventKind.API_CALL)} AND correlation_id IS NOT NULL
            GROUP BY process, correlation_id
        )
        SELECT o.op_id, c.event_id, c.start_ns AS launched_ns
        FROM stage_gpu_ops o JOIN calls c ON c.process = o.process AND c.correlation_id = o.correlation_id"""
    )


def derive_lanes(staging: Staging) -> None:
    """Names of communication kernels: `stage_communication_names`."""
    connection = staging.connection
    rows = connection.execute(
        f"SELECT DISTINCT name FROM stage_gpu_ops WHERE kind = {int(OpKind.KERNEL)} AND name IS NOT NULL"
    ).fetchall()
    codes = [code for (code,) in rows if COMMUNICATION.search(staging.texts.all[code])]
    connection.execute("CREATE OR REPLACE TEMP TABLE stage_communication_names (name INTEGER)")
    if codes:
        append(connection, "stage_communication_names", {"name": np.array(codes, np.int32)})


def lane_expression(op: str) -> str:
    """SQL that gives the lane of the staged operation `op`."""
    return (
        f"CASE WHEN {op}.kind IN ({int(OpKind.MEMCPY)}, {int(OpKind.MEMSET)}) THEN {int(Lane.COPY)}"
        f" WHEN {op}.kind = {int(OpKind.KERNEL)} AND ({op}.name IN (SELECT name FROM stage_communication_names)"
        f" OR {op}.op_id IN (SELECT op_id FROM stage_collectives WHERE op_id IS NOT NULL))"
        f" THEN {int(Lane.COMMUNICATION)} ELSE {int(Lane.COMPUTE)} END"
    )


def derive_steps(staging: Staging) -> None:
    """Steps by their marks, `stage_steps`, and the step in which each operation was launched, `stage_op_steps`."""
    connection = staging.connection
    rows = connection.execute(
        f"""SELECT process, thread, name, start_ns, end_ns FROM stage_cpu_events
        WHERE kind = {int(EventKind.STEP_MARK)} AND process IS NOT NULL
        ORDER BY process, thread, start_ns, end_ns DESC"""
    ).fetchall()
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE stage_steps (process BIGINT, thread BIGINT, step BIGINT, name INTEGER,"
        " start_ns BIGINT, end_ns BIGINT, mark_end_ns BIGINT)"
    )
    marks = step_marks(rows, staging.texts.all)
    if marks:
        names = ("process", "thread", "step", "name", "start_ns", "end_ns", "mark_end_ns")
        columns = {n: np.array(v, np.int64) for n, v in zip(names, zip(*marks, strict=True), strict=True)}
        append(connection, "stage_steps", columns)
    connection.execute(
        """CREATE OR REPLACE TEMP TABLE stage_op_steps AS
        WITH launched AS (
            -- Where no process that launches has marks of its own, those of the file's one marked process hold.
            SELECT o.op_id, l.launched_ns, CASE WHEN o.process IN (SELECT process FROM stage_steps) THEN o.process
                ELSE (SELECT CASE WHEN count(DISTINCT process) = 1 THEN any_value(process) END FROM stage_steps
                    WHERE process NOT IN (SELECT process FROM stage_gpu_ops WHERE process IS NOT NULL)) END AS process
            FROM stage_launches l JOIN stage_gpu_ops o USING (op_id)
        )
        SELECT l.op_id, s.step
        FROM launched l ASOF JOIN stage_steps s ON s.process = l.process AND s.start_ns <= l.launched_ns
        WHERE l.launched_ns < s.end_ns"""
    )


def step_marks(
    rows: list[tuple[int, int, int, int, int]], texts: list[str]
) -> list[tuple[int, int, int, int, int, int, int]]:
    """Steps (process, thread, step, name, start, end, end of mark) of mark rows sorted by process, thread, start.

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
        thread, marks = max(threads.items(), key=lambda item: (len(item[1]), -item[0]))
        numbers = [step_number(texts[name]) if name is not None and name >= 0 else None for name, _, _ in marks]
        if None in numbers or len(set(numbers)) < len(numbers):
            numbers = list(range(len(marks)))
        ends = [start for _, start, _ in marks[1:]] + [marks[-1][2]]
        for number, (name, start, mark_end), end in zip(numbers, marks, ends, strict=True):
            out.append((process, thread, int(number or 0), name, start, end, mark_end))
    return out
