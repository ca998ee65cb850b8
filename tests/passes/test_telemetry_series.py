"""Series of telemetry: units that change within a file, samples of one instant, many devices."""

import numpy as np
import pytest

from tests.support.real_traces import rows
from tests.support.telemetry_files import Asked, query
from traceanalyzer.passes.telemetry import loading
from traceanalyzer.passes.telemetry.names import Metric
from traceanalyzer.passes.telemetry.series import Telemetry

COLUMNS = "utilization.gpu [%], memory.used [{memory}], power.draw [{power}], {counter} [{time}]"
COUNTER = "clocks_event_reasons_counters.sw_power_capping"


@pytest.fixture
def asked(tmp_path):
    ask = Asked(tmp_path / "s.duckdb")
    yield ask
    ask.close()


def columns(memory="MiB", power="W", time="us"):
    return COLUMNS.format(memory=memory, power=power, counter=COUNTER, time=time)


def test_units_that_change_within_a_file_are_one_metric(tmp_path, asked):
    first = [(k, 0, "90 %", "2048 MiB", "400 W", f"{k * 100_000} us") for k in range(4)]
    other = [(4 + k, 0, "90 %", "4 GiB", "200000 mW", f"{400 + k * 100} ms") for k in range(4)]
    file = query(tmp_path / "q.csv", columns(), *first)
    second = query(tmp_path / "r.csv", columns("GiB", "mW", "ms"), *other)
    file.write_text(file.read_text() + second.read_text())
    answer = asked(file)
    found = {r["metric"]: (r["unit"], r["mean"], r["min"], r["max"], r["samples"]) for r in answer.telemetry.rows()}
    assert found == {
        "utilization": ("%", 90.0, 90.0, 90.0, 8),
        "memory_used": ("MiB", 3072.0, 2048.0, 4096.0, 8),
        "power": ("W", 300.0, 200.0, 400.0, 8),
    }
    (row,) = rows(answer, "throttling", reason="sw_power_cap")
    assert (row["throttled_ns"], row["share"]) == (700_000_000, pytest.approx(0.1))
    telemetry = Telemetry(asked.scope())
    (power,) = telemetry.of(telemetry.places[0], Metric.POWER)
    loaded = telemetry.load(power)
    assert loaded.value.tolist() == [400.0] * 4 + [200.0] * 4 and (np.diff(loaded.t) == 10**9).all()
    assert power.interval_ns == 10**9


def test_samples_of_one_instant_are_in_the_order_of_the_file(tmp_path, asked):
    values = [3, 1, 2, 9, 4, 8, 7]
    asked(query(tmp_path / "q.csv", "utilization.gpu [%]", *((0, 0, f"{v} %") for v in values)))
    telemetry = Telemetry(asked.scope())
    assert telemetry.load(telemetry.measured[0]).value.tolist() == values


@pytest.mark.parametrize("at_once", [1, 12, 40, 10**6])
def test_samples_are_the_same_however_many_are_read_at_once(tmp_path, asked, monkeypatch, at_once):
    monkeypatch.setattr(loading, "MOST_AT_ONCE", at_once)
    monkeypatch.setattr(loading, "MOST_KEPT", 2)
    # Device 2 has more samples than the others, so that it is read on its own between them.
    devices = [0, 1, 2, 2, 2, 3, 4]
    lines = [(k + n / 100, d, f"{10 * d + k} %", f"{d} W") for k in range(3) for n, d in enumerate(devices)]
    asked(query(tmp_path / "q.csv", "utilization.gpu [%], power.draw [W]", *lines))
    telemetry = Telemetry(asked.scope())
    for _round in range(2):
        for place in telemetry.places:
            times = 3 if place.device == 2 else 1
            for metric, wanted in (
                (Metric.UTILIZATION, [10.0 * place.device + k for k in range(3)]),
                (Metric.POWER, [float(place.device)] * 3),
            ):
                (found,) = telemetry.of(place, metric)
                assert telemetry.load(found).value.tolist() == [v for v in wanted for _ in range(times)]


def test_many_devices_are_all_listed(tmp_path, asked):
    count = 300
    lines = [(k, d, f"{d % 100} %", f"{d} W") for k in range(2) for d in range(count)]
    answer = asked(query(tmp_path / "q.csv", "utilization.gpu [%], power.draw [W]", *lines), top=0)
    samples = [(r["device"], r["metric"], r["value"]) for r in answer.metrics.rows()]
    assert samples == [
        (d, metric, float(value))
        for d in range(count)
        for _ in range(2)
        for metric, value in (("power.draw", d), ("utilization.gpu", d % 100))
    ]
    rolled = {(r["device"], r["metric"]): (r["mean"], r["n_samples"]) for r in answer.rollup.rows()}
    assert rolled == {
        (d, m): (float(v), 2) for d in range(count) for m, v in (("power.draw", d), ("utilization.gpu", d % 100))
    }
