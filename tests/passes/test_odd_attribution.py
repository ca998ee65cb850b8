"""Attribution of small captures that are odd, each worked out by hand. Times in ns, mostly whole us."""

import re

import pytest

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from traceanalyzer.passes.causes import Cause, cause_of_event
from traceanalyzer.passes.native_frames import short_native_frame
from traceanalyzer.schema.frames import STEP_RANGE
from traceanalyzer.schema.kinds import CopyKind, EventKind
from traceanalyzer.sources.torch_trace.categories import copy_of

US = 1000


@pytest.fixture
def gaps_of(tmp_path):
    def ask(capture, *others, **selection):
        with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture, *others)) as opened:
            return opened.gaps(**selection)

    return ask


def causes(answer):
    return {row["cause"]: row["idle_ns"] for row in answer.causes.rows()}


def stepped():
    """Step 1 ends with a gap from 230 to 700 us, in which the first operation of step 2 has no length."""
    capture = Capture()
    for step, (low, high) in enumerate(((0, 200), (200, 500), (500, 1100))):
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{step}", low * US, high * US)
    for number, (call, start, end) in enumerate(((10, 20, 30), (210, 220, 230), (590, 600, 600), (690, 700, 710)), 1):
        capture.launch(call * US, (call + 5) * US, number).kernel(start * US, end * US, number, f"k{number}")
    return capture


@pytest.mark.parametrize(("step", "gap"), [(1, (30 * US, 220 * US, "k2")), (2, (230 * US, 700 * US, "k4"))])
def test_a_step_whose_first_operation_has_no_length_begins_with_the_gap_around_it(gaps_of, step, gap):
    rows = gaps_of(stepped(), steps=f"{step}-{step}").table("gaps").rows()
    assert [(row["start_ns"], row["end_ns"], row["next_op"]) for row in rows] == [gap]


def test_the_first_gap_of_selected_steps_names_what_ended_before_it(gaps_of):
    (row,) = gaps_of(stepped(), steps="1-1").table("gaps").rows()
    assert (row["previous_op"], row["next_op"]) == ("k1", "k2")


def test_gaps_at_the_ends_of_the_compute_lane_have_no_neighbour(gaps_of):
    capture = Capture().launch(0, 5, 1, "cudaMemcpyAsync").copy(10, 60, 1, CopyKind.HTOD)
    capture.launch(70, 75, 2).kernel(80, 100, 2, "kA")
    capture.launch(110, 115, 3, "cudaMemcpyAsync").copy(120, 150, 3, CopyKind.DTOH)
    rows = {row["start_ns"]: row for row in gaps_of(capture, lane="compute").table("gaps").rows()}
    assert (rows[10]["previous_op"], rows[10]["next_op"]) == (None, "kA")
    assert (rows[100]["previous_op"], rows[100]["next_op"], rows[100]["step"]) == ("kA", None, None)


def test_a_copy_that_nothing_hides_has_the_stack_that_launched_it(gaps_of):
    capture = Capture().launch(0, 5, 1).kernel(10, 20, 1)
    capture.event(EventKind.PYTHON_FRAME, "/home/u/a.py(3): load", 20, 60)
    capture.launch(25, 30, 2, "cudaMemcpyAsync").copy(30, 100, 2, CopyKind.HTOD)
    capture.launch(31, 35, 3, "cudaMemcpyAsync").copy(50, 120, 3, CopyKind.HTOD, stream=8)
    capture.launch(130, 135, 4).kernel(140, 150, 4)
    answer = gaps_of(capture, lane="compute")
    copies = [row for row in answer.stacks.rows() if row["cause"] == "copy_only"]
    stack = ["load (a.py:3)", "cudaMemcpyAsync"]
    assert [(row["stack"], row["idle_ns"], row["blame"]) for row in copies] == [(stack, 90, "load (a.py:3)")]


