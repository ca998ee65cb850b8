"""Sampled metrics: roll-ups of hand-written samples, an oracle, and captures whose gaps are known."""

import random

import numpy as np
import pytest

import traceanalyzer
from tests.support.real_traces import MISSING, PUBLIC, TRACES, opened, rows
from tests.support.store_builder import Capture, store_of
from traceanalyzer.passes.limits.activity import Activity, Reading, reading_of, used
from traceanalyzer.passes.limits.sampled import LEAST_INSIDE, Series, Times, activity_of, alone
from traceanalyzer.schema.kinds import EventKind

SM, ISSUE, TENSOR = "SMs Active [Throughput %]", "SM Issue [Throughput %]", "Tensor Active [Throughput %]"
READ, WRITE = "DRAM Read Bandwidth [Throughput %]", "DRAM Write Bandwidth [Throughput %]"


def ask(tmp_path, *captures, **selection):
    store = store_of(tmp_path / f"{len(list(tmp_path.iterdir()))}.duckdb", *captures, source="nsys")
    with traceanalyzer.open(store) as traces:
        return traces.metrics(**selection)


def sampled():
    """Busy 0-400 and 600-1000; a sample each 100 ns from 0 to 900."""
    values = (90, 90, 90, 90, 10, 10, 50, 50, 70, 70)
    return (
        Capture()
        .kernel(0, 400, name="gemm")
        .kernel(600, 1000, name="add")
        .metric(SM, *((100 * k, v) for k, v in enumerate(values)))
    )


def test_busy_time_and_gaps_have_means_of_their_own(tmp_path):
    (row,) = ask(tmp_path, sampled()).rollup.rows()
    assert (row["busy_mean"], row["gaps_mean"], row["mean"]) == (75.0, 10.0, 62.0)
    assert (row["busy_samples"], row["gaps_samples"], row["n_samples"]) == (8, 2, 10)
    assert (row["busy_ns"], row["gaps_ns"], row["busy_covered_ns"], row["gaps_covered_ns"]) == (800, 200, 800, 200)
    assert (row["min"], row["max"], row["period_ns"], row["unit"]) == (10.0, 90.0, 100, "%")


def test_a_sample_at_an_edge_counts_where_nine_tenths_of_it_lie(tmp_path):
    # The gap is 395-605: the samples of 300 and 600 lie by 95 % in busy time, those of 400 and 500 in the gap.
    capture = Capture().kernel(0, 395).kernel(605, 1000)
    capture.metric(SM, *((100 * k, v) for k, v in enumerate((90, 90, 90, 90, 10, 10, 50, 50, 50, 50))))
    (row,) = ask(tmp_path, capture).rollup.rows()
    assert row["gaps_samples"] == 2 and row["gaps_mean"] == 10.0 and row["gaps_covered_ns"] == 200
    assert row["busy_samples"] == 8 and row["busy_covered_ns"] == 6 * 100 + 95 + 95
    assert row["busy_mean"] == pytest.approx((3 * 100 * 90 + 95 * 90 + 95 * 50 + 3 * 100 * 50) / 790)
    # A sample that lies half in each counts in neither.
    (half,) = ask(tmp_path, Capture().kernel(0, 50).kernel(100, 200).metric(SM, (0, 5), (100, 7))).rollup.rows()
    assert (half["busy_samples"], half["gaps_samples"]) == (1, 0)


def test_samples_that_are_missing_do_not_stand_for_the_time_without_them(tmp_path):
    capture = Capture().kernel(0, 1000).metric(SM, (0, 10), (100, 20), (200, None), (700, 40), (800, 40), (900, 40))
    (row,) = ask(tmp_path, capture).rollup.rows()
    # From 300 to 700 nothing was sampled; the sample of 200 has no value; the last one stands for a period.
    assert (row["busy_samples"], row["busy_covered_ns"]) == (5, 500)
    assert row["busy_mean"] == pytest.approx((10 + 20 + 3 * 40) / 5)


