"""The nsys reader on real exports, against numbers that were found without it: a manifest, and plain SQL."""

import gzip
import json
import sqlite3
from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import Path

import pytest

from tests.sources.nsys_support import codes, events, read
from traceanalyzer.errors import SourceError
from traceanalyzer.schema.kinds import RankSource

FILES = Path(__file__).parents[2].parent / "shared"
PUBLIC = FILES / "public" / "nsys"
TRACES = FILES / "traces"
pytestmark = pytest.mark.skipif(not PUBLIC.is_dir(), reason="the collection of real exports is not here")
UNREADABLE = "truncated_by_older_nsys_x2022.sqlite.gz"
ALL = sorted([*PUBLIC.glob("*.sqlite.gz"), *TRACES.rglob("*.sqlite.gz")])


@lru_cache(maxsize=2)
def public(name):
    return read(PUBLIC / f"{name}.sqlite.gz")


@lru_cache(maxsize=2)
def trace(name):
    return read(TRACES / f"{name}.sqlite.gz")


def union(spans):
    busy, edge = 0, None
    for start, end in sorted(spans):
        busy += max(0, end - max(start, start if edge is None else edge))
        edge = end if edge is None else max(edge, end)
    return busy


def spans_by_device(sink):
    out = defaultdict(list)
    for op in sink.rows("gpu_ops"):
        out[op["device"]].append((op["start_ns"], op["end_ns"]))
    return out


def numbers(spans):
    start, end, busy = min(s for s, _ in spans), max(e for _, e in spans), union(spans)
    return {"ops": len(spans), "first": start, "last": end, "busy_ns": busy, "idle_ns": end - start - busy}


def manifest():
    path = PUBLIC / "MANIFEST.json"
    return json.loads(path.read_text())["files"] if path.exists() else []


@pytest.mark.parametrize("entry", manifest(), ids=lambda entry: entry["file"])
def test_devices_agree_with_the_manifest(entry):
    if entry["file"] == UNREADABLE:
        with pytest.raises(SourceError, match="broken nsys export"):
            read(PUBLIC / entry["file"])
        return
    sink = read(PUBLIC / entry["file"])
    assert sink.facts.tool_version == entry["nsys"]["exporter"]
    assert sink.facts.format_version == entry["nsys"]["schema"]
    found = spans_by_device(sink)
    # The manifest counts migrations of unified memory as operations.
    for event in events(sink, "unified_memory"):
        found[0].append((event["start_ns"], event["end_ns"]))
    devices = {int(d["device"].split()[-1]): d for d in (entry.get("gpu_time") or {}).get("devices", [])}
    assert found.keys() == devices.keys()
    for device, spans in found.items():
        got = numbers(spans)
        assert got == {name: devices[device][name] for name in got}


def expected_operations(database):
    """(start, end, device) of all operations, by plain SQL."""
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
    physical = {}
    if "TARGET_INFO_CUDA_DEVICE" in tables:
        rows = database.execute("SELECT pid, cudaId, gpuId FROM TARGET_INFO_CUDA_DEVICE")
        physical = {(pid, cuda): gpu for pid, cuda, gpu in rows}
    out, launches = Counter(), set()
    for part in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"):
        table = f"CUPTI_ACTIVITY_KIND_{part}"
        if table not in tables:
            continue
        no_ops = "WHERE copyKind NOT IN (9, 11, 12, 13)" if part == "MEMCPY" else ""
        for start, end, device, pid, correlation in database.execute(
            f"SELECT start, end, deviceId, (globalPid >> 24) & 16777215, correlationId FROM {table} {no_ops}"
        ):
            if part != "GRAPH_TRACE" or (pid, correlation) not in launches:
                out[start, max(start, end), physical.get((pid, device), device)] += 1
            launches.add((pid, correlation))
    return out, tables


