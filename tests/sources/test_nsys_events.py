"""Events, ranges, payloads and samples of nsys exports, on files made by hand."""

import json
import struct

from tests.sources.nsys_support import codes, events, read
from tests.support.nsys_builder import build, call, gpid, gtid, kernel, nvtx, payload, python_frames

RUNTIME, NVTX = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
DURATION = {"ANALYSIS_DETAILS": [{"globalVid": 1, "duration": 1000, "startTime": 9**15, "stopTime": 9**15 + 1000}]}
STRINGS = {
    1: "cudaLaunchKernel_v7000",
    2: "ncclAllReduce",
    3: "Holding GIL",
    4: "Waiting for GIL",
    5: "inner",
    6: "outer",
    7: "/home/me/train.py",
    8: "&lt;module&gt;",
    9: "read",
    10: "libc.so",
    11: "0x7fff12",
    12: "MPI_Barrier",
    13: "ncclCommInitRank",
    14: "CUDA profiling data flush overhead",
    15: "do_syscall",
    16: '{"payload":1}',
    17: "main thread",
}


def domain(number, text, pid=10):
    return nvtx(-500, None, 75, domainId=number, text=text, pid=pid)


def test_api_calls_keep_their_recorded_name_and_thread(tmp_path):
    rows = [call(1, 5, 1, correlation=7), call(2, 3, 99, correlation=0, eventClass=1)]
    sink = read(build(tmp_path / "a.sqlite", {RUNTIME: rows}, STRINGS))
    first, second = events(sink, "api_call")
    assert (first["name"], first["process"], first["thread"], first["correlation_id"], first["domain"]) == (
        "cudaLaunchKernel_v7000",
        10,
        11,
        7,
        "cuda_runtime",
    )
    assert (second["name"], second["correlation_id"], second["domain"]) == (None, None, "cuda_driver")


def test_native_call_chains_are_outermost_first(tmp_path):
    chain = [
        {"id": 0, "symbol": 11, "module": 10, "unresolved": 1, "originalIP": 5, "stackDepth": 0},
        {"id": 0, "symbol": 6, "module": 10, "unresolved": None, "originalIP": 6, "stackDepth": 1},
    ]
    tables = {RUNTIME: [call(1, 5, 1, callchainId=0), call(6, 7, 1, callchainId=None)], "CUDA_CALLCHAINS": chain}
    first, second = events(read(build(tmp_path / "a.sqlite", tables, STRINGS)), "api_call")
    assert first["backtrace_node_id"] == ["outer", "0x7fff12"]
    assert second["backtrace_node_id"] is None


def test_os_calls_say_no_chain_with_zero(tmp_path):
    rows = [
        {"start": 1, "end": 5, "globalTid": gtid(10, 11), "nameId": 9, "callchainId": 0},
        {"start": 6, "end": 8, "globalTid": gtid(10, 11), "nameId": 9, "callchainId": 1},
    ]
    chain = [{"id": i, "symbol": 5, "module": 10, "kernelMode": 0, "originalIP": 5, "stackDepth": 0} for i in (0, 1)]
    sink = read(build(tmp_path / "a.sqlite", {"OSRT_API": rows, "OSRT_CALLCHAINS": chain}, STRINGS))
    assert [(e["name"], e["backtrace_node_id"]) for e in events(sink, "os_call")] == [
        ("read", None),
        ("read", ["inner"]),
    ]


def test_ranges_take_text_or_registered_string_and_the_domain_of_their_process(tmp_path):
    rows = [
        domain(1, "mine"),
        domain(1, "other", pid=20),
        nvtx(10, 20, text="step 1"),
        nvtx(12, 14, textId=5, domainId=1),
        nvtx(12, 14, textId=6, domainId=1, pid=20),
        nvtx(15, 15, textId=None, domainId=3),
    ]
    sink = read(build(tmp_path / "a.sqlite", {NVTX: rows, **DURATION}, STRINGS))
    assert [(e["name"], e["domain"], e["process"]) for e in events(sink, "range")] == [
        ("step 1", None, 10),
        ("inner", "mine", 10),
        ("outer", "other", 20),
        (None, None, 10),
    ]


