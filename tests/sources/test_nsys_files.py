"""What the nsys reader accepts, refuses, keeps for itself and says of a file as a whole."""

import gzip
import sqlite3
import stat
from types import SimpleNamespace

import pytest

from tests.sources.nsys_support import codes, read
from tests.support.nsys_builder import build, call, gpid, gtid, kernel, nvtx, payload
from traceanalyzer.errors import SourceError
from traceanalyzer.schema.kinds import RankSource
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.nsys_sqlite import SOURCE
from traceanalyzer.sources.nsys_sqlite.facts import note_lost_tables

KERNEL, RUNTIME, NVTX = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
STRINGS = {1: "void gemm<float>(int)", 2: "gemm", 3: "cudaLaunchKernel_v7000", 77: "HOME=/home/me\x00API_TOKEN=hunter2"}


def variable(text):
    return {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": text}


def refused(path):
    with pytest.raises(SourceError) as caught:
        read(path)
    text = str(caught.value)
    assert text.startswith(str(path)) and "\n" not in text
    return text


# ---------------------------------------------------------------- facts


def test_facts_of_the_file(tmp_path):
    tables = {
        "META_DATA_EXPORT": [
            {"name": "EXPORT_SCHEMA_VERSION", "value": "3.20.3"},
            {"name": "EXPORT_PRODUCT_VERSION", "value": "2025.3.2.0"},
        ],
        "TARGET_INFO_SYSTEM_ENV": [{"name": "Hostname", "value": "node7"}, {"name": "UserName", "value": "me"}],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_700_000_000_000_000_000}],
        "ANALYSIS_DETAILS": [{"duration": 900}],
        KERNEL: [kernel(-5, 10)],
    }
    facts = read(build(tmp_path / "a.sqlite", tables, STRINGS)).facts
    assert (facts.tool_version, facts.format_version, facts.host) == ("2025.3.2.0", "3.20.3", "node7")
    assert (facts.utc_offset_ns, facts.start_ns, facts.end_ns) == (1_700_000_000_000_000_000, 0, 900)
    assert facts.whole and not facts.several_ranks and facts.rank is None


def test_first_name_of_the_meta_table_and_none_at_all(tmp_path):
    old = {
        "META_DATA_EXPORT": [],
        "EXPORT_META_DATA": [{"name": "EXPORT_SCHEMA_VERSION", "value": "2.7.0"}],
        KERNEL: [kernel(1, 2)],
    }
    del old["META_DATA_EXPORT"]
    path = build(tmp_path / "a.sqlite", {**old, "META_DATA_EXPORT": [{"name": "x", "value": None}]}, STRINGS)
    assert read(path).facts.format_version == "2.7.0"
    db = sqlite3.connect(path)
    db.executescript("DROP TABLE EXPORT_META_DATA; DROP TABLE META_DATA_EXPORT")
    db.close()
    facts = read(path).facts
    assert facts.tool_version is None and facts.format_version is None
    assert (facts.start_ns, facts.end_ns) == (1, 2)


def test_times_that_the_export_shifted_have_no_place_in_unix_time(tmp_path):
    tables = {
        "META_DATA_EXPORT": [{"name": "EXPORT_PARAM_TIME_SHIFT", "value": "-500"}],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 17}],
        KERNEL: [kernel(1, 2)],
    }
    sink = read(build(tmp_path / "a.sqlite", tables, STRINGS))
    assert sink.facts.utc_offset_ns is None and "times_shifted" in codes(sink)


def test_warnings_of_the_profiler_are_passed_on_without_folders(tmp_path):
    rows = [
        {"severity": 3, "text": "CUDA events were lost, see /home/me/secret/log.txt"},
        {"severity": 3, "text": "CUDA events were lost, see /home/me/secret/log.txt"},
        {"severity": 2, "text": "Not all CUDA events might have been collected."},
        {"severity": 1, "text": "Profiling has started."},
    ]
    sink = read(build(tmp_path / "a.sqlite", {"DIAGNOSTIC_EVENT": rows, KERNEL: [kernel(1, 2)]}, STRINGS))
    assert dict(sink.notes) == {("profiler_message", "The profiler says: CUDA events were lost, see log.txt"): 2}


