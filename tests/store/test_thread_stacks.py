"""Stacks of a thread against the rule walked event by event, and instant by instant for what changes later."""

import contextlib
import time
import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceanalyzer.numeric import nesting
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.schema.sink import Stacks, Texts
from traceanalyzer.store import thread_stacks
from traceanalyzer.store.thread_stacks import Frames, stacks_of_thread

NAMES = ("forward", "backward", "step")
KINDS = (EventKind.OPERATOR, EventKind.RANGE)
EVENTS = st.lists(
    st.tuples(st.integers(0, 25), st.integers(0, 15), st.sampled_from(KINDS), st.integers(-1, len(NAMES) - 1)),
    max_size=14,
)
WAYS = st.fixed_dictionaries(
    {
        "_CHUNK": st.sampled_from((1, 2, 3, 5, 1000)),
        "_STACKS_A_LEVEL": st.sampled_from((0, 64)),
        "_MOST_ROUNDS": st.sampled_from((0, 1, 64)),
        "rounds": st.sampled_from((0, 1, 64)),
    }
)


class Worked:
    """What `stacks_of_thread` says of events (start, length, kind, name)."""

    def __init__(self, events):
        start, length, kind, name = np.array(events, np.int64).reshape(-1, 4).T.copy()
        self.texts = Texts()
        self.texts.codes(NAMES)
        self.tree = Stacks(self.texts)
        frames = Frames(self.texts, self.tree)
        self.found = stacks_of_thread(frames, start, length, kind.astype(np.uint8), name.astype(np.int32))

    def read(self, node):
        """Nodes as stacks."""
        paths = []
        for parent, frame, _, _, _, kind in self.tree.nodes:
            paths.append((*(paths[parent] if parent >= 0 else ()), (kind, self.texts.all[frame])))
        return [paths[k] for k in node.tolist()]

    @property
    def stacks(self):
        return self.read(self.found.node)

    @property
    def changes(self):
        stacks = self.read(self.found.change_node)
        return list(zip(self.found.change_event.tolist(), self.found.change_ns.tolist(), stacks, strict=True))


@contextlib.contextmanager
def worked(way):
    """With these limits of the module."""
    with contextlib.ExitStack() as stack:
        for name, value in way.items():
            place = (nesting, "_MOST_ROUNDS") if name == "rounds" else (thread_stacks, name)
            stack.enter_context(mock.patch.object(*place, value))
        yield


def order_of(events):
    return sorted(range(len(events)), key=lambda k: (events[k][0], -events[k][1], k))


def end_of(event):
    return event[0] + event[1]


def path_of(events, positions):
    return tuple((int(events[k][2]), NAMES[events[k][3]] if events[k][3] >= 0 else "") for k in positions)


def walked(events):
    """(parents, depths, stacks at the start) by the rule, one event after another."""
    parent, depth, stacks, stack = [-1] * len(events), [0] * len(events), [()] * len(events), []
    for k in order_of(events):
        at = events[k][0]
        while stack and end_of(events[stack[-1]]) <= at:
            stack.pop()
        parent[k], depth[k] = (stack[-1] if stack else -1), len(stack)
        stacks[k] = path_of(events, [*(e for e in stack if end_of(events[e]) > at), k])
        if events[k][1]:
            stack.append(k)
    return parent, depth, stacks


def changes_by_instant(events):
    """(event, instant, stack) wherever what is open around an event is not what it was an instant before."""
    order = order_of(events)
    found = []
    for place, k in enumerate(order):
        before = None
        for at in range(events[k][0], end_of(events[k])):
            around = [e for e in order[: place + 1] if end_of(events[e]) > at]
            if before is not None and around != before:
                found.append((k, at, path_of(events, around)))
            before = around
    return sorted(found)


@settings(max_examples=250, deadline=None)
@given(EVENTS, WAYS)
def test_stacks_are_those_of_the_walk_and_change_as_instants_pass(events, way):
    with worked(way):
        got = Worked(events)
    parent, depth, stacks = walked(events)
    assert got.found.complete
    assert got.found.parent.tolist() == parent
    assert got.found.depth.tolist() == depth
    assert got.stacks == stacks
    assert got.changes == changes_by_instant(events)


def test_types_are_those_declared():
    found = Worked([(0, 5, EventKind.RANGE, 0), (2, 9, EventKind.RANGE, 1)]).found
    names = ("parent", "depth", "node", "change_event", "change_ns", "change_node")
    types = [getattr(found, name).dtype for name in names]
    assert types == [np.dtype(np.int64 if name == "change_ns" else np.int32) for name in names]


def test_frames_are_those_of_the_kind_and_its_name():
    texts = Texts()
    names = texts.codes(["m.py(3): f", "cudaMalloc_v2"])
    stacks = Stacks(texts)
    frames = Frames(texts, stacks)
    outer = frames.node(-1, int(EventKind.PYTHON_FRAME), int(names[0]))
    label = thread_stacks.labels(np.array([int(EventKind.API_CALL)] * 2, np.uint8), np.array([names[1], -1], np.int32))
    inner = frames.nodes(np.array([outer, outer]), label).tolist()
    assert inner == [frames.node(outer, int(EventKind.API_CALL), int(name)) for name in (names[1], -1)]
    got = [(parent, texts.all[frame], file >= 0, line) for parent, frame, file, line, _, _ in stacks.nodes]
    assert got == [(-1, "f (m.py:3)", True, 3), (outer, "cudaMalloc", False, -1), (outer, "", False, -1)]