@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{path.parent.name}/{path.name.removesuffix('.sqlite.gz')}")
def test_rows_agree_with_plain_sql(path, tmp_path):
    if path.name == UNREADABLE:
        return
    plain = tmp_path / "plain.sqlite"
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    database = sqlite3.connect(f"file:{plain}?mode=ro", uri=True)
    expected, tables = expected_operations(database)
    sink = read(plain)
    assert sink.facts.whole
    assert Counter((o["start_ns"], o["end_ns"], o["device"]) for o in sink.rows("gpu_ops")) == expected
    kinds = Counter(e["kind"] for e in sink.rows("cpu_events"))

    def count(table, where="1"):
        return database.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()[0] if table in tables else 0

    assert kinds["api_call"] == count("CUPTI_ACTIVITY_KIND_RUNTIME")
    assert kinds["os_call"] == count("OSRT_API")
    assert kinds["sync_record"] == count("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")
    assert kinds["overhead"] == count("PROFILER_OVERHEAD") + count("CUPTI_ACTIVITY_KIND_OVERHEAD")
    samples = Counter(s["kind"] for s in sink.rows("samples"))
    assert samples["native"] == count("COMPOSITE_EVENTS")
    if "NVTX_EVENTS" in tables and "syn_" not in path.name:
        has_frames = """jsonText LIKE '{"Python Periodic%'"""
        assert samples["python"] == count("NVTX_EVENTS", has_frames)
    if "GPU_METRICS" in tables:
        assert len([m for m in sink.rows("metric_samples") if m["source"] == "gpu_metrics"]) == count("GPU_METRICS")
    database.close()


# ---------------------------------------------------------------- facts of single files


def test_versions_that_no_table_states():
    facts = public("stencil_2020_3").facts
    assert facts.tool_version is None and facts.format_version is None
    assert codes(public("dynamicvit_2021_empty")) == {"no_events"}


def test_gaps_of_a_real_training():
    spans = sorted(spans_by_device(public("flame_torch_2024_6"))[0])
    gaps, edge = [], spans[0][1]
    for start, end in spans:
        if start - edge > 1_000_000:
            gaps.append((start - edge, edge))
        edge = max(edge, end)
    assert len(gaps) == 14
    assert sorted(gaps, reverse=True)[:3] == [(53683411, 1964195628), (40771229, 2081360666), (24504088, 2017881183)]


def test_time_by_kernel_name():
    total = Counter()
    for op in public("flame_torch_2024_6").rows("gpu_ops"):
        total[op["name"]] += op["end_ns"] - op["start_ns"]
    _, longest = total.most_common(1)[0]
    assert (longest, round(100 * longest / sum(total.values()), 1)) == (44932603, 13.1)


def test_migrations_of_unified_memory_have_no_launch():
    sink = public("cp3_uvm_2022_2")
    moved = events(sink, "unified_memory")
    by_name = Counter()
    for event in moved:
        by_name[event["name"]] += event["bytes"]
    assert by_name == {
        "Unified memory HtoD (prefetch)": 536870912,
        "Unified memory DtoH (page fault)": 3145728,
        "Unified memory DtoH (speculative prefetch)": 265289728,
    }
    assert all(e.get("correlation_id") is None for e in moved)


def test_ranges_projected_on_the_gpu():
    sink = public("llama3_demo_2024_6")
    (stream,) = [e for e in events(sink, "range") if e["name"] == "weight_streaming_demo"]
    inside = {
        (e["process"], e["correlation_id"])
        for e in events(sink, "api_call")
        if e["thread"] == stream["thread"] and stream["start_ns"] <= e["start_ns"] and e["end_ns"] <= stream["end_ns"]
    }
    ops = [o for o in sink.rows("gpu_ops") if (o["process"], o["correlation_id"]) in inside]
    assert (min(o["start_ns"] for o in ops), max(o["end_ns"] for o in ops), len(ops)) == (1695235868, 2252226626, 96)


def test_cpu_samples_and_strings_of_other_processes():
    sink = public("llama3_demo_2024_6")
    samples = [s for s in sink.rows("samples") if s["kind"] == "native"]
    assert len(samples) == 3777 and sum(len(s["node_id"]) for s in samples) == 25469
    # 49 texts of this file hold environments, with NUL bytes between the variables.
    assert not any("\x00" in text or "\ufffd" in text for text in sink.texts.all)


def test_domains_of_registered_strings():
    sink = public("nsightful_cupy_2025_3")
    assert Counter(e["domain"] for e in events(sink, "range")) == {"CCCL": 565, None: 221}
    assert all(e["name"] for e in events(sink, "range"))


def test_clock_of_events_is_not_that_of_the_analysis_details():
    facts = public("weather_2025_5").facts
    assert (facts.start_ns, facts.end_ns) == (0, 880010422)