def test_ranges_that_never_ended_last_to_the_end_of_the_capture(tmp_path):
    rows = [nvtx(10, None, text="a"), nvtx(20, 1000, text="b"), nvtx(30, None, 60, text="c"), nvtx(40, 50, text="d")]
    sink = read(build(tmp_path / "a.sqlite", {NVTX: rows, **DURATION}))
    assert [e["end_ns"] for e in events(sink, "range", "process_range")] == [1000, 1000, 1000, 50]
    assert [n for (code, _), n in sink.notes.items() if code == "ranges_never_ended"] == [3]
    assert (sink.facts.start_ns, sink.facts.end_ns) == (0, 1000)


def test_without_a_stated_duration_the_last_time_is_the_end(tmp_path):
    rows = [nvtx(10, None, text="a"), nvtx(40, 50, text="d")]
    sink = read(build(tmp_path / "a.sqlite", {NVTX: rows, RUNTIME: [call(60, 77, 1)]}, STRINGS))
    assert [e["end_ns"] for e in events(sink, "range")] == [77, 50]
    assert (sink.facts.start_ns, sink.facts.end_ns) == (10, 77)


def test_kinds_of_nvtx_rows(tmp_path):
    rows = [
        domain(1, "GIL Trace"),
        domain(2, "MPI"),
        nvtx(0, 9, 60, text="prefetch"),
        nvtx(0, 9, text="moved", endGlobalTid=gtid(10, 12)),
        nvtx(5, None, 34, text="checkpoint"),
        nvtx(1, 2, textId=3, domainId=1),
        nvtx(2, 3, textId=4, domainId=1),
        nvtx(3, 4, textId=12, domainId=2),
        nvtx(3, 4, textId=3),
        nvtx(0, None, 39, text="MPI Rank 3"),
    ]
    sink = read(build(tmp_path / "a.sqlite", {NVTX: rows}, STRINGS))
    assert [(e["kind"], e["name"], e["start_ns"], e["end_ns"]) for e in sink.rows("cpu_events")] == [
        ("process_range", "prefetch", 0, 9),
        ("process_range", "moved", 0, 9),
        ("mark", "checkpoint", 5, 5),
        ("gil_hold", "Holding GIL", 1, 2),
        ("gil_wait", "Waiting for GIL", 2, 3),
        ("host_communication", "MPI_Barrier", 3, 4),
        ("range", "Holding GIL", 3, 4),
    ]
    assert [t["name"] for t in sink.rows("threads") if t["thread"] == 11] == ["MPI Rank 3"]
    assert [(p["rank"], p["rank_source"]) for p in sink.rows("processes")] == [(3, "mpi")]


def test_payloads_become_arguments(tmp_path):
    entries = [
        {"domainId": 0, "schemaId": 5, "idx": 0, "type": 16, "name": "count", "offset": None},
        {"domainId": 0, "schemaId": 5, "idx": 1, "type": 37, "name": "loss", "offset": 8},
        {"domainId": 0, "schemaId": 5, "idx": 2, "type": 1 << 25, "name": "way", "offset": 4},
    ]
    enumeration = [{"domainId": 0, "schemaId": 1 << 25, "idx": 0, "name": "up", "value": None}]
    blob = payload(0, 5, struct.pack("<IId", 3, 0, 0.5))
    rows = [
        nvtx(1, 2, text="binary", binaryData=blob),
        nvtx(3, 4, text="json", jsonText='{"a": [1, 2]}'),
        nvtx(5, 6, text="registered", jsonTextId=16),
        nvtx(7, 8, text="number", uint64Value=7, category=4),
        nvtx(0, None, 33, text="io", category=4),
        nvtx(9, 10, text="broken", jsonText="{oops"),
        nvtx(11, 12, text="short", binaryData=blob[:35]),
        nvtx(13, 14, text="unknown schema", binaryData=payload(0, 6, b"1234")),
    ]
    tables = {NVTX: rows, "NVTX_PAYLOAD_SCHEMA_ENTRIES": entries, "NVTX_PAYLOAD_ENUM_ENTRIES": enumeration}
    sink = read(build(tmp_path / "a.sqlite", tables, STRINGS))
    args = {e["name"]: e["args"] and json.loads(e["args"]) for e in events(sink, "range")}
    assert args == {
        "binary": {"count": 3, "loss": 0.5, "way": "up"},
        "json": {"a": [1, 2]},
        "registered": {"payload": 1},
        "number": {"payload": 7, "category": "io"},
        "broken": {"payload": "{oops"},
        "short": None,
        "unknown schema": None,
    }


