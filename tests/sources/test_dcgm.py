"""DCGM: scrapes, answers of Prometheus, `dcgmi dmon` and tables of field values."""

import gzip
import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.memory_sink import MemorySink
from tests.support.reading import EVERYTHING, kept_of_cut, read, read_text, samples
from tests.support.real_traces import MISSING, PUBLIC
from traceanalyzer.errors import SourceError
from traceanalyzer.sources import dcgm
from traceanalyzer.sources.dcgm.fields import FIELDS, field_of, unit_of
from traceanalyzer.sources.dcgm.values import is_blank
from traceanalyzer.sources.files import TraceFile

REAL = PUBLIC / "telemetry" / "dcgm"
real = pytest.mark.skipif(not REAL.is_dir(), reason=MISSING)
S = 10**9


def scrape(*lines):
    return "".join(f"{line}\n" for line in lines)


def devices(sink):
    return [(row["device"], row["name"], row["uuid"]) for row in sink.rows("devices")]


ONE = scrape(
    "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).",
    "# TYPE DCGM_FI_DEV_GPU_UTIL gauge",
    'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",modelName="H100",Hostname="n1"} 80',
    'DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",modelName="H100",Hostname="n1"} 60.5',
    "# TYPE DCGM_FI_DEV_PCIE_REPLAY_COUNTER counter",
    'DCGM_FI_DEV_PCIE_REPLAY_COUNTER{gpu="0",UUID="GPU-a",modelName="H100",Hostname="n1"} 3',
)


def test_a_field_has_all_its_names():
    names = ["203", "GPUTL", "gputl", "gpu_utilization", "dcgm_gpu_utilization", "DEV_GPU_UTIL"]
    names += ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"]
    assert {field_of(name).number for name in names} == {203}
    assert {unit_of(name) for name in names} == {"%"}
    assert field_of("DCGM_FI_DEV_BOARD_POWER_WATTS") is field_of("155") is field_of("POWER")
    assert field_of("DCGM_FI_DEV_CLOCKS_EVENT_REASONS") is field_of("current_clock_throttle_reasons")
    assert field_of("DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL").unit is None
    assert unit_of("DCGM_FI_DEV_FB_USED_PERCENT") == unit_of("SMACT") == "0-1"
    assert unit_of("DCGM_FI_PROF_TENSOR_UTIL_RATIO") == "0-1" and field_of("nonsense") is None


def test_no_two_fields_share_a_name():
    for part in ("number", "name", "renamed", "short", "tag"):
        told = [value for field in FIELDS if (value := getattr(field, part)) is not None]
        assert len(told) == len(set(told)), part
    assert len({n.lower() for f in FIELDS for n in (f.name, f.renamed, f.short, f.tag) if n}) == sum(
        n is not None for f in FIELDS for n in (f.name, f.renamed, f.short, f.tag)
    )


@pytest.mark.parametrize(
    ("name", "told", "unit"),
    [
        ("DCGM_FI_DEV_POWER_VIOLATION", None, "ns"),
        ("DCGM_FI_DEV_POWER_VIOLATION", "us", "us"),
        ("DCGM_FI_DEV_GPU_UTIL", "us", "%"),
        ("DCGM_FI_DEV_SOMETHING_NEW", "MHz", "MHz"),
        ("DCGM_FI_DEV_SOMETHING_WATTS", None, "W"),
        ("nvidia_smi_memory_used_bytes", None, "bytes"),
        ("nvidia_smi_utilization_gpu_ratio", None, "0-1"),
        ("nvidia_smi_temperature_gpu", None, "C"),
        ("nvidia_smi_pstate", None, None),
        ("node_memory_bytes", None, None),
    ],
)
def test_units(name, told, unit):
    assert unit_of(name, told) == unit


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775792", None),
        ("9223372036854775794", None),
        ("9.223372036854776e18", None),
        ("2147483632", None),
        ("2147483634", None),
        ("140737488355328", None),
        ("140737488355330.0", None),
        ("NaN", None),
        ("+Inf", None),
        ("2147483631", 2147483631.0),
        ("2147483648", 2147483648.0),
        ("140737488355345", 140737488355345.0),
        ("0", 0.0),
        ("-1", -1.0),
        ("1.1665408e+10", 1.1665408e10),
    ],
)
def test_blank_values_are_null_and_never_zero(tmp_path, text, value):
    sink = read_text(tmp_path, f'DCGM_FI_DEV_FB_USED{{gpu="0"}} {text}\n')
    assert samples(sink, "metric", "metric_unit", "value") == [("DCGM_FI_DEV_FB_USED", "MiB", value)]


