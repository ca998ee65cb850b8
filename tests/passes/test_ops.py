"""Operators: times of small timelines worked out by hand, and of random ones instant by instant."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from traceanalyzer.errors import UsageError
from traceanalyzer.passes.operators.times import Launches, ThreadCalls, Times
from traceanalyzer.schema.kinds import EventKind

OPERATOR, RANGE, FRAME = EventKind.OPERATOR, EventKind.RANGE, EventKind.PYTHON_FRAME
NUMBERS = ("calls", "host_total_ns", "host_self_ns", "device_total_ns", "device_self_ns")


def times_of(tmp_path, capture, table="ops", **selection):
    """Of each operator the columns of the contract."""
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as traces:
        answer = traces.ops(**selection)
    key = {"ops": "op", "by_shape": "shapes", "by_module": "module"}[table]
    return {row[key]: tuple(row[name] for name in NUMBERS) for row in getattr(answer, table).rows()}, answer


def nested():
    """aten::linear [100, 200) calls aten::addmm [120, 180); a kernel is launched in each, and one outside."""
    capture = Capture().event(OPERATOR, "aten::linear", 100, 200).event(OPERATOR, "aten::addmm", 120, 180)
    capture.launch(130, 140, 1).launch(185, 190, 2).launch(300, 310, 3)
    return capture.kernel(500, 540, 1).kernel(540, 547, 2).kernel(600, 700, 3)


def test_self_is_without_what_an_operator_calls(tmp_path):
    found, answer = times_of(tmp_path, nested())
    assert found == {"aten::linear": (1, 100, 40, 47, 7), "aten::addmm": (1, 60, 60, 40, 40)}
    assert [row["device_share"] for row in answer.ops.rows()] == [40 / 147, 7 / 147]
    assert [(f.code, f.cost_ns) for f in answer.findings] == [("top_operator_device", 40), ("top_operator_host", 60)]
    assert answer.findings[0].text == "27.2 % of the device time of rank 0: aten::addmm itself, 1 call, 40 ns"


def test_an_operator_inside_of_itself_counts_once(tmp_path):
    capture = Capture().event(OPERATOR, "f", 100, 200).event(OPERATOR, "g", 110, 190).event(OPERATOR, "f", 120, 150)
    capture.launch(130, 140, 1).kernel(500, 510, 1)
    found, _ = times_of(tmp_path, capture)
    assert found == {"f": (2, 100, 50, 10, 10), "g": (1, 80, 50, 10, 0)}


def test_calls_that_cross_belong_to_the_later_one(tmp_path):
    capture = Capture().event(OPERATOR, "a", 100, 150).event(OPERATOR, "b", 120, 180)
    capture.launch(160, 165, 1).kernel(500, 510, 1)
    found, _ = times_of(tmp_path, capture)
    assert found == {"a": (1, 50, 20, 0, 0), "b": (1, 60, 60, 10, 10)}


def test_threads_are_apart(tmp_path):
    """What another thread launches meanwhile is none of an operator's; the same operator on two threads adds up."""
    capture = nested().event(OPERATOR, "aten::addmm", 120, 170, thread=2).launch(125, 126, 4, thread=2)
    found, _ = times_of(tmp_path, capture.kernel(800, 805, 4))
    assert found == {"aten::linear": (1, 100, 40, 47, 7), "aten::addmm": (2, 110, 110, 45, 45)}


def test_a_window_cuts_both_sides(tmp_path):
    """The window begins with the first operation: [20, 45) is [150, 175) here."""
    capture = Capture().kernel(130, 155, 1).event(OPERATOR, "a", 100, 160).launch(110, 115, 1)
    capture.event(OPERATOR, "b", 140, 150).event(OPERATOR, "c", 200, 210)
    found, _ = times_of(tmp_path, capture, window="0.00000002:0.000000045")
    assert found == {"a": (1, 10, 10, 5, 5)}


def test_steps_select_calls_by_their_begin_and_operations_by_their_launch(tmp_path):
    capture = nested().event(EventKind.STEP_MARK, "ProfilerStep#3", 90, 110)
    capture.event(EventKind.STEP_MARK, "ProfilerStep#4", 110, 250)
    found, _ = times_of(tmp_path, capture, steps="3")
    assert found == {"aten::linear": (1, 100, 40, 0, 0)}
    found, _ = times_of(tmp_path, capture, steps="4")
    assert found == {"aten::addmm": (1, 60, 60, 40, 40), "aten::linear": (0, 0, 0, 47, 7)}


