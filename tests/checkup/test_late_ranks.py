"""A late rank is a verdict where the others' waits cost enough, and is named in any case."""

import pytest

import traceanalyzer
from tests.passes.test_imbalance import job
from tests.support.store_builder import store_of


@pytest.mark.parametrize(("late_ms", "is_verdict"), [(5, True), (0.2, False)])
def test_a_late_rank_is_named(tmp_path, late_ms, is_verdict):
    captures = job(lambda rank, _step: late_ms if rank == 1 else 0)
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", *captures)) as traces:
        answer = traces.checkup()
    verdicts = {row["verdict"]: row for row in answer.verdicts.rows()}
    assert ("straggler_bound" in verdicts) == is_verdict
    codes = [finding.code for finding in answer.findings]
    assert ("straggler_systematic" in codes) != is_verdict
    if is_verdict:
        found = verdicts["straggler_bound"]
        # The other rank waits for the 5 ms in each step of 16 ms; the late rank's own time is no cost beside it.
        assert found["cost_ns"] == pytest.approx(5e6, rel=0.01)
        assert "rank 1 is late by 5.0" in found["title"] and "load_more" in found["title"]
        assert "host_bound" not in verdicts
    else:
        assert "rank 1 is late" in next(f.text for f in answer.findings if f.code == "straggler_systematic")