def test_blank_values_of_floats():
    assert is_blank(float(2**63)) and not is_blank(float(2**63 - 2048)) and not is_blank(0.5)


def test_a_scrape(tmp_path):
    sink = read_text(tmp_path, ONE, source="dcgm")
    # prometheus_client would call the counter ..._COUNTER_total.
    assert samples(sink, "device", "metric", "metric_unit", "t_ns", "tick", "value") == [
        (0, "DCGM_FI_DEV_GPU_UTIL", "%", None, 0, 80.0),
        (1, "DCGM_FI_DEV_GPU_UTIL", "%", None, 0, 60.5),
        (0, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", None, None, 0, 3.0),
    ]
    assert devices(sink) == [(0, "H100", "GPU-a"), (1, "H100", "GPU-b")]
    assert (sink.facts.host, sink.facts.format_version, sink.facts.utc_offset_ns) == ("n1", "exposition", None)
    assert not sink.notes


def test_scrapes_without_times_are_told_apart_by_what_comes_again(tmp_path):
    sink = read_text(tmp_path, ONE * 3)
    assert [tick for (tick,) in samples(sink, "tick")] == [0] * 3 + [1] * 3 + [2] * 3


def test_one_family_alone_comes_again(tmp_path):
    sink = read_text(tmp_path, 'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 1\nDCGM_FI_DEV_GPU_UTIL{gpu="1"} 2\n' * 2)
    assert samples(sink, "device", "tick") == [(0, 0), (1, 0), (0, 1), (1, 1)]


@pytest.mark.parametrize(
    ("stamp", "t_ns"),
    [
        ("1767225600.123456789", 1767225600_123456789),
        ("1767225600", 1767225600 * S),
        ("1767225600123", 1767225600_123 * 10**6),
        ("# timestamp: 1767225600.5", 1767225600_500000000),
        ("2026-01-01T00:00:00Z", 1767225600 * S),
        ("2026-01-01 01:00:00.25+01:00", 1767225600_250000000),
    ],
)
def test_a_line_with_a_time_dates_the_scrape(tmp_path, stamp, t_ns):
    sink = read_text(tmp_path, f"{stamp}\n{ONE}")
    assert samples(sink, "t_ns", "tick") == [(t_ns, None)] * 3
    assert (sink.facts.start_ns, sink.facts.end_ns, sink.facts.utc_offset_ns) == (t_ns, t_ns, 0)


def test_times_behind_values_are_milliseconds_or_seconds(tmp_path):
    line = 'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 5'
    sink = read_text(tmp_path, f"{line} 1767225600123\n{line} 1767225601.5\n# EOF\n")
    assert samples(sink, "t_ns") == [(1767225600_123000000,), (1767225601_500000000,)]


def test_a_torn_scrape_costs_its_torn_line_and_gets_no_wrong_time(tmp_path):
    lines = ONE.splitlines(keepends=True)
    # The second scrape ends within a line, and the time of the third is glued to it.
    text = f"100000000\n{ONE}100000010\n{lines[2]}{lines[3][:40]}100000020\n{ONE}100000030\n{ONE}"
    sink = read_text(tmp_path, text)
    times = [t for (t,) in samples(sink, "t_ns")]
    assert times == [100000000 * S] * 3 + [100000010 * S] + [None] * 3 + [100000030 * S] * 3
    assert sink.notes["torn_lines", "Lines that are no whole sample were left out."] == 1
    assert [code for code, _ in sink.notes] == ["torn_lines", "scrapes_without_time"]


@pytest.mark.parametrize(
    "torn",
    [
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"}',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 8DCGM_FI_DEV_GPU_UTIL{gpu="1"} 5',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UDCGM_FI_DEV_GPU_UTIL{gpu="1"} 5',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 8 0 5',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"} eight',
        "curl: (7) Failed to connect",
    ],
)
def test_torn_lines_are_left_out_and_said(tmp_path, torn):
    sink = read_text(tmp_path, f"{ONE}{torn}\n")
    assert len(samples(sink)) == 3
    assert sink.notes["torn_lines", "Lines that are no whole sample were left out."] == 1