# ---------------------------------------------------------------- ranks


def test_rank_of_the_launched_process_comes_from_its_environment(tmp_path):
    meta = [variable('RANK="3"'), variable('WORLD_SIZE="8"'), variable('SLURM_PROCID="9"')]
    sink = read(build(tmp_path / "a.sqlite", {KERNEL: [kernel(1, 2)], "META_DATA_CAPTURE": meta}, STRINGS))
    assert (sink.facts.rank, sink.facts.rank_source, sink.facts.world_size) == (3, RankSource.ENVIRONMENT, 8)


def test_the_launchers_environment_is_no_rank_of_several_processes(tmp_path):
    tables = {KERNEL: [kernel(1, 2, pid=20), kernel(1, 2, pid=21)], "META_DATA_CAPTURE": [variable('SLURM_PROCID="0"')]}
    sink = read(build(tmp_path / "a.sqlite", tables, STRINGS))
    assert sink.facts.rank is None and sink.facts.several_ranks
    assert [p["rank"] for p in sink.rows("processes")] == [None, None]


def test_processes_that_communicate_are_ranks_in_the_order_of_their_gpus(tmp_path):
    tables = {
        KERNEL: [kernel(1, 2, pid=20, device=1), kernel(1, 2, pid=21, device=0)],
        NVTX: [nvtx(1, 2, text="ncclAllReduce", domainId=1, pid=p) for p in (20, 21)],
    }
    sink = read(build(tmp_path / "a.sqlite", tables, STRINGS))
    assert [(p["process"], p["rank"], p["rank_source"]) for p in sink.rows("processes")] == [
        (20, 1, "order"),
        (21, 0, "order"),
    ]
    assert "ranks_by_device_order" in codes(sink) and sink.facts.rank is None


def test_a_range_named_like_a_rank_tells_it(tmp_path):
    tables = {
        KERNEL: [kernel(1, 2, pid=20)],
        NVTX: [nvtx(0, 9, 60, text="rank 5", pid=20), nvtx(0, 9, text="ranking 7", pid=20)],
    }
    sink = read(build(tmp_path / "a.sqlite", tables, STRINGS))
    assert (sink.facts.rank, sink.facts.rank_source) == (5, RankSource.RANGES)


# ---------------------------------------------------------------- privacy

