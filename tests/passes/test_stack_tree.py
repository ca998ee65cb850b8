"""Small parts that idle time is worked out with, each against the slow and plain way: stacks, sums, step functions."""

from collections import Counter
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.idle import totals
from traceanalyzer.passes.idle.pieces import Pieces, made, merged
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.idle.step_functions import NOTHING, StepFunction, first_of, of_disjoint, of_union
from traceanalyzer.passes.idle.totals import IdleTotals, KeyedTotals, LargestPieces

HORIZON = 60


@st.composite
def forests(draw):
    """Parents of nodes, each before its children as in a store, and flags: also chains as deep as there are nodes."""
    size = draw(st.integers(0, 40))
    chain = draw(st.booleans())
    parent = [k - 1 if chain and k % 17 else draw(st.integers(-1, k - 1)) for k in range(size)]
    flags = [draw(st.booleans()) for _ in range(size)]
    return parent, flags


def tree_of(parent):
    tree = object.__new__(StackTree)
    tree.parent = np.array(parent, np.int32)
    return tree


def flagged_above(parent, flags, node):
    """Nodes with a flag on the stack of a node, itself first."""
    out = []
    while node >= 0:
        if flags[node]:
            out.append(node)
        node = parent[node]
    return out


@settings(max_examples=150, deadline=None)
@given(forests())
def test_nearest_outermost_and_inside_against_a_walk(forest):
    parent, flags = forest
    tree, flag = tree_of(parent), np.array(flags, bool)
    found = [flagged_above(parent, flags, node) for node in range(len(parent))]
    assert tree.nearest(flag).tolist() == [nodes[0] if nodes else -1 for nodes in found]
    assert tree.outermost(flag).tolist() == [nodes[-1] if nodes else -1 for nodes in found]
    assert tree.inside(flag).tolist() == [bool(nodes) for nodes in found]
    assert flag.tolist() == flags


@given(forests())
def test_paths_go_from_the_outermost_node_to_the_innermost(forest):
    parent, _ = forest
    everything = [True] * len(parent)
    tree = tree_of(parent)
    for node in range(len(parent)):
        assert tree.path(node) == flagged_above(parent, everything, node)[::-1]
    assert tree.path(-1) == []


CHUNKS = st.lists(
    st.lists(st.tuples(st.one_of(st.integers(0, 12), st.integers(0, 5000)), st.integers(0, 1 << 40)), max_size=8),
    max_size=5,
)


@settings(max_examples=100, deadline=None)
@given(CHUNKS, st.sampled_from((1, 13, 1 << 22)), st.sampled_from((1, 1 << 41, 1 << 53)))
def test_keyed_totals_against_a_counter(chunks, most_bins, exact):
    kept, idle, count = KeyedTotals(), Counter(), Counter()
    with mock.patch.multiple(totals, _MOST_BINS=most_bins, _EXACT=exact):
        for chunk in chunks:
            key, length = np.array(chunk, np.int64).reshape(-1, 2).T
            kept.add(key, length)
            for each, ns in chunk:
                idle[each] += ns
                count[each] += 1
    rows = list(kept.rows())
    assert len({key for key, *_ in rows}) == len(rows)
    assert {key: (ns, n) for key, ns, n in rows} == {key: (idle[key], count[key]) for key in count}


def test_sums_of_lengths_that_floats_do_not_hold_are_exact():
    kept = KeyedTotals()
    large = (1 << 61) + 1
    kept.add(np.array([3, 3, 5], np.int64), np.array([large, large - 2, 1], np.int64))
    assert sorted(kept.rows()) == [(3, 2 * large - 2, 2), (5, 1, 1)]


LAST = len(Cause) - 1
PIECE = st.tuples(
    st.integers(1, 9), st.sampled_from((0, 7, LAST)), st.sampled_from((0, 1)), st.integers(-1, 4), st.booleans()
)
GAPS = st.lists(st.lists(PIECE, min_size=1, max_size=6), max_size=6)
"""Gaps as their pieces: length, cause, reason, node, refill."""


def pieces_of(gaps, first=0):
    """Pieces of gaps that lie a hundred ns apart."""
    rows = []
    for k, parts in enumerate(gaps):
        at = 100 * (k + first)
        for length, *rest in parts:
            rows.append((k + first, at, at + length, *rest))
            at += length
    gap, start, end, cause, reason, node, refill = np.array(rows, np.int64).reshape(-1, 7).T
    return made(gap, start, end, cause, node, reason=reason, refill=refill.astype(bool))


@settings(max_examples=100, deadline=None)
@given(GAPS, GAPS)
def test_sums_by_cause_reason_and_stack(one, other):
    kept, idle, count = IdleTotals(), Counter(), Counter()
    for chunk, first in ((one, 0), (other, len(one))):
        kept.add(pieces_of(chunk, first))
    for length, cause, reason, node, _ in (part for parts in one + other for part in parts):
        idle[cause, reason, node] += length
        count[cause, reason, node] += 1
    assert {group[:3]: group[3:] for group in kept.groups()} == {key: (idle[key], count[key]) for key in idle}


