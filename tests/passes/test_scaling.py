"""Scaling: efficiency of measured throughputs and of runs, and what the rest of a step goes to, worked out by hand."""

import pytest

import traceanalyzer
from tests.support.real_traces import MISSING, TRUTH
from tests.support.store_builder import Capture, empty_store, store_of
from traceanalyzer.errors import UsageError
from traceanalyzer.ingestion import ingest
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.schema.sink import CaptureFacts


def rank(lengths, idle=1_000, communication=0):
    """Steps of these lengths on the device: idle, then compute, then communication. A kernel in flight is before.

    The first step begins where that kernel ends, so that it is a whole one. Of the idle time 10 ns are the launch.
    """
    capture, at = Capture().kernel(-500, 0), 0
    for number, length in enumerate(lengths):
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{number}", at, at + length)
        capture.launch(at, at + 10, 2 * number + 1).launch(at + 10, at + 20, 2 * number + 2)
        capture.kernel(at + idle, at + length - communication, 2 * number + 1)
        if communication:
            capture.kernel(at + length - communication, at + length, 2 * number + 2, "ncclDevKernel_AllReduce")
        at += length
    return capture


ONE = (rank([10_000] * 3),)
TWO = (rank([12_000] * 3), rank([14_000] * 3, 2_000, 3_000))
"""Rank 1 is the slower one: 2 us idle, 9 us of compute, 3 us of communication."""


@pytest.fixture
def asked(tmp_path):
    """`scaling` of a store with these runs."""

    def ask(runs, **selection):
        path = tmp_path / "s.duckdb"
        for name, captures in runs.items():
            store_of(path, *captures, run=name)
        with traceanalyzer.open(path) as traces:
            return traces.scaling(**selection)

    return ask


def told(answer, *columns):
    return [tuple(row[name] for name in columns) for row in answer.scaling.rows()]


def lost_of(answer, ranks):
    return {row["category"]: row["lost_ns"] for row in answer.lost.rows() if row["ranks"] == ranks}


def about(answer, words):
    return [text for text in answer.warnings if words in text]


def test_runs_are_compared_by_the_step_of_their_slowest_rank(asked):
    answer = asked({"one": ONE, "two": TWO})
    assert told(answer, "ranks", "run", "step_ns") == [(1, "one", 10_000), (2, "two", 14_000)]
    # 1 / 10 us, and 2 / 14 us to nine digits.
    assert told(answer, "throughput") == [(100_000.0,), (142_857.143,)]
    assert [r["efficiency"] for r in answer.scaling.rows()] == [1.0, pytest.approx(10 / 14, abs=1e-12)]
    assert [r["lost_share"] for r in answer.scaling.rows()] == [0.0, pytest.approx(4 / 14, abs=1e-12)]
    assert about(answer, "weak scaling") and answer.notes == ["run one, two"]


def test_what_is_lost_adds_up_to_what_a_step_takes_longer(asked):
    answer = asked({"one": ONE, "two": TWO})
    assert lost_of(answer, 2) == {
        "communication_unresolved": 3_000,
        "idle:launch_latency": 1_000,
        "compute": 0,
        "idle:launch_call": 0,
    }
    assert next(iter(lost_of(answer, 2))) == "communication_unresolved"
    assert sum(lost_of(answer, 2).values()) == 14_000 - 10_000


def test_low_efficiency_is_a_finding_with_what_grows_most(asked):
    (finding,) = asked({"one": ONE, "two": TWO}).findings
    assert (finding.code, finding.rank, finding.cost_ns) == ("low_scaling_efficiency", None, 4_000)
    assert finding.text == (
        "2 ranks reach 71.4 % of 2 x the throughput of 1 rank: a step takes 14.000 us in run two, and 10.000 us in run"
        " one; what grows most is communication_unresolved, by 3.000 us a step"
    )


@pytest.mark.parametrize(("length", "findings"), [(12_500, 0), (12_501, 1)])
def test_80_percent_is_enough(asked, length, findings):
    answer = asked({"one": ONE, "two": (rank([length] * 3), rank([length] * 3))})
    assert len(answer.findings) == findings