def nccl_tables(rows):
    fields = ["NCCL communicator ID", "Message size [bytes]", "Reduction operation"]
    entries = [
        {"domainId": 1, "schemaId": 100, "idx": i, "type": kind, "name": name, "offset": offset}
        for i, (name, kind, offset) in enumerate(zip(fields, (18, 22, 1 << 24), (None, 8, 16), strict=True))
    ]
    init = [("NCCL communicator ID", 18, 0), ("No. of ranks", 5, 8), ("Rank", 5, 12)]
    entries += [
        {"domainId": 1, "schemaId": 101, "idx": i, "type": kind, "name": name, "offset": offset}
        for i, (name, kind, offset) in enumerate(init)
    ]
    enumeration = [
        {"domainId": 1, "schemaId": 1 << 24, "name": name, "value": i} for i, name in enumerate(("Sum", "Max"))
    ]
    return {NVTX: rows, "NVTX_PAYLOAD_SCHEMA_ENTRIES": entries, "NVTX_PAYLOAD_ENUM_ENTRIES": enumeration}


def test_nccl_calls_become_collectives(tmp_path):
    communicator = 2**64 - 5
    rows = [
        domain(1, "NCCL"),
        nvtx(1, 2, text="before"),
        nvtx(10, 20, textId=2, domainId=1, binaryData=payload(1, 100, struct.pack("<QQII", communicator, 4096, 1, 0))),
        nvtx(
            30,
            40,
            textId=2,
            domainId=1,
            jsonText=f'{{"NCCL communicator ID":{communicator},"Message size [bytes]":8,"Peer rank":1,"Root":2}}',
        ),
        nvtx(50, 60, textId=2, domainId=1),
        nvtx(61, 62, text="ncclGroupStart", domainId=1),
        # Comes last: the size of the communicator is still known for the calls before it.
        nvtx(70, 80, textId=13, domainId=1, binaryData=payload(1, 101, struct.pack("<Qii", communicator, 2, 1))),
    ]
    sink = read(build(tmp_path / "a.sqlite", nccl_tables(rows), STRINGS))
    assert [e["name"] for e in events(sink, "range")] == [
        "before",
        *["ncclAllReduce"] * 3,
        "ncclGroupStart",
        "ncclCommInitRank",
    ]
    names = ("event_id", "kind", "bytes", "reduction", "communicator", "group_size", "peer", "root")
    assert [tuple(c[n] for n in names) for c in sink.rows("collectives")] == [
        (1, "ncclAllReduce", 4096, "Max", str(communicator), 2, None, None),
        (2, "ncclAllReduce", 8, None, str(communicator), 2, 1, 2),
        (3, "ncclAllReduce", None, None, None, None, None, None),
    ]
    assert [(p["rank"], p["rank_source"]) for p in sink.rows("processes")] == [(1, "metadata")]
    assert sink.facts.world_size == 2


def test_nccl_calls_are_known_by_name_where_the_domain_was_cut_off(tmp_path):
    rows = [
        nvtx(10, 20, text="ncclAllReduce", domainId=1),
        nvtx(10, 20, text="nccl:all_reduce, op_id = 4"),
        domain(2, "mine"),
        nvtx(30, 31, text="ncclAllReduce", domainId=2),
    ]
    sink = read(build(tmp_path / "a.sqlite", {NVTX: rows}))
    assert [c["event_id"] for c in sink.rows("collectives")] == [0]


