"""Pictures of steps: against a slow count of what takes most of each point, and on planted truth of two ranks."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.store_builder import Capture, store_of
from traceanalyzer.passes.communication.ranks import communication_of
from traceanalyzer.passes.idle.lanes import devices_with_gaps
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.ledger import category_intervals
from traceanalyzer.passes.scope import resolve
from traceanalyzer.passes.selection import make_selection
from traceanalyzer.passes.step_picture import step_picture
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.store.database import open_to_read
from traceanalyzer.traceset import TraceSet

SAMPLES = Path(__file__).parents[2] / "sample_traces"


def pictured(connection, step, points):
    scope = resolve(connection, make_selection())
    tree = StackTree(scope)
    return step_picture(scope, tree, communication_of(scope), scope.devices, step, points)


def two_steps():
    """Step 1 on the device from 0 to 1,000 ns: kernel, 300 ns of Python in `load`, kernel; step 2 from 1,000 on."""
    capture = Capture()
    for k, (start, end) in enumerate([(0, 400), (700, 1000), (1000, 1600)]):
        capture.kernel(start, end, k + 1)
    for step, start, end in ((1, -500, 950), (2, 950, 2000)):
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{step}", start, end)
    capture.event(EventKind.PYTHON_FRAME, "train.py(3): load", 380, 690)
    capture.launch(-90, -50, 1).launch(660, 680, 2).launch(960, 970, 3)
    return capture


def test_a_step_is_cut_where_what_takes_most_changes(tmp_path):
    with open_to_read(store_of(tmp_path / "s.duckdb", two_steps())) as connection:
        picture = pictured(connection, 1, 100)
    assert (picture.step, picture.length_ns, picture.point_ns) == (1, 1000, 10.0)
    (stretches,) = picture.stretches.values()
    told = [(each.start_ns, each.end_ns, each.category) for each in stretches]
    assert told == [
        (0, 400, "compute"),
        (400, 660, "idle:python"),
        (660, 680, "idle:launch_call"),
        (680, 700, "idle:launch_latency"),
        (700, 1000, "compute"),
    ]
    assert [each.blame for each in stretches] == [
        None,
        "load (train.py:3)",
        "load (train.py:3)",
        "load (train.py:3)",
        None,
    ]


def test_no_such_step(tmp_path):
    with open_to_read(store_of(tmp_path / "s.duckdb", two_steps())) as connection:
        assert pictured(connection, 7, 10) is None


def test_sums_are_exact_where_points_are_coarse(tmp_path):
    """Kernels of 60 ns every 100 ns: each point of 1,000 ns shows compute, which runs for 60 % of it."""
    capture = Capture()
    base = 1_767_225_600_000_000_000
    capture.event(EventKind.STEP_MARK, "ProfilerStep#1", base - 500, base + 50_000)
    capture.event(EventKind.STEP_MARK, "ProfilerStep#2", base + 50_000, base + 60_000)
    for k in range(101):
        capture.launch(base - 400 + k, base - 399 + k, k + 1)
        capture.kernel(base + 100 * k, base + 100 * k + 60, k + 1)
    capture.launch(base + 55_000, base + 55_001, 500).kernel(base + 60_000, base + 60_100, 500)
    with open_to_read(store_of(tmp_path / "s.duckdb", capture)) as connection:
        picture = pictured(connection, 1, 60)
    (sums,), (stretches,) = picture.sums.values(), picture.stretches.values()
    assert sums["compute"] == 101 * 60
    assert picture.is_aligned
    assert stretches[0].category == "compute"
    assert [(each.start_ns, each.end_ns) for each in stretches] == [(0, 10_060)]


def test_clocks_that_cannot_be_compared_begin_each_at_0(tmp_path):
    captures = [two_steps(), two_steps()]
    for rows in (captures[1].ops, captures[1].events):
        for row in rows:
            row["start_ns"] += 10**15
            row["end_ns"] += 10**15
    with open_to_read(store_of(tmp_path / "s.duckdb", *captures)) as connection:
        picture = pictured(connection, 1, 100)
    assert not picture.is_aligned
    assert picture.length_ns == 1000
    first, second = picture.stretches.values()
    assert first == second


@pytest.mark.parametrize(("sample", "step"), [("planted_sleep", 5), ("ddp2_slow1", 7), ("launch_bound", 4)])
@pytest.mark.parametrize("points", [37, 400])
def test_each_point_shows_what_takes_most_of_it(sample, step, points):
    with TraceSet.of_files([SAMPLES / sample]) as traces:
        scope = resolve(traces._connection, make_selection(steps=f"{step}-{step}"))
        communication = communication_of(scope)
        picture = pictured(traces._connection, step, points)
        begins, rows = [], {}
        for part in devices_with_gaps(scope, StackTree(scope)):
            clock = communication.clocks.get(part.device.rank)
            shift = 0 if clock is None else int(clock.aligned(np.array([part.ops.span[0]]))[0]) - part.ops.span[0]
            rows[part.device] = [
                (each.category, start + shift, end + shift)
                for each in category_intervals(part, communication)
                for start, end in zip(each.start.tolist(), each.end.tolist(), strict=True)
            ]
            begins += [start for _, start, _ in rows[part.device]]
    low = min(begins)
    edges = np.linspace(0, picture.length_ns, points + 1)
    for device, intervals in rows.items():
        shown = [""] * points
        for each in picture.stretches[device]:
            for k in range(points):
                if edges[k] >= each.start_ns - 0.5 and edges[k + 1] <= each.end_ns + 0.5:
                    shown[k] = each.category
        for k in range(points):
            taken: dict[str, float] = {}
            for category, start, end in intervals:
                inside = min(end - low, edges[k + 1]) - max(start - low, edges[k])
                if inside > 0:
                    taken[category] = taken.get(category, 0.0) + inside
            assert taken.get(shown[k], 0.0) >= max(taken.values(), default=0.0) - 1e-3, (device, k)


def test_ranks_leave_their_collectives_together():
    with TraceSet.of_files([SAMPLES / "ddp2_slow1"]) as traces:
        picture = pictured(traces._connection, 7, 4000)
        residual = max(traces.collectives().tables["clocks"].columns["residual_p95_ns"])
    ends = [
        [each.end_ns for each in stretches if each.category == "communication_transfer"]
        for stretches in picture.stretches.values()
    ]
    assert abs(ends[0][-1] - ends[1][-1]) <= residual + 2 * picture.point_ns