def test_medians_and_means_differ_by_the_rest(asked):
    # The median of two ranks is 12 us, the mean 14 us: 17 - 1, 11 - 1 and 11 - 1 us of compute are 13 us on average.
    answer = asked({"one": ONE, "two": (rank([12_000, 12_000, 18_000]),) * 2})
    assert told(answer, "ranks", "step_ns") == [(1, 10_000), (2, 12_000)]
    assert lost_of(answer, 2) == {"compute": 4_000, "idle:launch_call": 0, "idle:launch_latency": 0, "rest": -2_000}
    assert list(lost_of(answer, 2))[-1] == "rest"


def test_warm_up_and_incomplete_steps_do_not_count(asked):
    slow_start = rank([90_000, 10_000, 10_000])
    cut = rank([30_000, 10_000, 10_000])
    del cut.ops[0]
    for runs in ({"one": (slow_start,), "two": TWO}, {"one": (cut,), "two": TWO}):
        answer = asked(runs)
        assert told(answer, "ranks", "step_ns")[0] == (1, 10_000)
        assert lost_of(answer, 2)["compute"] == 0
    answer = asked({}, warmup=0, run="all")
    assert told(answer, "step_ns")[0] == (10_000,)


def test_steps_can_be_chosen(asked):
    answer = asked({"one": (rank([10_000, 20_000, 20_000]),), "two": (rank([20_000] * 3),) * 2}, steps="1-2")
    assert told(answer, "step_ns", "efficiency") == [(20_000, 1.0), (20_000, 1.0)]
    assert set(lost_of(answer, 2).values()) == {0}


def test_of_several_runs_the_fastest_is_taken_and_said(asked):
    answer = asked({"one": ONE, "slow": (rank([30_000] * 3),), "two": TWO, "again": ONE})
    assert told(answer, "ranks", "run") == [(1, "one"), (2, "two")]
    assert about(answer, "several") == ["several runs have 1 rank: one, the fastest, is taken, not slow, again"]


def test_without_one_rank_the_fewest_are_the_base(asked):
    answer = asked({"two": (rank([10_000] * 3),) * 2, "four": (rank([20_000] * 3),) * 4})
    assert told(answer, "ranks", "efficiency") == [(2, 1.0), (4, 0.5)]
    assert len(about(answer, "there is no throughput of 1 rank: efficiency is the throughput per rank beside")) == 1
    assert answer.findings[0].text.startswith("4 ranks reach 50.0 % of 4/2 of the throughput of 2 ranks: a step takes")


def test_ranks_that_are_missing_still_count(tmp_path):
    path = store_of(tmp_path / "s.duckdb", *ONE, run="one")
    store_of(path, rank([20_000] * 3), run="eight", facts=CaptureFacts(world_size=8))
    with traceanalyzer.open(path) as traces:
        answer = traces.scaling()
    assert told(answer, "ranks", "efficiency") == [(1, 1.0), (8, 0.5)]
    assert about(answer, "run eight holds 1 of 8 ranks and counts with 8")


def test_ranks_of_a_run_are_all_of_them_whatever_is_selected(asked):
    answer = asked({"one": ONE, "two": TWO}, rank="0")
    assert told(answer, "ranks", "step_ns") == [(1, 10_000), (2, 12_000)]


def test_less_work_of_a_rank_is_said(asked):
    # Half the work of each: half the compute, so this is no weak scaling.
    answer = asked({"one": ONE, "two": (rank([5_500] * 3),) * 2})
    assert about(answer, "with 2 ranks a rank computes 4.500 us a step, and with 1 9.000 us")
    assert not about(asked({"three": (rank([9_000] * 3),) * 3}), "with 3 ranks")


def test_runs_that_tell_nothing_are_left_out_and_said(asked):
    unmarked = Capture().launch(0, 5, 1).kernel(5, 10, 1)
    host_only = Capture().launch(0, 5, 1)
    once = rank([10_000])
    del once.ops[0]
    runs = {"unmarked": (unmarked,), "host": (host_only,), "once": (once,)}
    answer = asked(runs | {"one": ONE, "two": TWO})
    assert told(answer, "run") == [("one",), ("two",)]
    assert [text for text in answer.warnings if "left out" in text] == [
        "run unmarked is left out: no steps: the trace has no ProfilerStep marks, and no range named step or iteration;"
        " give --step-range",
        "run host is left out: no device operation of it is selected",
        "run once is left out: none of its steps counts; `traceanalyzer steps` lists them, and --warmup 0 leaves fewer"
        " out",
    ]