def test_by_shape_and_by_module(tmp_path):
    capture = Capture().operator("aten::mm", 100, 120, [[2, 3], [3, 4]]).operator("aten::mm", 130, 140, [[9]])
    capture.event(FRAME, "nn.Module: Net_0", 90, 200).event(FRAME, "nn.Module: Linear_0", 95, 125)
    capture.launch(105, 106, 1).launch(135, 136, 2).kernel(500, 510, 1).kernel(510, 515, 2)
    found, answer = times_of(tmp_path, capture, "by_shape", by="shape")
    assert found == {"2x3, 3x4": (1, 20, 20, 10, 10), "9": (1, 10, 10, 5, 5)}
    assert answer.default_table == "by_shape" and not answer.warnings
    found, answer = times_of(tmp_path, capture, "by_module", by="module", run="run")
    assert found == {"Net_0": (1, 110, 80, 15, 5), "Linear_0": (1, 30, 30, 10, 10)}


def test_what_was_not_recorded_is_said(tmp_path):
    _, answer = times_of(tmp_path, nested(), by="module")
    assert "with_stack=True" in answer.warnings[-1]
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        assert "record_shapes=True" in traces.ops(by="shape").warnings[-1]
        with pytest.raises(UsageError, match="shape, module"):
            traces.ops(by="cause")
        with pytest.raises(UsageError, match="cause, stack"):
            traces.gaps(by="shape")


def test_ranges_named_like_operators_stand_for_them(tmp_path):
    capture = Capture().event(RANGE, "aten::mm, seq = 7", 100, 150).event(RANGE, "aten::mm, seq = 8", 160, 170)
    capture.event(RANGE, "mine", 90, 200).launch(110, 115, 1).kernel(500, 510, 1)
    found, answer = times_of(tmp_path, capture)
    assert found == {"aten::mm": (2, 60, 60, 10, 10)}
    assert "ranges named like operators" in answer.notes[-1]


def test_without_operators_that_is_said(tmp_path):
    _, answer = times_of(tmp_path, Capture().kernel(1, 2))
    assert "no operators" in answer.warnings[-1]


CALLS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 3)), max_size=12)
LAUNCHES = st.lists(st.tuples(st.integers(0, 45), st.integers(0, 9)), max_size=8)


def innermost_at(calls, t):
    """Place of the innermost call at an instant: put on a stack one by one, those that ended taken off the top."""
    stack = []
    order = sorted(range(len(calls)), key=lambda k: (calls[k][0], -calls[k][1], k))
    for k in order:
        start, length, _ = calls[k]
        if start > t or not length:
            continue
        while stack and sum(calls[stack[-1]][:2]) <= start:
            stack.pop()
        stack.append(k)
    while stack and sum(calls[stack[-1]][:2]) <= t:
        stack.pop()
    return stack[-1] if stack else None


@given(CALLS, LAUNCHES, st.integers(0, 40), st.integers(1, 40))
def test_random_calls_instant_by_instant(calls, launches, low, length):
    high = low + length
    start, count, group = (np.array([c[k] for c in calls], np.int64) for k in range(3))
    at, ns = (np.array([x[k] for x in launches], np.int64) for k in range(2))
    times = Times(4)
    swept = ThreadCalls(start, start + count, Launches.sorted(at, ns), (low, high))
    swept.add_to(times, group.astype(np.int32))
    alone, total, device, own = (defaultdict(int) for _ in range(4))
    for t in range(low, high):
        open_ = {g for s, n, g in calls if s <= t < s + n}
        for g in open_:
            total[g] += 1
        inner = innermost_at(calls, t)
        assert (inner is None) == (not open_)
        if inner is not None:
            alone[calls[inner][2]] += 1
    for t, duration in launches:
        for g in {g for s, n, g in calls if s <= t < s + n}:
            device[g] += duration
        if (inner := innermost_at(calls, t)) is not None:
            own[calls[inner][2]] += duration
    found = (times.host_self, times.host_total, times.device_total, times.device_self)
    for column, expected in zip(found, (alone, total, device, own), strict=True):
        assert column.tolist() == [expected[g] for g in range(4)]
    inside = [s < high and (s + n > low or s >= low) for s, n, _ in calls]
    assert times.calls.sum() == sum(inside)
