"""Clocks that step back within a file of nvidia-smi: time goes on, and it is said."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.telemetry_files import Asked, query
from traceanalyzer.sources.nvidia_smi.onward import Onward

SECOND = 10**9
CAPPING = "clocks_event_reasons_counters.sw_power_capping [us]"


class Notes:
    def __init__(self):
        self.said = {}

    def note(self, code, text, count=1):
        self.said[code] = (text, count)


def moved(seconds, devices=None, batches=1):
    """Times after they were moved on, in seconds, and what is said."""
    clock, notes, out = Onward(), Notes(), []
    devices = [0] * len(seconds) if devices is None else devices
    for part in np.array_split(np.arange(len(seconds)), batches):
        times = np.ma.masked_array(
            [int((seconds[k] or 0) * SECOND) for k in part], [seconds[k] is None for k in part], np.int64
        )
        out += clock.times("query", np.array([devices[k] for k in part], np.int64), times).tolist()
    clock.finish(notes)
    return [None if t is None else t / SECOND for t in out], notes.said


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_after_a_step_back_time_goes_on_with_the_usual_interval(batches):
    first, again = list(range(3600, 3900, 5)), list(range(300, 600, 5))
    found, said = moved(first + again, batches=batches)
    assert found == list(range(3600, 4200, 5))
    text, count = said["time_runs_back"]
    assert count == 1 and "3,600.000 s in the end" in text and list(said) == ["time_runs_back"]


def test_each_device_steps_back_and_it_counts_once():
    seconds = [k // 2 for k in range(40)] + [k // 2 for k in range(40)]
    found, said = moved(seconds, [k % 2 for k in range(80)])
    assert found == [k // 2 for k in range(80)] and said["time_runs_back"][1] == 1


def test_devices_one_after_the_other_do_not_step_back():
    seconds = list(range(50)) * 2 + [7]
    assert moved(seconds, [0] * 50 + [1] * 50 + [-1]) == (seconds, {})


@pytest.mark.parametrize("stray", [3, 400])
def test_a_single_row_out_of_place_moves_nothing(stray):
    seconds = [*range(20), stray, *range(20, 40)]
    found, said = moved(seconds)
    assert found == seconds and said["times_out_of_order"][1] == 1


def test_rows_in_no_order_are_not_moved():
    seconds = np.random.default_rng(5).permutation(500).tolist()
    found, said = moved(seconds)
    assert found == seconds and list(said) == ["times_out_of_order"]


def test_unknown_times_and_jitter_stay():
    seconds = [10, 11, None, 10.5, 12, None]
    assert moved(seconds) == (seconds, {})


ROWS = st.lists(st.tuples(st.integers(-1, 3), st.none() | st.integers(0, 2**62 - 1)), max_size=60)


@given(ROWS, st.integers(1, 4))
def test_any_times_stay_known_and_fit(rows, batches):
    clock, notes = Onward(), Notes()
    for part in np.array_split(np.arange(len(rows)), batches):
        times = np.ma.masked_array([rows[k][1] or 0 for k in part], [rows[k][1] is None for k in part], np.int64)
        out = clock.times("query", np.array([rows[k][0] for k in part], np.int64), times)
        assert np.ma.getmaskarray(out).tolist() == np.ma.getmaskarray(times).tolist()
        assert (out.compressed() >= times.compressed()).all()  # moved on, never back or beyond 64 bits
    clock.finish(notes)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10**8)), max_size=60), st.integers(1, 4))
def test_times_in_order_are_what_they_were(rows, batches):
    rows.sort(key=lambda row: row[1])
    found, said = moved([t for _, t in rows], [device for device, _ in rows], batches)
    assert found == [t for _, t in rows] and not said


@pytest.mark.parametrize("ahead", [0, 3600])
def test_a_counter_grows_by_what_it_grew(tmp_path, ahead):
    lines = [(k + (ahead if k < 300 else 0), 0, f"{k * 100_000} us") for k in range(600)]
    asked = Asked(tmp_path / "s.duckdb")
    try:
        answer = asked(query(tmp_path / "q.csv", CAPPING, *lines))
        (row,) = answer.throttling.rows()
        assert (row["throttled_ns"], row["share"]) == (59_900_000_000, pytest.approx(0.1))
        assert any("Times step back" in text for text in answer.warnings) == bool(ahead)
    finally:
        asked.close()