def test_by_step_and_by_range(tmp_path):
    capture = Capture()
    for k in range(3):
        at = 1000 * k
        capture.event(EventKind.STEP_MARK, f"step {k}", at, at + 900).event(EventKind.RANGE, "fwd", at, at + 200)
        capture.launch(at + 10, at + 20, 2 * k).launch(at + 300, at + 310, 2 * k + 1)
        capture.kernel(at + 100, at + 500, 2 * k).kernel(at + 500, at + 1100, 2 * k + 1)
    capture.metric(SM, *((100 + 100 * k, k) for k in range(30)))
    answer = ask(tmp_path, capture)
    # Device steps are 100-1100, 1100-2100, 2100-3100: ten samples each, 0-9, 10-19, 20-29.
    assert [(r["step"], r["mean"], r["n_samples"]) for r in answer.by_step.rows()] == [
        (0, 4.5, 10),
        (1, 14.5, 10),
        (2, 24.5, 10),
    ]
    # The first kernel of each step was launched in the range: samples 0-3, 10-13, 20-23.
    (row,) = answer.by_range.rows()
    assert (row["range"], row["mean"], row["n_samples"], row["time_ns"]) == ("fwd", 11.5, 12, 1200)
    only = ask(tmp_path, capture, steps="1")
    assert [r["mean"] for r in only.rollup.rows()] == [14.5] and len(only.metrics) == 10


def test_samples_are_listed_whole_or_cut_and_by_name_and_device(tmp_path):
    capture = sampled().metric(READ, (0, 5), (100, None)).metric(SM, (0, 1), device=1)
    answer = ask(tmp_path, capture)
    assert len(answer.metrics) == 13
    assert [r["value"] for r in rows(answer, "metrics", metric=READ)] == [5.0, None]
    assert [r["device"] for r in ask(tmp_path, capture, device=0).metrics.rows()] == [0] * 12
    assert {r["metric"] for r in ask(tmp_path, capture, metric="DRAM").metrics.rows()} == {READ}
    assert len(ask(tmp_path, capture, top=3).metrics) == 3
    # A device without operations has its samples, and no busy time.
    (other,) = rows(answer, "rollup", device=1)
    assert (other["mean"], other["busy_mean"], other["busy_ns"], other["n_samples"]) == (1.0, None, None, 1)


def test_nothing_sampled_is_said(tmp_path):
    answer = ask(tmp_path, Capture().kernel(0, 10))
    assert not len(answer.metrics) and "--gpu-metrics-devices" in answer.warnings[-1]


@pytest.mark.parametrize(
    ("activity", "idle", "reading"),
    [
        (Activity(30, 15, 70, 20), False, Reading.TENSOR_BUSY),  # few warps feed the tensor cores: no alarm
        (Activity(95, 15, 90, 85), False, Reading.TENSOR_BUSY),
        (Activity(30, 20, 0, 85), False, Reading.MEMORY_LIMITED),
        (Activity(100, 19, 0, 92), False, Reading.MEMORY_LIMITED),
        (Activity(30, None, None, 85), False, Reading.MEMORY_LIMITED),
        (Activity(100, 81, 1, 63), False, Reading.COMPUTE_BUSY),
        (Activity(95, 10, 0, 12), False, Reading.KERNEL_EFFICIENCY),
        (Activity(30, 10, 0, 12), False, Reading.FEW_SMS),
        (Activity(2, 1, 0, 1), True, Reading.STARVED),
        (Activity(63, 20, 9, 12), False, Reading.FEW_SMS),
        (Activity(100, 59, 1, 58), False, Reading.MODERATE),
    ],
)
def test_readings(activity, idle, reading):
    found = reading_of(activity, idle=idle)
    assert found is not None and found[0] is reading