def test_python_samples_from_json_and_from_binary(tmp_path):
    text = {
        "Python Periodic Sampling": {
            "Frames": [{"Function": 5, "File": 7, "Line": 12}, {"Function": 8, "File": 7, "Line": 3}]
        }
    }
    binary = payload(1, 9, python_frames((5, 7, 12), (8, 7, 3)))
    rows = [
        domain(1, "Python Periodic Sampling"),
        nvtx(100, None, 34, domainId=1, jsonText=json.dumps(text)),
        nvtx(200, None, 34, domainId=1, binaryData=binary),
        nvtx(300, None, 34, domainId=1, jsonText="{torn", binaryData=binary),
        nvtx(400, None, 34, domainId=1),
        nvtx(500, None, 34, domainId=1, binaryData=binary[:50]),
    ]
    sink = read(build(tmp_path / "a.sqlite", {NVTX: rows}, STRINGS))
    samples = sink.rows("samples")
    assert [(s["t_ns"], s["kind"], s["thread"]) for s in samples] == [(t, "python", 11) for t in (100, 200, 300)]
    assert all(s["node_id"] == ["<module> (train.py:3)", "inner (train.py:12)"] for s in samples)
    assert len(sink.stacks) == 2
    nodes = list(sink.stacks.nodes)
    assert (sink.texts.all[nodes[0][2]], nodes[0][3]) == ("~/train.py", 3)
    assert [n for (code, _), n in sink.notes.items() if code == "python_samples_without_frames"] == [2]
    assert events(sink, "mark") == []


def test_python_backtraces_belong_to_the_call_that_starts_with_them(tmp_path):
    def mark(at, line, tid=11):
        return nvtx(at, None, 34, domainId=2, tid=tid, binaryData=payload(2, 9, python_frames((5, 7, line))))

    tables = {
        NVTX: [domain(2, "Python Backtrace on CUDA"), mark(100, 1), mark(300, 2), mark(500, 3, tid=12), mark(710, 4)],
        RUNTIME: [
            call(100, 150, 1, eventClass=67, callchainId=1),
            call(101, 149, 1),
            call(300, 350, 1, eventClass=67),
            call(500, 550, 1),
            call(700, 750, 1),
            call(800, 850, 1, callchainId=1),
        ],
        "CUDA_CALLCHAINS": [{"id": 1, "symbol": 6, "module": 10, "originalIP": 1, "stackDepth": 0}],
    }
    sink = read(build(tmp_path / "a.sqlite", tables, STRINGS))
    traces = [e["backtrace_node_id"] for e in events(sink, "api_call")]
    assert traces == [["inner (train.py:1)"], None, ["inner (train.py:2)"], None, ["inner (train.py:4)"], ["outer"]]
    assert sink.rows("samples") == []


def test_mpi_calls_and_their_ranks(tmp_path):
    tables = {
        "MPI_COLLECTIVES_EVENTS": [
            {"start": 10, "end": 30, "globalTid": gtid(10, 10), "textId": 12, "size": None},
            {"start": 20, "end": None, "globalTid": gtid(20, 20), "textId": 12, "size": 64},
        ],
        "MPI_RANKS": [{"globalTid": gtid(10, 10), "rank": 0}, {"globalTid": gtid(20, 20), "rank": 1}],
        "MPI_COMMUNICATORS": [{"rank": 0, "size": 2}],
        **DURATION,
    }
    sink = read(build(tmp_path / "a.sqlite", tables, STRINGS))
    assert [
        (e["name"], e["domain"], e["start_ns"], e["end_ns"], e["bytes"]) for e in events(sink, "host_communication")
    ] == [
        ("MPI_Barrier", "MPI", 10, 30, None),
        ("MPI_Barrier", "MPI", 20, 1000, 64),
    ]
    assert [(p["process"], p["rank"], p["rank_source"]) for p in sink.rows("processes")] == [
        (10, 0, "mpi"),
        (20, 1, "mpi"),
    ]
    assert sink.facts.several_ranks and sink.facts.rank is None and sink.facts.world_size == 2
    assert "calls_never_ended" in codes(sink)


