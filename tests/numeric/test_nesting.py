"""Nesting, timelines and cuts against the rule walked event by event."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceanalyzer.numeric import nesting
from traceanalyzer.numeric.nesting import cut_intervals

EVENTS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 25)), max_size=30)


def arrays(events):
    start = np.array([s for s, _ in events], np.int64)
    return start, start + np.array([d for _, d in events], np.int64)


def opened(start, end):
    """Starts and ends in opening order behind the event that stands for the thread, and the positions of all."""
    order = nesting.opening_order(start, end)
    return np.append(0, start[order]), np.append(nesting.NEVER, end[order]), np.append(-1, order)


class Nested:
    """Parent, depth and extent of events in the order in which they were given."""

    def __init__(self, start, end):
        begins, ends, position = opened(start, end)
        above = nesting.innermost_open(begins, ends)
        self.parent, self.depth, self.extent = (np.empty(len(start), np.int64) for _ in range(3))
        self.parent[position[1:]] = position[above[1:]]
        self.depth[position[1:]] = nesting.depths(above, np.array([-1]))[1:]
        self.extent[position[1:]] = nesting.extents(ends, above)[1:]


def timeline(start, end):
    """(instants, innermost event from each on) with events by the positions at which they were given."""
    begins, ends, position = opened(start, end)
    at, event = nesting.timeline(begins, ends)
    return at, position[event]


def walked(events):
    """(parents, depths, innermost event at each half instant) by the rule, one event after another."""
    spans = [(s, s + d) for s, d in events]
    order = sorted(range(len(spans)), key=lambda i: (spans[i][0], -spans[i][1], i))
    stack, parent, depth = [], [-1] * len(spans), [0] * len(spans)
    innermost, at = {}, 0
    for i in [*order, None]:
        upto = spans[i][0] if i is not None else 100
        while at < upto:
            while stack and spans[stack[-1]][1] <= at:
                stack.pop()
            innermost[at] = stack[-1] if stack else -1
            at += 1
        if i is None:
            break
        while stack and spans[stack[-1]][1] <= upto:
            stack.pop()
        parent[i], depth[i] = (stack[-1] if stack else -1), len(stack)
        if spans[i][1] > upto:
            stack.append(i)
    return parent, depth, innermost


@settings(max_examples=250)
@given(EVENTS)
def test_parents_and_depths_are_those_of_the_walk(events):
    found = Nested(*arrays(events))
    parent, depth, _ = walked(events)
    assert found.parent.tolist() == parent
    assert found.depth.tolist() == depth


@settings(max_examples=250)
@given(EVENTS)
def test_timeline_gives_the_innermost_event_of_each_instant(events):
    start, end = arrays(events)
    at, which = timeline(start, end)
    _, _, innermost = walked(events)
    for instant, event in innermost.items():
        k = np.searchsorted(at, instant, side="right") - 1
        assert (which[k] if k >= 0 else -1) == event, instant


@pytest.mark.parametrize("rounds", [0, 1])
@given(EVENTS)
def test_walking_and_vectorised_nesting_agree(rounds, events):
    start, end = arrays(events)
    fast = Nested(start, end)
    with mock.patch.object(nesting, "_MOST_ROUNDS", rounds):
        slow = Nested(start, end)
    assert fast.parent.tolist() == slow.parent.tolist()
    assert fast.depth.tolist() == slow.depth.tolist()
    assert fast.extent.tolist() == slow.extent.tolist()


@given(EVENTS)
def test_events_leave_the_stack_with_the_last_one_inside_them(events):
    start, end = arrays(events)
    found = Nested(start, end)
    inside = [{k} for k in range(len(events))]
    for k in range(len(events)):
        above = int(found.parent[k])
        while above >= 0:
            inside[above].add(k)
            above = int(found.parent[above])
    assert found.extent.tolist() == [max(int(end[k]) for k in mine) for mine in inside]


@pytest.mark.parametrize("window", [1, 3, 1 << 16])
@given(EVENTS)
def test_events_are_opened_by_start_then_the_longest_first_then_as_given(window, events):
    start, end = arrays(events)
    with mock.patch.object(nesting, "_WINDOW", window):
        order = nesting.opening_order(start, end).tolist()
    assert order == sorted(range(len(events)), key=lambda k: (start[k], -end[k], k))


@given(EVENTS)
def test_next_longer_is_the_last_one_before_that_ends_later(events):
    start, end = arrays(events)
    order = nesting.opening_order(start, end)
    start, end = np.append(0, start[order]), np.append(nesting.NEVER, end[order])
    parent = nesting.innermost_open(start, end)
    want = [0, *(max(j for j in range(k) if end[j] > end[k]) for k in range(1, len(end)))]
    for rounds in (0, 1, 64):
        with mock.patch.object(nesting, "_MOST_ROUNDS", rounds):
            assert nesting.next_longer(end, parent).tolist() == want


def test_a_crossing_event_keeps_what_it_crosses_on_the_stack():
    # A [0, 10) is crossed by B [5, 15); C begins inside B after A has ended.
    start, end = np.array([0, 5, 12]), np.array([10, 15, 14])
    found = Nested(start, end)
    assert found.parent.tolist() == [-1, 0, 1]
    assert found.depth.tolist() == [0, 1, 2]
    assert found.extent.tolist() == [15, 15, 14]
    at, which = timeline(start, end)
    assert list(zip(at.tolist(), which.tolist(), strict=True)) == [(0, 0), (5, 1), (12, 2), (14, 1), (15, -1)]


def test_zero_length_events_are_nobodys_parent():
    found = Nested(np.array([3, 3, 0]), np.array([3, 5, 3]))
    assert found.parent.tolist() == [1, -1, -1]


@given(
    st.lists(st.integers(0, 30), unique=True, max_size=8),
    st.lists(st.tuples(st.integers(-3, 35), st.integers(0, 10)), max_size=8),
)
def test_pieces_partition_their_intervals(edges, intervals):
    at = np.array(sorted(edges), np.int64)
    value = np.arange(len(at))
    start, end = arrays(intervals)
    interval, low, high, got = cut_intervals(at, value, start, end)
    for k in range(len(start)):
        mine = interval == k
        covered = [x for a, b in zip(low[mine], high[mine], strict=True) for x in range(a, b)]
        assert covered == list(range(start[k], end[k]))
    for a, b, v in zip(low, high, got, strict=True):
        assert b > a
        for x in range(a, b):
            k = np.searchsorted(at, x, side="right") - 1
            assert v == (value[k] if k >= 0 else -1)