def test_steps_that_interleave_are_said_once_a_run(asked):
    def beside():
        capture = Capture()
        for number in range(3):
            at = 100 * number
            capture.event(EventKind.STEP_MARK, f"ProfilerStep#{number}", at, at + 100)
            capture.launch(at, at + 5, number + 1).kernel(at + 50, at + 190, number + 1, stream=number)
        return capture

    (said,) = about(asked({"two": (beside(), beside())}), "interleaves")
    assert said.startswith("run two: rank 0, device 0: work of neighbouring") and said.endswith("(and 1 more like it)")


def test_one_run_alone_has_nothing_to_compare_with(asked):
    answer = asked({"one": ONE})
    assert told(answer, "ranks", "efficiency", "lost_share", "step_ns") == [(1, None, None, 10_000)]
    assert (len(answer.lost), answer.findings) == (0, [])
    assert about(answer, "run one alone has nothing to compare with; ingest a run of another number of ranks")
    named = asked({"two": TWO}, run="two")
    assert told(named, "ranks") == [(2,)]
    assert about(named, "run two alone has nothing to compare with; --run all compares all runs of the store")
    # Nothing is compared, so nothing is said of what comparing rests on.
    assert not about(named, "weak scaling") and not about(named, "1 rank:")


def test_runs_of_equal_ranks_have_nothing_to_compare_with(asked):
    answer = asked({"a": ONE, "b": ONE})
    assert about(answer, "all runs have 1 rank: there is nothing to compare; ingest")
    assert told(answer, "run") == [("a",)]


def test_an_empty_store_and_one_without_steps_are_answered(asked):
    with traceanalyzer.open(empty_store()) as traces:
        assert len(traces.scaling().scaling) == 0
        assert about(traces.scaling(), "no device operations in what is selected")
    answer = asked({"unmarked": (Capture().launch(0, 5, 1).kernel(5, 10, 1),)})
    assert about(answer, "no run has a step that counts") and len(answer.scaling) == 0


def test_sql_knows_both_tables(asked, tmp_path):
    asked({"one": ONE, "two": TWO})
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        rows = list(
            traces.sql(
                "SELECT s.ranks, sum(lost_ns) AS ns FROM scaling s JOIN lost USING (ranks) GROUP BY 1"
            ).rows.rows()
        )
    assert rows == [{"ranks": 2, "ns": 4_000}]


@pytest.fixture
def logged(tmp_path):
    """`scaling` of a store with these runs, and with these training logs in them."""

    def ask(runs, logs, **selection):
        path = tmp_path / "s.duckdb"
        for name, captures in runs.items():
            store_of(path, *captures, run=name)
        for number, (name, text) in enumerate(logs):
            log = tmp_path / f"train{number}.csv"
            log.write_text(text)
            ingest([log], path, run=name)
        with traceanalyzer.open(path) as traces:
            return traces.scaling(run="all", **selection)

    return ask


def log_of(rates, ranks=None):
    """A log with these samples per second, and the number of ranks."""
    text = "step,samples_per_second" + (",world_size\n" if ranks else "\n")
    return text + "".join(f"{n},{rate}{f',{ranks}' if ranks else ''}\n" for n, rate in enumerate(rates))


def test_samples_of_a_step_make_samples_per_second(asked):
    answer = asked({"one": ONE, "two": TWO}, samples_per_step=32)
    # 32 in 10 us and in 14 us: the step that is longer with two ranks brings no gain at all.
    assert told(answer, "ranks", "throughput", "step_ns") == [(1, 3.2e6, 10_000), (2, 2285714.29, 14_000)]
    assert [r["efficiency"] for r in answer.scaling.rows()] == [1.0, pytest.approx(10 / 14 / 2)]
    assert about(answer, "32 samples in a step of each run") and not about(answer, "weak scaling")
    assert sum(lost_of(answer, 2).values()) == 4_000


