"""Kernels and copies of hand-written timelines."""

import pytest

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from traceanalyzer.schema.kinds import CopyKind, EventKind, MemoryKind, OpKind


def asked(tmp_path, *captures, **selection):
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", *captures)) as traces:
        return traces.kernels(**selection)


def sized(grid, block):
    names = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
    return dict(zip(names, (*grid, *block), strict=True))


def several():
    """gemm 100 + 200 + 600 ns in two geometries and on two streams, add 100 ns, an all-reduce of 1,000 ns."""
    small, large = sized((4, 1, 1), (256, 1, 1)), sized((8, 2, 1), (128, 1, 1))
    return (
        Capture()
        .kernel(0, 100, name="gemm", **small)
        .kernel(100, 300, name="gemm", stream=9, **small)
        .kernel(300, 900, name="gemm", **large)
        .kernel(900, 1000, name="add")
        .kernel(500, 1500, name="ncclDevKernel_AllReduce", stream=20)
    )


def test_kernels_by_total_with_shares_of_the_kernel_time(tmp_path):
    answer = asked(tmp_path, several())
    rows = list(answer.kernels.rows())
    assert [(r["kernel"], r["calls"], r["total_ns"], r["share"]) for r in rows] == [
        ("ncclDevKernel_AllReduce", 1, 1000, 0.5),
        ("gemm", 3, 900, 0.45),
        ("add", 1, 100, 0.05),
    ]
    assert sum(r["share"] for r in rows) == pytest.approx(1)
    assert [r["lane"] for r in rows] == ["communication", "compute", "compute"]
    gemm = rows[1]
    assert (gemm["mean_ns"], gemm["median_ns"], gemm["min_ns"], gemm["max_ns"]) == (300, 200, 100, 600)
    assert answer.findings[0].cost_ns == 1000 and answer.warnings == []


def test_geometry_is_the_most_frequent_and_a_stream_is_told_where_it_is_one(tmp_path):
    rows = {r["kernel"]: r for r in asked(tmp_path, several()).kernels.rows()}
    gemm, add = rows["gemm"], rows["add"]
    assert (gemm["grid"], gemm["block"], gemm["n_geometries"]) == ("(4, 1, 1)", "(256, 1, 1)", 2)
    assert (gemm["stream"], gemm["n_streams"]) == (None, 2)
    assert (add["grid"], add["block"], add["n_geometries"], add["stream"], add["n_streams"]) == (None, None, 0, 7, 1)


def test_devices_and_ranks_are_told_apart_and_selected(tmp_path):
    one = Capture().kernel(0, 100).kernel(0, 300, device=1)
    answer = asked(tmp_path, one, Capture().kernel(0, 50))
    found = [(r["rank"], r["device"], r["total_ns"], r["share"]) for r in answer.kernels.rows()]
    assert found == [(0, 1, 300, 1.0), (0, 0, 100, 1.0), (1, 0, 50, 1.0)]
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        assert [r["total_ns"] for r in traces.kernels(device=1).kernels.rows()] == [300]
        assert [r["total_ns"] for r in traces.kernels(rank="1").kernels.rows()] == [50]
        with pytest.raises(traceanalyzer.UsageError, match="no capture by nsys; there are some by torch"):
            traces.kernels(source="nsys")


def test_a_window_cuts_durations_and_says_so(tmp_path):
    capture = Capture().kernel(1000, 2000).kernel(2500, 2500).kernel(3000, 5000).kernel(6000, 7000)
    answer = asked(tmp_path, capture, window="0.0000005:0.000003")
    # The window is [1500, 4000): 500 ns of the first, the one without length, 1,000 ns of the third.
    row = next(answer.kernels.rows())
    assert (row["calls"], row["total_ns"], row["min_ns"], row["max_ns"]) == (3, 1500, 0, 1000)
    assert "2 operations reach beyond the window and count with the time inside it" in answer.warnings


def stepped():
    """Two steps; the kernel launched in the first runs during the second."""
    return (
        Capture()
        .event(EventKind.STEP_MARK, "ProfilerStep#3", 0, 100)
        .event(EventKind.STEP_MARK, "ProfilerStep#4", 100, 200)
        .event(EventKind.RANGE, "phase_a", 0, 60)
        .launch(50, 55, 1)
        .kernel(150, 170, 1, name="early")
        .launch(120, 125, 2)
        .kernel(170, 200, 2, name="late")
    )


def test_steps_go_by_the_launch(tmp_path):
    answer = asked(tmp_path, stepped(), steps="3")
    assert [(r["kernel"], r["total_ns"]) for r in answer.kernels.rows()] == [("early", 20)]
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        assert [r["kernel"] for r in traces.kernels(steps="3-4").kernels.rows()] == ["late", "early"]
        assert [r["kernel"] for r in traces.kernels(steps="0", step_range="phase_.*").kernels.rows()] == ["early"]
        assert "no device step is among 9" in traces.kernels(steps="9").warnings[0]
        assert "--warmup" in traces.kernels(warmup=1).warnings[0]


def test_copies_by_kind_with_their_rate(tmp_path):
    capture = (
        Capture()
        .copy(0, 1000, None, CopyKind.HTOD, pageable=True, bytes=4000)
        .copy(1000, 2000, None, CopyKind.HTOD, pageable=True, bytes=2000)
        .copy(2000, 2500, None, CopyKind.DTOH)
        .copy(2500, 2500, None, CopyKind.DTOH, bytes=8)
    )
    capture.ops.append(
        {"kind": OpKind.MEMSET, "start_ns": 3000, "end_ns": 3001, "name": "memset", "bytes": 2**40}
        | {"destination_memory": MemoryKind.DEVICE}
    )
    answer = asked(tmp_path, capture)
    found = [
        (r["operation"], r["calls"], r["total_ns"], r["bytes"], r["mean_bytes_per_s"]) for r in answer.operations.rows()
    ]
    assert found == [
        ("memcpy HtoD (pageable -> device)", 2, 2000, 6000, 3e9),
        ("memcpy DtoH (device -> pinned)", 2, 500, 8, None),
        ("memset (device)", 1, 1, 2**40, float(2**40) * 1e9),
    ]
    assert len(answer.kernels) == 0 and answer.warnings == []


def test_graphs_without_nodes_are_said_not_listed(tmp_path):
    capture = Capture().kernel(0, 10)
    capture.ops.append({"kind": OpKind.GRAPH, "start_ns": 20, "end_ns": 90, "name": "graph"})
    answer = asked(tmp_path, capture)
    assert [r["total_ns"] for r in answer.kernels.rows()] == [10]
    assert answer.warnings[0].startswith("1 graph launch was recorded without nodes:")