def test_instances_of_mig_are_told_apart_by_their_number(tmp_path):
    lines = [f'DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="GPU-a",GPU_I_ID="{n}"}} {v}' for n, v in ((7, 1.294), (8, 0.5))]
    sink = read_text(tmp_path, scrape(*lines, 'DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-a"} 0.9'))
    assert samples(sink, "device", "instance", "value") == [(0, "MIG 7", 1.294), (0, "MIG 8", 0.5), (0, None, 0.9)]
    assert [code for code, _ in sink.notes] == ["ratio_above_one"]


def test_hosts_are_told_apart_and_pods_are_not_kept(tmp_path):
    line = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-%s",Hostname="secret-%s",pod="secret-pod"} 5'
    path = tmp_path / "file.prom"
    path.write_text(scrape(line % ("a", "a"), line % ("b", "b")))
    sink = read(path)
    assert samples(sink, "device", "instance") == [(0, None), (0, "host 2")]
    assert sink.facts.host is None and sink.facts.metadata == {"hosts": 2}
    assert not any("secret" in text for text in sink.texts.all)
    kept = read(path, keep_environment=True)
    assert samples(kept, "instance")[1] == ("host secret-b",) and kept.facts.metadata["pods"] == ["secret-pod"]


def test_nvidia_gpu_exporter_tells_numbers_after_values(tmp_path):
    sink = read_text(
        tmp_path,
        scrape(
            'nvidia_smi_compute_app_used_memory_bytes{pid="21",process_name="/home/me/x",uuid="u1"} 5',
            'nvidia_smi_gpu_info{index="1",name="H100",uuid="u1",driver_version="590.48"} 1',
            'nvidia_smi_index{uuid="u2"} 0',
            'nvidia_smi_power_draw_watts{uuid="u2"} 70',
            'nvidia_smi_power_draw_watts{uuid="u3"} 71',
            "go_goroutines 12",
        ),
    )
    assert samples(sink, "device", "instance", "process", "metric", "metric_unit", "value") == [
        (1, None, 21, "nvidia_smi_compute_app_used_memory_bytes", "bytes", 5.0),
        (0, None, None, "nvidia_smi_index", None, 0.0),
        (0, None, None, "nvidia_smi_power_draw_watts", "W", 70.0),
        (None, "GPU u3", None, "nvidia_smi_power_draw_watts", "W", 71.0),
    ]
    assert devices(sink) == [(0, None, "u2"), (1, "H100", "u1")]
    assert sink.facts.metadata["driver_version"] == "590.48"
    assert not any("/home/me" in text for text in sink.texts.all)


def answer(kind, *series):
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": list(series)}})


UTIL = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", "UUID": "GPU-a", "Hostname": "n1", "exported_pod": "p"}


def test_answers_of_prometheus(tmp_path):
    ranges = {"metric": UTIL, "values": [[1767225600, "5"], [1767225601.781, "NaN"], [1767225602, "7"]]}
    sink = read_text(tmp_path, answer("matrix", ranges), source="dcgm")
    at = [1767225600 * S, 1767225601_781000000, 1767225602 * S]
    assert samples(sink, "device", "metric", "metric_unit", "t_ns", "value") == [
        (0, "DCGM_FI_DEV_GPU_UTIL", "%", t, v) for t, v in zip(at, (5.0, None, 7.0), strict=True)
    ]
    assert (sink.facts.start_ns, sink.facts.end_ns, sink.facts.utc_offset_ns) == (at[0], at[2], 0)
    once = read_text(tmp_path, answer("vector", {"metric": UTIL, "value": [1767225600.5, "9223372036854775794"]}))
    assert samples(once, "t_ns", "value") == [(1767225600_500000000, None)]