def test_launches_are_joined_by_process_and_correlation():
    sink = public("nsysai_h100_2gpu_2026_2")
    calls = Counter((e["process"], e["correlation_id"]) for e in events(sink, "api_call"))
    kernels = [(o["process"], o["correlation_id"]) for o in sink.rows("gpu_ops") if o["kind"] == "kernel"]
    assert sum(calls[k] for k in kernels) == 1632
    assert sum(k not in calls for k in kernels) == 1810
    copies = [o for o in sink.rows("gpu_ops") if o.get("copy_kind") == "htod"]
    length = sum(o["end_ns"] - o["start_ns"] for o in copies)
    assert (len(copies), sum(o["bytes"] for o in copies), length) == (450, 50950507584, 1841630798)


def test_nccl_kernels_and_calls_of_a_file_without_domain_rows():
    sink = public("nsysai_mfu_2gpu_before")
    total = defaultdict(list)
    for op in sink.rows("gpu_ops"):
        if "ncclDevKernel" in (op["name"] or "") or "ncclKernel" in (op["name"] or ""):
            total[op["device"]].append(op["end_ns"] - op["start_ns"])
    assert {d: (len(v), sum(v)) for d, v in total.items()} == {0: (33, 17172652), 1: (33, 8229100)}
    assert sink.rows("collectives")


def test_metrics_of_a_gpu_begin_before_the_session():
    rows = public("gpu_metrics_2022_4_x2023").rows("metric_samples")
    assert len({r["t_ns"] for r in rows}) == 5097 and len({r["metric"] for r in rows}) == 18
    assert (min(r["t_ns"] for r in rows), max(r["t_ns"] for r in rows)) == (-42125, 509551579)
    active = [r["value"] for r in rows if r["metric"] == "GR Active"]
    assert round(sum(active) / len(active), 3) == 99.901


def test_ranges_that_were_never_popped():
    sink = public("pytorch_nvtx_8gpu_x2023")
    ranges = events(sink, "range")
    assert len(ranges) == 22466 and len({r["thread"] for r in ranges}) == 1
    assert [n for (code, _), n in sink.notes.items() if code == "ranges_never_ended"] == [1000]
    depth = deepest = 0
    edges = [(r["end_ns"], 0) for r in ranges] + [(r["start_ns"], 1) for r in ranges]
    for _, opens in sorted(edges):
        depth += 1 if opens else -1
        deepest = max(deepest, depth)
    assert deepest == 1009


def test_mpi_ranks_and_their_devices():
    sink = public("mpi_openacc_v100_x2023")
    ranks = {p["process"]: p["rank"] for p in sink.rows("processes") if p["rank"] is not None}
    assert ranks == {60666: 0, 60668: 1, 60670: 2, 60672: 3}
    used = {(o["process"], o["device"]) for o in sink.rows("gpu_ops")}
    assert used == {(60666, 0), (60668, 1), (60670, 2), (60672, 3)}
    assert sink.facts.several_ranks and sink.facts.world_size == 4


def test_an_mpi_call_that_one_rank_never_left():
    sink = public("mpi_p2p_2ranks_x2023")
    rank = {p["process"]: p["rank"] for p in sink.rows("processes")}
    waits = [e for e in events(sink, "host_communication") if e["name"] == "MPI_Barrier"]
    found = sorted((rank[e["process"]], e["start_ns"], e["end_ns"]) for e in waits)
    assert found == [(0, 334234264, 398656940), (1, 398586549, 2626272151)]


def test_call_chains_of_api_calls():
    traces = [e["backtrace_node_id"] for e in events(public("cumat_callchains_x2022"), "api_call")]
    # 572 calls name a chain; that of one of them, number 0, has no frame in the file.
    assert sum(t is not None for t in traces) == 571 and max(len(t or ()) for t in traces) == 9


def test_graphs_of_two_processes_on_two_gpus():
    sink = public("syn_graphs_two_process")
    by_device = {d: numbers(spans) for d, spans in spans_by_device(sink).items()}
    assert {d: (n["busy_ns"], n["idle_ns"]) for d, n in by_device.items()} == {0: (3500, 1500), 1: (6100, 2000)}
    nodes = [o for o in sink.rows("gpu_ops") if o["graph_node_id"] is not None]
    launch = {(e["process"], e["correlation_id"]): (e["start_ns"], e["name"]) for e in events(sink, "api_call")}
    assert [(o["start_ns"], *launch[o["process"], o["correlation_id"]]) for o in nodes] == [
        (3000, 320, "cudaGraphLaunch_v10000"),
        (4000, 320, "cudaGraphLaunch_v10000"),
    ]


