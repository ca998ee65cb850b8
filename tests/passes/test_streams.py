"""Streams, their overlap and the concurrency of a device, worked out by hand."""

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from traceanalyzer.schema.kinds import EventKind


def asked(tmp_path, *captures, **selection):
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", *captures)) as traces:
        return traces.streams(**selection)


def three():
    """Stream 1 runs [0, 100) and [80, 200); stream 2 [50, 150) and [300, 400); stream 3 [140, 160)."""
    capture = Capture()
    for stream, start, end in ((1, 0, 100), (1, 80, 200), (2, 50, 150), (2, 300, 400), (3, 140, 160)):
        capture.kernel(start, end, stream=stream)
    return capture


def test_streams_are_busy_for_their_union(tmp_path):
    rows = list(asked(tmp_path, three()).streams.rows())
    assert [(r["stream"], r["n_ops"], r["busy_ns"], r["start_ns"], r["end_ns"]) for r in rows] == [
        (1, 2, 200, 0, 200),
        (2, 2, 200, 50, 400),
        (3, 1, 20, 140, 160),
    ]
    assert [r["share"] for r in rows] == [0.5, 0.5, 0.05]
    assert {r["process"] for r in rows} == {100}


def test_overlap_of_each_pair(tmp_path):
    rows = asked(tmp_path, three()).overlap.rows()
    assert [(r["stream"], r["other_stream"], r["overlap_ns"], r["share"]) for r in rows] == [
        (1, 2, 100, 0.5),
        (1, 3, 20, 1.0),
        (2, 3, 10, 0.5),
    ]


def test_concurrency_adds_up_to_busy(tmp_path):
    # One runs in [0, 50), [160, 200), [300, 400); two in [50, 80), [100, 140), [150, 160); three in [80, 100) and
    # [140, 150).
    rows = list(asked(tmp_path, three()).concurrency.rows())
    assert [(r["operations"], r["ns"]) for r in rows] == [(1, 190), (2, 80), (3, 30)]
    assert [r["share"] for r in rows] == [190 / 300, 80 / 300, 30 / 300]
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        assert sum(r["ns"] for r in rows) == next(traces.gaps().devices.rows())["busy_ns"]


def test_what_runs_at_once_is_said_where_it_is_something(tmp_path):
    assert [f.text for f in asked(tmp_path, three()).findings] == [
        "36.7 % of the busy time of rank 0, device 0 runs several operations at once, on 3 streams"
    ]
    apart = Capture().kernel(0, 10_000, stream=1).kernel(9_992, 20_000, stream=1)
    (tmp_path / "apart").mkdir()
    assert asked(tmp_path / "apart", apart).findings == []


def test_captures_of_one_rank_are_told_apart(tmp_path):
    store = store_of(tmp_path / "s.duckdb", three())
    store_of(store, three(), run="other")
    with traceanalyzer.open(store) as traces:
        texts = [f.text for question in ("streams", "kernels") for f in traces.ask(question, run="all").findings]
    assert [text.count("of rank 0, device 0, capture ") for text in texts] == [1, 1, 1]


def test_a_window_and_steps_cut_as_for_gaps(tmp_path):
    rows = asked(tmp_path, three(), window="0.00000006:0.00000016").concurrency.rows()
    # [60, 160)
    assert [(r["operations"], r["ns"]) for r in rows] == [(2, 70), (3, 30)]
    capture = (
        Capture()
        .event(EventKind.STEP_MARK, "ProfilerStep#0", 0, 100)
        .event(EventKind.STEP_MARK, "ProfilerStep#1", 100, 200)
        .launch(10, 20, 1)
        .kernel(30, 60, 1)
        .launch(110, 120, 2)
        .kernel(130, 190, 2, stream=8)
    )
    (tmp_path / "t").mkdir()
    rows = list(asked(tmp_path / "t", capture, steps="1").streams.rows())
    assert [(r["stream"], r["busy_ns"]) for r in rows] == [(8, 60)]


def test_pairs_of_the_busiest_streams_only(tmp_path):
    capture = Capture()
    for stream in range(20):
        capture.kernel(0, 100 + stream, stream=stream)
    answer = asked(tmp_path, capture)
    assert len(answer.streams) == 20 and len(answer.overlap) == 120
    assert min(min(r["stream"], r["other_stream"]) for r in answer.overlap.rows()) == 4
    assert answer.warnings == ["rank 0, device 0 has 20 streams: pairs of the 16 busiest only"]
