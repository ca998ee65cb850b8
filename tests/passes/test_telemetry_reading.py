"""What telemetry says: planted phases, throttling and errors worked out by hand, processes, and traces beside it."""

import json
from datetime import UTC, datetime, timedelta

import pytest

import traceanalyzer
from tests.support.real_traces import MISSING, PUBLIC, TRACES, TRUTH, opened, rows
from tests.support.store_builder import empty_store
from traceanalyzer.ingestion import ingest
from traceanalyzer.passes.scope import resolve
from traceanalyzer.passes.selection import Selection
from traceanalyzer.passes.telemetry.contradictions import contradictions
from traceanalyzer.passes.telemetry.errors import device_errors, error_of
from traceanalyzer.passes.telemetry.names import Metric, known
from traceanalyzer.passes.telemetry.reasons import Form, decode, telling
from traceanalyzer.passes.telemetry.throttling import throttled

OURS = TRACES / "telemetry"
BEGIN = datetime(2026, 11, 29, 16, 0, 0, tzinfo=UTC)
needs_ours = pytest.mark.skipif(not OURS.exists(), reason=MISSING)
needs_public = pytest.mark.skipif(not (PUBLIC / "telemetry").exists(), reason=MISSING)


def stamp(seconds):
    return (BEGIN + timedelta(seconds=seconds)).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]


def query(path, columns, *lines):
    """A file of `nvidia-smi --query-gpu`: lines are (seconds, index, cells...)."""
    text = [f"timestamp, index, {columns}"]
    text += [", ".join([stamp(line[0]), *map(str, line[1:])]) for line in lines]
    path.write_text("\n".join(text) + "\n")
    return path


def torch_trace(path, *, begun, kernels, pid=4242):
    """A trace of one process: kernels of device 0 as (start, end) in ms after `begun` seconds of the telemetry."""
    base = int(BEGIN.timestamp()) * 10**9
    events = []
    for k, (start, end) in enumerate(kernels):
        at = (begun * 1000 + start) * 1000
        shared = {"correlation": k, "device": 0}
        events.append(
            {
                "ph": "X",
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "pid": pid,
                "tid": pid,
                "ts": at - 5,
                "dur": 3,
            }
            | {"args": {"correlation": k}}
        )
        events.append(
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at, "dur": (end - start) * 1000}
            | {"args": shared | {"stream": 7}}
        )
        events.append(
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{k}", "pid": pid, "tid": pid, "ts": at - 6}
            | {"dur": (end - start) * 1000, "args": {}}
        )
    devices = [{"id": 0, "name": "GPU"}]
    data = {"schemaVersion": 1, "baseTimeNanoseconds": base, "deviceProperties": devices, "traceEvents": events}
    path.write_text(json.dumps(data))
    return path


@pytest.fixture
def asked(tmp_path):
    """Asks for the metrics of files that are ingested as one run; `asked.scope` is for the typed functions."""
    opened_ones = []

    def ask(*files, **selection):
        while opened_ones:
            opened_ones.pop().close()
        store = tmp_path / "s.duckdb"
        store.write_bytes(empty_store().read_bytes())
        ingest(list(files), store, run="run")
        traces = traceanalyzer.open(store)
        opened_ones.append(traces)
        return traces.metrics(**selection)

    ask.opened = opened_ones
    ask.scope = lambda: resolve(opened_ones[-1]._connection, Selection())
    yield ask
    for traces in opened_ones:
        traces.close()


def codes(answer):
    return [finding.code for finding in answer.findings]


def text_of(answer, code):
    (finding,) = [f for f in answer.findings if f.code == code]
    return finding.text


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
    fitness = {row["check"]: row for row in rows(asked.opened[-1].info(), "fitness")}
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
    slow = throttled(scope)
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
    assert throttled(asked.scope()) == []


def prometheus(path, **series):
    """A range query of the Prometheus API: values a second apart; names as `GPU0_DCGM_FI_...`."""
    result = []
    for name, values in series.items():
        gpu, _, metric = name.partition("_")
        labels = {"__name__": metric, "gpu": gpu.removeprefix("GPU"), "UUID": f"GPU-{gpu}"}
        at = BEGIN.timestamp()
        result.append({"metric": labels, "values": [[at + k, str(v)] for k, v in enumerate(values)]})
    path.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}))
    return path


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
    errors = device_errors(asked.scope())
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
    found = contradictions(asked.scope())
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


# ----------------------------------------------------------------------------------------------- beside a trace


def uses(values, *, shift=0.0, every=0.1):
    """Lines of utilization: pairs of a time in seconds and a value, each until the next."""
    ends = [start for start, _ in values[1:]] + [values[-1][0] + 1]
    out = []
    for (start, value), end in zip(values, ends, strict=True):
        out += [(shift + start + every * k, 0, f"{value} %") for k in range(round((end - start) / every))]
    return out


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


def pmon(path, *lines):
    text = [
        "#Date        Time         gpu         pid   type     sm    mem     fb    command",
        "#YYYYMMDD    HH:MM:SS     ",
    ]
    text[1] += "Idx           #    C/G      %      %     MB    name"
    text += [
        f" 20261129    16:00:{at:02d}  {gpu}  {pid}  C  {sm}  {mem}  {fb}  {name}"
        for at, gpu, pid, sm, mem, fb, name in lines
    ]
    path.write_text("\n".join(text) + "\n")
    return path


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
