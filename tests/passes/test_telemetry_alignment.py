"""Telemetry beside a trace of the same run: one clock for both, one story or two, processes that are not traced."""

import pytest

from tests.support.real_traces import rows
from tests.support.telemetry_files import BEGIN, Asked, codes, pmon, query, text_of, torch_trace, uses


@pytest.fixture
def asked(tmp_path):
    ask = Asked(tmp_path / "s.duckdb")
    yield ask
    ask.close()


@pytest.mark.parametrize(("hours", "words"), [(0, "+0:00 h"), (8, "-8:00 h"), (-5.75, "+5:45 h")])
def test_the_zone_is_found_under_which_telemetry_covers_the_trace(tmp_path, asked, hours, words):
    # Local time is UTC and the zone: what stands in the file is `hours` later than the trace says.
    lines = uses([(0, 0), (10, 100), (15, 0)], shift=hours * 3600)
    file = query(tmp_path / "q.csv", "utilization.gpu [%]", *lines)
    trace = torch_trace(tmp_path / "t.json", begun=10, kernels=[(10 * k, 10 * k + 9.5) for k in range(500)])
    answer = asked(file, trace)
    (found,) = answer.alignment.rows()
    assert (found["state"], found["offset_ns"]) == ("agree", -int(hours * 3600 * 10**9))
    assert found["busy_pct"] == pytest.approx(95, abs=0.2) and found["utilization_pct"] == 100.0
    assert words in found["text"]


def test_pulses_of_milliseconds_that_utilization_hides(tmp_path, asked):
    file = query(tmp_path / "q.csv", "utilization.gpu [%]", *uses([(0, 0), (10, 100), (15, 0)]))
    trace = torch_trace(tmp_path / "t.json", begun=10, kernels=[(10 * k, 10 * k + 2) for k in range(500)])
    answer = asked(file, trace)
    (found,) = answer.alignment.rows()
    assert found["state"] == "disagree" and found["busy_pct"] == pytest.approx(20, abs=0.2)
    assert "utilization 100 %" in text_of(answer, "telemetry_disagrees")
    assert "20 % of the same time" in text_of(answer, "hidden_pulses")


def test_telemetry_of_another_time_is_not_held_against_the_trace(tmp_path, asked):
    lines = uses([(0, 0), (10, 100), (15, 0)], shift=400)
    file = query(tmp_path / "q.csv", "utilization.gpu [%]", *lines)
    trace = torch_trace(tmp_path / "t.json", begun=10, kernels=[(10 * k, 10 * k + 9) for k in range(500)])
    answer = asked(file, trace)
    (found,) = answer.alignment.rows()
    assert (found["state"], found["offset_ns"], found["busy_pct"]) == ("could not look", None, None)
    assert "not the same time" in text_of(answer, "telemetry_not_aligned")


def test_of_several_possible_zones_the_one_is_taken_that_utilization_follows(tmp_path, asked):
    # Forty minutes of telemetry: three quarter hours are possible, and one has the pause where the trace has it.
    pauses = [(0, 100), (1210, 0), (1212, 100), (2400, 100)]
    file = query(tmp_path / "q.csv", "utilization.gpu [%]", *uses(pauses, every=0.25))
    kernels = [(10 * k, 10 * k + 9.9) for k in range(1000) if not 500 <= k < 700]
    answer = asked(file, torch_trace(tmp_path / "t.json", begun=1205, kernels=kernels))
    (found,) = answer.alignment.rows()
    assert found["offset_ns"] == 0 and "possible offsets" in found["text"]
    # Without the pause nothing tells them apart.
    flat = query(tmp_path / "flat.csv", "utilization.gpu [%]", *uses([(0, 100), (2400, 100)], every=0.25))
    answer = asked(flat, torch_trace(tmp_path / "u.json", begun=1205, kernels=kernels))
    (found,) = answer.alignment.rows()
    assert found["state"] == "could not look" and "which one holds is not known" in found["text"]


def test_processes_beside_the_traced_one_are_neighbours(tmp_path, asked):
    lines = [(k, 0, 4242, 60, 20, 6000, "python3") for k in range(4)]
    lines += [(k, 0, 777, 40, "-", 12000, "other job") for k in range(2, 4)]
    lines += [(k, 1, 888, 5, 1, 100, "python3") for k in range(4)]
    trace = torch_trace(tmp_path / "t.json", begun=0, kernels=[(10 * k, 10 * k + 9) for k in range(100)])
    answer = asked(pmon(tmp_path / "pmon.txt", *sorted(lines, key=lambda x: x[:2])), trace)
    found = {row["process"]: row for row in answer.processes.rows()}
    mine, other = found[4242], found[777]
    assert (mine["traced"], mine["utilization_pct"], mine["memory_activity_pct"]) == (True, 60.0, 20.0)
    assert (mine["memory_bytes"], mine["samples"]) == (6000 << 20, 4)
    assert (other["traced"], other["process_name"], other["memory_activity_pct"]) == (False, "other job", None)
    assert (other["samples"], other["first_ns"]) == (2, int(BEGIN.timestamp() + 2) * 10**9)
    text = text_of(answer, "neighbours")
    assert text.startswith("device 0: process 777 (other job") and "888" not in text
    # Process rows are no series of the device.
    assert rows(answer, "telemetry") == []


def test_processes_one_after_the_other_do_not_share_a_card(tmp_path, asked):
    lines = [(k, 0, 11 if k < 3 else 22, 60, 20, 6000, "python3") for k in range(6)]
    assert codes(asked(pmon(tmp_path / "pmon.txt", *lines))) == []
    together = lines + [(k, 0, 33, 10, 1, 500, "python3") for k in range(6)]
    answer = asked(pmon(tmp_path / "pmon.txt", *sorted(together)))
    assert "33" in text_of(answer, "shared_device")
