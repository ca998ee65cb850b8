"""Throttling by samples and by counters, and the verdict that it gives: worked by hand."""

import pytest

from tests.support.telemetry_files import Asked, query
from traceanalyzer.passes.telemetry.watched import Watched

CAPPING = "clocks_event_reasons_counters.sw_power_capping [us]"
MASK = f"utilization.gpu [%], clocks_event_reasons.active, {CAPPING}"


def ask(file):
    asked = Asked(file.with_suffix(".duckdb"))
    try:
        return asked(file), asked.traces.checkup(inputs=str(file)), Watched(asked.scope()).throttled
    finally:
        asked.close()


def verdict_of(checkup):
    return next((row for row in checkup.verdicts.rows() if row["verdict"] == "clock_throttled"), None)


def matching(answer, each):
    return [row for row in answer.throttling.rows() if all(row[column] == value for column, value in each.row.items())]


def test_a_counter_tells_a_share_of_the_time(tmp_path):
    file = query(tmp_path / "q.csv", CAPPING, *((k, 0, f"{k * 250_000} us") for k in range(9)))
    answer, checkup, (slow,) = ask(file)
    (row,) = matching(answer, slow)
    assert (slow.busy_share, slow.share) == (row["busy_share"], row["share"]) == (None, pytest.approx(0.25))
    verdict = verdict_of(checkup)
    assert "for 25.0 % of the time" in verdict["title"]
    (evidence,) = verdict["evidence"]
    assert evidence["value"] == pytest.approx(0.25)


def test_a_reason_that_two_metrics_tell_is_told_once_by_the_surer(tmp_path):
    # The mask has the power cap in 2 of 8 busy samples; the counter grows by 90 % of the time.
    lines = [(k, 0, "90 %", "0x4" if k < 2 else "0x0", f"{k * 900_000} us") for k in range(8)]
    answer, checkup, (slow,) = ask(query(tmp_path / "q.csv", MASK, *lines))
    assert sorted(row["share"] for row in answer.throttling.rows()) == pytest.approx([0.25, 0.9])
    assert (slow.reason, slow.busy_share, slow.share) == ("sw_power_cap", 0.25, 0.25)
    title = verdict_of(checkup)["title"]
    assert title.count("sw_power_cap") == 1 and "in 25.0 % of the busy samples" in title


@pytest.mark.parametrize(("growth_us", "share"), [(1_020_000, 1.0), (3_000_000, None)])
def test_more_than_the_time_that_passed_is_no_verdict(tmp_path, growth_us, share):
    file = query(tmp_path / "q.csv", CAPPING, *((k, 0, f"{k * growth_us} us") for k in range(6)))
    answer, checkup, slow = ask(file)
    (row,) = answer.throttling.rows()
    assert row["throttled_ns"] == 5 * growth_us * 1000
    if share is None:
        assert row["share"] == pytest.approx(3.0) and "more than the time that passed" in row["text"]
        assert slow == [] and verdict_of(checkup) is None
    else:
        # Readings of a card that is throttled all the time do not lie exactly a second apart.
        assert row["share"] == slow[0].share == share and "for 100.0 % of the time" in verdict_of(checkup)["title"]