META = [
    variable('NCCL_DEBUG="INFO"'),
    variable('CUDA_VISIBLE_DEVICES="0,1"'),
    variable('OMP_NUM_THREADS="4"'),
    variable('NCCL_TOPO_FILE="/home/me/topo.xml"'),
    variable('TORCH_API_TOKEN="hunter2"'),
    variable('NCCL_SOCKET_IFNAME="0123456789abcdef0123456789abcdef"'),
    variable('AWS_KEY="hunter2"'),
    {"name": "PROCESS_0:ARGUMENT_0", "value": "--password=hunter2"},
    {"name": "PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "value": "Node"},
    {"name": "PROCESS_0:USER_NAME", "value": "hunter2"},
]


def private_tables():
    return {
        KERNEL: [kernel(1, 2)],
        "META_DATA_CAPTURE": META,
        "ProcessStreams": [{"globalPid": gpid(10), "filenameId": 77, "contentId": 77}],
        "ANALYSIS_FILE": [{"id": 0, "filename": "hunter2", "contentId": 77, "globalPid": gpid(10)}],
        "TARGET_INFO_SYSTEM_ENV": [{"name": "DeviceEnvironment", "value": "TOKEN=hunter2"}],
    }


def test_nothing_private_is_kept(tmp_path):
    sink = read(build(tmp_path / "a.sqlite", private_tables(), STRINGS))
    everything = repr((sink.texts.all, sink.facts, sink.notes))
    assert "hunter2" not in everything and "/home/me" not in everything
    assert sink.facts.metadata == {
        "environment": {"NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "4"},
        "settings": {"CUDA_GRAPH_TRACE_OPTIONS:MODE": "Node"},
    }


def test_the_environment_is_kept_where_that_is_asked_for(tmp_path):
    sink = read(build(tmp_path / "a.sqlite", private_tables(), STRINGS), keep_environment=True)
    assert sink.facts.metadata["environment"]["NCCL_TOPO_FILE"] == "/home/me/topo.xml"
    assert "AWS_KEY" in sink.facts.metadata["environment"]


# ---------------------------------------------------------------- files


def test_the_file_and_its_folder_stay_as_they_are(tmp_path):
    folder = tmp_path / "50% #1?"
    folder.mkdir()
    path = build(folder / "a.sqlite", {KERNEL: [kernel(1, 2)]}, STRINGS)
    before = path.read_bytes()
    path.chmod(stat.S_IRUSR)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert len(read(path).rows("gpu_ops")) == 1
    folder.chmod(stat.S_IRWXU)
    assert path.read_bytes() == before and [p.name for p in folder.iterdir()] == ["a.sqlite"]


def test_gzipped_exports_are_recognised_and_read(tmp_path):
    plain = build(tmp_path / "a.sqlite", {KERNEL: [kernel(1, 2)]}, STRINGS)
    packed = tmp_path / "b.sqlite.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert SOURCE.recognise(TraceFile(plain)) and SOURCE.recognise(TraceFile(packed))
    assert read(packed).rows("gpu_ops") == read(plain).rows("gpu_ops")
    other = tmp_path / "c.json"
    other.write_text("{}")
    assert not SOURCE.recognise(TraceFile(other))


def test_text_that_is_not_unicode_is_decoded_with_replacement(tmp_path):
    path = build(tmp_path / "a.sqlite", {KERNEL: [kernel(1, 2)]}, STRINGS)
    db = sqlite3.connect(path)
    db.execute("UPDATE StringIds SET value = CAST(x'67ff00656d6d' AS TEXT) WHERE id = 1")
    db.commit()
    db.close()
    assert read(path).rows("gpu_ops")[0]["name"] == "g\ufffd\ufffdemm"


def test_what_is_no_export_is_refused_in_one_line(tmp_path):
    path = tmp_path / "a.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE users (id INTEGER)")
    db.close()
    assert "no nsys export" in refused(path)
    for content in (b"SQLite format 3\x00", b"SQLite format 3\x00" + bytes(4096)):
        path.write_bytes(content)
        assert "cannot be read as an SQLite database" in refused(path)


def test_a_broken_export_is_told_apart(tmp_path):
    path = build(tmp_path / "a.sqlite", {"ProcessStreams": [{"globalPid": 1}]}, STRINGS)
    db = sqlite3.connect(path)
    db.executescript("DROP TABLE META_DATA_EXPORT")
    db.close()
    text = refused(path)
    assert "broken nsys export" in text and "export the report again" in text


def test_an_export_without_events_is_read_and_says_so(tmp_path):
    sink = read(build(tmp_path / "a.sqlite", {}, STRINGS))
    assert codes(sink) == {"no_events"} and sink.facts.whole


def large(path):
    """Operations first, then many calls: what is cut off at the end belongs to the calls."""
    calls = [call(k, k + 1, 3, correlation=k) for k in range(1, 5000)]
    return build(path, {KERNEL: [kernel(1, 2), kernel(3, 4)], RUNTIME: calls}, STRINGS)


def test_of_a_cut_file_the_whole_tables_are_kept(tmp_path):
    path = large(tmp_path / "a.sqlite")
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) * 2 // 3])
    sink = read(path)
    assert len(sink.rows("gpu_ops")) == 2 and sink.rows("cpu_events") == []
    assert not sink.facts.whole and {"file_truncated", "table_damaged"} <= codes(sink)
    assert any(RUNTIME in text for code, text in sink.notes if code == "table_damaged")