def test_logs_that_every_run_has_are_compared(logged):
    logs = [("one", log_of([10, 100, 102])), ("two", log_of([150, 153, 20]))]
    answer = logged({"one": ONE, "two": TWO}, logs)
    assert told(answer, "ranks", "throughput", "run", "step_ns") == [
        (1, 100.0, "one", 10_000),
        (2, 150.0, "two", 14_000),
    ]
    assert [r["efficiency"] for r in answer.scaling.rows()] == [1.0, 0.75]
    assert about(answer, "what training logs tell") and not about(answer, "weak scaling")
    assert sum(lost_of(answer, 2).values()) == 4_000
    assert "75.0 % of 2 x the throughput of 1 rank: a step takes 14.000 us" in answer.findings[0].text


def test_samples_and_times_of_steps_make_a_rate(logged):
    slow = "step,step_time_ms,samples,world_size\n0,900,32,1\n1,200,32,1\n2,250,32,1\n3,160,32,1\n"
    answer = logged({}, [("one", slow), ("two", log_of([200, 200, 200], 2))], steps="1-3")
    assert told(answer, "ranks", "throughput", "run", "step_ns") == [(1, 160.0, "one", None), (2, 200.0, "two", None)]
    assert [r["efficiency"] for r in answer.scaling.rows()] == [1.0, 0.625]
    assert answer.findings[0].text == "2 ranks reach 62.5 % of 2 x the throughput of 1 rank"
    assert list(answer.lost.rows()) == []


def test_warm_up_of_a_log_can_be_left_out(logged):
    answer = logged({}, [("one", log_of([1, 1, 100], 1)), ("two", log_of([1, 1, 150], 2))], warmup=2)
    assert told(answer, "throughput") == [(100.0,), (150.0,)]


def test_steps_are_compared_where_a_run_has_no_log(logged):
    answer = logged({"one": ONE, "two": TWO}, [("two", log_of([150, 150]))])
    assert told(answer, "throughput") == [(100_000.0,), (142_857.143,)]
    assert about(answer, "not every run has a training log with a throughput") and about(answer, "weak scaling")


def test_a_log_that_tells_no_ranks_is_left_out_and_said(logged):
    answer = logged({}, [("one", log_of([100], 1)), ("two", log_of([150]))])
    assert told(answer, "ranks", "run") == [(1, "one")]
    assert about(answer, "run two is left out: its training log does not tell how many ranks it has")
    assert about(answer, "samples per second")


def times_of(seconds, ranks=None):
    """A log with these times of steps, and the number of ranks, but without samples."""
    text = "step,step_time_s,loss" + (",world_size\n" if ranks else "\n")
    return text + "".join(f"{n},{t},2.5{f',{ranks}' if ranks else ''}\n" for n, t in enumerate(seconds))


def test_samples_that_are_given_count_by_the_step_times_of_a_log(logged):
    logs = [("one", times_of([0.5, 0.5, 0.4], 1)), ("two", times_of([0.5, 0.8, 0.8], 2))]
    answer = logged({}, logs, samples_per_step=64)
    # 64 in 0.5 s are 128 a second, and in 0.8 s 80: two ranks are slower than one, 80 / (2 x 128).
    assert told(answer, "ranks", "throughput", "efficiency") == [(1, 128.0, 1.0), (2, 80.0, 0.3125)]
    assert about(answer, "64 samples in a step of each run")
    assert not told(logged({}, [], steps="0-2"), "ranks")


def test_a_log_that_counts_its_samples_is_not_switched_off_by_the_option(logged):
    logs = [("one", log_of([10, 100, 102], 1)), ("two", times_of([0.4, 0.4], 2))]
    answer = logged({}, logs, samples_per_step=64)
    assert told(answer, "ranks", "throughput") == [(1, 100.0), (2, 160.0)]
    (text,) = about(answer, "samples per second")
    assert "of one the median of what training logs tell themselves, else 64 samples in a step" in text


def test_device_steps_come_before_the_step_times_of_a_log(logged):
    logs = [("one", times_of([0.5, 0.5])), ("two", times_of([0.8, 0.8]))]
    answer = logged({"one": ONE, "two": TWO}, logs, samples_per_step=32)
    assert told(answer, "ranks", "throughput") == [(1, 3.2e6), (2, 2285714.29)]