@settings(max_examples=100, deadline=None)
@given(GAPS, GAPS)
def test_the_largest_piece_of_a_gap_is_the_first_of_the_longest(one, other):
    kept = LargestPieces(len(one) + len(other))
    kept.add(pieces_of(one))
    kept.add(pieces_of(other, len(one)))
    longest = [max(parts, key=lambda part: part[0]) for parts in one + other]
    assert kept.cause.tolist() == [part[1] for part in longest]
    assert kept.node.tolist() == [part[3] for part in longest]


@settings(max_examples=100, deadline=None)
@given(GAPS)
def test_equal_neighbours_of_a_gap_become_one(gaps):
    expected = []
    for k, parts in enumerate(gaps):
        at, last = 100 * k, None
        for length, *what in parts:
            if what == last:
                expected[-1] = (*expected[-1][:2], at + length, *what)
            else:
                expected.append((k, at, at + length, *what))
            at, last = at + length, what
    got = merged(pieces_of(gaps))
    names = ("gap", "start", "end", "cause", "reason", "node", "refill")
    assert list(zip(*(getattr(got, name).tolist() for name in names), strict=True)) == expected
    assert set(Pieces.__slots__) == {*names, "sampled"}


@st.composite
def functions(draw):
    """A step function: instants ascend, and neighbouring values may be equal."""
    at = sorted(draw(st.sets(st.integers(0, HORIZON), max_size=8)))
    return StepFunction(np.array(at, np.int64), np.array([draw(st.integers(-1, 3)) for _ in at], np.int32))


INTERVALS = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 9)), max_size=6).map(
    lambda parts: [
        (at + pause, at + pause + length)
        for (pause, length), at in zip(parts, np.cumsum([0, *(a + b for a, b in parts)]).tolist(), strict=False)
    ]
)
"""Disjoint ascending intervals of positive length."""


def value(function, x):
    """The value at an instant, looked up from the front."""
    found = -1
    for at, each in zip(function.at.tolist(), function.value.tolist(), strict=True):
        if at <= x:
            found = each
    return found


def values(function):
    return [value(function, x) for x in range(-1, HORIZON + 2)]


def columns(intervals, width=2):
    return np.array(intervals, np.int64).reshape(-1, width).T


@given(functions(), st.lists(st.integers(-2, HORIZON + 2), max_size=5))
def test_values_at_instants(function, instants):
    assert function.at_instants(np.array(instants, np.int64)).tolist() == [value(function, x) for x in instants]
    assert bool(function) == (len(function.at) > 0)


@settings(max_examples=150, deadline=None)
@given(functions(), INTERVALS)
def test_touches_instant_by_instant(function, intervals):
    start, end = columns(intervals)
    expected = [any(value(function, x) >= 0 for x in range(a, b)) for a, b in intervals]
    assert function.touches(start, end).tolist() == expected


@settings(max_examples=150, deadline=None)
@given(functions(), INTERVALS)
def test_cuts_instant_by_instant(function, intervals):
    rows = [column.tolist() for column in function.cut(*columns(intervals))]
    got = [(k, x, each) for k, low, high, each in zip(*rows, strict=True) for x in range(low, high)]
    assert got == [(k, x, value(function, x)) for k, (a, b) in enumerate(intervals) for x in range(a, b)]


@settings(max_examples=150, deadline=None)
@given(st.lists(functions(), min_size=1, max_size=4))
def test_the_first_function_with_a_value_decides(some):
    expected = [next((v for v in each if v >= 0), -1) for each in zip(*map(values, some), strict=True)]
    assert values(first_of(*some)) == expected
    assert values(first_of(NOTHING, *some)) == expected


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10)), max_size=7))
def test_unions_of_intervals_that_overlap(parts):
    intervals = [(a, a + length) for a, length in parts]
    function = of_union(*columns(intervals), 2)
    assert values(function) == [2 if any(a <= x < b for a, b in intervals) else -1 for x in range(-1, HORIZON + 2)]
    assert (np.diff(function.at) > 0).all()


@settings(max_examples=150, deadline=None)
@given(INTERVALS, st.data())
def test_functions_of_disjoint_intervals(intervals, data):
    own = np.array([data.draw(st.integers(-1, 3)) for _ in intervals], np.int32)
    empty = data.draw(st.sets(st.integers(0, max(len(intervals) - 1, 0))))
    intervals = [(a, a) if k in empty else (a, b) for k, (a, b) in enumerate(intervals)]
    function = of_disjoint(*columns(intervals), own)
    expected = [
        next((v for (a, b), v in zip(intervals, own.tolist(), strict=True) if a <= x < b), -1)
        for x in range(-1, HORIZON + 2)
    ]
    assert values(function) == expected
    assert (np.diff(function.at) > 0).all()
