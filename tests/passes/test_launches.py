"""Launch delays and queue depths, by hand and against a slow count of every nanosecond."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from traceanalyzer.passes.launches import nearest_rank
from traceanalyzer.schema.kinds import CopyKind, EventKind, OpKind


def asked(path, *captures, **selection):
    with traceanalyzer.open(store_of(path / "s.duckdb", *captures)) as traces:
        return traces.launches(**selection)


def delays(answer):
    return {(r["kind"], r["since"]): r for r in answer.launches.rows()}


def ahead():
    """Four launches; the third one's kernel starts before its call returns; the host runs ahead of the device."""
    return (
        Capture()
        .launch(0, 10, 1)
        .kernel(20, 100, 1)
        .launch(10, 20, 2)
        .kernel(100, 200, 2)
        .launch(195, 230, 3)
        .kernel(210, 300, 3)
        .launch(230, 240, 4)
        .kernel(300, 400, 4)
    )


def test_delays_from_the_end_and_from_the_start_of_the_call(tmp_path):
    found = delays(asked(tmp_path, ahead()))
    # From the end: 10, 80, -20, 60. From the start: 20, 90, 15, 70.
    end, start = found["kernel", "call end"], found["kernel", "call start"]
    names = ("count", "negative", "min_ns", "p5_ns", "p50_ns", "p95_ns", "max_ns")
    assert [end[n] for n in names] == [4, 1, -20, -20, 10, 80, 80]
    assert [start[n] for n in names] == [4, 0, 15, 15, 20, 90, 90]


def test_queue_depth_at_launches_and_over_the_span(tmp_path):
    answer = asked(tmp_path, ahead())
    # Queued are [0, 20), [10, 100), [195, 210), [230, 300); the span is [20, 400).
    # The launch at 10 meets the first operation; the others meet an empty queue.
    assert [(r["depth"], r["ns"], r["n_launches"]) for r in answer.depth.rows()] == [(0, 215, 3), (1, 165, 1)]
    row = next(answer.queues.rows())
    assert (row["n_launches"], row["p50_depth"], row["max_depth"], row["empty_ns"]) == (4, 0, 1, 215)
    assert row["mean_depth"] == 165 / 380 and row["empty_share"] == 215 / 380


def test_a_graph_is_one_launch_by_its_first_operation(tmp_path):
    capture = (
        Capture()
        .launch(0, 100, 1, "cudaGraphLaunch")
        .kernel(150, 200, 1)
        .kernel(120, 130, 1)
        .kernel(300, 400, 1)
        .launch(125, 126, 2)
        .kernel(400, 500, 2)
    )
    answer = asked(tmp_path, capture)
    graph, kernel = delays(answer)["graph", "call end"], delays(answer)["kernel", "call end"]
    assert (graph["count"], graph["min_ns"], kernel["count"], kernel["min_ns"]) == (1, 20, 1, 274)
    # The graph is queued in [0, 120), the kernel in [125, 400); the launch at 125 meets no other: the graph runs.
    assert [(r["depth"], r["ns"], r["n_launches"]) for r in answer.depth.rows()] == [(0, 105, 2), (1, 275, 0)]
    assert [f.text.split(", and")[0] for f in answer.findings] == [
        "rank 0, device 0: kernels start 274 ns after their launch returns (median), 0 launches wait in the queue at a"
        " launch (median)"
    ]


def test_a_graph_counts_the_same_with_and_without_its_nodes(tmp_path):
    def capture(*nodes):
        made = Capture()
        for number, start in enumerate((50, 150, 250), 1):
            made.launch(10 * number, 10 * number + 5, number, "cudaGraphLaunch_v10000")
            for low, high, kind in nodes:
                made.kernel(start + low, start + high, number, kind=kind)
        return made

    answers = [
        asked(tmp_path / name, made)
        for name, made in (
            ("span", capture((0, 90, OpKind.GRAPH))),
            ("nodes", capture((0, 40, OpKind.KERNEL), (45, 90, OpKind.KERNEL))),
        )
        if not (tmp_path / name).mkdir()
    ]
    for table in ("launches", "queues", "depth"):
        one, two = (list(answer.table(table).rows()) for answer in answers)
        assert one == two
    text = (
        "rank 0, device 0: graphs start 125 ns after their launch returns (median), 1 launch waits in the queue at a"
        " launch (median), and for 31.0 % of the span nothing is queued"
    )
    assert [finding.text for answer in answers for finding in answer.findings] == [text, text]