def test_overhead_under_all_names_and_synchronisation_records(tmp_path):
    tables = {
        "PROFILER_OVERHEAD": [{"start": 1, "end": 9, "globalTid": gtid(10, 11), "nameId": 14}],
        "CUPTI_ACTIVITY_KIND_OVERHEAD": [{"start": 2, "end": 3, "globalTid": None, "nameId": None, "overheadType": 7}],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [
            {"start": 4, "end": 6, "globalPid": gpid(10), "syncType": 3, "correlationId": 8, "streamId": 2**32 - 1}
        ],
    }
    sink = read(build(tmp_path / "a.sqlite", tables, STRINGS))
    assert [(e["kind"], e["name"], e["process"], e.get("thread")) for e in sink.rows("cpu_events")] == [
        ("overhead", "CUDA profiling data flush overhead", 10, 11),
        ("overhead", "Lazy Function Loading", None, None),
        ("sync_record", "Stream sync", 10, None),
    ]


def test_libraries_and_compilers_become_ranges_with_a_domain(tmp_path):
    row = {"start": 1, "end": 2, "globalTid": gtid(10, 11), "nameId": 5}
    tables = {
        "CUDNN_EVENTS": [row],
        "CUBLAS_EVENTS": [row],
        "CUPTI_ACTIVITY_KIND_OPENACC_DATA": [{**row, "DeviceType": 4, "bytes": 16}],
        "OPENMP_EVENT_KIND_PARALLEL": [row],
    }
    sink = read(build(tmp_path / "a.sqlite", tables, STRINGS))
    assert [(e["domain"], e["name"], e.get("bytes")) for e in events(sink, "range")] == [
        ("cuDNN", "inner", None),
        ("cuBLAS", "inner", None),
        ("OpenACC", "inner", 16),
        ("OpenMP", "inner", None),
    ]


def test_page_faults(tmp_path):
    tables = {
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS": [{"start": 5, "globalPid": gpid(10), "address": 1}],
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS": [{"start": 6, "end": 9, "globalPid": gpid(10), "numberOfPageFaults": 3}],
    }
    faults = events(read(build(tmp_path / "a.sqlite", tables)), "unified_memory")
    assert [(f["name"], f["start_ns"], f["end_ns"], f["args"]) for f in faults] == [
        ("CPU page fault", 5, 5, None),
        ("GPU page faults", 6, 9, '{"faults":3}'),
    ]


def test_cpu_samples(tmp_path):
    def frame(chain, symbol, depth, kernel_mode=0):
        return {
            "id": chain,
            "symbol": symbol,
            "module": 10,
            "kernelMode": kernel_mode,
            "originalIP": 1,
            "stackDepth": depth,
        }

    tables = {
        "COMPOSITE_EVENTS": [
            {"id": 1, "start": 10, "cpu": 3, "threadState": 1, "globalTid": gtid(10, 11)},
            {"id": 2, "start": 20, "cpu": None, "threadState": 7, "globalTid": gtid(10, 11)},
        ],
        # Frames of a chain need not stand in order.
        "SAMPLING_CALLCHAINS": [frame(1, 15, 0, 1), frame(1, 6, 2), frame(1, 5, 1)],
    }
    first, second = read(build(tmp_path / "a.sqlite", tables, STRINGS)).rows("samples")
    assert first["node_id"] == ["outer", "inner", "do_syscall [kernel]"]
    assert (first["kind"], first["t_ns"], first["cpu"], first["state"]) == ("native", 10, 3, "running")
    assert (second["node_id"], second["cpu"], second["state"]) == (None, None, "blocked")


