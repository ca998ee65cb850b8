"""NVIDIA's SpeedOfLight rule, and the tables of profiled kernels."""

import pytest

import traceanalyzer
from tests.support.ncu_writer import LEADING, launch, line, metric, page, rule, wide
from traceanalyzer.ingestion import ingest
from traceanalyzer.passes.throughput import sol_class, stated_class

COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
TIME = "gpu__time_duration.sum"


@pytest.mark.parametrize(
    ("compute", "memory", "waves", "expected"),
    [
        (80, 10, 5, "high_throughput"),
        (10, 80, 0.1, "high_throughput"),
        (120, 130, None, "high_throughput"),
        (79.99, 79.99, 5, "balanced"),
        (59.99, 59.99, 0.99, "small_grid"),
        (59.99, 59.99, 1, "latency_issue"),
        (0, 0, 1, "latency_issue"),
        (59.99, 10, None, None),
        (60, 50, 0.1, "high_compute"),
        (60, 50.01, 0.1, "balanced"),
        (50, 60, 0.1, "high_memory"),
        (50.01, 60, 9, "balanced"),
        (None, 90, 1, None),
        (90, None, 1, None),
    ],
)
def test_the_rule(compute, memory, waves, expected):
    assert sol_class(compute, memory, waves) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("This kernel grid is too small to fill the available resources on this device.", "small_grid"),
        ("This kernel exhibits low compute throughput and memory bandwidth utilization.", "latency_issue"),
        ("This workload exhibits low compute throughput and memory bandwidth utilization.", "latency_issue"),
        ("Memory is more heavily utilized than Compute: Look at DRAM.", "high_memory"),
        ("Compute is more heavily utilized than Memory: Look at it.", "high_compute"),
        ("Compute and Memory are well-balanced: To reduce runtime, both must be reduced.", "balanced"),
        (
            "The kernel is utilizing greater than 80.0% of the available performance.",
            "high_throughput",
        ),
        ("something new", None),
        (None, None),
    ],
)
def test_nvidias_own_words(text, expected):
    assert stated_class(text) == expected


@pytest.fixture
def ask(tmp_path):
    def answer(text, **selection):
        path = tmp_path / "kernels.csv"
        path.write_text(text)
        ingest([path], tmp_path / "s.duckdb")
        with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
            return traces.throughput(**selection)

    return answer


def test_nvidias_words_win_over_rounded_numbers(ask):
    text = page(
        metric("Compute (SM) Throughput", "%", "60.00"),
        metric("Memory Throughput", "%", "20.00"),
        metric("Waves Per SM", "", "3"),
        rule("SOLBottleneck", "OPT", "This workload exhibits low compute throughput and memory bandwidth utilization."),
    )
    (row,) = ask(text).kernels.rows()
    assert (row["sol_class"], row["sol_source"]) == ("latency_issue", "nvidia")
    assert (row["grid"], row["block"]) == ("(64, 4, 1)", "(128, 1, 1)")


def test_kernels_longest_first_and_shares_of_the_time(ask):
    rows = [(0, "a", 100), (1, "b", 500), (2, "a", 300), (3, "c", 100)]
    metrics = (TIME, COMPUTE, MEMORY)
    answer = ask(
        wide(metrics, ("ns", "%", "%"), *((launch(i, kernel), [str(ns), "85.5", "10"]) for i, kernel, ns in rows))
    )
    assert [row["id"] for row in answer.kernels.rows()] == [1, 2, 0, 3]
    assert [tuple(row.values())[:5] for row in answer.rollup.rows()] == [
        ("b", 1, 500, None, 0.5),
        ("a", 2, 400, None, 0.4),
        ("c", 1, 100, None, 0.1),
    ]
    assert {row["sol_class"] for row in answer.rollup.rows()} == {"high_throughput"}
    assert answer.findings[0].text == "b takes 50.0 % of the profiled time in 1 launch; NVIDIA's rule: high throughput"


def test_what_the_file_lacks_is_null_and_said(ask):
    (row,) = ask(wide([COMPUTE, MEMORY], ["%", "%"], (launch(), ["12.5", "20.25"]))).kernels.rows()
    assert row["sol_class"] is None and row["reason"] == "not in the file: waves a multiprocessor"
    assert row["duration_ns"] is None and row["dram_pct"] is None
    assert LEADING and line([1]) == '"1"'


def test_without_durations_there_are_no_shares(ask):
    answer = ask(wide([COMPUTE], ["%"], (launch(), ["12.5"])))
    assert [(r["total_ns"], r["share"], r["launches"]) for r in answer.rollup.rows()] == [(None, None, 1)]


def test_no_profiles_is_a_warning(ask):
    answer = ask(page())
    assert not len(answer.kernels) and any("no profiled launch" in w for w in answer.warnings)


def test_one_device_only(ask):
    text = page(metric("Duration", "ns", "5"))
    assert len(ask(text, device=0).kernels) == 1
    assert len(ask(text, device=1).kernels) == 0
