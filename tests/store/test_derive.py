"""Launches, steps and lanes against loops that follow their definitions row by row."""

from collections import defaultdict

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from traceanalyzer.schema.kinds import EventKind, Lane, OpKind
from traceanalyzer.schema.sink import Texts
from traceanalyzer.store.derive import derive_steps, lanes, launch_calls, steps_at
from traceanalyzer.store.recorded import NULL, Ascending, Columns, Recorded, call_columns

SMALL = st.integers(0, 6)
FAR = st.sampled_from([-(2**63) + 1, -(2**31) - 1, -1, 2**31 - 1, 2**31, 2**62, 2**63 - 1])
CORRELATION = st.one_of(SMALL, FAR)
CALLS = st.lists(st.tuples(SMALL, CORRELATION, SMALL), max_size=12)  # process, correlation, start
OPS = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, NULL]), st.one_of(st.just(NULL), CORRELATION)), min_size=1, max_size=9
)


@given(CALLS, OPS)
@example([(1, 2, 0), (1, -(2**63) + 1, 0)], [(1, 0)])
def test_the_launch_is_the_first_call_of_the_process_with_the_correlation(calls, ops):
    columns = defaultdict(call_columns)
    for number, (process, correlation, start) in enumerate(calls):
        columns[process].add(
            event_id=np.array([number]), correlation_id=np.array([correlation]), start_ns=np.array([start])
        )
    process, correlation = (np.array(values, np.int64) for values in zip(*ops, strict=True))
    found, began = launch_calls(columns, process, correlation)
    for (process, correlation), call, instant in zip(ops, found.tolist(), began.tolist(), strict=True):
        known = [(s, n) for n, (p, c, s) in enumerate(calls) if (p, c) == (process, correlation)]
        assert (instant, call) == min(known) if known else call == -1


MARKS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 9)), max_size=8)
LAUNCHES = st.lists(st.tuples(st.integers(0, 4), st.one_of(st.none(), st.integers(0, 45))), min_size=1, max_size=10)


@given(MARKS, LAUNCHES)
def test_an_operation_belongs_to_the_step_in_which_it_was_launched(marks, launches):
    recorded = Recorded(Texts())
    recorded.marks = [(process, 1, -1, start, start + length) for process, start, length in marks]
    steps = derive_steps(recorded, [])
    process = np.array([p for p, _ in launches])
    number, known = steps_at(steps, process, np.array([NULL if t is None else t for _, t in launches]))
    marked = {step[0] for step in steps}
    others = marked - set(process.tolist())
    for k, (launcher, instant) in enumerate(launches):
        stand_in = next(iter(others)) if len(others) == 1 else None
        owner = launcher if launcher in marked else stand_in
        inside = [s[2] for s in steps if s[0] == owner and instant is not None and s[4] <= instant < s[5]]
        assert (inside == [number[k]]) if known[k] else not inside


def test_lanes_by_kind_and_by_the_names_of_kernels():
    texts = Texts()
    names = ["gemm", "ncclDevKernel_AllReduce", "deep::ep::dispatch", None]
    kinds = [OpKind.KERNEL, OpKind.KERNEL, OpKind.KERNEL, OpKind.KERNEL, OpKind.MEMCPY, OpKind.MEMSET, OpKind.GRAPH]
    codes = texts.codes([*names, "ncclCopy", None, "graph"])
    found = lanes(texts, np.array(kinds, np.uint8), codes)
    expected = [Lane.COMPUTE, Lane.COMMUNICATION, Lane.COMMUNICATION, Lane.COMPUTE, Lane.COPY, Lane.COPY, Lane.COMPUTE]
    assert found.tolist() == expected


class TestRangesNamedLikeSteps:
    @staticmethod
    def seen(*events):
        texts = Texts()
        recorded = Recorded(texts)
        for number, (kind, name) in enumerate(events):
            batch = {
                "event_id": np.array([number]),
                "process": np.array([1]),
                "thread": np.array([1]),
                "kind": np.array([kind], np.uint8),
                "name": texts.codes([name]),
                "start_ns": np.array([10 * number]),
                "end_ns": np.array([10 * number + 5]),
            }
            recorded.see("cpu_events", batch)
        kinds = np.array([kind for kind, _ in events], np.uint8)
        return recorded.event_kinds(kinds, texts.codes([name for _, name in events])).tolist(), recorded

    def test_are_marks_where_there_are_no_others(self):
        kinds, recorded = self.seen((EventKind.RANGE, "step 1"), (EventKind.RANGE, "load"), (EventKind.RANGE, "step 2"))
        assert kinds == [EventKind.STEP_MARK, EventKind.RANGE, EventKind.STEP_MARK]
        assert [(s[2], s[4], s[5]) for s in derive_steps(recorded, recorded._texts.all)] == [(1, 0, 20), (2, 20, 25)]

    def test_stay_ranges_beside_marks_of_the_profiler_even_if_they_came_before(self):
        kinds, recorded = self.seen((EventKind.RANGE, "step 1"), (EventKind.STEP_MARK, "ProfilerStep#7"))
        assert kinds == [EventKind.RANGE, EventKind.STEP_MARK]
        assert [s[2] for s in derive_steps(recorded, recorded._texts.all)] == [7]

    def test_stay_ranges_where_the_reader_knows_better_marks(self):
        _, recorded = self.seen((EventKind.RANGE, "step 1"))
        recorded.forget_ranges()
        assert derive_steps(recorded, recorded._texts.all) == []
        kinds = np.array([EventKind.RANGE], np.uint8)
        assert recorded.event_kinds(kinds, np.array([0])).tolist() == [EventKind.RANGE]


@given(st.lists(st.lists(st.integers(-(2**40), 2**40), max_size=5), max_size=6))
def test_columns_keep_every_value_however_wide(pieces):
    columns = Columns(narrow=np.int16, unsigned=np.uint32)
    for piece in pieces:
        columns.add(narrow=np.array(piece, np.int64), unsigned=np.abs(np.array(piece, np.int64)))
    whole = [value for piece in pieces for value in piece]
    assert columns.take("narrow").tolist() == whole
    assert columns.take("unsigned").tolist() == [abs(value) for value in whole]


def test_a_column_without_signs_keeps_its_large_values_when_it_becomes_wider():
    columns = Columns(unsigned=np.uint32)
    columns.add(unsigned=np.array([2**32 - 1]))
    columns.add(unsigned=np.array([-1]))
    assert columns.take("unsigned").tolist() == [2**32 - 1, -1]


@given(st.lists(st.lists(st.integers(0, 1000), max_size=5), max_size=6))
def test_ascending_numbers_come_back(steps):
    numbers, last = Ascending(), -1
    whole = []
    for piece in steps:
        found = []
        for step in piece:
            last += step + 1
            found.append(last)
        numbers.add(np.array(found, np.int32))
        whole += found
    assert numbers.take().tolist() == whole
