"""Threads that wait inside `backward` while others of their process do the backward pass.

Where nothing is open on the launching thread while such a thread waits, the time is the framework's, and the stack is
that of the thread that waits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.idle.samples import load_samples
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.idle.step_functions import NOTHING, StepFunction, first_of, of_disjoint
from traceanalyzer.passes.idle.threads import ThreadEvents, ThreadSweep
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import EventKind, SampleKind


@dataclass(frozen=True, slots=True)
class Waiting:
    """The stack of a thread that waits inside `backward` over time, and whether a sample says so (1) or not (0)."""

    node: StepFunction
    sampled: StepFunction

    def __bool__(self) -> bool:
        return bool(self.node)


_NOBODY = Waiting(NOTHING, NOTHING)


def load_waiting(
    scope: Scope,
    tree: StackTree,
    capture: int,
    process: int,
    thread: int,
    known: Mapping[tuple[int, int], ThreadEvents] = MappingProxyType({}),
) -> Waiting:
    """The stack of another thread of the process that waits inside `backward`, over time; of several the first's.

    `known` are events of (process, thread) that were loaded before.
    """
    frames_recorded = records_frames(scope, capture)
    nodes = np.flatnonzero(tree.waits_for_backward(frames_recorded))
    if not len(nodes):
        return _NOBODY
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
    found: list[StepFunction] = []
    by_sample: list[bool] = []
    for (other,) in others:
        events = known.get((process, other)) or ThreadEvents(scope, tree, capture, process, other)
        samples = load_samples(scope, capture, process, other, events)
        # Only now: loading events may add stacks.
        flag = tree.waits_for_backward(frames_recorded)
        for function, sampled in ((_recorded(flag, events), False), (_sampled(flag, samples), True)):
            if function:
                found.append(function)
                by_sample.append(sampled)
    if not found:
        return _NOBODY
    how = [_where_known(function, int(sampled)) for function, sampled in zip(found, by_sample, strict=True)]
    return Waiting(first_of(*found), first_of(*how))


def records_frames(scope: Scope, capture: int) -> bool:
    """Whether Python frames were recorded as events."""
    return scope.holds("cpu_events", capture, f"kind = {int(EventKind.PYTHON_FRAME)}")


def records_stacks(scope: Scope, capture: int) -> bool:
    """Whether anything says which Python code ran: frames as events, samples, or back traces of calls."""
    python = f"SELECT node_id FROM stored.stack_nodes WHERE kind = {int(EventKind.PYTHON_FRAME)}"
    return (
        records_frames(scope, capture)
        or scope.holds("samples", capture, f"kind = {int(SampleKind.PYTHON)}")
        or scope.holds("cpu_events", capture, f"backtrace_node_id IN ({python})")
    )


def _recorded(flag: NDArray[np.bool_], events: ThreadEvents) -> StepFunction:
    waiting = np.flatnonzero(flag[events.node])
    start, end = events.start[waiting], events.end(waiting)
    outermost = np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1])[: len(start)] & (end > start)
    if not outermost.any():
        return NOTHING
    found = ThreadSweep(events).cut(start[outermost], end[outermost])
    return of_disjoint(found.start, found.end, np.where((found.node >= 0) & flag[found.node], found.node, -1))


def _sampled(flag: NDArray[np.bool_], samples: StepFunction) -> StepFunction:
    if not samples:
        return NOTHING
    return StepFunction(samples.at, np.where(flag[samples.value] & (samples.value >= 0), samples.value, -1))


def _where_known(function: StepFunction, value: int) -> StepFunction:
    return StepFunction(function.at, np.where(function.value >= 0, value, -1))
