"""Stacks from which operations were launched: what was open on the launching thread, and the launch call."""

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.idle.gaps import Gaps, calling_threads
from traceanalyzer.passes.idle.stacks import NO_STACK, StackTree
from traceanalyzer.passes.idle.threads import ThreadEvents
from traceanalyzer.passes.operations import NULL, Operations
from traceanalyzer.passes.scope import Scope


def launch_stacks(
    scope: Scope, tree: StackTree, ops: Operations, which: NDArray[np.intp], gaps: Gaps
) -> NDArray[np.int32]:
    """The stack of the launch of some operations, -1 where no launch was recorded.

    `gaps` are those of the same device: the events of their threads are loaded already.
    """
    node = np.full(len(which), NO_STACK, np.int32)
    left = np.flatnonzero(ops.launch[which] != NULL)
    known = {(owner.process, owner.thread): owner.events for owner in gaps.threads}
    others = [place for place in calling_threads(scope, ops.device.capture) if place not in known] if len(left) else []
    for place in [*known, *others]:
        if not len(left):
            break
        events = known.get(place) or ThreadEvents(scope, tree, ops.device.capture, *place)
        found = events.places(ops.launch[which[left]])
        node[left[found >= 0]] = events.node[found[found >= 0]]
        left = left[found < 0]
    return node
