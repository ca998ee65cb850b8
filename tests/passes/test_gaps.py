"""Gaps, causes, stacks, ledger and steps of hand-written timelines, against numbers worked out by hand."""

import pytest

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from traceanalyzer.schema.kinds import CopyKind, EventKind

US = 1_000


def asked(tmp_path, capture, question="gaps", **selection):
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as traces:
        return traces.ask(question, **selection)


def causes(answer):
    return {row["cause"]: row["idle_ns"] for row in answer.causes.rows()}


def only(frame):
    rows = list(frame.rows())
    assert len(rows) == 1
    return rows[0]


def test_span_is_busy_plus_idle_and_overlap_counts_once(tmp_path):
    capture = Capture().kernel(100, 200).kernel(150, 300).kernel(400, 450).kernel(420, 420)
    row = only(asked(tmp_path, capture).devices)
    assert (row["start_ns"], row["end_ns"], row["span_ns"]) == (100, 450, 350)
    assert (row["busy_ns"], row["idle_ns"], row["n_gaps"], row["n_ops"]) == (250, 100, 1, 4)


def test_zero_length_operations_split_no_gap(tmp_path):
    capture = Capture().kernel(0, 10).kernel(20, 20).kernel(30, 40)
    answer = asked(tmp_path, capture)
    assert only(answer.devices)["n_gaps"] == 1
    assert only(answer.gaps)["duration_ns"] == 20


def test_a_gap_is_cut_at_every_event_of_the_launching_thread(tmp_path):
    capture = (
        Capture()
        .kernel(0, 1000, 1)
        .launch(0, 100, 1)
        .event(EventKind.PYTHON_FRAME, "/home/me/train.py(10): main", 0, 9000)
        .event(EventKind.PYTHON_FRAME, "/home/me/train.py(88): load_batch", 1500, 4000)
        .event(EventKind.OPERATOR, "aten::mm", 5000, 8000)
        .launch(6000, 7000, 2)
        .kernel(7500, 8500, 2)
    )
    answer = asked(tmp_path, capture)
    # [1000, 1500) main, [1500, 4000) load_batch, [4000, 5000) main, [5000, 6000) aten::mm, [6000, 7000) the launch,
    # [7000, 7500) its latency.
    assert causes(answer) == {
        "python": 500 + 2500 + 1000,
        "framework": 1000,
        "launch_call": 1000,
        "launch_latency": 500,
    }
    stacks = {tuple(r["stack"]): r for r in answer.stacks.rows() if r["cause"] == "python"}
    loading = stacks["main (train.py:10)", "load_batch (train.py:88)"]
    assert (loading["idle_ns"], loading["n_pieces"], loading["blame"]) == (2500, 1, "load_batch (train.py:88)")
    assert stacks[("main (train.py:10)",)]["n_pieces"] == 2
    gap = only(answer.gaps)
    assert (gap["cause"], gap["stack"][-1], gap["thread"]) == ("python", "load_batch (train.py:88)", 1)
    assert (gap["previous_op"], gap["next_op"]) == ("gemm", "gemm")


def test_the_launch_that_began_first_counts_where_operations_start_together(tmp_path):
    capture = (
        Capture()
        .kernel(0, 100)
        .kernel(1000, 1100, 5, "late")
        .kernel(1000, 1200, 4, "early")
        .launch(800, 900, 5, thread=1)
        .launch(500, 600, 4, thread=2)
    )
    answer = asked(tmp_path, capture)
    assert only(answer.gaps)["thread"] == 2
    assert only(answer.gaps)["next_op"] == "early"


def test_work_queued_long_before_is_a_gap_of_the_device(tmp_path):
    capture = (
        Capture().kernel(10 * US, 20 * US, 1).launch(0, US, 1).launch(2 * US, 3 * US, 2).kernel(60 * US, 70 * US, 2)
    )
    assert causes(asked(tmp_path, capture)) == {"device_gap": 20 * US, "device_wait": 20 * US}


