"""Threads that wait inside `backward` while others of their process do the backward pass.

Where nothing is open on the launching thread while such a thread waits, the time is the framework's, and the stack is
that of the thread that waits.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.idle.samples import load_samples
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.idle.step_functions import NOTHING, StepFunction, first_of, of_disjoint
from traceanalyzer.passes.idle.threads import ThreadEvents, ThreadSweep
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.store.database import first_row


def load_waiting(
    scope: Scope,
    tree: StackTree,
    capture: int,
    process: int,
    thread: int,
    known: Mapping[tuple[int, int], ThreadEvents] = MappingProxyType({}),
) -> StepFunction:
    """The stack of another thread of the process that waits inside `backward`, over time; of several the first's.

    `known` are events of (process, thread) that were loaded before.
    """
    frames_recorded = records_frames(scope, capture)
    nodes = np.flatnonzero(tree.waits_for_backward(frames_recorded))
    if not len(nodes):
        return NOTHING
    others = scope.connection.execute(
        """SELECT DISTINCT thread FROM (
            SELECT thread FROM stored.cpu_events
            WHERE capture = $capture AND process = $process AND node_id IN (SELECT unnest($nodes::BIGINT[]))
            UNION ALL
            SELECT thread FROM stored.samples
            WHERE capture = $capture AND process = $process AND node_id IN (SELECT unnest($nodes::BIGINT[]))
        ) WHERE thread IS NOT NULL AND thread <> $thread ORDER BY thread""",
        {"capture": capture, "process": process, "thread": thread, "nodes": nodes},
    ).fetchall()
    found = []
    for (other,) in others:
        events = known.get((process, other)) or ThreadEvents(scope, tree, capture, process, other)
        samples = load_samples(scope, capture, process, other, events)
        # Only now: loading events may add stacks.
        found.append(_waits(tree.waits_for_backward(frames_recorded), events, samples))
    return first_of(*found) if found else NOTHING


def records_frames(scope: Scope, capture: int) -> bool:
    """Whether Python frames were recorded as events."""
    query = f"SELECT 1 FROM stored.cpu_events WHERE capture = ? AND kind = {int(EventKind.PYTHON_FRAME)} LIMIT 1"
    return first_row(scope.connection.execute(query, [capture])) is not None


def _waits(flag: NDArray[np.bool_], events: ThreadEvents, samples: StepFunction) -> StepFunction:
    waiting = np.flatnonzero(flag[events.node])
    parts = []
    if len(waiting):
        start, end = events.start[waiting], events.end(waiting)
        outermost = np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1]) & (end > start)
        if outermost.any():
            found = ThreadSweep(events).cut(start[outermost], end[outermost])
            node = np.where((found.node >= 0) & flag[found.node], found.node, -1)
            parts.append(of_disjoint(found.start, found.end, node))
    if samples:
        parts.append(StepFunction(samples.at, np.where(flag[samples.value] & (samples.value >= 0), samples.value, -1)))
    return first_of(*parts) if parts else NOTHING
