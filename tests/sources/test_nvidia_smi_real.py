"""The reader of nvidia-smi on real files: known facts, what was planted, a slow reading of the same cells."""

import csv
import gzip
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.real_traces import MISSING, PUBLIC, TRACES, TRUTH
from tests.support.smi_reading import codes, read_path, samples
from traceanalyzer.errors import SourceError
from traceanalyzer.ingestion import find_files, ingest
from traceanalyzer.store.database import open_to_read

SMI, TOPO, OWN = PUBLIC / "telemetry" / "smi", PUBLIC / "telemetry" / "topo", TRACES / "telemetry"
NAMELESS = "query.noheader.nounits.csv"
HEADLESS = "dmon.noheader.csv"
FILES = [p for folder in (SMI, TOPO, OWN) for p in sorted(folder.rglob("*")) if p.is_file() and "torch" not in p.name]

pytestmark = pytest.mark.skipif(not FILES, reason=MISSING)


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_every_file_is_read_without_a_warning_or_refused_in_one_line(path):
    if path.name == NAMELESS:
        with pytest.raises(SourceError, match="record without noheader"):
            find_files([path])
        return
    (found,) = find_files([path])
    assert found.source.name == "nvidia_smi"
    sink = read_path(path)
    assert sink.rows("devices")
    assert not codes(sink) - {
        *("local_time", "no_date", "device_assumed", "devices_by_order", "unit_assumed", "other_lines"),
        *(("no_header",) if path.name == HEADLESS else ()),
    }


def test_dmon():
    sink = read_path(SMI / "dmon_h200_load.txt")
    assert [samples(sink, m)[0] for m in ("sm", "mem", "pwr")] == [100, 8, 630]
    assert set(samples(read_path(SMI / "dmon_h100_mig_load.txt"), "sm")) == {None}
    old = read_path(SMI / "dmon_pucvmet_2016.txt")
    assert (samples(old, "temp", device=3), samples(old, "fb", device=3)) == ([70], [11660])


def test_pmon():
    sink = read_path(SMI / "pmon_h200_load.txt")
    assert samples(sink, "sm", process=10291, tick=3) == [19]
    assert [samples(sink, "sm", "tick").count(k) for k in range(5)] == [3] * 5
    windows = read_path(SMI / "pmon_windows_load.txt")
    assert set(samples(windows, "sm", "instance", process=15964)) == {"NVIDIA Overlay."}
    assert set(samples(windows, "sm", "tick")) == set(range(5))


def test_query():
    sink = read_path(SMI / "query_gpu_all_h100.csv")
    assert samples(sink, "power.draw") == [631.95] and samples(sink, "power.draw.instant") == [625.68]
    assert samples(sink, "utilization.gpu") == [100]
    mig = read_path(SMI / "query_gpu_all_h100_mig.csv")
    assert samples(mig, "utilization.gpu") == [None] and mig.facts.metadata["environment"]["mig_mode"] == "Enabled"
    windows = read_path(SMI / "query_gpu_all_windows_610.csv")
    assert samples(windows, "temperature.memory") == [None] and windows.facts.tool_version == "610.62"
    long = samples(read_path(SMI / "query_rtx4090_1s.csv.gz"), "power.draw")
    assert (len(long), max(long)) == (2619, 332.92)


def test_scripts():
    sink = read_path(SMI / "shell_csv_8gpu.csv")
    assert samples(sink, "power.draw", device=2)[0] == 72.99 and len(sink.rows("devices")) == 8
    minutes = read_path(SMI / "orin_minute.csv")
    times = samples(minutes, "utilization.gpu", "t_ns")
    assert times[1] - times[0] == 60 * 10**9 and times == sorted(times)
    assert samples(minutes, "utilization.gpu")[0] == 99


def test_topology():
    rows = read_path(TOPO / "h200x8_nics_ansi.txt").rows("topology")
    links = {(r["place"], r["other"]): r["value"] for r in rows if r["attribute"] == "link"}
    assert len({r["place"] for r in rows}) == 18 and links["GPU0", "GPU7"] == "NV18"
    assert [b for (a, b), kind in links.items() if a == "GPU0" and kind == "PIX"] == ["NIC3"]
    assert all(links[b, a] == kind for (a, b), kind in links.items())
    desktop = read_path(TOPO / "rtx4090x8_sys.txt").rows("topology")
    near = [r for r in desktop if r["attribute"] == "link" and r["value"] == "PHB"]
    assert {(r["place"], r["other"]) for r in near if str(r["place"]).startswith("GPU")} == {
        ("GPU6", "NIC0"),
        ("GPU6", "NIC1"),
    }


