"""NVIDIA's SpeedOfLight rule, and the tables of profiled kernels."""

import pytest

import traceanalyzer
from tests.support.ncu_writer import LEADING, launch, line, metric, page, rule, wide
from traceanalyzer.ingestion import ingest
from traceanalyzer.passes.limits.sol import sol_class, stated_class

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
        ("b", 1, 500, "compute_bound", 0.5),
        ("a", 2, 400, "compute_bound", 0.4),
        ("c", 1, 100, "compute_bound", 0.1),
    ]
    assert {row["sol_class"] for row in answer.rollup.rows()} == {"high_throughput"}
    assert answer.findings[0].text == (
        "b takes 50.0 % of the profiled time in 1 launch; compute-bound: compute 86 %: nothing left to gain in this"
        " kernel, only fewer operations help"
    )
    assert answer.findings[1].text == "of the profiled time 100.0 % in compute-bound launches"


def test_the_rollup_has_means_by_time(ask):
    metrics = (TIME, COMPUTE, MEMORY)
    rows = [(0, "a", 100, "90", "10"), (1, "a", 300, "70", "n/a"), (2, "b", 100, "20", "85")]
    answer = ask(
        wide(metrics, ("ns", "%", "%"), *((launch(i, kernel), [str(ns), c, m]) for i, kernel, ns, c, m in rows))
    )
    a, b = answer.rollup.rows()
    assert (a["compute_pct"], a["memory_pct"], a["dram_pct"]) == ((100 * 90 + 300 * 70) / 400, 10.0, None)
    # Three quarters of the time of a have no class, for its memory throughput is missing.
    assert (a["class"], b["class"]) == (None, "memory_bound") and a["reason"].startswith("not in the file: memory")
    assert answer.findings[1].text == (
        "of the profiled time 60.0 % of unknown limit, 20.0 % in compute-bound launches,"
        " 20.0 % in memory-bound launches"
    )


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


LABELS = ("Duration", "Compute (SM) Throughput", "Memory Throughput", "Achieved Occupancy", "L2 Hit Rate")
NAMES = (TIME, COMPUTE, MEMORY, "sm__warps_active.avg.pct_of_peak_sustained_active", "lts__t_sector_hit_rate.pct")
WORDS = "This workload exhibits low compute throughput and memory bandwidth utilization."
MEASURED = {  # by id: kernel, ns and percentages with more digits than a details page has
    0: ("a", 249_216, (12.041234, 90.716789, 77.203456, 31.214567)),
    1: ("b", 1_504, (3.141592, 2.718281, 9.514321, 66.666666)),
}


def raw_page(ids=(0, 1), shift=0, names=None, pid=7, metrics=NAMES):
    """Launches on a raw page in auto units; `shift` changes what was measured a little."""
    rows = []
    for id_ in ids:
        kernel, ns, shares = MEASURED[id_]
        values = [f"{(ns + 32 * shift) / 1000:.6f}", *(f"{share + 0.01 * shift:.6f}" for share in shares)]
        rows.append((launch(id_, (names or {}).get(id_, kernel), pid), values[: len(metrics)]))
    return wide(metrics, ["us", "%", "%", "%", "%"][: len(metrics)], *rows)


def details_page(ids=(0, 1), names=None):
    rows = []
    for id_ in ids:
        kernel, ns, shares = MEASURED[id_]
        who = {"id_": id_, "kernel": (names or {}).get(id_, kernel)}
        values = (f"{ns / 1000:.2f}", *(f"{share:.2f}" for share in shares))
        rows += [metric(n, "us" if n == "Duration" else "%", v, **who) for n, v in zip(LABELS, values, strict=True)]
        rows.append(rule("SOLBottleneck", "OPT", WORDS, **who))
    return page(*rows)


@pytest.fixture
def ask_of_files(tmp_path):
    stores = (tmp_path / f"{k}.duckdb" for k in range(9))

    def answer(*texts, runs=("one",), **selection):
        store = next(stores)
        for k, text in enumerate(texts):
            path = tmp_path / f"page{k}.csv"
            path.write_text(text)
            ingest([path], store, run=runs[k % len(runs)])
        with traceanalyzer.open(store) as traces:
            return traces.throughput(**selection)

    return answer


def counted(answer):
    return {row["kernel"]: (row["launches"], row["total_ns"]) for row in answer.rollup.rows()}


@pytest.mark.parametrize("texts", [(details_page(), raw_page()), (raw_page(), details_page())])
def test_pages_of_one_report_count_once(ask_of_files, texts):
    answer = ask_of_files(*texts)
    assert counted(answer) == {"a": (1, 249_216), "b": (1, 1_504)}
    first, second = answer.kernels.rows()
    assert first["compute_pct"] == 12.041234 and second["l2_hit_pct"] == 66.666666  # as the raw page has them
    # What the raw page lacks is from the other one.
    assert first["sol_source"] == "nvidia" and first["nvidia_verdict"] == WORDS
    raw, details = (texts.index(page) for page in (raw_page(), details_page()))
    assert answer.warnings == [
        f"capture {details} (page{details}.csv) is left out: it holds the same launches as capture {raw}"
        f" (page{raw}.csv), another page of the same report"
    ]


