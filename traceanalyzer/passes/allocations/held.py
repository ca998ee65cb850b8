"""What holds memory: allocations alive at an instant, and those that steps make and never free, by stack."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import groups
from traceanalyzer.passes.allocations.growth import DeviceMemory
from traceanalyzer.passes.allocations.stacks import Origins

Ints = NDArray[np.int64]
Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Held:
    """Allocations of one stack: the node, bytes, their number, and in how many steps they were made."""

    node: int
    bytes: int
    count: int
    steps: int = 0
    next_call: str | None = None


def alive_at(memory: DeviceMemory, place: int) -> Places:
    """Allocations made by the event at a place, or before, and not freed by then."""
    return np.flatnonzero(memory.freed[: place + 1] > place)


def held_at(memory: DeviceMemory, origins: Origins, place: int) -> list[Held]:
    """What is alive after the event at a place, by stack, the largest first."""
    return _by_stack(memory, origins, alive_at(memory, place))


def _by_stack(memory: DeviceMemory, origins: Origins, places: Places) -> list[Held]:
    if not len(places):
        return []
    node = origins.nodes(places)
    found = groups(node)
    sums, counts = found.sums(memory.events.bytes[places]), found.counts()
    rows = zip(node[found.row].tolist(), sums.tolist(), counts.tolist(), strict=True)
    return sorted((Held(*row) for row in rows), key=lambda held: (-held.bytes, held.node))


def growing(memory: DeviceMemory, origins: Origins) -> list[Held]:
    """Allocations of the counted steps that are alive when the last of them ends, by stack, the largest first.

    Only stacks on which more than half of the steps left some: what the next step frees is alive as well when the last
    one ends.
    """
    if memory.by_step is None or not memory.events.has_address.all():
        return []
    steps, events = memory.by_step.steps, memory.events
    counted = np.flatnonzero(~steps.warmup)
    if len(counted) < 2:
        return []
    last = int(np.searchsorted(events.t, steps.end[counted[-1]], side="right")) - 1
    alive = alive_at(memory, last)
    step = np.searchsorted(steps.start, events.t[alive], side="right") - 1
    inside = (step >= counted[0]) & (events.t[alive] < steps.end[np.maximum(step, 0)])
    alive, step = alive[inside], step[inside]
    if not len(alive):
        return []
    node = origins.nodes(alive)
    pairs = groups(node, step)
    of_stack = groups(node[pairs.row])
    n_steps = of_stack.counts()
    out = []
    # The driver gives memory in large pieces, not in each step.
    least = len(counted) // 2 + int(memory.of_allocator)
    for row in np.flatnonzero((n_steps > 1) & (n_steps >= least)).tolist():
        mine = np.flatnonzero(node == node[pairs.row][of_stack.row[row]])
        call = origins.next_call(alive[mine], node[mine])
        size = int(events.bytes[alive[mine]].sum())
        out.append(Held(int(node[mine[0]]), size, len(mine), int(n_steps[row]), call))
    return sorted(out, key=lambda held: (-held.bytes, held.node))
