"""Groups against dictionaries of rows, and what sets connect against walking."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.numeric.grouping import connected, groups

VALUES = st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1, 2**40, 2**40 + 1]))
ROWS = st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[VALUES] * width), max_size=12))
SETS = st.integers(1, 12).flatmap(
    lambda n: st.tuples(st.just(n), st.lists(st.lists(st.integers(0, n - 1), min_size=1)))
)


@given(ROWS)
def test_groups_are_those_of_a_dictionary_in_ascending_order(rows):
    width = len(rows[0]) if rows else 2
    columns = [np.array([row[k] for row in rows], np.int64) for k in range(width)]
    lengths = np.arange(len(rows), dtype=np.int64) + 2**60
    found = groups(*columns)
    expected = {}
    for row, length in zip(rows, lengths.tolist(), strict=True):
        expected.setdefault(row, []).append(length)
    assert [rows[k] for k in found.row.tolist()] == sorted(expected)
    assert [sorted(expected)[k] for k in found.of_row.tolist()] == rows
    assert found.counts().tolist() == [len(expected[row]) for row in sorted(expected)]
    wrapped = [(sum(expected[row]) + 2**63) % 2**64 - 2**63 for row in sorted(expected)]
    assert found.sums(lengths).tolist() == wrapped


@given(SETS)
def test_what_sets_connect_against_walking_from_each_thing(case):
    count, sets = case
    for thing, first in enumerate(connected(count, sets).tolist()):
        reached, fresh = {thing}, [thing]
        while fresh:
            here = fresh.pop()
            more = {other for each in sets if here in each for other in each} - reached
            reached |= more
            fresh += more
        assert first == min(reached)
