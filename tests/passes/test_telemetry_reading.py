"""What telemetry says: planted phases, throttling and errors worked out by hand, contradictions."""

import pytest

from tests.support.real_traces import MISSING, PUBLIC, TRACES, TRUTH, opened, rows
from tests.support.telemetry_files import BEGIN, Asked, codes, prometheus, query, text_of
from traceanalyzer.passes.telemetry.contradictions import contradictions
from traceanalyzer.passes.telemetry.errors import error_of
from traceanalyzer.passes.telemetry.names import Metric, known
from traceanalyzer.passes.telemetry.reasons import Form, decode, telling
from traceanalyzer.passes.telemetry.watched import Watched

OURS = TRACES / "telemetry"
needs_ours = pytest.mark.skipif(not OURS.exists(), reason=MISSING)
needs_public = pytest.mark.skipif(not (PUBLIC / "telemetry").exists(), reason=MISSING)


@pytest.fixture
def asked(tmp_path):
    ask = Asked(tmp_path / "s.duckdb")
    yield ask
    ask.close()


# ------------------------------------------------------------------------------------------------ what was planted


@needs_ours
@pytest.mark.parametrize("file", ["query.csv", "dmon.DT.txt"])
def test_phases_have_the_period_and_duty_that_were_planted(file):
    busy = [TRUTH["telemetry"]["phases"]["busy"][f"busy{k}"] for k in (1, 2, 3)]
    period = (busy[2]["unix_begin"] - busy[0]["unix_begin"]) / 2
    duty = sum(b["unix_end"] - b["unix_begin"] for b in busy[:2]) / (2 * period)
    with opened(OURS / "phases" / file) as traces:
        answer = traces.metrics()
    (telemetry,) = rows(answer, "telemetry", metric="utilization")
    (found,) = rows(answer, "patterns", metric="utilization")
    step = telemetry["interval_ns"]
    assert (found["device"], found["pattern"], found["low"], found["high"]) == (1, "pulsed", 0.0, 100.0)
    # The distance of two of the three pulses is known to a sample at each end.
    assert abs(found["period_ns"] - period * 1e9) <= step
    # Start-up and warm-up come before the timed steps; a pulse is known to a sample at each end.
    assert duty - step / period / 1e9 <= found["duty"] <= duty + 2 * step / period / 1e9
    assert f"period of {found['period_ns'] / 1e9:.3f} s" in text_of(answer, "pulsed_utilization")


@needs_ours
@pytest.mark.parametrize("file", ["query.csv", "dmon.pucvmet.DT.txt", "dmon.pucvmet.csv"])
def test_one_device_is_busy_and_the_other_starves(file):
    with opened(OURS / "two_gpus" / file) as traces:
        answer = traces.metrics()
    found = {row["device"]: row for row in rows(answer, "patterns", metric="utilization")}
    assert (found[0]["pattern"], found[1]["pattern"]) == ("steady high", "steady low")
    assert found[1]["high"] <= 15 and found[0]["low"] >= 60 and found[0]["high"] == 100
    text = text_of(answer, "one_device_low")
    assert text.startswith("device 1 stays low") and "device 0 stays high" in text


@needs_ours
def test_telemetry_and_trace_tell_one_story(asked):
    folder = OURS / "with_trace"
    answer = asked(folder / "query.csv", folder / "torch.json.gz")
    (found,) = answer.alignment.rows()
    assert (found["device"], found["trace_device"], found["state"], found["offset_ns"]) == (0, 0, "agree", 0)
    assert found["utilization_pct"] == 100.0 and 99 < found["busy_pct"] <= 100 and found["samples"] >= 15
    text = text_of(answer, "telemetry_agrees")
    assert "one story" in text and "utilization 100 %" in text and "offset +0:00 h" in text
    assert "coarse_sampling" in codes(answer)
    fitness = {row["check"]: row for row in rows(asked.traces.info(), "fitness")}
    assert fitness["telemetry"]["state"] == "could not look"


@needs_ours
def test_a_card_at_its_power_limit_is_throttled():
    with opened(OURS / "two_gpus" / "dmon.pucvmet.DT.txt") as traces:
        answer = traces.metrics()
    # pviol of GPU 0 is 37, 100, 100, 100, 100, 100 where sm is 50 or more; GPU 1 has none.
    (row,) = answer.throttling.rows()
    assert (row["device"], row["reason"], row["harmful"], row["name"]) == (0, "sw_power_cap", True, "pviol")
    assert row["busy_samples"] == 6 and row["busy_share"] == pytest.approx(0.895)
    assert row["clock_mhz"] < 0.9 * row["max_clock_mhz"] == 0.9 * 1980
    assert codes(answer).count("clock_throttled") == 1
    # PCIe replays that were there before say nothing of this job.
    assert [(r["error"], r["growth"], r["serious"]) for r in answer.errors.rows()] == [("pcie_replay", 0.0, False)] * 2
    assert "device_errors" not in codes(answer)