def test_latency_after_a_launch_is_at_most_20_us(tmp_path):
    capture = Capture().kernel(0, US, 1).launch(0, 100, 1).launch(10 * US, 11 * US, 2).kernel(50 * US, 60 * US, 2)
    assert causes(asked(tmp_path, capture)) == {
        "outside_events": 9 * US,
        "launch_call": US,
        "launch_latency": 20 * US,
        "device_wait": 19 * US,
    }


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        ("cudaDeviceSynchronize", "sync"),
        ("cudaStreamSynchronize_v3020", "sync"),
        ("cudaEventQuery", "api_call"),
        ("cudaStreamWaitEvent", "api_call"),
        ("hipFree", "memory_management"),
        ("cuMemAlloc_v2", "memory_management"),
        ("cudaHostRegister", "memory_management"),
        ("cuModuleLoadData", "module_load"),
        ("cuLibraryLoadData", "module_load"),
        ("cudaLaunchKernelExC", "launch_call"),
        ("hipGraphLaunch", "launch_call"),
        ("cudaMemsetAsync", "launch_call"),
        ("cudaGetDevice", "api_call"),
    ],
)
def test_the_innermost_call_decides(tmp_path, call, cause):
    capture = (
        Capture()
        .kernel(0, 100, 1)
        .launch(0, 50, 1)
        .launch(100, 1100, 9, call)
        .launch(1100, 1100, 2)
        .kernel(1100, 1200, 2)
    )
    assert causes(asked(tmp_path, capture)) == {cause: 1000}


def test_a_blocking_read_back_waits_and_then_copies(tmp_path):
    # The copy call of [1000, 9000) blocks until its own device part begins at 5000, then copies pageable memory.
    capture = (
        Capture()
        .kernel(0, 2000, 1)
        .launch(0, 100, 1)
        .launch(1000, 9000, 2, "cudaMemcpyAsync")
        .copy(5000, 5500, 2, CopyKind.DTOH, pageable=True)
        .launch(9000, 9100, 3)
        .kernel(9100, 9200, 3)
    )
    answer = asked(tmp_path, capture)
    # gap [2000, 5000): the next operation is the copy itself, its launch began before: the device's own gap.
    # gap [5500, 9100): inside the copy call until 9000, after its device part began.
    assert causes(answer) == {"launch_call": 100, "host_copy": 3500 + 3000}


def test_data_loading_decides_for_what_runs_inside_it(tmp_path):
    capture = (
        Capture()
        .kernel(0, 100, 1)
        .launch(0, 50, 1)
        .event(EventKind.RANGE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 2000)
        .event(EventKind.PYTHON_FRAME, "data.py(3): decode_image", 200, 1900)
        .event(EventKind.OPERATOR, "aten::stack", 1000, 1500)
        .launch(2000, 2100, 2)
        .kernel(2100, 2200, 2)
    )
    answer = asked(tmp_path, capture)
    assert causes(answer) == {"input_wait": 1900, "launch_call": 100}
    assert {r["stack"][-1] for r in answer.stacks.rows()} >= {"aten::stack", "decode_image (data.py:3)"}


def test_the_profilers_own_work_decides_whatever_began_later(tmp_path):
    capture = (
        Capture()
        .kernel(0, 100, 1)
        .launch(0, 50, 1)
        .event(EventKind.PYTHON_FRAME, "train.py(1): main", 0, 5000)
        .event(EventKind.OVERHEAD, "Buffer Flush", 500, 800, thread=None)
        .event(EventKind.OVERHEAD, "dlopen(libcudnn.so)", 1000, 1100)
        .launch(2000, 2100, 2)
        .kernel(2100, 2200, 2)
    )
    assert causes(asked(tmp_path, capture)) == {
        "python": 1900 - 400,
        "profiler": 300,
        "module_load": 100,
        "launch_call": 100,
    }


def test_operations_launched_before_recording_are_said_to_be(tmp_path):
    capture = Capture().kernel(0, 100).kernel(500, 600).kernel(5000, 5100).launch(2000, 2100, 7).kernel(6000, 7000, 7)
    answer = asked(tmp_path, capture)
    # [100, 500) is before the first call; [600, 5000) is cut by it at 2000; [5100, 6000) is after it.
    rows = {(r["cause"], r["reason"]): r["idle_ns"] for r in answer.causes.rows()}
    assert rows == {("unattributed", "launched before recording"): 400 + 1400, ("device_gap", None): 3000 + 900}


def test_streams_without_any_launch_are_not_attributed(tmp_path):
    capture = Capture().kernel(0, 100).kernel(500, 600).launch(10, 20, 99)
    row = only(asked(tmp_path, capture).causes)
    assert (row["cause"], row["reason"], row["idle_ns"]) == ("unattributed", "launch not recorded", 400)


