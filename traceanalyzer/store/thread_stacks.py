"""Parents, depths and stacks of the events of one thread, chunk by chunk in the order of their opening.

Where events cross, one ends below others that go on: from then on the stacks of these are without it. So a stack is
that of an event from an instant on: from its start, or from a later instant at which one around it ends. Each stack is
a frame on top of another stack: that of the innermost event open around it at the instant, as it is by then.

What a chunk needs of those before it are the events still open and their stacks; temporary memory goes by the chunk.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.nesting import NEVER, depths, extents, innermost_open, next_longer, opening_order
from traceanalyzer.schema.frames import Frame, frame_of
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.schema.sink import NO_TEXT, Stacks, Texts

Ints = NDArray[np.int64]
Integers = NDArray[np.integer[Any]]
Positions = NDArray[np.intp]

_CHUNK = 1 << 16
_MOST_STEPS = 100_000
"""Steps that working out the crossings of a thread may take, beside some for every event."""
_STEPS_AN_EVENT = 4
_STACKS_A_LEVEL = 64
"""With fewer stacks a level than this, levels are slower together than their stacks are one by one."""
_MOST_ROUNDS = 64
"""Steps that are taken one at a time."""
_SLOTS = 16
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2 ** 64 / golden ratio: products of it with like numbers differ at the top


@dataclass(frozen=True, slots=True)
class ThreadStacks:
    """Stacks of n events, arrays in the order in which the events were given.

    `parent`: position of the innermost event open when each began, or -1; `depth`: number of events on the stack below
    it; `node`: its stack when it begins. Event `change_event[k]` has the stack `change_node[k]` from `change_ns[k]` on;
    changes are sorted by event, then instant. Where not `complete`, events cross so often that later changes are
    missing: stacks may name events that are over.
    """

    parent: NDArray[np.int32]
    depth: NDArray[np.int32]
    node: NDArray[np.int32]
    change_event: NDArray[np.int32]
    change_ns: Ints
    change_node: NDArray[np.int32]
    complete: bool


def labels(kind: NDArray[np.uint8], name: Integers) -> Ints:
    """Kind and name of events as one number each; the name -1 is none."""
    return kind.astype(np.int64) << 32 | (name.astype(np.int64) + 1)


class Frames:
    """Frames of events in the prefix tree of a capture."""

    def __init__(self, texts: Texts, stacks: Stacks) -> None:
        self._texts, self._stacks = texts, stacks
        self._known: dict[int, Frame] = {}
        # The nodes last looked up, each at a place that follows from its parent and label; another may take it over.
        self._slot_parent = np.full(1 << _SLOTS, -2, np.int64)
        self._slot_label = np.zeros(1 << _SLOTS, np.int64)
        self._slot_node = np.zeros(1 << _SLOTS, np.int64)

    def node(self, parent: int, kind: int, name: int) -> int:
        """Number of the node of an event below the node `parent` (-1: a root); the name -1 is none."""
        return self._node(parent, kind << 32 | (name + 1))

    def _node(self, parent: int, label: int) -> int:
        frame = self._known.get(label)
        kind = EventKind(label >> 32)
        if frame is None:
            name = (label & 0xFFFFFFFF) - 1
            frame = self._known[label] = frame_of(kind, "" if name == NO_TEXT else self._texts.all[name])
        return self._stacks.node(parent, frame.text, frame.file, frame.line, kind=kind)

    def nodes(self, parent: Ints, label: Ints) -> Ints:
        """Numbers of the nodes of many events, each distinct one made once; labels are from `labels`."""
        mixed = parent.view(np.uint64) << np.uint64(37) ^ label.view(np.uint64)
        slot = (mixed * _SPREAD >> np.uint64(64 - _SLOTS)).view(np.int64)
        node = self._slot_node[slot]
        missing = np.flatnonzero((self._slot_parent[slot] != parent) | (self._slot_label[slot] != label))
        if len(missing):
            found: dict[tuple[int, int], int] = {}
            new = []
            for key in zip(parent[missing].tolist(), label[missing].tolist(), strict=True):
                if (known := found.get(key)) is None:
                    known = found[key] = self._node(*key)
                new.append(known)
            node[missing] = new
            # Where several share a place, all three arrays must hold the same one.
            taken, first = np.unique(slot[missing], return_index=True)
            winner = missing[first]
            self._slot_parent[taken], self._slot_label[taken] = parent[winner], label[winner]
            self._slot_node[taken] = node[winner]
        return node

    def nodes_one_by_one(self, node: Ints, order: Positions, above: Positions, label: Ints) -> None:
        """Set `node[k]` for each k in order to the node of `label[k]` below `node[above[k]]`."""
        found: dict[tuple[int, int], int] = {}
        nodes = node.tolist()
        outer, own = above.tolist(), label.tolist()
        for k in order.tolist():
            key = nodes[outer[k]], own[k]
            if (known := found.get(key)) is None:
                known = found[key] = self._node(*key)
            nodes[k] = known
        node[:] = nodes


def stacks_of_thread(
    frames: Frames,
    start: Ints,
    length: Integers,
    kind: NDArray[np.uint8],
    name: Integers,
) -> ThreadStacks:
    """Work out the stacks of the events of one thread, given in the order of the file; the name -1 is none.

    The rule is that of `traceanalyzer.numeric.nesting`. Lengths are 0 or more.
    """
    return _Thread(frames, start, length, kind, name).worked_out()


class _Open(NamedTuple):
    """Events still open at the end of a chunk, in the order of opening; the first stands for the thread itself."""

    position: Positions
    end: Ints
    depth: Ints
    node: Ints


class _Changes(NamedTuple):
    """Stacks that begin later than their event, sorted by event (a place in the chunk), then instant.

    `above`: the innermost event open around it then.
    """

    event: Positions
    instant: Ints
    above: Positions


_NO_PLACES = np.zeros(0, np.intp)
_NO_CHANGES = _Changes(_NO_PLACES, np.zeros(0, np.int64), _NO_PLACES)


class _Thread:
    """Working out of the stacks of a thread."""

    def __init__(self, frames: Frames, start: Ints, length: Integers, kind: NDArray[np.uint8], name: Integers) -> None:
        self._frames = frames
        self._start, self._length, self._kind, self._name = start, length, kind, name
        self._parent, self._depth, self._node = (np.empty(len(start), np.int32) for _ in range(3))
        self._changes: list[tuple[NDArray[np.int32], Ints, NDArray[np.int32]]] = []
        self._left = _MOST_STEPS + _STEPS_AN_EVENT * len(start)
        self._complete = True

    def worked_out(self) -> ThreadStacks:
        """Go through the chunks, and put what they found together."""
        self._go_through()
        event, instant, node = self._joined_changes()
        return ThreadStacks(self._parent, self._depth, self._node, event, instant, node, self._complete)

    def _go_through(self) -> None:
        order = opening_order(self._start, self._length).astype(np.int32)  # half the room, for as long as it is kept
        ground = np.array([-1])
        still = _Open(ground, np.array([NEVER]), ground, ground)
        low = 0
        while low < len(order):
            # Chunks of at least as many events as are open: so each is carried on few times.
            high = min(low + max(_CHUNK, len(still.end)), len(order))
            until = int(self._start[order[high]]) if high < len(order) else int(NEVER) - 1
            still = self._chunk(still, order[low:high].astype(np.intp), until)
            low = high

    def _chunk(self, still: _Open, own: Positions, until: int) -> _Open:
        """Work out events in opening order, and changes up to the start of the next chunk; which are then open."""
        carried = len(still.end)
        position = np.concatenate((still.position, own))
        start = self._start[position]
        start[:carried] = start[carried]  # by now only their order counts
        end = np.concatenate((still.end, self._start[own] + self._length[own].astype(np.int64)))
        parent = innermost_open(start, end)
        depth = depths(parent, still.depth)
        changes = self._changes_of(start, end, parent, depth, until)
        versions = _Versions(changes, len(end))
        event = np.concatenate((np.arange(len(end)), changes.event))
        above = np.concatenate((versions.at(parent, start), versions.at(changes.above, changes.instant)))
        node = np.empty(len(event), np.int64)
        node[:carried] = still.node
        self._set_nodes(node, carried, above, depth[event], position[event])

        self._parent[own], self._depth[own] = position[parent[carried:]], depth[carried:]
        self._node[own] = node[carried : len(end)]
        later = node[len(end) :]
        if len(later):
            changing = position[changes.event].astype(np.int32)
            self._changes.append((changing, changes.instant, later.astype(np.int32)))
        node[changes.event] = later  # of several changes of an event the last one is kept
        on = np.flatnonzero(end > until)
        return _Open(position[on], end[on], depth[on], node[on])

    def _changes_of(self, start: Ints, end: Ints, parent: Positions, depth: Ints, until: int) -> _Changes:
        """Where an event ends below others: from then on their stacks are without it.

        Of n events that are all open at once there are n * n changes: not all are worked out.
        """
        if not self._complete or not (end > end[parent]).any():
            return _NO_CHANGES
        below = np.flatnonzero((extents(end, parent) > end) & (end <= until))
        below = below[np.argsort(end[below], kind="stable")]
        longer = next_longer(end, parent)
        instant = end[below]
        event = _open_at(np.searchsorted(start, instant, side="left") - 1, instant, end, longer)
        steps = np.cumsum(depth[event] - depth[below])
        within = int(np.searchsorted(steps, self._left, side="right"))
        self._complete = within == len(steps)
        self._left -= int(steps[within - 1]) if within else 0
        below, instant, event = below[:within], instant[:within], event[:within]
        found = []
        while len(event):
            above = _open_at(parent[event], instant, end, longer)
            found.append(_Changes(event, instant, above))
            on = np.flatnonzero(above > below)
            below, instant, event = below[on], instant[on], above[on]
        return _sorted(found)

    def _set_nodes(self, node: Ints, carried: int, above: Positions, depth: Ints, position: Positions) -> None:
        """Nodes of the stacks from `carried` on, level by level from the outermost."""
        label = labels(self._kind[position], self._name[position])
        depth = depth[carried:]
        least = int(depth.min())
        levels = int(depth.max()) - least + 1
        level = (depth - least).astype(np.uint16) if levels <= 1 << 16 else depth  # short ones are sorted faster
        order = np.argsort(level, kind="stable") + carried
        if levels * _STACKS_A_LEVEL > len(order):
            self._frames.nodes_one_by_one(node, order, above, label)
            return
        above, label = above[order], label[order]
        low = 0
        for high in np.cumsum(np.bincount(level, minlength=levels)).tolist():
            node[order[low:high]] = self._frames.nodes(node[above[low:high]], label[low:high])
            low = high

    def _joined_changes(self) -> tuple[NDArray[np.int32], Ints, NDArray[np.int32]]:
        if not self._changes:
            return np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int32)
        parts, self._changes = self._changes, []
        event, instant, node = (np.concatenate([part[k] for part in parts]) for k in range(3))
        # Chunks follow each other in time.
        order = np.argsort(event, kind="stable")
        return event[order], instant[order], node[order]


def _open_at(event: Positions, instant: Ints, end: Ints, longer: Positions) -> Positions:
    """Each event, or if it has ended by the instant the last one before that has not."""
    event = event.copy()
    over = np.flatnonzero(end[event] <= instant)
    for _ in range(_MOST_ROUNDS):
        if not len(over):
            return event
        before = longer[event[over]]
        event[over] = before
        over = over[end[before] <= instant[over]]
    if len(over):
        event[over] = longer[_last_over(event[over], instant[over], end, longer)]
    return event


def _last_over(event: Positions, instant: Ints, end: Ints, longer: Positions) -> Positions:
    """Of what is reached from each event over `longer`, the last that has ended by the instant. Long ways are jumped.

    Ends grow on the way, so that a jump is right as long as what it reaches has ended.
    """
    jumps = [longer]
    while jumps[-1].any():
        jumps.append(jumps[-1][jumps[-1]])
    for jump in reversed(jumps):
        before = jump[event]
        event = np.where(end[before] <= instant, before, event)
    return event


def _sorted(found: list[_Changes]) -> _Changes:
    """Changes sorted by event and instant. Where several end at one instant, each found the same."""
    if not found:
        return _NO_CHANGES
    event, instant, above = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((instant, event))
    event, instant, above = event[order], instant[order], above[order]
    first = np.append(True, (event[1:] != event[:-1]) | (instant[1:] != instant[:-1]))
    return _Changes(event[first], instant[first], above[first])


class _Versions:
    """Places of the stacks of events: at `event` the one at its start, after all of these the changes in order."""

    def __init__(self, changes: _Changes, count: int) -> None:
        self._changes, self._count = changes, count
        if not len(changes.event):
            return
        self._changing = np.zeros(count, bool)
        self._changing[changes.event] = True
        self._instants = np.unique(changes.instant)
        self._key = self._keys(changes.event, changes.instant)

    def _keys(self, event: Positions, instant: Ints) -> Ints:
        rank = np.searchsorted(self._instants, instant, side="right")
        return event * (len(self._instants) + 1) + rank

    def at(self, event: Positions, instant: Ints) -> Positions:
        """Place of the stack that each event has at an instant: of its last change up to then, or at its start."""
        place = event.copy()
        if not len(self._changes.event):
            return place
        mine = np.flatnonzero(self._changing[event])
        k = np.searchsorted(self._key, self._keys(event[mine], instant[mine]), side="right") - 1
        found = (k >= 0) & (self._changes.event[np.maximum(k, 0)] == event[mine])
        place[mine[found]] = self._count + k[found]
        return place