@needs_public
@pytest.mark.parametrize(
    ("file", "reasons"),
    [
        # clocks_event_reasons.active is 0 in the first three; one has 834 s of power cap since its driver was loaded.
        ("query_gpu_all_h100.csv", []),
        ("query_gpu_all_h100_mig.csv", []),
        ("query_gpu_all_windows_610.csv", [("sw_power_cap", None, 834_002_687_000)]),
        ("query_rtx4090_1s.csv.gz", []),
    ],
)
def test_captures_that_were_not_throttled(file, reasons):
    with opened(PUBLIC / "telemetry" / "smi" / file) as traces:
        answer = traces.metrics()
    assert [(r["reason"], r["busy_share"], r["throttled_ns"]) for r in answer.throttling.rows()] == reasons
    assert not {"clock_throttled", "device_errors"} & set(codes(answer))


@needs_public
def test_a_card_in_mig_mode_has_no_utilization_of_its_own():
    with opened(PUBLIC / "telemetry" / "smi" / "dmon_h100_mig_load.txt") as traces:
        answer = traces.metrics()
    (use,) = rows(answer, "telemetry", metric="utilization")
    assert (use["mean"], use["samples"], use["missing"]) == (None, 5, 5)
    assert "up to 440 W" in text_of(answer, "whole_card")


@needs_public
def test_a_scrape_with_errors():
    with opened(PUBLIC / "telemetry" / "dcgm" / "exporter_sentinel_mig.prom") as traces:
        answer = traces.metrics()
    found = {row["error"]: (row["last"], row["growth"], row["serious"]) for row in answer.errors.rows()}
    assert found == {
        "xid": (31.0, None, True),
        "row_remap_failure": (1.0, None, True),
        "rows_remapped": (7.0, None, False),
        "nvlink_replay": (4.0, None, False),
    }
    assert codes(answer).count("device_errors") == 2
    assert "MIG" in text_of(answer, "whole_card")


# --------------------------------------------------------------------------------------------------- worked by hand


REASONS = "utilization.gpu [%], clocks.current.sm [MHz], clocks.max.sm [MHz], clocks_event_reasons.active"


def test_reasons_are_counted_over_the_busy_samples(tmp_path, asked):
    lines = [(k, 0, "90 %", "1200 MHz", "1980 MHz", "0x0000000000000024") for k in range(3)]
    lines += [(3 + k, 0, "90 %", "1980 MHz", "1980 MHz", "0x0000000000000000") for k in range(1)]
    lines += [(4 + k, 0, "0 %", "345 MHz", "1980 MHz", "0x0000000000000001") for k in range(4)]
    answer = asked(query(tmp_path / "q.csv", REASONS, *lines))
    found = {r["reason"]: (r["harmful"], r["busy_share"], r["share"], r["clock_mhz"]) for r in answer.throttling.rows()}
    assert found == {
        "gpu_idle": (False, 0.0, 0.5, 345.0),
        "sw_power_cap": (True, 0.75, 0.375, 1200.0),
        "sw_thermal_slowdown": (True, 0.75, 0.375, 1200.0),
    }
    scope = asked.scope()
    slow = Watched(scope).throttled
    assert [(t.device, t.reason, t.busy_share) for t in slow] == [
        (0, "sw_power_cap", 0.75),
        (0, "sw_thermal_slowdown", 0.75),
    ]
    for each in slow:
        (row,) = rows(answer, each.table, **each.row)
        assert row["text"] == each.text and row["busy_share"] == each.busy_share


def test_settings_and_idleness_are_no_throttling(tmp_path, asked):
    lines = [(k, 0, "90 %", "1200 MHz", "1980 MHz", "0x0000000000000002") for k in range(4)]
    lines += [(4 + k, 0, "0 %", "345 MHz", "1980 MHz", "0x0000000000000001") for k in range(4)]
    answer = asked(query(tmp_path / "q.csv", REASONS, *lines))
    assert [(r["reason"], r["harmful"]) for r in answer.throttling.rows()] == [
        ("gpu_idle", False),
        ("applications_clocks_setting", False),
    ]
    assert "clock_throttled" not in codes(answer)


def test_low_clocks_without_a_reason_are_told_and_no_verdict(tmp_path, asked):
    lines = [(k, 0, "90 %", "1200 MHz", "1980 MHz", "0x0000000000000000") for k in range(6)]
    answer = asked(query(tmp_path / "q.csv", REASONS, *lines))
    (row,) = answer.throttling.rows()
    assert (row["reason"], row["harmful"], row["clock_mhz"], row["max_clock_mhz"]) == (
        "low_clock",
        None,
        1200.0,
        1980.0,
    )
    assert Watched(asked.scope()).throttled == []


