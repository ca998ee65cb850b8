"""What idle time is summed up to: groups, blames, gains, what is under a frame, ranges, threads, fitness."""

import pytest

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from traceanalyzer.cli.render.stacks import as_folded, as_tree
from traceanalyzer.errors import UsageError
from traceanalyzer.schema.kinds import EventKind, OpKind

US = 1000
LOAD, MODEL = "train.py(7): load", "train.py(9): model"


def two_steps() -> Capture:
    """Two steps of 1000 us: 300 us in `load`, 100 us in `model`, each before a launch; then a kernel of 100 us.

    The kernel before the first step makes the first step a whole one.
    """
    capture = Capture().launch(0, 5 * US, 1).kernel(5 * US, 100 * US, 1)
    for step, at in enumerate((100 * US, 1100 * US)):
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{step}", at, at + 1000 * US)
        capture.event(EventKind.RANGE, "forward", at, at + 450 * US)
        capture.event(EventKind.PYTHON_FRAME, LOAD, at, at + 300 * US)
        capture.event(EventKind.PYTHON_FRAME, MODEL, at + 300 * US, at + 400 * US)
        capture.launch(at + 400 * US, at + 410 * US, 2 + step)
        capture.kernel(at + 410 * US, at + 1000 * US, 2 + step)
    return capture


@pytest.fixture
def traces(tmp_path):
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", two_steps())) as opened:
        yield opened


def test_blames_own_their_time_and_gain_it_a_step(traces):
    answer = traces.gaps()
    rows = {r["blame"]: r for r in answer.blames.rows()}
    load = rows["load (train.py:7)"]
    assert (load["idle_ns"], load["gain_ns"], load["n_steps"], load["cause"]) == (600 * US, 300 * US, 2, "python")
    assert rows["model (train.py:9)"]["gain_ns"] == 100 * US
    assert next(r["blame"] for r in answer.blames.rows()) == "load (train.py:7)"
    causes = {r["cause"]: r for r in answer.causes.rows()}
    assert (causes["python"]["gain_ns"], causes["launch_call"]["gain_ns"]) == (400 * US, 10 * US)
    assert sum(r["idle_ns"] for r in rows.values()) == answer.devices.columns["idle_ns"][0] == 820 * US


def test_warm_up_is_left_out_of_gains_not_of_totals(traces):
    rows = {r["blame"]: r for r in traces.gaps(warmup=1).blames.rows()}
    assert rows["load (train.py:7)"]["idle_ns"] == 600 * US
    assert (rows["load (train.py:7)"]["gain_ns"], rows["load (train.py:7)"]["n_steps"]) == (300 * US, 1)


def test_without_steps_there_is_no_gain(tmp_path):
    capture = Capture().kernel(0, 10, 1).launch(0, 5, 1).launch(1000, 1010, 2).kernel(1010, 1020, 2)
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as opened:
        answer = opened.gaps()
    assert {r["gain_ns"] for r in [*answer.causes.rows(), *answer.blames.rows()]} == {None}


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("cause", {"python": 800, "launch_call": 20}),
        ("function", {"load (train.py:7)": 600, "model (train.py:9)": 200, "cudaLaunchKernel": 20}),
        ("range", {"forward": 820}),
        ("thread", {"the main thread": 820}),
        ("step", {"0": 410, "1": 410}),
        ("rank", {"0": 820}),
        (
            "stack",
            {
                "forward > load (train.py:7)": 600,
                "forward > model (train.py:9)": 200,
                "forward > cudaLaunchKernel": 20,
            },
        ),
    ],
)
def test_groups_add_up(traces, by, expected):
    rows = list(traces.gaps(by=by).by.rows())
    got = {r["key"]: r["idle_ns"] for r in rows}
    if by == "thread":
        got = {"the main thread" if key.startswith("thread 1") else key: ns for key, ns in got.items()}
    assert got == {key: us * US for key, us in expected.items()}
    assert sum(r["share"] for r in rows) == pytest.approx(1)
    assert [r["idle_ns"] for r in rows] == sorted((r["idle_ns"] for r in rows), reverse=True)


def test_an_unknown_grouping_is_refused(traces):
    with pytest.raises(UsageError, match="--by colour: give cause, stack"):
        traces.gaps(by="colour")


def test_under_keeps_what_has_such_a_frame(traces):
    answer = traces.gaps(under=r"load \(train")
    assert [(r["blame"], r["idle_ns"]) for r in answer.blames.rows()] == [("load (train.py:7)", 600 * US)]
    assert [(r["cause"], r["idle_ns"]) for r in answer.causes.rows()] == [("python", 600 * US)]
    assert answer.devices.columns["idle_ns"] == [820 * US]
    assert len(answer.gaps) == 2
    assert len(traces.gaps(under="nothing like it").gaps) == 0


def test_folded_stacks_are_those_of_flame_graphs(traces):
    lines = as_folded(traces.gaps()).splitlines()
    assert lines == [
        "forward;cudaLaunchKernel;[launch_call] 20000",
        "forward;load (train.py:7);[python] 600000",
        "forward;model (train.py:9);[python] 200000",
    ]


def test_the_tree_adds_up_and_joins_what_calls_one_thing_only(traces):
    text = as_tree(traces.gaps(), 100)
    assert "820.000 us idle" in text
    assert "600.000 us 73.2 %  load (train.py:7) > [python]" in text
    assert "820.000 us 100.0 %  forward" in text