def test_the_first_recorded_call_cuts_a_gap_that_operations_in_flight_end(gaps_of):
    capture = Capture().kernel(0, 10 * US, 900).kernel(100 * US, 110 * US, 901)
    capture.launch(50 * US, 55 * US, 1).kernel(150 * US, 160 * US, 1)
    rows = {(r["cause"], r["reason"]): r["idle_ns"] // US for r in gaps_of(capture).causes.rows()}
    # 10 to 50 us before the first call; then 20 us of pause and 30 us of waiting; then the way of k1 to the device.
    assert rows[("unattributed", "launched before recording")] == 40
    assert (rows[("device_gap", None)], rows[("device_wait", None)]) == (20 + 20, 30 + 20)


def test_ranges_that_are_chosen_as_steps_are_no_part_of_stacks(gaps_of):
    capture = Capture()
    for number in range(3):
        begin = number * 1000 * US
        capture.event(EventKind.RANGE, "batch", begin, begin + 900 * US)
        capture.event(EventKind.RANGE, "forward", begin + 100 * US, begin + 300 * US)
        capture.launch(begin + 210 * US, begin + 215 * US, number + 1)
        capture.kernel(begin + 220 * US, begin + 270 * US, number + 1)
    answer = gaps_of(capture, step_range="batch")
    assert {frame for row in answer.stacks.rows() for frame in row["stack"]} == {"forward", "cudaLaunchKernel"}
    # Of each of two gaps: 270 to 300 and 1100 to 1210 in `forward`, 300 to 1100 in nothing but steps, or in nothing.
    assert causes(answer) == {
        "range": 2 * 140 * US,
        "outside_events": 2 * 800 * US,
        "launch_call": 2 * 5 * US,
        "launch_latency": 2 * 5 * US,
    }
    assert len(answer.stacks) == 4  # equal stacks are one row, whether a step is open or not


def test_a_record_that_is_lost_later_does_not_hide_the_loading_of_a_module(gaps_of):
    capture = Capture().launch(0, 5 * US, 1).kernel(10 * US, 20 * US, 1, "a")
    capture.launch(100 * US, 400 * US, 2).kernel(405 * US, 415 * US, 2, "b")
    capture.launch(500 * US, 505 * US, 3).kernel(520 * US, 530 * US, 3, "c")
    capture.kernel(600 * US, 610 * US, 777, "b")
    capture.launch(700 * US, 705 * US, 4).kernel(720 * US, 730 * US, 4, "b")
    assert causes(gaps_of(capture))["module_load"] == 300 * US


def test_a_copy_call_of_the_driver_inside_of_one_of_the_runtime_is_the_same_copy(gaps_of):
    capture = Capture().launch(0, 5 * US, 1).kernel(10 * US, 20 * US, 1)
    capture.launch(15 * US, 115 * US, 2, "cudaMemcpy").event(
        EventKind.API_CALL, "cuMemcpyDtoH_v2", 16 * US, 114 * US, 2
    )
    capture.copy(80 * US, 90 * US, 2, CopyKind.DTOH, pageable=True)
    capture.launch(200 * US, 205 * US, 3).kernel(210 * US, 220 * US, 3)
    found = causes(gaps_of(capture))
    # 20 to 80 us is the copy's own launch; from 90 to 115 us the host moves what was copied.
    assert (found["host_copy"], found["launch_call"]) == (60 * US + 25 * US, 5 * US)


def test_a_range_that_only_speaks_of_backward_is_no_backward_pass(gaps_of):
    def capture(name):
        return (
            Capture()
            .launch(0, 5, 1)
            .kernel(10, 20, 1)
            .event(EventKind.RANGE, name, 0, 1000, thread=33)
            .launch(200, 205, 2)
            .kernel(210, 220, 2)
        )

    assert "framework" not in causes(gaps_of(capture("logging after backward")))


@pytest.mark.parametrize("name", ["backward", "Backward", "## backward ##", "loss.backward()", "backward pass 3"])
def test_a_range_that_is_a_backward_pass_is_one(gaps_of, name):
    capture = Capture().launch(0, 5, 1).kernel(10, 20, 1).event(EventKind.RANGE, name, 0, 1000, thread=33)
    assert causes(gaps_of(capture.launch(200, 205, 2).kernel(210, 220, 2)))["framework"] == 180


def test_the_input_range_is_of_ranges_only():
    pattern = re.compile("load")
    assert cause_of_event(EventKind.OPERATOR, "aten::load", pattern) is Cause.FRAMEWORK
    assert cause_of_event(EventKind.RANGE, "load batch", pattern) is Cause.INPUT_WAIT


def test_overhead_after_the_work_is_no_alarm(tmp_path):
    capture = Capture().launch(0, 5, 1).kernel(10, 1010, 1).launch(500, 505, 2).kernel(1010, 2010, 2)
    for _ in range(4):
        capture.event(EventKind.OVERHEAD, "Buffer Flush", 5000, 9000, thread=None)
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as opened:
        (row,) = [r for r in opened.info().fitness.rows() if r["check"] == "profiler_overhead"]
    assert (row["state"], "0 ns, 0.0 % of the span" in row["text"]) == ("fine", True)


def test_what_has_no_blame_is_told_by_cause(gaps_of):
    capture = Capture().launch(0, 5 * US, 1).kernel(10 * US, 20 * US, 1)
    capture.event(EventKind.OPERATOR, "aten::mul", 20 * US, 80 * US)
    capture.launch(100 * US, 150 * US, 2).kernel(150 * US, 160 * US, 2)
    found = {f.code: f.cost_ns for f in gaps_of(capture).findings if f.code.startswith("idle_")}
    assert found == {"idle_framework": 60 * US, "idle_launch_call": 50 * US, "idle_outside_events": 20 * US}


def test_names_of_any_shape_are_read_in_time_that_grows_with_them():
    # Each took minutes or more where the work grew with the square or the cube of the length.
    spaces = " " * 200_000
    assert short_native_frame("a() [" * 100_000, None)
    assert copy_of("Memcpy (" + spaces)
    assert cause_of_event(EventKind.PYTHON_FRAME, "torch/utils/data/dataloader.py " * 50_000) is Cause.PYTHON
    assert not re.fullmatch(STEP_RANGE, "step" + spaces + "x")


def ranks(spread):
    """A step on each rank in which `load` takes so many us."""
    out = []
    for length in spread:
        capture = Capture().launch(0, 5 * US, 1).kernel(5 * US, 100 * US, 1)
        capture.event(EventKind.STEP_MARK, "ProfilerStep#0", 100 * US, 5000 * US)
        capture.event(EventKind.PYTHON_FRAME, "a.py(7): load", 100 * US, (100 + length) * US)
        capture.launch((100 + length) * US, (105 + length) * US, 2)
        out.append(capture.kernel((105 + length) * US, 5000 * US, 2))
    return out


@pytest.mark.parametrize(
    ("spread", "text"),
    [((3000, 0), "; none on rank 1"), ((3000, 1000, 500), "; 0.5 to 1.0 ms on the other 2 ranks")],
)
def test_a_finding_says_what_the_same_costs_on_other_ranks(gaps_of, spread, text):
    findings = [f.text for f in gaps_of(*ranks(spread)).findings if "load (a.py:7)" in f.text]
    assert len(findings) == 1
    assert "3.0 ms" in findings[0]
    assert findings[0].endswith(text)


def test_what_synchronising_calls_cost_is_said_with_the_call(gaps_of):
    capture = Capture().launch(0, 5 * US, 1).kernel(10 * US, 20 * US, 1)
    capture.event(EventKind.STEP_MARK, "ProfilerStep#0", 30 * US, 1000 * US)
    for k in range(4):
        at = (100 + 200 * k) * US
        capture.event(EventKind.PYTHON_FRAME, "a.py(9): read_loss", at - 10 * US, at + 90 * US)
        capture.launch(at, at + 5 * US, 10 + k).kernel(at + 10 * US, at + 50 * US, 10 + k)
        capture.event(EventKind.API_CALL, "cudaStreamSynchronize", at + 20 * US, at + 51 * US)
        capture.event(EventKind.OPERATOR, "aten::mul", at + 60 * US, at + 80 * US)
    (finding,) = [f for f in gaps_of(capture).findings if f.code == "refill"]
    # Three gaps are drained: in each 20 us of the operator, 5 us of the launch and 5 us until it runs.
    assert finding.cost_ns == 3 * 30 * US
    assert "3 calls a step" in finding.text
    assert finding.text.endswith("mostly cudaStreamSynchronize in read_loss (a.py:9)")


def test_without_stacks_it_is_said_that_no_line_can_be_named(gaps_of):
    capture = Capture().launch(0, 5, 1).kernel(10, 20, 1).launch(2000, 2005, 2).kernel(2010, 2020, 2)
    texts = [f.text for f in gaps_of(capture).findings]
    assert any("no Python stacks were recorded on rank 0" in text and "howto torch" in text for text in texts)
    assert not any("outside of code of yours" in text for text in texts)


def test_a_device_that_only_copies_is_not_called_busy(gaps_of):
    capture = Capture().launch(0, 5, 1, "cudaMemcpyAsync").copy(10, 1000, 1, CopyKind.HTOD)
    capture.launch(900, 905, 2).kernel(1000, 1100, 2)
    (finding,) = gaps_of(capture).findings
    assert "compute kernels only for 9.2 % of it" in finding.text


def test_under_that_matches_nothing_is_said(gaps_of):
    answer = gaps_of(stepped(), under="nosuchframe")
    assert any("nosuchframe" in warning for warning in answer.warnings)


def test_shares_under_a_frame_are_of_all_idle_time(gaps_of):
    capture = Capture().launch(0, 5, 1).kernel(10, 20, 1)
    capture.event(EventKind.PYTHON_FRAME, "a.py(3): load", 20, 45)
    capture.launch(120, 120, 2).kernel(120, 130, 2)
    answer = gaps_of(capture, under="load", by="function")
    assert [row["share"] for row in answer.causes.rows()] == [0.25]
    assert [row["share"] for row in answer.table("by").rows()] == [0.25]


def test_a_step_that_the_window_cuts_is_no_step_to_count(tmp_path):
    capture = Capture().launch(0, 5, 1).kernel(5, 100, 1)
    for step in range(3):
        at = 1000 * step + 100
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{step}", at, at + 1000)
        capture.launch(at + 400, at + 410, 2 + step).kernel(at + 410, at + 900, 2 + step)
    # Device steps: 100 to 1000, 1000 to 2000, 2000 to 3000; the file's first operation starts at 5.
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as opened:
        rows = opened.steps(window="0:0.000002595").steps.rows()
        blames = opened.gaps(window="0:0.000002595").blames.rows()
    assert [(row["step"], row["incomplete"]) for row in rows] == [(0, False), (1, False), (2, True)]
    assert {row["n_steps"] for row in blames} == {2}


def test_ranges_are_those_of_the_selected_steps_or_the_part_in_the_window(tmp_path):
    capture = Capture().launch(0, 5, 1).kernel(5, 100, 1)
    for step in range(3):
        at = 1000 * step + 100
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{step}", at, at + 1000)
        capture.event(EventKind.RANGE, "forward", at, at + 300)
        capture.launch(at + 400, at + 410, 2 + step).kernel(at + 410, at + 900, 2 + step)
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as opened:
        (of_steps,) = opened.ranges(steps="1-2").ranges.rows()
        (of_window,) = opened.ranges(window="0:0.000001195").ranges.rows()
    assert (of_steps["calls"], of_steps["host_ns"]) == (2, 600)
    assert (of_window["calls"], of_window["host_ns"]) == (2, 400)  # to 1200: the second has run for 100


def test_steps_that_last_longer_than_in_another_recording_are_said(tmp_path):
    def capture(length):
        out = Capture()
        for step in range(3):
            out.event(EventKind.STEP_MARK, f"ProfilerStep#{step}", step * length, (step + 1) * length)
            out.launch(step * length + 10, step * length + 15, step).kernel(
                step * length + 20, step * length + 90, step
            )
        return out

    path = store_of(tmp_path / "s.duckdb", capture(1000))
    with traceanalyzer.open(store_of(path, capture(1300), source="nsys")) as opened:
        found = {r["capture"]: r for r in opened.info().fitness.rows() if r["check"] == "slower_steps"}
    assert {capture: row["state"] for capture, row in found.items()} == {0: "fine", 1: "problem"}
    assert found[1]["text"].endswith("recording may slow the host and its steps by 30 %")