def test_readings_need_multiprocessors_and_memory():
    assert reading_of(Activity(90, 90, 90, None), idle=False) is None
    assert reading_of(Activity(None, 90, 90, 90), idle=False) is None
    assert used(Activity(90, None, None, 50)) is None and used(Activity(90, 50, 60, None)) is None
    assert used(Activity(90, 50, 60, 10)) == (60, 10, "tensor pipe")
    assert used(Activity(90, 70, 60, 10)) == (70, 10, "instruction issue")
    assert activity_of({READ: 40.0}).dram_pct is None and activity_of({READ: 40.0, WRITE: 2.0}).dram_pct == 42.0


def test_few_warps_and_busy_tensor_cores_raise_no_alarm(tmp_path):
    capture = Capture().kernel(0, 1000)
    for name, value in ((SM, 25), (ISSUE, 12), (TENSOR, 65), (READ, 10), (WRITE, 5)):
        capture.metric(name, *((100 * k, value) for k in range(10)))
    answer = ask(tmp_path, capture)
    (busy,) = answer.readings.rows()
    assert busy["reading"] == "tensor_busy" and answer.findings == [] and answer.warnings == []
    assert (busy["sm_active_pct"], busy["tensor_pct"], busy["dram_pct"]) == (25.0, 65.0, 15.0)


@pytest.mark.parametrize("seed", range(20))
def test_means_against_a_slow_oracle(seed):
    pick = random.Random(seed)
    starts = sorted(pick.sample(range(3000), 40))
    values = [pick.choice([None, float(pick.randrange(100))]) for _ in starts]
    edges = sorted(pick.sample(range(3000), 12))
    intervals = list(zip(edges[::2], edges[1::2], strict=True))
    times = Times(np.array(starts, np.int64))
    series = Series("gpu_metrics", SM, "%", None, None, times, np.array([np.nan if v is None else v for v in values]))
    low, high = (np.array(side, np.int64) for side in zip(*intervals, strict=True))
    found = series.mean(*times.inside(low, high))
    total, weight, count = 0.0, 0, 0
    for start, end, value in zip(starts, times.end.tolist(), values, strict=True):
        inside = sum(max(0, min(end, b) - max(start, a)) for a, b in intervals)
        if value is not None and inside >= LEAST_INSIDE * (end - start):
            total, weight, count = total + value * inside, weight + inside, count + 1
    assert (found.n_samples, found.covered_ns) == (count, weight)
    assert found.mean == (pytest.approx(total / weight) if weight else None)
    one_by_one = series.means(*times.by_interval(low, high), len(low))
    for (a, b), mean in zip(intervals, one_by_one, strict=True):
        assert mean == series.mean(*times.inside(np.array([a]), np.array([b])))


@pytest.mark.parametrize("seed", range(20))
def test_samples_during_one_operation_alone(seed):
    pick = random.Random(seed)
    ops = sorted((a, a + pick.randrange(0, 400)) for a in (pick.randrange(0, 2000) for _ in range(12)))
    times = Times(np.arange(0, 2000, 50, dtype=np.int64))
    start, end = (np.array(side, np.int64) for side in zip(*ops, strict=True))
    found = dict(zip(*(each.tolist() for each in alone(times, start, end)), strict=True))
    for k, (a, b) in enumerate(zip(times.start.tolist(), times.end.tolist(), strict=True)):
        touching = [n for n, (low, high) in enumerate(ops) if low < b and high > a]
        whole = len(touching) == 1 and ops[touching[0]][0] <= a and ops[touching[0]][1] >= b
        assert (k in found) == whole
        if whole:
            assert found[k] == touching[0]