def test_counters_count_by_their_growth(tmp_path, asked):
    file = prometheus(
        tmp_path / "p.json",
        GPU0_DCGM_FI_DEV_POWER_VIOLATION=[7e9, 7e9, 7.5e9, 8.5e9, 8.5e9],
        GPU0_DCGM_FI_DEV_XID_ERRORS=[0, 0, 79, 79, 79],
        GPU0_DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL=[5, 5, 5, 9, 9],
        GPU0_DCGM_FI_DEV_PCIE_REPLAY_COUNTER=[3, 3, 3, 3, 3],
        GPU0_DCGM_FI_DEV_ECC_SBE_VOL_TOTAL=[0, 1, 1, 1, 2],
        GPU1_DCGM_FI_DEV_XID_ERRORS=[0, 0, 0, 0, 0],
        GPU1_DCGM_FI_DEV_POWER_VIOLATION=[7e9, 7e9, 7e9, 7e9, 7e9],
        GPU2_DCGM_FI_DEV_POWER_VIOLATION=[0, 3e9, 6e9, 9e9, 12e9],
    )
    answer = asked(file)
    slow = {row["device"]: (row["throttled_ns"], row["share"]) for row in answer.throttling.rows()}
    assert slow[0] == (1_500_000_000, pytest.approx(1.5 / 4)) and 1 not in slow
    (odd,) = rows(answer, "throttling", device=2)
    assert "another unit" in odd["text"] or "more than the time that passed" in odd["text"]
    second = int(BEGIN.timestamp()) * 10**9
    found = {
        r["error"]: (r["first"], r["last"], r["growth"], r["serious"], r["changed_ns"]) for r in answer.errors.rows()
    }
    assert found == {
        "xid": (0.0, 79.0, None, True, second + 2 * 10**9),
        "nvlink_replay": (5.0, 9.0, 4.0, True, second + 3 * 10**9),
        "pcie_replay": (3.0, 3.0, 0.0, False, None),
        "ecc_correctable": (0.0, 2.0, 2.0, False, second + 10**9),
    }
    errors = Watched(asked.scope()).errors
    assert [e.error for e in errors if e.serious] == ["xid", "nvlink_replay"]
    for each in errors:
        (row,) = rows(answer, each.table, **each.row)
        assert row["text"] == each.text
    assert "fallen off the bus" in errors[0].text


def test_high_utilization_with_little_activity_is_a_contradiction(tmp_path, asked):
    file = prometheus(
        tmp_path / "p.json",
        GPU0_DCGM_FI_DEV_GPU_UTIL=[100] * 20,
        GPU0_DCGM_FI_PROF_SM_ACTIVE=[0.1] * 20,
        GPU0_DCGM_FI_PROF_DRAM_ACTIVE=[0.05] * 20,
        GPU1_DCGM_FI_DEV_GPU_UTIL=[100] * 20,
        GPU1_DCGM_FI_PROF_SM_ACTIVE=[0.9] * 20,
        GPU1_DCGM_FI_PROF_DRAM_ACTIVE=[0.8] * 20,
        GPU1_DCGM_FI_PROF_PIPE_TENSOR_ACTIVE=[0.1] * 20,
        GPU2_DCGM_FI_DEV_GPU_UTIL=[100] * 20,
        GPU2_DCGM_FI_PROF_SM_ACTIVE=[0.95] * 20,
        GPU2_DCGM_FI_PROF_DRAM_ACTIVE=[0.1] * 20,
        GPU2_DCGM_FI_PROF_PIPE_TENSOR_ACTIVE=[0.05] * 20,
    )
    answer = asked(file)
    readings = {row["device"]: (row["over"], row["reading"], row["sm_active_pct"]) for row in answer.readings.rows()}
    assert readings == {
        0: ("all", "starved", pytest.approx(10)),
        1: ("all", "memory_limited", pytest.approx(90)),
        2: ("all", "kernel_efficiency", pytest.approx(95)),
    }
    text = text_of(answer, "utilization_without_activity")
    assert text.startswith("device 0: utilization is 100 %, yet only 10 % of the multiprocessors")
    found = contradictions(Watched(asked.scope()))
    assert [f.text for f in found if f.code == "utilization_without_activity"] == [text]