def test_compute_lane_charges_what_else_ran(tmp_path):
    capture = (
        Capture()
        .kernel(0, 100, 1)
        .kernel(100, 300, 2, "ncclDevKernel_AllReduce")
        .copy(250, 400, 3, CopyKind.HTOD)
        .kernel(500, 600, 4)
    )
    row = only(asked(tmp_path, capture, lane="compute").devices)
    assert (row["idle_ns"], row["compute_ns"], row["communication_ns"], row["copy_ns"]) == (400, 200, 200, 150)


def test_compute_lane_causes(tmp_path):
    capture = (
        Capture()
        .kernel(0, 100, 1)
        .kernel(100, 300, 2, "ncclDevKernel_AllReduce")
        .copy(250, 400, 3, CopyKind.HTOD)
        .kernel(500, 600, 4)
    )
    answer = asked(tmp_path, capture, lane="compute")
    assert causes(answer) == {"communication_only": 200, "copy_only": 100, "unattributed": 100}
    assert only(answer.gaps)["duration_ns"] == 400


def test_ledger_puts_every_nanosecond_into_one_category(tmp_path):
    capture = (
        Capture()
        .kernel(0, 100, 1)
        .kernel(50, 300, 2, "ncclDevKernel_AllReduce")
        .copy(250, 400, 3, CopyKind.HTOD)
        .kernel(500, 600, 4)
    )
    answer = asked(tmp_path, capture, "ledger")
    totals = {r["category"]: r["ns"] for r in answer.totals.rows()}
    assert totals == {"compute": 200, "communication_unresolved": 200, "copy": 100, "idle:unattributed": 100}


def steps_capture():
    """Two steps; in each two kernels, the first after a gap. Launches run ahead of the device."""
    capture = Capture()
    for k in range(3):
        base = 10_000 * k
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{k + 4}", base, base + 9_000)
        capture.launch(base + 1_000, base + 1_100, 2 * k + 1).kernel(base + 2_000, base + 4_000, 2 * k + 1)
        capture.launch(base + 1_200, base + 1_300, 2 * k + 2).kernel(base + 4_000, base + 11_000, 2 * k + 2)
    return capture


def test_steps_of_host_and_device(tmp_path):
    rows = list(asked(tmp_path, steps_capture(), "steps").steps.rows())
    assert [(r["step"], r["start_ns"], r["end_ns"]) for r in rows] == [
        (4, 0, 10_000),
        (5, 10_000, 20_000),
        (6, 20_000, 29_000),
    ]
    # Device step 5 begins with the gap before its first operation at 11,000; so does 6; the last ends with its last op.
    assert [(r["device_start_ns"], r["device_end_ns"]) for r in rows] == [
        (2_000, 11_000),
        (11_000, 21_000),
        (21_000, 31_000),
    ]
    assert [(r["busy_ns"], r["idle_ns"], r["warmup"]) for r in rows] == [
        (9_000, 0, False),
        (9_000, 1_000, False),
        (9_000, 1_000, False),
    ]


def test_a_first_step_with_nothing_before_it_is_incomplete_and_left_out_of_rates(tmp_path):
    answer = asked(tmp_path, steps_capture(), "steps")
    assert [r["incomplete"] for r in answer.steps.rows()] == [True, False, False]
    (finding,) = answer.findings
    assert finding.cost_ns == 10_000
    assert finding.text.startswith("rank 0, device 0: 2 steps of 10.000 us on the device (median)")


def test_ledger_of_each_step_adds_up_to_its_device_step(tmp_path):
    rows = list(asked(tmp_path, steps_capture(), "ledger").ledger.rows())
    sums = {}
    for row in rows:
        sums[row["step"]] = sums.get(row["step"], 0) + row["ns"]
    assert sums == {4: 9_000, 5: 10_000, 6: 10_000}
    # The gap [11,000, 12,000) of step 5: 100 ns of its launch are left, then 900 ns of latency.
    assert {r["category"]: r["ns"] for r in rows if r["step"] == 5} == {
        "compute": 9_000,
        "idle:launch_call": 100,
        "idle:launch_latency": 900,
    }


def test_selected_steps_are_the_device_steps(tmp_path):
    answer = asked(tmp_path, steps_capture(), steps="5-6")
    row = only(answer.devices)
    # Step 5 begins with the gap before its first operation, as in `steps` and `ledger`.
    assert (row["start_ns"], row["end_ns"], row["idle_ns"], row["n_ops"]) == (11_000, 31_000, 2_000, 4)