def test_reports_agree_with_one_another():
    text, table = read_path(OWN / "two_gpus/smi.q.txt"), read_path(OWN / "two_gpus/smi.txt")
    apps = read_path(OWN / "two_gpus/compute-apps.csv")
    for device in (0, 1):
        used = samples(text, "FB Memory Usage.Used", device=device)
        assert used == samples(table, "Memory-Usage", device=device)
        per_process = samples(text, "Processes.Used GPU Memory", device=device)
        assert per_process == samples(table, "GPU Memory", device=device)
        assert per_process == samples(apps, "used_gpu_memory", device=device)
    mig = read_path(SMI / "a100_mig_v11.xml")
    assert samples(mig, "fb_memory_usage.used") == [19, 19, 38]
    assert samples(mig, "fb_memory_usage.used", "instance") == ["MIG 0", "MIG 1", None]


def test_captures_of_many_views_hold_the_single_ones():
    whole, single = read_path(SMI / "capture_h200_590.txt"), read_path(SMI / "dmon_h200_load.txt")
    for metric in ("pwr", "gtemp", "sm"):
        assert samples(whole, metric, source="dmon")[5:] == samples(single, metric)
    assert len(whole.rows("devices")) == 1


def test_what_was_planted_is_sampled_in_its_phases():
    truth = TRUTH["telemetry"]["phases"]
    sink = read_path(OWN / "phases" / "dmon.DT.txt")
    seconds = [t / 1e9 for t in samples(sink, "sm", "t_ns", device=truth["gpu"])]
    values = dict(zip(seconds, samples(sink, "sm", device=truth["gpu"]), strict=True))
    for name, phase in truth["busy"].items():
        # A value is of the second before its row.
        inside = [v for t, v in values.items() if phase["unix_begin"] + 1.5 <= t <= phase["unix_end"] - 1]
        assert len(inside) >= 2, name
        assert (min(inside) > 90) if name.startswith("busy") else (max(inside) < 60), (name, inside)


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if re.fullmatch(r"query[\w.]*\.csv(\.gz)?", p.name) and "nohead" not in p.name],
    ids=lambda p: f"{p.parent.name}/{p.name}",
)
def test_query_tables_against_a_slow_reading(path):
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    table = [[cell.strip() for cell in row] for row in csv.reader(content.decode().splitlines())]
    sink = read_path(path)
    for k, head in enumerate(table[0]):
        name, _, unit = head.partition(" [")
        cells = [row[k] for row in table[1:]]
        if unit:
            want = [
                None if c.strip("[]") in ("N/A", "Not Supported") or c.startswith("[") else float(c.split()[0])
                for c in cells
            ]
            assert samples(sink, name) == want
            assert set(samples(sink, name, "metric_unit")) == {unit.rstrip("]")}
    if table[0][0] == "timestamp":
        want = [_moment(row[0]) for row in table[1:]]
        assert sorted(set(samples(sink, sink.rows("metric_samples")[0]["metric"], "t_ns"))) == sorted(set(want))


def _moment(text: str) -> int:
    whole, _, part = text.partition(".")
    at = datetime.strptime(whole, "%Y/%m/%d %H:%M:%S").replace(tzinfo=UTC)
    return int(at.timestamp()) * 10**9 + int(part.ljust(9, "0"))


def test_a_trace_and_its_telemetry_are_one_run(tmp_path):
    folder = OWN / "with_trace"
    ingest([folder], tmp_path / "one.duckdb")
    ingest([folder / "torch.json.gz"], tmp_path / "two.duckdb")
    later = ingest([folder / "query.csv"], tmp_path / "two.duckdb")
    assert "joins the newest run" in later.notes[0]
    for store in ("one", "two"):
        connection = open_to_read(tmp_path / f"{store}.duckdb")
        rows = connection.execute("SELECT DISTINCT run FROM stored.captures").fetchall()
        assert len(rows) == 1 and connection.execute("SELECT count(*) FROM stored.captures").fetchall() == [(2,)]
        connection.close()


def test_sample_is_the_capture_that_it_is_said_to_be():
    sample = Path(__file__).parents[2] / "sample_traces" / "telemetry" / "dmon.txt.gz"
    assert gzip.decompress(sample.read_bytes()) == (OWN / "phases" / "dmon.DT.txt").read_bytes()