@pytest.mark.skipif(not TRACES.exists(), reason=MISSING)
def test_the_sleep_of_a_capture_starves_the_device():
    with opened(TRACES / "planted_sleep/nsys.gpu-metrics.sqlite.gz") as traces:
        answer = traces.metrics()
    gaps, busy = rows(answer, "readings", over="gaps")[0], rows(answer, "readings", over="busy")[0]
    assert gaps["reading"] == "starved" and gaps["sm_active_pct"] < 0.1 and busy["reading"] == "tensor_busy"
    (engine,) = rows(answer, "rollup", metric="GR Active [Throughput %]")
    # The engine is active exactly while operations run: samples stand from their instant on.
    assert engine["busy_mean"] > 99.5 and engine["gaps_mean"] < 1.5


@pytest.mark.skipif(not PUBLIC.exists(), reason=MISSING)
@pytest.mark.parametrize("name", ["gpu_metrics_2022_4_x2023", "syn_gpu_nic_metrics"])
def test_metrics_of_others(name):
    with opened(PUBLIC / f"nsys/{name}.sqlite.gz") as traces:
        answer = traces.metrics()
    listed = rows(answer, "rollup")
    assert listed and len(answer.metrics)
    by_key: dict[tuple[object, ...], list[float]] = {}
    for row in answer.metrics.rows():
        by_key.setdefault((row["device"], row["instance"], row["metric"]), []).append(row["value"])
    for row in listed:
        values = [v for v in by_key[row["device"], row["instance"], row["metric"]] if v is not None]
        if row["min"] is not None:
            assert min(values) <= row["min"] <= row["mean"] <= row["max"] <= max(values)


def test_a_filter_of_what_is_listed_changes_no_reading(tmp_path):
    capture = Capture().kernel(0, 1000)
    for name, value in ((SM, 95), (ISSUE, 20), (TENSOR, 80), (READ, 5), (WRITE, 5)):
        capture.metric(name, *((100 * k, value) for k in range(10)))
    whole, part = ask(tmp_path, capture), ask(tmp_path, capture, metric="SMs Active|DRAM")
    assert (
        [r["reading"] for r in whole.readings.rows()] == [r["reading"] for r in part.readings.rows()] == ["tensor_busy"]
    )
    assert {r["metric"] for r in part.rollup.rows()} == {SM, READ, WRITE}
    # Python's regular expressions, as everywhere.
    assert {r["metric"] for r in ask(tmp_path, capture, metric=r"(?<!x)SM (?=Issue)").metrics.rows()} == {ISSUE}


def test_rates_in_other_units_are_no_percentages(tmp_path):
    capture = Capture().kernel(0, 1000).metric(SM, *((100 * k, 95) for k in range(10)))
    for name in ("DRAM Read Bandwidth", "DRAM Write Bandwidth"):
        capture.metric(name, *((100 * k, 3e12) for k in range(10)), unit="B/s")
    answer = ask(tmp_path, capture)
    assert not len(answer.readings) and len(answer.rollup) == 3


def test_instants_that_repeat_and_single_samples(tmp_path):
    twice = Capture().kernel(0, 1000).metric(SM, *((100 * (k // 2), k) for k in range(20)))
    (row,) = ask(tmp_path, twice).rollup.rows()
    assert (row["n_samples"], row["mean"], row["period_ns"]) == (20, 9.5, 100)
    card = Capture().kernel(0, 10).metric("Bytes", (5, 7.0), unit="byte", device=None)
    (row,) = ask(tmp_path, card).rollup.rows()
    assert (row["n_samples"], row["mean"]) == (1, 7.0)


def test_a_window_holds_for_what_is_no_device_too(tmp_path):
    capture = Capture().kernel(0, 1000).metric("Bytes", *((100 * k, k) for k in range(10)), unit="byte", device=None)
    answer = ask(tmp_path, capture, window="0:0.0000003")
    (row,) = answer.rollup.rows()
    assert (row["n_samples"], row["mean"], len(answer.metrics)) == (3, 1.0, 3)
    none = ask(tmp_path, capture, metric="nothing")
    assert not len(none.rollup) and "no metric matches" in none.warnings[-1]