def test_window_counts_from_the_first_operation_and_clips(tmp_path):
    capture = Capture().kernel(1_000, 2_000).kernel(3_000, 5_000).kernel(6_000, 7_000)
    row = only(asked(tmp_path, capture, window="0.0000005:0.000003").devices)
    assert (row["start_ns"], row["end_ns"], row["busy_ns"], row["idle_ns"], row["n_ops"]) == (
        1_500,
        4_000,
        1_500,
        1_000,
        2,
    )


def test_top_cuts_lists_and_no_totals(tmp_path):
    capture = Capture()
    for k in range(30):
        capture.kernel(100 * k, 100 * k + 50 + k)
    answer = asked(tmp_path, capture, top=3)
    assert [r["duration_ns"] for r in answer.gaps.rows()] == [50, 49, 48]
    assert only(answer.devices)["n_gaps"] == 29
    assert sum(r["idle_ns"] for r in answer.causes.rows()) == only(answer.devices)["idle_ns"]


def test_steps_marked_by_a_process_that_launches_nothing_hold_for_the_file(tmp_path):
    capture = Capture().launch(1_000, 1_100, 1).kernel(2_000, 3_000, 1)
    capture.events.append(
        {
            "kind": EventKind.STEP_MARK,
            "name": "ProfilerStep#3",
            "start_ns": 0,
            "end_ns": 9_000,
            "thread": 1,
            "process": 200,
        }
    )
    row = only(asked(tmp_path, capture, "steps").steps)
    assert (row["step"], row["device_duration_ns"]) == (3, 1_000)


def test_holding_the_interpreter_lock_alone_is_python(tmp_path):
    capture = (
        Capture()
        .kernel(0, 100, 1)
        .launch(0, 50, 1)
        .event(EventKind.GIL_HOLD, "Holding GIL", 200, 700)
        .event(EventKind.RANGE, "forward", 500, 600)
        .launch(1000, 1100, 2)
        .kernel(1100, 1200, 2)
    )
    # [100, 200) nothing, [200, 500) the lock, [500, 600) the range, [600, 700) the lock, [700, 1000) nothing
    assert causes(asked(tmp_path, capture)) == {
        "outside_events": 100 + 300,
        "python": 300 + 100,
        "range": 100,
        "launch_call": 100,
    }


def test_nothing_selected_is_said(tmp_path):
    store = store_of(tmp_path / "s.duckdb", steps_capture())
    with traceanalyzer.open(store) as traces:
        assert "no device step is among 90 to 99" in traces.gaps(steps="90-99").warnings[0]
        assert "no operation runs in the window" in traces.gaps(window="100:200").warnings[0]
        assert "no step is among 90 to 99; there are 4 to 6" in traces.steps(steps="90-99").warnings[0]
        with pytest.raises(traceanalyzer.UsageError, match="no operations on device 5; there are some on 0"):
            traces.gaps(device=5)
        with pytest.raises(traceanalyzer.UsageError, match=r"--user-code .*: not a regular expression"):
            traces.gaps(user_code="(")
        for bad in ({"device": "x"}, {"top": -1}, {"rank": "5-1"}, {"lane": "copy"}, {"nonsense": 1}):
            with pytest.raises(traceanalyzer.UsageError):
                traces.gaps(**bad)
        with pytest.raises(traceanalyzer.UsageError, match="no question 'foo'"):
            traces.ask("foo")
    with pytest.raises(traceanalyzer.StoreError, match="was closed"):
        traces.gaps()


def test_what_was_odd_in_a_file_stands_under_every_answer(tmp_path):
    import duckdb

    store = store_of(tmp_path / "s.duckdb", Capture().kernel(0, 10))
    with duckdb.connect(str(store)) as connection:
        connection.execute("INSERT INTO stored.quality VALUES (0, 'truncated', 1, 1, 'The file ends early.')")
        connection.execute("INSERT INTO stored.quality VALUES (0, 'some_info', 0, 1, 'Nothing to worry about.')")
    with traceanalyzer.open(store) as traces:
        for question in ("gaps", "ledger", "steps"):
            assert "rank0.json: The file ends early." in traces.ask(question).warnings
            assert not any("Nothing to worry" in w for w in traces.ask(question).warnings)
