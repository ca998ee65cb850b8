"""Unions and holes against sets of integers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.numeric.intervals import (
    depths,
    holes,
    intersect,
    measure,
    measure_before,
    open_before,
    subtract,
    union,
)

SPANS = st.lists(st.tuples(st.integers(-20, 20), st.integers(-3, 15)), max_size=12)


def arrays(spans):
    start = np.array([s for s, _ in spans], np.int64)
    return start, start + np.array([d for _, d in spans], np.int64)


def points(start, end):
    return {x for a, b in zip(start.tolist(), end.tolist(), strict=True) for x in range(a, b)}


def tidy(start, end):
    """Disjoint, sorted, of positive length, not touching."""
    return all(b > a for a, b in zip(start, end, strict=True)) and all(
        b < a for b, a in zip(end[:-1], start[1:], strict=True)
    )


@given(SPANS)
def test_union_covers_the_same_points(spans):
    start, end = arrays(spans)
    got = union(start, end)
    assert points(*got) == points(start, end)
    assert tidy(*got)
    assert measure(start, end) == len(points(start, end))


@given(SPANS)
def test_holes_are_the_rest_of_the_window(spans):
    start, end = arrays(spans)
    got = holes(start, end, -10, 10)
    assert points(*got) == set(range(-10, 10)) - points(start, end)
    assert tidy(*got)


@given(SPANS, SPANS)
def test_intersection_and_difference(one, two):
    a, b = union(*arrays(one)), union(*arrays(two))
    assert points(*intersect(*a, *b)) == points(*a) & points(*b)
    assert points(*subtract(*a, *b)) == points(*a) - points(*b)


@given(SPANS)
def test_depths_count_the_open_intervals_of_every_instant(spans):
    start, end = arrays(spans)
    slow = {}
    for x in range(-10, 10):
        depth = sum(a <= x < b for a, b in zip(start.tolist(), end.tolist(), strict=True))
        slow[depth] = slow.get(depth, 0) + 1
    depth, ns = depths(start, end, -10, 10)
    assert dict(zip(depth.tolist(), ns.tolist(), strict=True)) == slow
    assert depth.tolist() == sorted(slow)


@given(SPANS, SPANS)
def test_depths_leave_out_what_they_are_told(spans, others):
    start, end = arrays(spans)
    without = union(*arrays(others))
    slow = {}
    for x in set(range(-10, 10)) - points(*without):
        depth = sum(a <= x < b for a, b in zip(start.tolist(), end.tolist(), strict=True))
        slow[depth] = slow.get(depth, 0) + 1
    depth, ns = depths(start, end, -10, 10, without)
    assert dict(zip(depth.tolist(), ns.tolist(), strict=True)) == slow


def test_depths_of_an_empty_window():
    start, end = arrays([(0, 5)])
    assert [len(column) for column in depths(start, end, 3, 3)] == [0, 0]


@given(SPANS, st.lists(st.integers(-25, 40), max_size=8))
def test_open_before_counts_what_began_earlier_and_goes_on(spans, instants):
    start, end = arrays(spans)
    slow = [sum(a < x < b for a, b in zip(start.tolist(), end.tolist(), strict=True)) for x in instants]
    assert open_before(start, end, np.array(instants, np.int64)).tolist() == slow


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=8), st.lists(st.integers(-3, 40), max_size=6)
)
def test_what_lies_before_an_instant_is_the_sum_of_what_does(spans, instants):
    start, end = union(np.array([s for s, _ in spans], np.int64), np.array([s + d for s, d in spans], np.int64))
    covered = {t for s, d in spans for t in range(s, s + d)}
    found = measure_before(start, end, np.array(instants, np.int64))
    assert found.tolist() == [sum(t < instant for t in covered) for instant in instants]
