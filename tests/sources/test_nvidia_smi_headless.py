"""Output of nvidia-smi without its header: what is told by the values, what is refused; and errors of NVLink."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.real_traces import MISSING, TRACES
from tests.support.smi_reading import codes, read_path, read_text, samples
from tests.support.telemetry_files import Asked
from traceanalyzer.errors import SourceError
from traceanalyzer.ingestion import find_files
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.nvidia_smi import SOURCE

SETS = TRACES / "telemetry" / "two_gpus"
DEFAULT = " 16:10:0{}, {}, 136, 42, 41, 97, 12, 0, 0, 0, 0, 3201, 1980\n"
OLD = " 20261129, 16:10:0{}, {}, 70, 42, -, 97, 12, 0, 0, 5000, 1590\n"


def rows(form, rounds=3, devices=2):
    return "".join(form.format(k, device) for k in range(rounds) for device in range(devices))


def recognised(folder: Path, text: str) -> bool:
    path = folder / "x.csv"
    path.write_text(text)
    return SOURCE.recognise(TraceFile(path))


@pytest.mark.parametrize("form", [DEFAULT, OLD, DEFAULT.replace(",", " ")])
def test_the_default_set_of_dmon_is_told_by_its_columns_and_values(form):
    sink = read_text(rows(form))
    assert samples(sink, "sm") == [97] * 6 and samples(sink, "sm", "device") == [0, 1] * 3
    assert samples(sink, "mclk", "metric_unit")[0] == "MHz" and samples(sink, "pclk")[0] in (1980, 1590)
    assert samples(sink, "mtemp")[0] == (41 if form is not OLD else None)
    (text,) = [text for code, text in sink.notes if code == "no_header"]
    assert "pwr, gtemp, mtemp, sm, mem, enc, dec" in text and "dmon -s puc" in text


@pytest.mark.parametrize(
    "text",
    [
        rows(DEFAULT.replace(", 1980", "")),  # no set of so many columns
        rows(DEFAULT.replace("97", "970")),  # no share in percent
        rows(DEFAULT.replace("3201, 1980", "12, 30")),  # traffic of PCIe, not clocks
        "".join(DEFAULT.format(k % 10, 0).replace("3201", str(300 + k)) for k in range(20)),  # the same
        rows(DEFAULT.replace("16:10:0{}, ", "{}")),  # no time
        rows(DEFAULT)[: len(DEFAULT) * 2] + "step 1 of 2\n" * 5,
    ],
)
def test_rows_that_may_be_of_another_set_are_not_taken(tmp_path, text):
    assert not recognised(tmp_path, text)


@given(st.integers(0, len(rows(DEFAULT))))
def test_cut_anywhere_no_value_is_another(at):
    whole = read_text(rows(DEFAULT)).rows("metric_samples")
    known = {(row["metric"], row["device"], row["t_ns"]): row["value"] for row in whole}
    with tempfile.TemporaryDirectory() as folder:
        if not recognised(Path(folder), rows(DEFAULT)[:at]):
            assert at < len(DEFAULT.format(0, 0)) - 1
            return
        sink = read_path(Path(folder) / "x.csv")
    for row in sink.rows("metric_samples"):
        value = row.get("value")
        assert value is None or value == known[row["metric"], row["device"], row["t_ns"]]


@pytest.mark.skipif(not SETS.is_dir(), reason=MISSING)
def test_the_real_file_without_a_header_reads_as_its_columns_do():
    sink = read_path(SETS / "dmon.noheader.csv")
    head = read_path(SETS / "dmon.pucvmet.csv")
    metrics = [row["metric"] for row in sink.rows("metric_samples")]
    assert set(metrics) == {row["metric"] for row in head.rows("metric_samples")}
    assert samples(sink, "pwr")[:3] == [136, 139, 106] and samples(sink, "txpci")[:4] == [4, 3, 6, 2]
    assert samples(sink, "sm", "device")[:4] == [0, 1, 0, 1] and not samples(sink, "time")


@pytest.mark.skipif(not SETS.is_dir(), reason=MISSING)
def test_a_query_without_names_and_units_is_refused_and_says_what_to_do():
    with pytest.raises(SourceError, match="record without noheader"):
        find_files([SETS / "query.noheader.nounits.csv"])


@pytest.mark.skipif(not SETS.is_dir(), reason=MISSING)
def test_a_query_without_a_header_has_the_devices_and_power_of_the_one_with_it(tmp_path):
    named = read_path(SETS / "query.csv")
    path = tmp_path / "q.csv"
    path.write_text((SETS / "query.csv").read_text().partition("\n")[2])
    sink = read_path(path)
    assert samples(sink, "power.draw") == samples(named, "power.draw")
    assert samples(sink, "power.draw", "device") == samples(named, "power.draw", "device")
    assert samples(sink, "column 4") == samples(named, "utilization.gpu")
    assert [text for code, text in sink.notes if code == "column_assumed"] == [
        "Column 2 counts from 0 to 1 in turn: it is taken for the index of the GPU.",
        "Column 8, the only one in W, changes: it is taken for power.draw.",
    ]


TICK = "2026/11/29 16:10:{:02}.000, {}, 50 %, {}, {:.2f} W, 700.00 W\n"


def test_of_two_columns_in_watts_none_is_named_and_of_two_that_count_none_is_the_index():
    text = "".join(TICK.format(k, device, device, 100 + k) for k in range(4) for device in range(3))
    sink = read_text(text)
    assert samples(sink, "column 5")[:4] == [100, 100, 100, 101] and not samples(sink, "power.draw")
    assert "column_assumed" not in codes(sink)


def test_a_limit_in_watts_is_no_draw_and_temperatures_are_no_index():
    lines = [f"2026/11/29 16:10:{k:02}.000, {41 + device}, 700.00 W" for k in range(4) for device in range(2)]
    sink = read_text("\n".join(lines) + "\n")
    assert samples(sink, "column 3") == [700] * 8 and "column_assumed" not in codes(sink)


@given(st.integers(2, 9), st.integers(2, 6), st.integers(0, 100))
def test_the_index_is_found_where_single_rows_are_lost(devices, rounds, lost):
    lines = [
        f"2026/11/29 16:10:{k:02}.000, {device}, {10 * device} %\n" for k in range(rounds) for device in range(devices)
    ]
    kept = [line for k, line in enumerate(lines) if len(lines) < 20 or k != 1 + lost % (len(lines) - 2)]
    sink = read_text("".join(kept))
    assert samples(sink, "column 3", "device") == [int(line.split(", ")[1]) for line in kept]


ERRORS = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a0)
\t Link 0: Replay Errors: 0
\t Link 0: Recovery Errors: 0
\t Link 0: CRC Errors: {}

\t Link 1: Replay Errors: 7
\t Link 1: Recovery Errors: 0
\t Link 1: CRC Errors: 0
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-a1)
\t Link 0: Lane 2: CRC Errors: 3
"""