def test_findings_say_cost_step_place_and_spread(traces):
    text = traces.gaps().findings[0].text
    assert text.startswith("0.3 ms of 0.4 ms idle per step on rank 0 (30.0 % of the step): load (train.py:7), Python")
    assert "in 2 of 2 steps (0.3 to 0.3 ms)" in text


def test_a_busy_device_gives_no_alarm(tmp_path):
    capture = Capture().launch(0, 10, 1).kernel(10, 100_000, 1).launch(20, 30, 2).kernel(100_100, 200_000, 2)
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as opened:
        assert [f.code for f in opened.gaps().findings] == ["device_busy"]


def test_ranges_have_host_busy_and_idle_time(traces):
    (row,) = traces.ranges().ranges.rows()
    assert (row["range"], row["calls"], row["host_ns"], row["n_ops"]) == ("forward", 2, 900 * US, 2)
    assert (row["busy_ns"], row["idle_ns"]) == (1180 * US, 820 * US)


def test_ranges_count_what_a_thread_launches_for_one_that_waits(tmp_path):
    capture = (
        Capture()
        .event(EventKind.RANGE, "backward", 0, 1000, thread=1)
        .launch(100, 110, 1, thread=2)
        .kernel(200, 300, 1)
        .launch(2000, 2010, 2, thread=2)
        .kernel(2100, 2200, 2)
    )
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as opened:
        (row,) = opened.ranges().ranges.rows()
    assert (row["busy_ns"], row["n_ops"]) == (100, 1)


def test_ranges_without_any_are_said(tmp_path):
    capture = Capture().kernel(0, 10, 1).launch(0, 5, 1)
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as opened:
        answer = opened.ranges()
    assert len(answer.ranges) == 0
    assert any("no ranges" in warning for warning in answer.warnings)


def states(opened):
    return {r["check"]: r["state"] for r in opened.info().fitness.rows()}


def test_a_sound_capture_is_fit(traces):
    found = states(traces)
    assert {found[c] for c in ("device_records", "in_flight", "graphs", "streams", "steps")} == {"fine"}
    assert found["profiler_overhead"] == "could not look"
    assert not [w for w in traces.gaps().warnings if "info" in w]


def test_what_spoils_a_question_stands_before_its_answer(tmp_path):
    capture = Capture().launch(0, 5, 1).kernel(5, 10, 1).launch(10, 15, 2).launch(20, 25, 3)
    capture.ops.append({"kind": OpKind.GRAPH, "start_ns": 20, "end_ns": 90, "name": "graph"})
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as opened:
        found = states(opened)
        warnings = opened.gaps().warnings
        others = opened.streams().warnings
    assert (found["device_records"], found["graphs"]) == ("problem", "problem")
    assert warnings[0].partition(": ")[2].startswith("2 of 3 launches have no device record")
    assert any(": 1 graph launches were recorded without their nodes" in w for w in warnings)
    assert not any("graph launches" in w for w in others)


def test_a_driver_call_inside_of_a_runtime_call_is_the_same_launch(tmp_path):
    capture = Capture()
    for k in range(4):
        capture.launch(100 * k, 100 * k + 50, k + 1).launch(100 * k + 10, 100 * k + 40, k + 1, "cuLaunchKernel")
        capture.kernel(100 * k + 60, 100 * k + 70, k + 1)
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as opened:
        assert states(opened)["device_records"] == "fine"


def test_steps_in_which_nothing_was_launched_are_a_problem(tmp_path):
    capture = two_steps().event(EventKind.STEP_MARK, "ProfilerStep#2", 2100 * US, 2200 * US)
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as opened:
        assert states(opened)["steps"] == "problem"


def test_the_thread_that_holds_the_interpreter_lock_is_named(tmp_path):
    capture = Capture().launch(0, 5, 1).kernel(5, 1000, 1)
    capture.event(EventKind.GIL_WAIT, "Waiting for GIL", 1000, 3000)
    capture.event(EventKind.GIL_HOLD, "Holding GIL", 1000, 2500, thread=7)
    capture.event(EventKind.GIL_HOLD, "Holding GIL", 2500, 2600, thread=8)
    capture.event(EventKind.GIL_HOLD, "Holding GIL", 3000, 4000, thread=1)
    capture.launch(4000, 4010, 2).kernel(4010, 5000, 2)
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as opened:
        answer = opened.gaps()
    assert {r["cause"]: r["idle_ns"] for r in answer.causes.rows()} == {
        "gil_wait": 2000,
        "python": 1000,
        "launch_call": 10,
    }
    assert [(r["thread"], r["idle_ns"], r["share"]) for r in answer.lock.rows()] == [(7, 1500, 0.75), (8, 100, 0.05)]
    assert any("thread 7 holds it for 75 % of the time" in f.text for f in answer.findings)


def test_a_thread_that_waits_may_have_back_traces_of_its_own(tmp_path):
    capture = (
        Capture()
        .event(EventKind.RANGE, "backward", 0, 1000, thread=1)
        .event(EventKind.OS_CALL, "pthread_cond_wait", 10, 900, thread=1)
        .launch(0, 5, 1, thread=2)
        .kernel(5, 100, 1)
        .launch(500, 510, 2, thread=2)
        .kernel(510, 600, 2)
    )
    capture.events[1]["backtrace"] = ["main", "torch::wait(int)", "pthread_cond_wait"]
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as opened:
        stacks = {r["cause"]: (r["stack"], r["idle_ns"]) for r in opened.gaps().stacks.rows()}
        rows = opened.sql("SELECT frame FROM stack_nodes").rows
    assert stacks["framework"] == (["backward", "main", "torch::wait", "pthread_cond_wait"], 400)
    assert "torch::wait" in rows.columns["frame"]
