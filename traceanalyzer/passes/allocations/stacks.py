"""In which operator, and on which stack, allocations were made."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.allocations.curve import NONE, MemoryEvents
from traceanalyzer.passes.idle.stacks import NO_STACK, StackTree
from traceanalyzer.passes.idle.threads import ThreadEvents, ThreadSweep
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import EventKind

Ints = NDArray[np.int64]
Nodes = NDArray[np.int32]
_CALLS = "SELECT name_id FROM stored.names WHERE regexp_matches(text, '(alloc|mem(map|create))', 'i')"
"""Calls of the driver that give memory to a process."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where some allocations were made: the operator, or else the call, the stack, and whose code that is."""

    op: str | None
    stack: list[str]
    blame: str | None


class Origins:
    """Stacks of chosen events of a device: nodes of the tree, and what each says."""

    def __init__(self, scope: Scope, tree: StackTree, capture: int, events: MemoryEvents) -> None:
        self._scope, self._tree, self._capture, self._events = scope, tree, capture, events
        self._threads: dict[tuple[int, int], ThreadEvents] = {}
        self._known: dict[int, Origin] = {}

    def nodes(self, places: NDArray[np.intp]) -> Nodes:
        """The stack of each event, by its place; `NO_STACK` where nothing is open, or its thread is not known."""
        out = np.full(len(places), NO_STACK, np.int32)
        process, thread = self._events.process[places], self._events.thread[places]
        for owner in {*zip(process.tolist(), thread.tolist(), strict=True)}:
            mine = np.flatnonzero((process == owner[0]) & (thread == owner[1]))
            instants = self._events.t[places[mine]]
            out[mine] = self._of_calls(owner[0], instants) if owner[1] == NONE else self._open(owner, instants)
        return out

    def _of_thread(self, owner: tuple[int, int]) -> ThreadEvents:
        if owner not in self._threads:
            self._threads[owner] = ThreadEvents(self._scope, self._tree, self._capture, *owner)
        return self._threads[owner]

    def _open(self, owner: tuple[int, int], instants: Ints) -> Nodes:
        """What is open on a thread at some instants."""
        events = self._of_thread(owner)
        distinct, which = np.unique(instants, return_inverse=True)
        if not len(events):
            return np.full(len(instants), NO_STACK, np.int32)
        found = ThreadSweep(events).cut(distinct, distinct + 1)
        node = np.full(len(distinct), NO_STACK, np.int32)
        node[found.interval] = found.node
        return node[which.reshape(-1)]

    def _of_calls(self, process: int, instants: Ints) -> Nodes:
        """Stacks of the calls that allocate and that were open, on any thread, at some instants: the last begun."""
        got = self._scope.connection.execute(
            f"""SELECT start_ns, end_ns, thread, event_id FROM stored.cpu_events WHERE capture = ? AND process = ?
                AND kind = {int(EventKind.API_CALL)} AND thread IS NOT NULL AND name IN ({_CALLS})
            ORDER BY start_ns, event_id""",
            [self._capture, process],
        ).fetchnumpy()
        start, end, thread, event = (np.asarray(got[c], np.int64) for c in ("start_ns", "end_ns", "thread", "event_id"))
        out = np.full(len(instants), NO_STACK, np.int32)
        if not len(start):
            return out
        k = np.searchsorted(start, instants, side="right") - 1
        inside = np.flatnonzero((k >= 0) & (instants <= end[np.maximum(k, 0)]))
        for owner in np.unique(thread[k[inside]]).tolist():
            mine = inside[thread[k[inside]] == owner]
            events = self._of_thread((process, owner))
            out[mine] = events.node[events.places(event[k[mine]])]
        return out

    def origin(self, node: int) -> Origin:
        """What a stack says."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = self._origin(node)
        return known

    def _origin(self, node: int) -> Origin:
        tree = self._tree
        op = None
        for kind in (EventKind.OPERATOR, EventKind.API_CALL):
            labels = [tree.labels[tree.label[each]] for each in tree.path(node)]
            inner = [label.text for label in labels if label.kind == kind]
            if inner and op is None:
                op = inner[-1]
        return Origin(op, tree.frames(node), tree.blame_text(node))

    def next_call(self, places: NDArray[np.intp], nodes: Nodes) -> str | None:
        """The function of the user's own code that was called next after each of some allocations, if ever the same."""
        said = set()
        for owner in {*zip(self._events.process[places].tolist(), self._events.thread[places].tolist(), strict=True)}:
            if owner[1] == NONE:
                return None
            mine = (self._events.process[places] == owner[0]) & (self._events.thread[places] == owner[1])
            said |= self._next_calls(self._of_thread(owner), self._events.t[places[mine]], nodes[mine])
        return said.pop() if len(said) == 1 else None

    def _next_calls(self, events: ThreadEvents, instants: Ints, nodes: Nodes) -> set[str | None]:
        tree = self._tree
        blame = tree.blame[nodes]
        if (nodes < 0).any() or (blame < 0).any():
            return {None}
        is_own = tree.matching(lambda label: label.kind == EventKind.PYTHON_FRAME) & (
            tree.blame == np.arange(len(tree.blame))
        )
        own = np.flatnonzero((events.node >= 0) & is_own[events.node])
        k = np.searchsorted(events.start[own], instants, side="right")
        if (k >= len(own)).any():
            return {None}
        called = events.node[own[k]]
        caller = tree.parent[called]
        if (caller < 0).any() or (tree.blame[caller] != blame).any():
            return {None}
        return {tree.text(int(node)) for node in np.unique(called).tolist()}
