"""Events on lanes: against a walk that takes one event after another, in batches of any size."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceanalyzer.numeric import lanes
from traceanalyzer.numeric.lanes import Lanes, disjoint_lanes, least_between

EVENTS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=40).map(
    lambda pairs: sorted(((s, s + d) for s, d in pairs), key=lambda e: (e[0], -e[1]))
)


def walked(events):
    """Lane of each event: the first whose open events all end no earlier."""
    open_, out = [], []
    for start, end in events:
        for number in range(len(open_) + 1):
            if number == len(open_):
                open_.append([])
            open_[number] = [e for e in open_[number] if e > start]
            if all(e >= end for e in open_[number]):
                open_[number].append(end)
                out.append(number)
                break
    return out


def batches(events, sizes):
    row, out = Lanes(), []
    for size in [*sizes, len(events)]:
        part, events = events[:size], events[size:]
        start, end = (np.array([e[k] for e in part], np.int64) for k in (0, 1))
        out += row.of(start, end).tolist()
    return out


@settings(deadline=None)
@given(EVENTS, st.lists(st.integers(0, 9), max_size=5))
def test_lanes_are_those_of_a_walk_whatever_the_batches(events, sizes):
    assert batches(events, sizes) == walked(events)


def test_a_frame_that_outlives_its_caller_and_what_runs_in_it():
    events = [(0, 10), (5, 20), (6, 8), (9, 12), (12, 15), (20, 30)]
    assert batches(events, []) == [0, 1, 0, 1, 0, 0]


@pytest.mark.parametrize("step", [1, 3])
def test_beyond_the_nested_lanes_events_stand_one_after_the_other(step, monkeypatch):
    monkeypatch.setattr(lanes, "MOST_NESTED", 2)
    events = [(k, k + 7) for k in range(0, 60, step)]
    got = batches(events, [5, 5])
    assert max(got) < 8
    for lane in set(got):
        mine = [event for event, own in zip(events, got, strict=True) if own == lane]
        assert all(b[0] >= a[1] for a, b in pairwise(mine))


@settings(deadline=None)
@given(EVENTS)
def test_disjoint_lanes_hold_no_event_inside_of_another_and_are_no_more_than_overlap(events):
    start, end = (np.array([e[k] for e in events], np.int64) for k in (0, 1))
    got = disjoint_lanes(start, end).tolist()
    for lane in set(got):
        mine = [event for event, own in zip(events, got, strict=True) if own == lane]
        assert all(b[0] >= a[1] for a, b in pairwise(mine))
    at_once = [sum(s <= t < e or s == t for s, e in events) for t, _ in events]
    assert max(got, default=-1) < max(at_once, default=0)


@settings(deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=30), st.data())
def test_the_least_between_two_places(values, data):
    place = st.integers(0, len(values))
    ranges = data.draw(st.lists(st.tuples(place, place), min_size=1, max_size=10))
    low, high = (np.array([r[k] for r in ranges], np.intp) for k in (0, 1))
    none = np.iinfo(np.int64).max
    expected = [min(values[a:b], default=none) for a, b in ranges]
    assert least_between(np.array(values, np.int64), low, high).tolist() == expected