def test_series_that_labels_of_gpus_do_not_tell_apart_are_numbered(tmp_path):
    values = [[100, "1"], [200, "2"]]
    alike = [{"metric": UTIL | {"exported_pod": pod}, "values": values} for pod in "ab"]
    later = {"metric": UTIL | {"exported_pod": "c"}, "values": [[300, "3"]]}
    sink = read_text(tmp_path, answer("matrix", *alike, later))
    assert [i for (i,) in samples(sink, "instance")] == [None, None, "series 2", "series 2", None]
    assert [code for code, _ in sink.notes] == ["series_alike"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            '{"status":"error","errorType":"bad_data","error":"parse\\nerror"}',
            "answered with an error, bad_data: parse",
        ),
        ('{"status":"success","data":{"resultType":"vector","result":[]}}', "no whole sample"),
        ('{"status":"success"}', "without series"),
        ('{"status":"success","data":{"resultType":"scalar","result":[100,"5"]}}', "no whole sample"),
    ],
)
def test_answers_without_samples_are_refused_in_one_line(tmp_path, text, why):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(SourceError, match=why) as found:
        read(path, "dcgm")
    assert "\n" not in str(found.value)


DMON = """#Entity   GRACT        GPUTL        POWER
ID                                     W
GPU 1     N/A          100          637.2
GPU 0     0.981        N/W          70.1
GPU-I 21  1.294        N/A          N/A
GPU 1     0.902        98           640.0
GPU 0     0.000        0            69.9
#Entity   SMACT
ID
GPU 1     0.5
"""


def test_dcgmi_dmon(tmp_path):
    sink = read_text(tmp_path, DMON, source="dcgm")
    assert samples(sink, "device", "instance", "metric", "metric_unit", "tick", "value") == [
        (1, None, "GRACT", "0-1", 0, None),
        (1, None, "GPUTL", "%", 0, 100.0),
        (1, None, "POWER", "W", 0, 637.2),
        (0, None, "GRACT", "0-1", 0, 0.981),
        (0, None, "GPUTL", "%", 0, None),
        (0, None, "POWER", "W", 0, 70.1),
        (None, "GPU-I 21", "GRACT", "0-1", 0, 1.294),
        (None, "GPU-I 21", "GPUTL", "%", 0, None),
        (None, "GPU-I 21", "POWER", "W", 0, None),
        (1, None, "GRACT", "0-1", 1, 0.902),
        (1, None, "GPUTL", "%", 1, 98.0),
        (1, None, "POWER", "W", 1, 640.0),
        (0, None, "GRACT", "0-1", 1, 0.0),
        (0, None, "GPUTL", "%", 1, 0.0),
        (0, None, "POWER", "W", 1, 69.9),
        (1, None, "SMACT", "0-1", 2, 0.5),
    ]
    assert [code for code, _ in sink.notes] == ["ratio_above_one"]


def test_rows_that_do_not_fit_the_header_are_left_out(tmp_path):
    sink = read_text(tmp_path, DMON + "GPU 0  0.5  7\nGPU 0 eh\n\nError: lost\n")
    assert len(samples(sink)) == 16
    assert sink.notes["torn_lines", "Rows that do not fit the header were left out."] == 3


def test_tables_of_field_values(tmp_path):
    text = "GPUId,TimeStampUs,Field,Values\n0,1718783836956328,power_usage_instant,71.20\n"
    text += "1,1718783836956328,sm_active,1.5\n"
    sink = read_text(tmp_path, text + "0,,power_usage,1\nx,1718783836956328,power_usage,1\n0,1718783836956328\n")
    assert samples(sink, "device", "metric", "metric_unit", "t_ns", "value") == [
        (0, "power_usage_instant", "W", 1718783836956328000, 71.2),
        (1, "sm_active", "0-1", 1718783836956328000, 1.5),
    ]
    assert {code: n for (code, _), n in sink.notes.items()} == {"torn_lines": 3, "ratio_above_one": 1}


