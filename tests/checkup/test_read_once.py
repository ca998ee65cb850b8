"""One check-up reads telemetry once, and looks at each capture once, whatever rests on it."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.support.telemetry_files import Asked, query, torch_trace
from traceanalyzer.passes import fitness
from traceanalyzer.passes.telemetry import series


@pytest.fixture
def asked(tmp_path):
    made = Asked(tmp_path / "store.duckdb")
    yield made
    made.close()


def test_a_check_up_reads_each_series_and_looks_at_each_capture_once(tmp_path, asked, monkeypatch):
    columns = "utilization.gpu [%], clocks_event_reasons.active, ecc.errors.uncorrected.volatile.total"
    lines = [(k / 10, 0, "90 %", "0x0000000000000020", k // 5) for k in range(30)]
    asked(
        query(tmp_path / "q.csv", columns, *lines),
        torch_trace(tmp_path / "t.json", begun=0.5, kernels=[(100 * k, 100 * k + 90) for k in range(15)]),
    )
    read, looked = Counter(), Counter()
    raw, every = series._raw, fitness.CHECKS

    def counted_raw(scope):
        read["telemetry"] += 1
        return raw(scope)

    def counted(check):
        def look(capture):
            looked[check.name, capture.number] += 1
            return check.look(capture)

        return replace(check, look=look)

    monkeypatch.setattr(series, "_raw", counted_raw)
    monkeypatch.setattr(fitness, "CHECKS", tuple(counted(check) for check in every))
    answer = asked.traces.checkup()
    names = {row["verdict"] for row in answer.tables["verdicts"].rows()}
    assert {"device_errors", "clock_throttled"} <= names
    assert read["telemetry"] == 1
    assert looked and set(looked.values()) == {1}