@pytest.mark.parametrize(
    ("other", "launches"),
    [
        (raw_page(shift=1), 2),  # the same program ran twice: another duration by 32 ns, other shares by 0.01
        (raw_page(pid=8), 2),  # another process
        (raw_page(ids=(1,), shift=1), 1),
        (raw_page(metrics=NAMES[:1]), 2),  # two durations alone may agree by chance
        (details_page(ids=(1,)).replace('"Duration","us","1.50"', '"Duration","us","1.51"'), 1),
        (details_page(ids=(1,)).replace("66.67", "66.68"), 1),
        (details_page(ids=(1,)).replace("(64, 4, 1)", "(64, 5, 1)"), 1),
        (details_page(ids=(1,), names={1: "c"}), 1),  # another name, and too little that agrees
    ],
)
def test_different_reports_stay_apart(ask_of_files, other, launches):
    answer = ask_of_files(raw_page(), other)
    assert len(answer.kernels) == 2 + launches
    assert sum(count for count, _ in counted(answer).values()) == 2 + launches
    assert not any("left out" in warning for warning in answer.warnings)


def test_a_page_may_have_a_part_of_the_launches_and_other_names(ask_of_files):
    answer = ask_of_files(raw_page(ids=(0,)), details_page(ids=(0, 1)))
    assert counted(answer) == {"a": (1, 249_220), "b": (1, 1_500)}
    renamed = ask_of_files(raw_page(), details_page(names={0: "step/a", 1: "step/b"}))
    assert counted(renamed) == {"a": (1, 249_216), "b": (1, 1_504)}


def test_pages_in_different_runs_count_in_each(ask_of_files):
    answer = ask_of_files(raw_page(), details_page(), runs=("one", "two"), run="all")
    assert counted(answer) == {"a": (2, 249_216 + 249_220), "b": (2, 1_504 + 1_500)}


def summary(rows, process=True):
    head = ["Process ID", "Process Name", "Host Name"] if process else ["Domain", "Range:PL_Type"]
    head += ["Kernel Name", "Block Size", "Grid Size", "Device", "CC", "Invocations", "Section Name", "Metric Name"]
    head += ["Metric Unit", "Minimum", "Maximum", "Average"]
    who = ["7", "python3", "127.0.0.1"] if process else ["<default domain>", ' "step:none" ']
    return page(
        *(
            line([*who, kernel, "(128, 1, 1)", grid, 0, "9.0", count, "SOL", name, unit, "1", "9", average])
            for kernel, grid, count, average in rows
            for name, unit, average in (("Duration", "us", average), ("Compute (SM) Throughput", "%", "50.00"))
        ),
        header=head,
    )


def test_a_file_of_averages_only_has_a_rollup(ask):
    answer = ask(
        summary([("a", "(4, 1, 1)", 10, "34.17"), ("a", "(8, 1, 1)", 2, "1.50"), ("b", "(4, 1, 1)", 3, "2.01")])
    )
    assert not len(answer.kernels)
    assert [tuple(row.values())[:7] for row in answer.rollup.rows()] == [
        ("a", 12, 344_700, None, 344_700 / 350_730, None, True),
        ("b", 3, 6_030, None, 6_030 / 350_730, None, True),
    ]
    (said,) = [w for w in answer.warnings if "averages" in w and "ncu --import" in w]
    assert said.startswith("kernels.csv holds averages over launches only: times are average durations x invocations")
    assert not any("no profiled launch" in w for w in answer.warnings)


def test_several_summaries_of_one_report_count_once(ask_of_files):
    by_kernel = summary([("a", "(4, 1, 1)", 10, "34.17"), ("b", "(4, 1, 1)", 3, "2.01")])
    by_range = summary([("a", "(4, 1, 1)", 10, "34.17")], process=False)
    answer = ask_of_files(by_range, by_kernel)
    assert counted(answer) == {"a": (10, 341_700), "b": (3, 6_030)}
    assert any(w.startswith("page0.csv is left out: it holds the same kernels as page1.csv") for w in answer.warnings)
    other = summary([("a", "(4, 1, 1)", 10, "34.19")])
    assert counted(ask_of_files(by_kernel, other)) == {"a": (20, 683_600), "b": (3, 6_030)}


def test_averages_do_not_count_beside_launches(ask_of_files):
    answer = ask_of_files(raw_page(), summary([("a", "(4, 1, 1)", 10, "34.17")]))
    assert counted(answer) == {"a": (1, 249_216), "b": (1, 1_504)}
    assert {row["averaged"] for row in answer.rollup.rows()} == {False}
    assert any(w.startswith("page1.csv: left out, for averages") for w in answer.warnings)


def test_columns_for_programs(ask):
    names = ["launch__context_id", "l1tex__t_sector_hit_rate.pct", "dram__bytes.sum.per_second"]
    (row,) = ask(wide(names, ["", "%", "Gbyte/s"], (launch(), ["3", "25.5", "1.5"]))).kernels.rows()
    expected = {"context": 1, "compute_capability": "9.0", "l1_hit_pct": 25.5, "l2_hit_pct": None}
    expected |= {"dram_bytes_per_s": 1.5e9, "nvidia_verdict": None}
    assert {name: row[name] for name in expected} == expected