def test_scheduling_pairs_in_and_out_of_each_thread(tmp_path):
    def event(at, entered, tid=11, state=0, cpu=4):
        return {"start": at, "cpu": cpu, "isSchedIn": entered, "globalTid": gtid(10, tid), "threadState": state}

    rows = [
        event(1, 1),
        event(2, 1, 12),
        event(5, 0, state=2),
        event(9, 1, cpu=5),
        event(12, 0, 12),
        event(20, 0),
        event(25, 0),
    ]
    sink = read(build(tmp_path / "a.sqlite", {"SCHED_EVENTS": rows}))
    slices = [
        (s["thread"], s["state"], s["start_ns"], s["end_ns"], s["cpu"], s["reason"]) for s in sink.rows("sched_slices")
    ]
    assert slices == [
        (11, "running", 1, 5, 4, None),
        (11, "blocked", 5, 9, 4, "Interruptible"),
        (11, "running", 9, 20, 5, None),
        (12, "running", 2, 12, 4, None),
    ]
    assert "scheduling_events_unpaired" in codes(sink)


def test_gpu_metrics_are_named_by_type_and_metric(tmp_path):
    tables = {
        "TARGET_INFO_GPU_METRICS": [
            {"typeId": 256, "metricId": 0, "metricName": "SMs Active [Throughput %]"},
            {"typeId": 257, "metricId": 0, "metricName": "GPC Clock Frequency [MHz]"},
        ],
        "GPU_METRICS": [
            {"timestamp": -5, "typeId": 256, "metricId": 0, "value": 40},
            {"timestamp": 10, "typeId": 257, "metricId": 0, "value": 1_980_000_000},
            {"timestamp": 10, "typeId": 257, "metricId": 1, "value": 1},
        ],
    }
    sink = read(build(tmp_path / "a.sqlite", tables))
    names = ("source", "device", "metric", "metric_unit", "t_ns", "value")
    assert [tuple(m[n] for n in names) for m in sink.rows("metric_samples")] == [
        ("gpu_metrics", 0, "SMs Active [Throughput %]", "%", -5, 40.0),
        ("gpu_metrics", 1, "GPC Clock Frequency", "Hz", 10, 1.98e9),
    ]
    assert "metrics_without_name" in codes(sink)


def test_metrics_of_old_exports_are_json_whose_numbers_are_texts(tmp_path):
    tables = {
        "GENERIC_EVENT_SOURCES": [
            {"sourceId": 7, "data": '{"Name": "GpuMetrics"}'},
            {"sourceId": 8, "data": '{"Name": "FTrace"}'},
        ],
        "GENERIC_EVENT_TYPES": [{"typeId": 513, "sourceId": 7}, {"typeId": 514, "sourceId": 8}],
        "GENERIC_EVENTS": [
            {"rawTimestamp": 5, "timestamp": None, "typeId": 513, "data": '{"GR Active": "99", "DRAM": "1"}'},
            {"rawTimestamp": 6, "timestamp": None, "typeId": 514, "data": '{"x": "1"}'},
        ],
    }
    found = read(build(tmp_path / "a.sqlite", tables)).rows("metric_samples")
    assert [(m["metric"], m["metric_unit"], m["t_ns"], m["value"], m["device"]) for m in found] == [
        ("GR Active", "%", 5, 99.0, 1),
        ("DRAM", None, 5, 1.0, 1),
    ]


def test_threads_and_processes_are_those_of_stored_events(tmp_path):
    tables = {
        RUNTIME: [call(1, 2, 1)],
        "ThreadNames": [
            {"nameId": 17, "priority": 1, "globalTid": gtid(10, 11)},
            {"nameId": 5, "priority": 1, "globalTid": gtid(10, 11)},
            {"nameId": 6, "priority": 1, "globalTid": gtid(99, 99)},
        ],
        "PROCESSES": [
            {"globalPid": gpid(10), "pid": 10, "name": "/home/me/bin/python3"},
            {"globalPid": gpid(99), "pid": 99, "name": "sshd"},
        ],
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(5, 6)],
    }
    sink = read(build(tmp_path / "a.sqlite", tables, STRINGS))
    assert [(p["process"], p["name"]) for p in sink.rows("processes")] == [(10, "python3")]
    assert [(t["process"], t["thread"], t["name"]) for t in sink.rows("threads")] == [(10, 11, "main thread, inner")]
    assert "sshd" not in sink.texts.all and "outer" not in sink.texts.all