def test_depth_is_unknown_while_operations_run_whose_launch_was_not_recorded(tmp_path):
    # Two operations in flight, with a pause; then two launches, a kernel of neither, and the kernel of the second.
    capture = Capture().kernel(100, 200).kernel(210, 300)
    capture.launch(250, 260, 1).launch(310, 320, 2).launch(330, 340, 3).kernel(325, 400, 1)
    capture.kernel(400, 500).kernel(520, 600, 2).kernel(600, 700, 3)
    answer = asked(tmp_path, capture)
    # Unknown are [100, 300) and [400, 500), and the launch at 250 meets that. Else queued are [250, 325) by the first
    # launch, [310, 520) and [330, 600) by the others.
    assert [(r["depth"], r["ns"], r["n_launches"]) for r in answer.depth.rows()] == [
        (None, 300, 1),
        (0, 100, 0),
        (1, 10 + 5 + 80, 2),
        (2, 15 + 70 + 20, 0),
    ]
    assert sum(r["share"] for r in answer.depth.rows()) == 1
    row = next(answer.queues.rows())
    assert (row["n_launches"], row["max_depth"], row["empty_ns"], row["unknown_ns"]) == (3, 1, 100, 300)
    assert row["empty_share"] == 100 / 300 and row["mean_depth"] == (95 + 2 * 105) / 300
    assert "for 33.3 % of the known time nothing is queued; for 300 ns operations run" in answer.findings[0].text


def test_before_operations_in_flight_the_depth_that_a_launch_meets_is_unknown(tmp_path):
    answer = asked(tmp_path, Capture().launch(0, 10, 1).kernel(20, 30).kernel(40, 50, 1))
    assert [(r["depth"], r["ns"], r["n_launches"]) for r in answer.depth.rows()] == [
        (None, 10, 1),
        (0, 10, 0),
        (1, 10, 0),
    ]
    row = next(answer.queues.rows())
    assert (row["p50_depth"], row["n_launches"]) == (None, 1)
    assert "queue at a launch" not in answer.findings[0].text


def test_copies_are_told_apart_and_operations_without_launch_counted(tmp_path):
    capture = Capture().launch(0, 90, 1, "cudaMemcpy").copy(10, 80, 1, CopyKind.HTOD).kernel(100, 200)
    answer = asked(tmp_path, capture)
    assert delays(answer)["memcpy", "call end"]["negative"] == 1
    assert answer.warnings == ["1 operation has no launch in the file and takes no part in delays and depths"]


def test_steps_and_window_pick_launches(tmp_path):
    capture = ahead().event(EventKind.STEP_MARK, "ProfilerStep#0", 0, 190)
    capture.event(EventKind.STEP_MARK, "ProfilerStep#1", 190, 400)
    answer = asked(tmp_path, capture, steps="1")
    assert delays(answer)["kernel", "call end"]["count"] == 2
    # Device step 1 begins with the gap at 200; so it spans [200, 400).
    assert sum(r["ns"] for r in answer.depth.rows()) == 200
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        # [20, 120): the first two operations start in it.
        answer = traces.launches(window="0:0.0000001")
        assert delays(answer)["kernel", "call end"]["count"] == 2
        assert [(r["depth"], r["ns"]) for r in answer.depth.rows()] == [(0, 20), (1, 80)]


def test_nearest_rank_is_a_value_that_occurs():
    values = np.array([30, 10, 20], np.int64)
    assert [nearest_rank(values, p) for p in (5, 33, 34, 50, 67, 95, 100)] == [10, 10, 20, 20, 30, 30, 30]


OPERATIONS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 6), st.integers(-8, 20), st.integers(0, 9), st.booleans()),
    min_size=1,
    max_size=8,
)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OPERATIONS)
def test_depths_against_a_slow_count(operations):
    """Each operation: its call's start and length, how long after it starts, its length, whether a second one shares
    the launch."""
    capture, ops = Capture(), []
    for number, (call, length, wait, duration, twice) in enumerate(operations, 1):
        capture.launch(call, call + length, number)
        for extra in (0, 5) if twice else (0,):
            start = call + wait + extra
            capture.kernel(start, start + duration, number)
            ops.append((number, call, start, start + duration))
    low, high = min(o[2] for o in ops), max(o[3] for o in ops)
    queued = [(n, call, min(o[2] for o in ops if o[0] == n)) for n, (call, *_) in enumerate(operations, 1)]
    ns, met = {}, {}
    for x in range(low, high):
        depth = sum(call <= x < start for _, call, start in queued)
        ns[depth] = ns.get(depth, 0) + 1
    for number, (call, *_) in enumerate(operations, 1):
        depth = sum(earlier < call < start for n, earlier, start in queued if n != number)
        met[depth] = met.get(depth, 0) + 1
    with tempfile.TemporaryDirectory() as folder:
        answer = asked(Path(folder), capture)
    assert {r["depth"]: r["ns"] for r in answer.depth.rows() if r["ns"]} == ns
    assert {r["depth"]: r["n_launches"] for r in answer.depth.rows() if r["n_launches"]} == met
    firsts = [min(o[2] for o in ops if o[0] == n) - operations[n - 1][0] for n in range(1, len(operations) + 1)]
    row = delays(answer)["kernel", "call start"]
    assert (row["count"], row["min_ns"], row["max_ns"]) == (len(firsts), min(firsts), max(firsts))
    assert row["negative"] == sum(delay < 0 for delay in firsts)
