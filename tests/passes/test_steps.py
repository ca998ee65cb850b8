"""Steps: what is said of the listed ones, and where device steps say little, worked out by hand."""

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from traceanalyzer.schema.kinds import EventKind


def asked(tmp_path, *captures, **selection):
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", *captures)) as traces:
        return traces.steps(**selection)


def stepped(lengths=(10_000, 20_000, 30_000, 40_000, 20_000), first=0):
    """A kernel in flight, then a step of a launch and a kernel each, of these lengths, after a gap of 1 us."""
    capture, at = Capture().kernel(-50_000, -1_000), 0
    for number, length in enumerate(lengths, first):
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{number}", at, at + length)
        capture.launch(at, at + 10, number + 1).kernel(at + 1_000, at + length, number + 1)
        at += length
    return capture


def texts(answer):
    return [finding.text for finding in answer.findings]


def test_the_finding_speaks_of_the_listed_steps(tmp_path):
    # Device steps begin with the gap before their kernel: they are as long as the host's.
    longest = "step 3 takes 40.000 us, 1.000 us of it idle"
    assert texts(asked(tmp_path, stepped())) == [
        "rank 0, device 0: 5 steps of 20.000 us on the device (median); shortest 11.000 us, longest 40.000 us",
        f"rank 0, device 0: 1 step is an outlier beside the median of 20.000 us: {longest}",
    ]
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        listed = traces.steps(steps="2-4")
        assert texts(listed) == [
            "rank 0, device 0: 3 steps (2 to 4) of 30.000 us on the device (median); shortest 20.000 us,"
            " longest 40.000 us",
            f"rank 0, device 0: 1 step is an outlier beside the median of 20.000 us: {longest}",
        ]
        assert [r["step"] for r in listed.steps.rows()] == [2, 3, 4] and listed.findings[0].cost_ns == 30_000
        assert texts(traces.steps(steps="3"))[0] == "rank 0, device 0: step 3 takes 40.000 us on the device"
        assert len(texts(traces.steps(steps="0-2"))) == 1
        none = traces.steps(steps="7")
        assert (texts(none), none.warnings) == ([], ["there is no step 7; there are 0 to 4"])
        assert traces.steps(steps="7-8").warnings == ["no step is among 7 to 8; there are 0 to 4"]


def test_what_is_left_out_is_said_where_it_is_listed(tmp_path):
    capture = stepped((90_000, 20_000, 20_000))
    assert texts(asked(tmp_path, capture))[0].endswith("; 1 warm-up step left out")
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        assert texts(traces.steps(steps="1-2")) == [
            "rank 0, device 0: 2 steps (1 to 2) of 20.000 us on the device (median); shortest 20.000 us,"
            " longest 20.000 us"
        ]
        assert texts(traces.steps(warmup=0, steps="0-1"))[0].startswith(
            "rank 0, device 0: 2 steps (0 to 1) of 55.500 us"
        )
        assert texts(traces.steps(warmup=2)) == []


def test_an_incomplete_first_step_is_left_out_and_marked(tmp_path):
    capture = Capture()
    for number in range(3):
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{number}", 1_000 * number, 1_000 * number + 1_000)
        capture.launch(1_000 * number, 1_000 * number + 10, number + 1)
        capture.kernel(1_000 * number + 100, 1_000 * number + 900, number + 1)
    answer = asked(tmp_path, capture)
    assert [r["incomplete"] for r in answer.steps.rows()] == [True, False, False]
    assert texts(answer)[0].endswith("; the first step, whose beginning was not recorded, is left out")
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        assert "left out" not in texts(traces.steps(steps="1-2"))[0]


def side_copies(run_on):
    """Three steps of 100 ns; what is launched in each on stream 7 runs on for so long beside the next step's work."""
    capture = Capture()
    for number in range(3):
        start = 100 * number
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{number}", start, start + 100)
        capture.launch(start, start + 5, 2 * number + 1).kernel(
            start + 50, start + 150 + run_on, 2 * number + 1, stream=7
        )
        capture.launch(start + 5, start + 9, 2 * number + 2).kernel(start + 55, start + 60, 2 * number + 2, stream=13)
    return capture


def test_where_steps_interleave_the_host_is_named(tmp_path):
    answer = asked(tmp_path, side_copies(40))
    # The device steps begin at 50, 150, 250; the last ends at 390.
    assert answer.warnings == [
        "rank 0, device 0: work of neighbouring steps interleaves on the device (in 2 of 3 steps operations run on when"
        " those of a later one have begun), so that the lengths of single device steps say little; a step takes 100 ns"
        " on the host (median)"
    ]
    assert texts(answer) == [
        "rank 0, device 0: 3 steps of 100 ns on the host (median); on the device, where steps interleave, one takes"
        " 113 ns on average over all 3 steps"
    ]
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        assert texts(traces.steps(steps="1"))[0].startswith("rank 0, device 0: step 1 takes 100 ns on the host;")


def test_a_short_overlap_of_steps_is_nothing_to_speak_of(tmp_path):
    answer = asked(tmp_path, side_copies(9))
    assert answer.warnings == [] and "on the device (median)" in texts(answer)[0]


def test_a_step_range_that_matches_nothing_is_said(tmp_path):
    capture = stepped().event(EventKind.RANGE, "train", 0, 10)
    answer = asked(tmp_path, capture, step_range="tra")
    assert len(answer.steps) == 0 and answer.warnings == [
        "--step-range tra matches the whole name of no range, so there are no steps;"
        ' `traceanalyzer sql "SELECT DISTINCT'
        " name FROM cpu_events WHERE kind = 'range'\"` lists the names"
    ]
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        assert traces.steps(step_range="tra.*").warnings == []
        assert "--step-range tra matches" in traces.ledger(step_range="tra").warnings[0]
        names = traces.sql("SELECT DISTINCT name FROM cpu_events WHERE kind = 'range'").rows.columns["name"]
        assert names == ["train"]
    (tmp_path / "bare").mkdir()
    bare = asked(tmp_path / "bare", Capture().kernel(0, 10), step_range="x")
    assert bare.warnings == [
        "--step-range x matches the whole name of no range, so there are no steps: no ranges were recorded"
    ]


def test_without_marks_the_option_is_named(tmp_path):
    assert asked(tmp_path, Capture().kernel(0, 10)).warnings == [
        "no steps: the trace has no ProfilerStep marks, and no range named step or iteration; give --step-range"
    ]


def test_captures_of_one_rank_are_told_apart(tmp_path):
    store = store_of(tmp_path / "s.duckdb", stepped())
    store_of(store, stepped(), run="other")
    with traceanalyzer.open(store) as traces:
        found = [f.text for f in traces.steps(run="all").findings if f.code == "step_time"]
    assert [text.partition(": ")[0] for text in found] == ["rank 0, device 0, capture 0", "rank 0, device 0, capture 1"]
