"""Refill: what a synchronisation costs after it returned.

A gap is *drained* where the launching thread is inside a call that blocks on the device when the gap begins. From then
on calls, operators and launches between operations are refill, on this gap and those after it, until an operation is
again launched before the one before it on the device ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.idle.copies import Copies
from traceanalyzer.passes.idle.gaps import Gaps
from traceanalyzer.passes.idle.stacks import NO_STACK
from traceanalyzer.passes.operations import Operations

Ints = NDArray[np.int64]

CAUSES = frozenset({Cause.FRAMEWORK, Cause.API_CALL, Cause.LAUNCH_CALL, Cause.LAUNCH_LATENCY})
"""Causes of time that is refill in such a gap."""
IS_REFILL = np.array([cause in CAUSES for cause in Cause], np.bool_)


@dataclass(frozen=True, slots=True)
class Refill:
    """Of each gap: the blocking call that drained it, whether it is refilled, and after the call of which stack.

    `drained_by` numbers the calls of the device, -1 where none drained the gap: one call may drain several, between
    the operations that it waits for.
    """

    drained_by: Ints
    refilled: NDArray[np.bool_]
    call: NDArray[np.int32]

    def n_calls(self, among: NDArray[np.bool_] | None = None) -> int:
        """How many blocking calls drained the device, in some of the gaps."""
        drained_by = self.drained_by if among is None else self.drained_by[among]
        return len(np.unique(drained_by[drained_by >= 0]))


def find_refill(ops: Operations, gaps: Gaps, copies: Copies, copy_of: Sequence[NDArray[np.int32]]) -> Refill:
    """In which gaps the device is refilled. `copy_of` are the copies of each thread's events.

    What runs without a gap before it was launched before its predecessor ended. Operations of no length split no gap,
    and are none of these either.
    """
    drained_by, goes_on = np.full(len(gaps), -1, np.int64), np.zeros(len(gaps), bool)
    n_calls = 0
    node = np.full(len(gaps), NO_STACK, np.int32)
    if not len(gaps):
        return Refill(drained_by, goes_on, node)
    alone = np.append(False, np.diff(np.cumsum(ops.end > ops.start)[gaps.next_op]) == 1)
    for number, thread in enumerate(gaps.threads):
        mine = np.flatnonzero(gaps.thread == number)
        events, tree = thread.events, thread.events.tree
        goes_on[mine] = alone[mine] & (events.start[gaps.launch[mine]] >= gaps.start[mine])
        waits = tree.is_call & (tree.cause == int(Cause.SYNC))
        copy = copy_of[number][:-1]
        call = np.flatnonzero(waits[events.node] | (copy >= 0))
        end = events.end(call)
        until = np.where(waits[events.node[call]], end, np.minimum(copies.blocks_until(copy[call]), end))
        start = events.start[call]
        blocks = until > start
        call, start, until = call[blocks], start[blocks], until[blocks]
        latest = np.maximum.accumulate(until)
        longest = np.maximum.accumulate(np.where(until == latest, np.arange(len(until)), 0))
        if len(start):
            k = np.searchsorted(start, gaps.start[mine], side="right") - 1
            which = longest[np.maximum(k, 0)]
            drains = (k >= 0) & (latest[np.maximum(k, 0)] > gaps.start[mine])
            drained_by[mine] = np.where(drains, which + n_calls, -1)
            node[mine] = events.node[call[which]]
            n_calls += len(call)
    place = np.arange(len(gaps))
    last_drained = np.maximum.accumulate(np.where(drained_by >= 0, place, -1))
    last_break = np.maximum.accumulate(np.where(goes_on, -1, place))
    refilled = (last_drained >= last_break) & (last_drained >= 0)
    return Refill(drained_by, refilled, np.where(refilled, node[last_drained], NO_STACK).astype(np.int32))