def test_a_trace_of_the_run_tells_the_ranks_of_a_log(logged, tmp_path):
    no_steps = Capture().launch(0, 10, 1).kernel(20, 1_000, 1)
    store_of(tmp_path / "s.duckdb", no_steps, run="two", facts=CaptureFacts(rank=0, world_size=4))
    answer = logged({}, [("one", log_of([100], 1)), ("two", log_of([300]))])
    assert told(answer, "ranks", "throughput", "efficiency") == [(1, 100.0, 1.0), (4, 300.0, 0.75)]


def test_several_logs_of_a_run_do_not_count(logged):
    logs = [("one", log_of([100, 100])), ("one", log_of([90, 90])), ("two", log_of([150, 150]))]
    answer = logged({"one": ONE, "two": TWO}, logs)
    assert told(answer, "throughput") == [(100_000.0,), (142_857.143,)]
    assert about(answer, "run one has 2 training logs that tell a throughput")


@pytest.mark.parametrize("given", [0, -1, "x", 1.5])
def test_samples_of_a_step_are_a_number(asked, given):
    with pytest.raises(UsageError, match="--samples-per-step"):
        asked({"one": ONE}, samples_per_step=given)


def of_file(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    return traceanalyzer.scaling_of_file(path)


def test_measured_throughputs_are_compared(tmp_path):
    answer = of_file(tmp_path, "ranks,throughput\n8,560\n1,100\n2,180.5\n")
    assert told(answer, "ranks", "throughput", "run", "step_ns") == [
        (1, 100.0, None, None),
        (2, 180.5, None, None),
        (8, 560.0, None, None),
    ]
    assert [r["efficiency"] for r in answer.scaling.rows()] == [1.0, pytest.approx(0.9025), pytest.approx(0.7)]
    assert [f.text for f in answer.findings] == ["8 ranks reach 70.0 % of 8 x the throughput of 1 rank"]
    assert answer.warnings == [] and list(answer.tables) == ["scaling"]


def test_80_percent_of_decimals_is_enough(tmp_path):
    assert (1.68 / 3) / 0.7 < 0.8  # by a hair, as floats have it
    assert of_file(tmp_path, "ranks,throughput\n1,0.7\n3,1.68\n").findings == []
    assert len(of_file(tmp_path, "ranks,throughput\n1,0.7\n3,1.679\n").findings) == 1


def test_measured_throughputs_without_one_rank(tmp_path):
    answer = of_file(tmp_path, "ranks,throughput\n16,1200\n8,800\n")
    assert told(answer, "ranks", "efficiency") == [(8, 1.0), (16, 0.75)]
    assert answer.warnings == [
        "there is no throughput of 1 rank: efficiency is the throughput per rank beside that of 8 ranks, the fewest"
        " there are"
    ]
    assert answer.findings[0].text == "16 ranks reach 75.0 % of 16/8 of the throughput of 8 ranks"


def test_one_measured_throughput_has_nothing_to_compare_with(tmp_path):
    answer = of_file(tmp_path, "ranks,throughput\n4,100\n")
    assert told(answer, "ranks", "throughput", "efficiency") == [(4, 100.0, None)]
    assert answer.warnings == ["4 ranks alone: add a row of another number of ranks to compare with"]


@pytest.mark.skipif("scaling" not in TRUTH, reason=MISSING)
def test_throughputs_that_were_measured_give_the_efficiency_that_was(tmp_path):
    truth = TRUTH["scaling"]
    one, two = truth["samples_per_s_1_rank"], truth["samples_per_s_2_ranks"]
    assert TRUTH["workloads"][truth["model"]]["unprofiled"]["rank0"]["samples_per_s_all_ranks"] == two
    rows = list(of_file(tmp_path, f"ranks,throughput\n1,{one}\n2,{two}\n").scaling.rows())
    assert rows[0]["efficiency"] == 1.0
    assert rows[1]["efficiency"] == pytest.approx(truth["efficiency"], abs=5e-5)
    assert round(rows[1]["efficiency"], 3) == 0.926
