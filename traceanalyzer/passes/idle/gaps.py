"""Gaps of a device, the operations that end them, and where these were launched."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.idle.threads import ThreadEvents
from traceanalyzer.passes.operations import NULL, Operations
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import EventKind

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LaunchingThread:
    """A thread that launched operations which end gaps."""

    process: int
    thread: int
    events: ThreadEvents


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps of a device in the order of time.

    `next_op`: position of the operation that ends each; `thread`: which of `threads` launched it, -1 where no launch
    was recorded; `launch`: place of the launch among that thread's events.
    """

    start: Ints
    end: Ints
    next_op: NDArray[np.int32]
    thread: NDArray[np.int32]
    launch: NDArray[np.int32]
    threads: list[LaunchingThread]

    def __len__(self) -> int:
        return len(self.start)


def find_gaps(scope: Scope, tree: StackTree, ops: Operations) -> Gaps:
    """Gaps of the device with the launches of the operations that end them.

    Of several operations that start together the one whose launch began first counts.
    """
    start, end = ops.gaps()
    next_op = np.minimum(np.searchsorted(ops.start, end, side="left"), max(len(ops) - 1, 0)).astype(np.int32)
    launch = ops.launch[next_op] if len(ops) else np.zeros(0, np.int64)
    owner, place = np.full(len(launch), -1, np.int32), np.full(len(launch), -1, np.int32)
    left = np.flatnonzero(launch != NULL)
    threads: list[LaunchingThread] = []
    for process, thread in calling_threads(scope, ops.device.capture) if len(left) else []:
        if not len(left):
            break
        events = ThreadEvents(scope, tree, ops.device.capture, process, thread)
        found = events.places(launch[left])
        mine = found >= 0
        if mine.any():
            owner[left[mine]], place[left[mine]] = len(threads), found[mine]
            threads.append(LaunchingThread(process, thread, events))
            left = left[~mine]
    return Gaps(start, end, next_op, owner, place, threads)


def calling_threads(scope: Scope, capture: int) -> list[tuple[int, int]]:
    """(process, thread) of the threads of a capture that launched, those with most calls first."""
    return scope.connection.execute(
        f"""SELECT process, thread FROM stored.cpu_events
        WHERE capture = ? AND kind = {int(EventKind.API_CALL)} AND process IS NOT NULL AND thread IS NOT NULL
            AND correlation_id IS NOT NULL
        GROUP BY process, thread ORDER BY count(*) DESC, process, thread""",
        [capture],
    ).fetchall()