def test_of_a_gzip_that_ends_early_too(tmp_path):
    packed = tmp_path / "a.sqlite.gz"
    raw = gzip.compress(large(tmp_path / "a.sqlite").read_bytes())
    packed.write_bytes(raw[: len(raw) * 2 // 3])
    sink = read(packed)
    assert len(sink.rows("gpu_ops")) == 2 and not sink.facts.whole


def test_damage_inside_a_table_is_said(tmp_path):
    path = large(tmp_path / "a.sqlite")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2 : len(raw) // 2 + 20000] = b"\xff" * 20000
    path.write_bytes(raw)
    sink = read(path)
    assert len(sink.rows("gpu_ops")) == 2 and not sink.facts.whole and "table_damaged" in codes(sink)


def test_tables_that_are_lost_for_one_reason_are_one_sentence():
    notes = []
    lost = dict.fromkeys(["ENUM_B", "ENUM_A", RUNTIME, KERNEL], "malformed") | {"NVTX_EVENTS": "disk I/O error"}
    capture = SimpleNamespace(
        database=SimpleNamespace(lost=lost, cut=False),
        facts=SimpleNamespace(whole=True),
        note=lambda code, text: notes.append((code, text)),
    )
    note_lost_tables(capture, None)
    assert not capture.facts.whole and notes == [
        ("table_damaged", f"2 tables ({KERNEL}, {RUNTIME}) could not be read whole (malformed): events are missing."),
        ("table_damaged", "2 tables (ENUM_A, ENUM_B) could not be read whole (malformed): names of kinds are missing."),
        ("table_damaged", "The table NVTX_EVENTS could not be read whole (disk I/O error): events are missing."),
    ]


def test_a_cut_file_without_any_event_is_refused(tmp_path):
    path = large(tmp_path / "a.sqlite")
    path.write_bytes(path.read_bytes()[:4096])
    assert "damaged" in refused(path) or "cannot be read" in refused(path)


# ---------------------------------------------------------------- reports


def report(tmp_path):
    path = tmp_path / "run 1.nsys-rep"
    path.write_bytes(b"some binary format")
    return path


def test_a_report_is_recognised_and_asks_for_its_export(tmp_path, monkeypatch):
    path = report(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert SOURCE.recognise(TraceFile(path))
    assert "nsys export --type sqlite" in refused(path)


def test_a_report_is_exported_where_nsys_is_installed(tmp_path, monkeypatch):
    export = build(tmp_path / "export.sqlite", {KERNEL: [kernel(1, 2)]}, STRINGS)
    program = tmp_path / "nsys"
    program.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--version*) echo "NVIDIA Nsight Systems version 2022.4.2.1"; exit 0;; esac\n'
        'case "$*" in *--include*) echo "unknown option" >&2; exit 1;; esac\n'
        'while [ "$1" != "-o" ]; do shift; done\n'
        f'cp "{export}" "$2"\n'
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    sink = read(report(tmp_path))
    assert len(sink.rows("gpu_ops")) == 1
    assert [text for code, text in sink.notes if code == "report_exported"] == [
        "The report was exported to a temporary file with nsys 2022.4.2.1."
    ]


def test_a_report_that_nsys_refuses_gives_its_reason(tmp_path, monkeypatch):
    program = tmp_path / "nsys"
    program.write_text('#!/bin/sh\necho "newer than your current version" >&2\nexit 1\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert "newer than your current version" in refused(report(tmp_path))


def test_hostile_payloads_do_no_harm(tmp_path):
    rows = [
        nvtx(1, 2, text="\x1b[31m'); DROP TABLE x; --", binaryData=payload(0, 1, b"x" * 7)),
        nvtx(3, 4, text="deep", jsonText="[" * 100_000),
        nvtx(5, 6, text="list", jsonText="[1]"),
        nvtx(7, None, 34, text="mark", domainId=1, jsonText='{"Python Periodic Sampling": {"Frames": 5}}'),
        nvtx(0, None, 75, domainId=1, text="Python Periodic Sampling"),
        nvtx(9, 8, text="backwards", tid=2**24 - 1),
    ]
    tables = {NVTX: rows, "ThreadNames": [{"nameId": None, "globalTid": gtid(10, 11)}]}
    found = read(build(tmp_path / "a.sqlite", tables)).rows("cpu_events")
    assert [e["end_ns"] - e["start_ns"] for e in found] == [1, 1, 1, 0]