CUTS = {
    "scrape.prom": f"1767225600.5\n{ONE}1767225601.5\n{ONE}".encode(),
    "dmon.txt": DMON.encode(),
    "answer.json": answer("matrix", {"metric": UTIL, "values": [[100, "12"], [200, "34"]]}, *[
        {"metric": UTIL | {"gpu": str(n)}, "values": [[100.5, "56"]]} for n in (1, 2)
    ]).encode(),
    "fields.csv": b"GPUId,TimeStampUs,Field,Values\n0,1718783836956328,power_usage,71.2\n1,1718783836956329,fb_free,1\n"
}  # fmt: skip


@pytest.mark.parametrize("name", CUTS)
def test_cut_at_any_byte_no_number_is_wrong(tmp_path, name):
    whole = kept_of_cut(tmp_path, CUTS[name], len(CUTS[name]), name)
    assert whole
    last = Counter()
    for at in range(0, len(CUTS[name]), 2):
        kept = kept_of_cut(tmp_path, CUTS[name], at, name)
        assert kept is None or kept <= whole, at
        last = last if kept is None else kept
    assert sum(last.values()) >= 0.5 * sum(whole.values())


LABELS = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\x00", exclude_categories=("Cs",)), max_size=12)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(0, 15),
            LABELS,
            st.floats(-1e12, 1e12).filter(lambda v: not is_blank(v)),
            st.integers(10**12, 2 * 10**12),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_what_is_exposed_is_read(tmp_path, rows):
    """Labels hold anything: quotes, braces, marks of comments, what looks like a value."""
    lines = []
    for gpu, label, value, at in rows:
        escaped = label.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'DCGM_FI_DEV_POWER_USAGE{{x="{escaped}",gpu="{gpu}"}} {value!r} {at}')
    sink = read_text(tmp_path, scrape(*lines))
    expected = [(gpu, value, at * 10**6) for gpu, label, value, at in rows]
    assert samples(sink, "device", "value", "t_ns") == expected


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.sampled_from(sorted(CUTS)), st.integers(0, 10**6))
def test_damage_gives_an_answer_or_one_line(tmp_path, garbage, name, at):
    content = CUTS[name]
    at %= len(content)
    kept_of_cut(tmp_path, content[:at] + garbage + content[at + len(garbage) // 2 :], 10**6, name)


def test_packed_and_utf16(tmp_path):
    plain = samples(read_text(tmp_path, ONE), *EVERYTHING)
    assert samples(read_text(tmp_path, gzip.compress(ONE.encode()), "a.prom.gz"), *EVERYTHING) == plain
    assert samples(read_text(tmp_path, DMON.encode("utf-16")), "value") == samples(read_text(tmp_path, DMON), "value")


@real
@pytest.mark.parametrize("name", ["default-counters.csv", "dcp-metrics-included.csv"])
def test_the_configuration_of_the_exporter_is_no_output(name):
    file = TraceFile(REAL / name)
    assert not dcgm.SOURCE.recognise(file)
    assert "configuration of dcgm-exporter" in dcgm.SOURCE.why_not(file)


@real
def test_real_files_hold_their_facts():
    rows = {
        (r.get("instance"), r["metric"]): r["value"]
        for r in read(REAL / "exporter_sentinel_mig.prom").rows("metric_samples")
    }
    assert rows[None, "DCGM_FI_DEV_MEMORY_TEMP"] is None
    assert (rows[None, "DCGM_FI_DEV_GPU_UTIL"], rows["MIG 2", "DCGM_FI_DEV_GPU_UTIL"]) == (80.0, 60.0)
    assert rows["NVLink 1", "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"] == 4.0
    smi = read(REAL / "smi_exporter_h100_mig_load.metrics")
    used = [r for r in smi.rows("metric_samples") if r["metric"] == "nvidia_smi_memory_used_bytes"]
    assert [(r["device"], r["metric_unit"], r["value"] / 2**20) for r in used] == [(0, "bytes", 11125.0)]
    assert smi.rows("devices")[0]["name"] == "NVIDIA H100 80GB HBM3"
    assert ("GPU-I 21", "SMACT", 1.294) in samples(
        read(REAL / "dcgmi_dmon_mig_over_1.txt"), "instance", "metric", "value"
    )
    dump = read(REAL / "field_api_dump.csv")
    assert len(samples(dump)) == 171 and {d for (d,) in samples(dump, "device")} == set(range(8))
    assert isinstance(dump, MemorySink) and not dump.notes
