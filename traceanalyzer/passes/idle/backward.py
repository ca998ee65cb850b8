"""Threads that wait inside `backward` while others of their process do the backward pass.

Where nothing is open on the launching thread while such a thread waits, the time is the framework's, and the stack is
that of the thread that waits.
"""

import numpy as np

from traceanalyzer.passes.idle.samples import load_samples
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.idle.step_functions import NOTHING, StepFunction, first_of, of_disjoint
from traceanalyzer.passes.idle.threads import ThreadEvents, ThreadSweep
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.store.database import first_row


def load_waiting(scope: Scope, tree: StackTree, capture: int, process: int, thread: int) -> StepFunction:
    """The stack of another thread of the process that waits inside `backward`, over time; of several the first's."""
    flag = tree.waits_for_backward(records_frames(scope, capture))
    nodes = np.flatnonzero(flag)
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
    found = [_waits(scope, tree, flag, capture, process, other) for (other,) in others]
    return first_of(*found) if found else NOTHING


def records_frames(scope: Scope, capture: int) -> bool:
    """Whether Python frames were recorded as events."""
    query = f"SELECT 1 FROM stored.cpu_events WHERE capture = ? AND kind = {int(EventKind.PYTHON_FRAME)} LIMIT 1"
    return first_row(scope.connection.execute(query, [capture])) is not None


def _waits(scope: Scope, tree: StackTree, flag: np.ndarray, capture: int, process: int, thread: int) -> StepFunction:
    events = ThreadEvents(scope, tree, capture, process, thread)
    waiting = np.flatnonzero(flag[events.node])
    parts = []
    if len(waiting):
        start, end = events.start[waiting], events.end(waiting)
        outermost = np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1]) & (end > start)
        if outermost.any():
            found = ThreadSweep(events).cut(start[outermost], end[outermost])
            node = np.where((found.node >= 0) & flag[found.node], found.node, -1)
            parts.append(of_disjoint(found.start, found.end, node))
    samples = load_samples(scope, capture, process, thread, events)
    if samples:
        parts.append(StepFunction(samples.at, np.where(flag[samples.value] & (samples.value >= 0), samples.value, -1)))
    return first_of(*parts) if parts else NOTHING