def test_sources_that_disagree_are_both_shown(tmp_path, asked):
    use = "utilization.gpu [%], power.draw [W]"
    first = query(tmp_path / "a.csv", use, *((k, 0, "90 %", "400.00 W") for k in range(20)))
    other = query(tmp_path / "b.csv", use, *((k + 0.3, 0, "50 %", "405.00 W") for k in range(20)))
    answer = asked(first, other)
    text = text_of(answer, "sources_disagree")
    assert "utilization is 90 % by query_gpu" in text and "50 % by query_gpu" in text
    (found,) = [f for f in answer.findings if f.code == "sources_disagree"]
    assert "power" not in found.text


def test_a_series_without_times_has_no_period_in_ns(tmp_path, asked):
    head = "# gpu    pwr     sm\n# Idx      W      %\n"
    body = "".join(f"    0    100    {100 if k % 8 < 3 else 0}\n" for k in range(60))
    (tmp_path / "dmon.txt").write_text(head + body)
    answer = asked(tmp_path / "dmon.txt")
    (found,) = rows(answer, "patterns", metric="utilization")
    assert (found["pattern"], found["period_ns"]) == ("pulsed", None)
    assert found["period_samples"] == pytest.approx(8, rel=0.01) and found["duty"] == pytest.approx(3 / 8, abs=0.01)
    assert "8.0 rounds of readings" in found["text"]
    assert {row["interval_ns"] for row in answer.telemetry.rows()} == {None}
    assert {row["period_ns"] for row in answer.rollup.rows()} == {None}


# ---------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("source", "name", "unit", "metric", "scale"),
    [
        ("query_gpu", "utilization.gpu", "%", Metric.UTILIZATION, 1),
        ("dmon", "sm", "%", Metric.UTILIZATION, 1),
        ("dcgm", "GPUTL", "%", Metric.UTILIZATION, 1),
        ("dcgm", "DCGM_FI_DEV_GPU_UTIL_RATIO", "%", Metric.UTILIZATION, 1),
        ("dcgm", "nvidia_smi_utilization_gpu_ratio", "0-1", Metric.UTILIZATION, 100),
        ("dcgm", "DCGM_FI_PROF_SM_ACTIVE", "0-1", Metric.SM_ACTIVE, 100),
        ("dcgm", "1004", "0-1", Metric.TENSOR_ACTIVE, 100),
        ("dmon", "fb", "MB", Metric.MEMORY_USED, 1),
        ("superbench_monitor", "gpu_mem_used", "bytes", Metric.MEMORY_USED, 1 / 2**20),
        ("smi_report", "Clocks.SM", "MHz", Metric.SM_CLOCK, 1),
        ("smi_report", "gpu_power_readings.instant_power_draw", "W", Metric.POWER, 1),
    ],
)
def test_one_name_whatever_the_source_calls_it(source, name, unit, metric, scale):
    found = known(source, name, unit)
    assert found is not None and (found.metric, found.scale) == (metric, scale)


@pytest.mark.parametrize(
    ("source", "name", "unit"),
    [
        ("pmon", "sm", "%"),
        ("query_gpu", "module.power.draw.average", "W"),
        ("smi_report", "GPU Memory Power Readings.Average Power Draw", "W"),
        ("smi_report", "BAR1 Memory Usage.Used", "MiB"),
        ("query_gpu", "temperature.gpu.tlimit", "C"),
        ("dcgm", "DCGM_FI_DEV_FB_USED_PERCENT", "0-1"),
        ("query_gpu", "power.draw", "furlongs"),
    ],
)
def test_what_is_like_a_canonical_metric_and_is_none(source, name, unit):
    assert known(source, name, unit) is None


def test_reasons_and_errors_by_their_names():
    assert decode(0x0) == [] and decode(0x5) == ["gpu_idle", "sw_power_cap"]
    assert decode(0xE8) == ["hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"]
    assert decode(0x1000) == ["0x1000"]
    forms = {
        ("query_gpu", "clocks_throttle_reasons.active"): ("", Form.MASK),
        ("dcgm", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"): ("", Form.MASK),
        ("query_gpu", "clocks_event_reasons.hw_thermal_slowdown"): ("hw_thermal_slowdown", Form.FLAG),
        ("smi_report", "Clocks Event Reasons Counters.SW Power Capping"): ("sw_power_cap", Form.COUNTER),
        ("smi_report", "Clocks Event Reasons.Idle"): ("gpu_idle", Form.FLAG),
    }
    for (source, name), wanted in forms.items():
        found = telling(source, name, None)
        assert found is not None and (found.reason, found.form) == wanted, name
    assert telling("query_gpu", "clocks_event_reasons.supported", None) is None
    assert error_of("query_gpu", "ecc.errors.uncorrected.volatile.total") == "ecc_uncorrectable"
    assert error_of("query_gpu", "ecc.mode.current") is None and error_of("query_gpu", "pci") is None
    assert error_of("dmon", "pci") == "pcie_replay"