def test_payloads_of_nccl():
    sink = public("syn_nvtx_payloads")
    args = {e["start_ns"]: e["args"] for e in events(sink, "range") if (e["name"] or "").startswith("nccl")}
    first = json.loads(args.pop(100))
    assert (first["No. of ranks"], first["Rank"], first["CUDA device"]) == (2, 0, 0)
    assert args.keys() == {1000, 2000, 3000} and args[3000] is None
    collectives = [(c["bytes"], c["reduction"], c["group_size"]) for c in sink.rows("collectives")]
    assert collectives == [(1048576, "Sum", 2), (2097152, "Max", 2), (None, None, None)]
    assert [s["node_id"][-1].rsplit(":", 1)[1] for s in sink.rows("samples")] == ["42)", "11)"]


def test_bytes_by_nic_and_activity_by_gpu():
    rows = public("syn_gpu_nic_metrics").rows("metric_samples")
    sent = Counter()
    for row in rows:
        if row["metric"] == "Bytes sent":
            sent[row["instance"]] += row["value"]
    assert sent == {"mlx5_0": 400, "mlx5_1": 90}
    active = defaultdict(list)
    for row in rows:
        if row["metric"].startswith("SMs Active"):
            active[row["device"]].append(row["value"])
    assert {d: sum(v) / len(v) for d, v in active.items()} == {0: 35.0, 1: 37.5}


# ---------------------------------------------------------------- own captures


@pytest.mark.parametrize(
    "name", ["ddp2_slow1/nsys", "ddp2_healthy/nsys", "ddp2_heavy1/nsys", "fsdp2/nsys", "a2a2/nsys"]
)
def test_ranks_and_devices_agree_in_a_report_of_two_ranks(name):
    sink = trace(name)
    rank = {p["process"]: p["rank"] for p in sink.rows("processes")}
    assert {(rank[o["process"]], o["device"]) for o in sink.rows("gpu_ops")} == {(0, 0), (1, 1)}
    assert sink.facts.several_ranks and sink.facts.rank is None


def test_the_late_rank_is_the_one_in_which_the_delay_was_planted():
    sink = trace("ddp2_slow1/nsys")
    rank = {p["process"]: p["rank"] for p in sink.rows("processes")}
    late = {
        rank[s["process"]] for s in sink.rows("samples") if any("load_extra_batch" in f for f in s["node_id"] or ())
    }
    assert late == {1}


def test_rank_of_a_process_that_nsys_launched_itself():
    facts = trace("ddp2_slow1/nsys.rank1").facts
    assert (facts.rank, facts.rank_source, facts.world_size) == (1, RankSource.ENVIRONMENT, 2)


def test_a_send_names_its_peer():
    sink = trace("a2a2/nsys")
    rank = {p["process"]: p["rank"] for p in sink.rows("processes")}
    peers = {(c["kind"], rank[c["process"]], c["peer"]) for c in sink.rows("collectives") if c["peer"] is not None}
    assert peers == {("ncclSend", 0, 1), ("ncclRecv", 1, 0)}
    assert {c["root"] for c in sink.rows("collectives") if c["kind"] == "ncclBroadcast"} == {0}


@pytest.mark.parametrize(("name", "count"), [("planted_sleep/nsys", 278), ("sync_item/nsys", 146)])
def test_every_python_backtrace_finds_its_call(name, count):
    traces = [e["backtrace_node_id"] for e in events(trace(name), "api_call")]
    assert sum(t is not None and any(".py:" in frame for frame in t) for t in traces) == count


def test_samples_show_the_planted_function():
    frames = Counter(f.split(" ")[0] for s in trace("planted_sleep/nsys").rows("samples") for f in s["node_id"] or ())
    assert frames["host_sleep_10ms"] > 0


def test_samples_without_frames_are_said():
    sink = trace("sync_item/nsys.v2023")
    assert "python_samples_without_frames" in codes(sink) and sink.rows("samples") == []


def test_interpreter_lock_of_two_threads():
    kinds = Counter((e["kind"], e["thread"]) for e in events(trace("gil_thread/nsys"), "gil_hold", "gil_wait"))
    assert len({thread for _, thread in kinds}) >= 2
    assert {kind for kind, _ in kinds} == {"gil_hold", "gil_wait"}


def test_a_real_incomplete_export_keeps_its_calls():
    sink = trace("ddp2_slow1/nsys.v2023")
    assert sink.rows("gpu_ops") == [] and len(events(sink, "api_call")) == 321 and sink.facts.several_ranks
    assert [n for (code, _), n in sink.notes.items() if code == "no_device_operations"] == [321]