def test_errors_of_links_are_counters(tmp_path):
    sink = read_text(ERRORS.format(0) + ERRORS.format(5))
    assert samples(sink, "CRC Errors", device=0, instance="link 0") == [0, 5]
    assert samples(sink, "CRC Errors", "tick", device=0, instance="link 0") == [0, 1]
    assert samples(sink, "Replay Errors", instance="link 1") == [7, 7] and not samples(sink, "Link")
    assert samples(sink, "CRC Errors", instance="link 0 lane 2") == [3, 3]
    (tmp_path / "errors.txt").write_text(ERRORS.format(0) + ERRORS.format(5))
    answer = Asked(tmp_path / "s.duckdb")(tmp_path / "errors.txt")
    found = {(row["device"], row["instance"], row["error"]): row for row in answer.errors.rows()}
    assert set(found) == {
        (0, "link 0", "nvlink_crc"),
        (0, "link 1", "nvlink_replay"),
        (1, "link 0 lane 2", "nvlink_crc"),
    }
    grown = found[0, "link 0", "nvlink_crc"]
    assert (grown["serious"], grown["growth"], grown["last"]) == (True, 5, 5)
    assert [found[0, "link 1", "nvlink_replay"][key] for key in ("serious", "growth", "last")] == [False, 0, 7]


def test_a_speed_of_a_link_is_still_one():
    sink = read_text("GPU 0: H200 (UUID: GPU-a)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n")
    assert samples(sink, "Link") == [26.562, None] and samples(sink, "Link", "metric_unit") == ["GB/s"] * 2