@pytest.mark.parametrize("slots", [1, 16])
def test_nodes_that_share_a_place_are_told_apart(slots):
    with mock.patch.object(thread_stacks, "_SLOTS", slots):
        texts = Texts()
        name = texts.codes([f"n{k}" for k in range(50)])
        frames = Frames(texts, Stacks(texts))
        kind = np.full(50, int(EventKind.RANGE), np.uint8)
        for _ in range(2):
            node = frames.nodes(np.full(50, -1), thread_stacks.labels(kind, name))
            again = frames.nodes(node[::-1].copy(), thread_stacks.labels(kind, name))
            assert len(set(node.tolist()) | set(again.tolist())) == 100
            assert node.tolist() == [frames.node(-1, int(EventKind.RANGE), k) for k in name.tolist()]


class TestCrossings:
    def stairs(self, count, length):
        return [(10 * k, length, EventKind.OPERATOR, k % 3) for k in range(count)]

    @pytest.mark.parametrize("length", [15, 50, 1000, 10_000_000])
    def test_long_staircases_take_seconds(self, length):
        begun = time.process_time()
        got = Worked(self.stairs(100_000, length)).found
        assert time.process_time() - begun < 15
        assert got.complete == (length <= 50)
        assert got.depth.tolist() == list(range(100_000))
        if length == 15:
            assert got.change_event.tolist() == list(range(1, 100_000))
            assert got.change_ns.tolist() == list(range(15, 1_000_000, 10))

    @settings(max_examples=100, deadline=None)
    @given(EVENTS, st.integers(0, 12))
    def test_changes_are_given_up_from_an_instant_on_whatever_the_chunk(self, events, steps):
        def limited(chunk):
            limits = {"_CHUNK": chunk, "_MOST_STEPS": steps, "_STEPS_AN_EVENT": 0}
            with worked(limits):
                return Worked(events)

        first = limited(1000)
        whole = changes_by_instant(events)
        if first.found.complete:
            assert first.changes == whole
        else:
            last = max((t for _, t, _ in first.changes), default=-1)
            assert [c for c in first.changes if c[1] < last] == [c for c in whole if c[1] < last]
            assert all(change in whole for change in first.changes if change[1] < last)
        for chunk in (1, 2, 3):
            other = limited(chunk)
            assert other.found.complete == first.found.complete
            assert other.changes == first.changes
            assert other.stacks == first.stacks

    def test_crossed_events_around_a_deep_stack_that_has_closed(self):
        # The last event begun before the crossed ones end is deep below: each looks for the innermost open one.
        events = [(k, 5000 - k, EventKind.OPERATOR, 0) for k in range(300)]
        events += [(300, 9000, EventKind.OPERATOR, 1)]
        events += [(301 + k, 4000 - 2 * k, EventKind.OPERATOR, 2) for k in range(1000)]
        got = Worked(events)
        assert got.found.complete
        assert [t for e, t, _ in got.changes if e == 300] == [5000]
        moved = [(k, 5000 - 2 * k, EventKind.OPERATOR, 0) for k in range(300)] + events[300:]
        got = Worked(moved)
        assert got.found.change_event.tolist() == [300] * 300
        assert got.found.change_ns.tolist() == sorted(5000 - k for k in range(300))
        assert [len(stack) for _, _, stack in got.changes] == list(range(300, 0, -1))


def test_very_deep_stacks_take_seconds():
    depth = 50_000
    events = [(k, 4 * depth - 2 * k, EventKind.OPERATOR, k % 3) for k in range(depth)]
    events += [(4 * depth + 2 * k, 1, EventKind.OPERATOR, 0) for k in range(depth)]
    begun = time.process_time()
    found = Worked(events).found
    assert time.process_time() - begun < 15
    assert found.complete
    assert not len(found.change_event)
    assert found.depth.tolist() == [*range(depth), *[0] * depth]
    assert found.parent.tolist() == [*range(-1, depth - 1), *[-1] * depth]
    assert len(set(found.node.tolist())) == depth


def test_memory_goes_by_the_chunk():
    def beside_results(repeated):
        pattern = np.array([(0, 90), (5, 50), (10, 20), (40, 30), (60, 5)], np.int64)
        start = (pattern[:, 0] + 100 * np.arange(repeated)[:, None]).reshape(-1)
        length = np.tile(pattern[:, 1], repeated)
        texts = Texts()
        frames = Frames(texts, Stacks(texts))
        kind, name = np.full(len(start), int(EventKind.OPERATOR), np.uint8), np.full(len(start), -1, np.int32)
        tracemalloc.start()
        try:
            found = stacks_of_thread(frames, start, length, kind, name)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        held = sum(getattr(found, f).nbytes for f in ("parent", "depth", "node", "change_event", "change_ns"))
        return peak - held - found.change_node.nbytes - 8 * len(start)

    with mock.patch.object(thread_stacks, "_CHUNK", 1 << 12), mock.patch.object(nesting, "_WINDOW", 1 << 12):
        short, long = beside_results(20_000), beside_results(80_000)
    assert long < short + 500_000
