"""What the reader makes of events: one small trace for each trap of the format."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.torch_reading import call, kernel, notes, operator, read_events, read_text
from traceanalyzer.schema.kinds import RankSource
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.torch_trace import SOURCE


def test_a_kernel_in_full(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {
        "device": 2, "context": 1, "stream": 7, "correlation": 9, "External id": 4, "registers per thread": 32,
        "shared memory": 1024, "est. achieved occupancy %": 55, "grid": [1, 2, 3], "block": [128, 1, 1],
        "graph id": 0, "graph node id": 5,
    }  # fmt: skip
    sink = read_events(tmp_path, [call(correlation=9), kernel(ts=5.125, dur=1.5, pid=2, **arguments)])
    (op,) = sink.rows("gpu_ops")
    assert {k: v for k, v in op.items() if v is not None} == {
        "process": 10, "device": 2, "context": 1, "stream": 7, "kind": "kernel", "name": "gemm", "start_ns": 5125,
        "end_ns": 6625, "correlation_id": 9, "external_id": 4, "registers_per_thread": 32, "occupancy_pct": 55.0,
        "dynamic_shared_bytes": 1024, "grid_x": 1, "grid_y": 2, "grid_z": 3, "block_x": 128, "block_y": 1, "block_z": 1,
        "graph_node_id": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind", "source", "destination"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "htod", "pageable", "device"),
        ("Memcpy HtoD (Pinned -> Device)", "htod", "pinned", "device"),
        ("Memcpy DtoH (Device -> Pageable)", "dtoh", "device", "pageable"),
        ("Memcpy DtoD (Device -> Device)", "dtod", "device", "device"),
        ("Memcpy HtoD (Host -> Device)", "htod", "unknown", "device"),
        ("Memcpy DtoH (Device -> Host)", "dtoh", "device", "unknown"),
        ("Memcpy DtoD", "dtod", "device", "device"),
        ("Memcpy PtoP (Device -> Device)", "ptop", "device", "device"),
        ("CopyHostToDevice", "htod", "unknown", "device"),
        ("CopyDeviceToHost", "dtoh", "device", "unknown"),
    ],
)
def test_copies(tmp_path: Path, name: str, kind: str, source: str, destination: str) -> None:
    sink = read_events(tmp_path, [kernel(name, cat="gpu_memcpy", device=0, bytes=64)])
    (op,) = sink.rows("gpu_ops")
    assert (op["kind"], op["bytes"]) == ("memcpy", 64)
    assert (op["copy_kind"], op["source_memory"], op["destination_memory"]) == (kind, source, destination)


def test_host_to_host_copies_are_no_operations(tmp_path: Path) -> None:
    sink = read_events(tmp_path, [kernel("Memcpy HtoH (Pageable -> Pinned)", cat="gpu_memcpy"), kernel()])
    assert [op["name"] for op in sink.rows("gpu_ops")] == ["gemm"]
    assert notes(sink) == {"host_to_host_copies": 1}


def test_the_spelling_of_2020(tmp_path: Path) -> None:
    events = [
        operator("ProfilerStep#2", 0, 50, tid="4093687616", cat="Operator", **{"External id": 1}),
        operator("cudaMemsetAsync", 1, 2, tid="4093687616", cat="Runtime", **{"correlation": 5, "external id": 0}),
        {"ph": "X", "cat": "Memset", "name": "Memset (Device)", "pid": 0, "tid": "stream 7", "ts": 9, "dur": 0,
         "args": {"correlation": 5, "external id": 3}},
    ]  # fmt: skip
    sink = read_events(tmp_path, events)
    (op,) = sink.rows("gpu_ops")
    assert (op["device"], op["stream"], op["kind"], op["destination_memory"]) == (0, 7, "memset", "device")
    assert (op["start_ns"], op["end_ns"], op["external_id"], op["process"]) == (9000, 9000, 3, 10)
    step, runtime = sink.rows("cpu_events")
    assert (step["kind"], step["thread"]) == ("step_mark", 4093687616)
    assert (runtime["kind"], runtime["correlation_id"], runtime["external_id"]) == ("api_call", 5, None)


@pytest.mark.parametrize("correlation", [0, -1])
def test_no_correlation(tmp_path: Path, correlation: int) -> None:
    sink = read_events(tmp_path, [call(correlation=correlation), kernel(correlation=correlation)])
    assert sink.rows("gpu_ops")[0].get("correlation_id") is None
    assert sink.rows("cpu_events")[0].get("correlation_id") is None


def test_external_ids_that_are_the_correlation_are_no_ids(tmp_path: Path) -> None:
    same = [kernel(correlation=c, **{"External id": c}) for c in (4, 5)]
    sink = read_events(tmp_path, [*same, call(correlation=4, **{"External id": 4})])
    assert all(op.get("external_id") is None for op in sink.rows("gpu_ops"))
    assert sink.rows("cpu_events")[0].get("external_id") is None
    assert notes(sink) == {"external_id_is_correlation": 2}
    sink = read_events(tmp_path, [*same, kernel(correlation=6, **{"External id": 1})])
    assert [op["external_id"] for op in sink.rows("gpu_ops")] == [4, 5, 1]


def test_times_that_are_wrong(tmp_path: Path) -> None:
    events = [
        kernel("a", ts=5, dur=-1),
        kernel("b", ts=5, dur=-2147483648),
        kernel("c", ts="5.0005", dur="1.0004"),
        {"ph": "X", "cat": "kernel", "name": "d", "pid": 0, "tid": 7, "ts": 8},
        {"ph": "X", "cat": "kernel", "name": "e", "pid": 0, "tid": 7, "dur": 8},
        kernel("f", ts=10**17),
        kernel("g", ts=float("nan")),
    ]
    sink = read_events(tmp_path, events)
    got = [(op["name"], op["start_ns"], op["end_ns"]) for op in sink.rows("gpu_ops")]
    assert got == [("a", 5000, 5000), ("b", 5000, 5000), ("c", 5001, 6001), ("d", 8000, 8000)]
    found = notes(sink)
    assert (found["negative_durations"], found["time_unreadable"]) == (2, 3)


def test_kinds_of_events_of_threads(tmp_path: Path) -> None:
    cases = [
        ("aten::mm", "cpu_op", "operator"),
        ("cuLaunchKernel", "cuda_driver", "api_call"),
        ("hipLaunchKernel", "hip_runtime", "api_call"),
        ("forward", "user_annotation", "range"),
        ("nccl:all_reduce", "user_annotation", "range"),
        ("gloo:all_reduce", "user_annotation", "host_communication"),
        ("ProfilerStep#12", "user_annotation", "step_mark"),
        ("ProfilerStep#x", "user_annotation", "range"),
        ("train.py(3): step", "python_function", "python_frame"),
        ("<built-in function collect>", "python_function", "python_frame"),
        ("gc.collect", "user_annotation", "garbage_collection"),
    ]
    sink = read_events(tmp_path, [operator(name, cat=cat) for name, cat, _kind in cases])
    assert [e["kind"] for e in sink.rows("cpu_events")] == [kind for _name, _cat, kind in cases]
    assert [e["domain"] for e in sink.rows("cpu_events")] == [cat for _name, cat, _kind in cases]
    assert [(t["process"], t["thread"]) for t in sink.rows("threads")] == [(10, 11)]


def test_rows_that_are_no_work(tmp_path: Path) -> None:
    events = [
        call(),
        operator("Buffer Flush", pid=-1, tid=0, cat="overhead"),
        kernel("step", cat="gpu_user_annotation"),
        kernel("Stream Sync", cat="cuda_sync", tid=-1, stream=-1, device=0, correlation=4),
        {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 9, "s": "g"},
        {"ph": "s", "cat": "ac2g", "id": 1, "name": "ac2g", "pid": 10, "tid": 11, "ts": 2},
    ]
    sink = read_events(tmp_path, events)
    got = {e["kind"]: (e.get("process"), e.get("thread"), e.get("correlation_id")) for e in sink.rows("cpu_events")}
    assert got == {
        "api_call": (10, 11, None),
        "overhead": (10, None, None),
        "device_annotation": (None, None, None),
        "sync_record": (None, None, None),
        "mark": (None, None, None),
    }
    assert sink.rows("gpu_ops") == []
    record = next(e for e in sink.rows("cpu_events") if e["kind"] == "sync_record")
    assert record["args"] == '{"device":0,"stream":-1,"correlation":4}'


def test_arguments_and_call_stacks(tmp_path: Path) -> None:
    shapes = {"Input Dims": [[2, 3], []], "Input type": ["float", ""], "Sequence number": 3, "Fwd thread id": 1}
    generated = {"kernel_file": "/tmp/torchinductor_someone/ab/c.py", "kernel_backend": "triton", "grid": "grid(8,)"}
    events = [
        operator("aten::mm", **shapes, **{"Call stack": "inner.py(3): f;outer.py(9): g;", "External id": 5}),
        operator("triton_poi", **{"Input Dims": [[4]]}, **generated),
        operator("nn.Module: Linear_0", cat="python_function", **{"Python id": 1, "Python module id": 7}),
    ]
    first, second, third = read_events(tmp_path, events).rows("cpu_events")
    assert first["args"] == '{"Input Dims":[[2,3],[]],"Input type":["float",""]}'
    assert (first["external_id"], first["sequence_number"], first["forward_thread"]) == (5, 3, 1)
    assert first["backtrace_node_id"] == ["g (outer.py:9)", "f (inner.py:3)"]
    assert second["args"] == '{"Input Dims":[[4]],"kernel_backend":"triton","grid":"grid(8,)","kernel_file":"c.py"}'
    assert third["args"] == '{"Python module id":7}'


def test_memory(tmp_path: Path) -> None:
    def instant(kind: int, device: int, **more: int) -> dict[str, Any]:
        arguments = {"Device Type": kind, "Device Id": device, "Bytes": -512, **more}
        return {"ph": "i", "s": "t", "name": "[memory]", "pid": 10, "tid": 11, "ts": 4.5, "args": arguments}

    totals = {"Addr": (1 << 64) - 16, "Total Allocated": 7, "Total Reserved": 9}
    host, device = read_events(tmp_path, [instant(0, -1), instant(1, 3, **totals)]).rows("memory_events")
    assert (host["device"], host["t_ns"], host["bytes"], host["process"]) == (None, 4500, -512, 10)
    assert (device["device"], device["address"], device["allocated_bytes"], device["reserved_bytes"]) == (3, -16, 7, 9)


def test_collectives(tmp_path: Path) -> None:
    what = {
        "Collective name": "send", "In msg nelems": 8, "Out msg nelems": 8, "dtype": "Float", "Group size": 2,
        "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Dst Rank": 1, "Rank": 0,
        "Comms Id": 10159970886766084423, "Seq": 6,
    }  # fmt: skip
    events = [
        operator(),
        operator("record_param_comms", **what),
        call(correlation=3),
        kernel(),
        kernel("n", correlation=3, **what),
    ]
    sink = read_events(tmp_path, events)
    host, device = sink.rows("collectives")
    assert (host["event_id"], host.get("op_id"), device["op_id"], device.get("event_id")) == (1, None, 1, None)
    for row in (host, device):
        assert (row["process"], row["kind"], row["peer"], row["sequence"], row["group_size"]) == (10, "send", 1, 6, 2)
        assert (row["communicator"], row["group_ranks"]) == ("10159970886766084423", "[0, 1]")
    assert (sink.facts.rank, sink.facts.rank_source) == (0, RankSource.METADATA)


def test_operations_of_several_processes_belong_to_the_one_that_called(tmp_path: Path) -> None:
    events = [
        call(pid=1, correlation=5),
        call(pid=2, correlation=6),
        call(pid=1, correlation=7),
        call(pid=2, correlation=7),
    ]
    sink = read_events(tmp_path, [kernel(correlation=c) for c in (5, 6, 7, 8)] + events)
    assert [op["process"] for op in sink.rows("gpu_ops")] == [1, 2, None, None]
    assert sink.facts.several_ranks and notes(sink) == {"several_processes": 2}


def test_facts_and_privacy(tmp_path: Path) -> None:
    metadata: dict[str, Any] = {
        "schemaVersion": 1,
        "baseTimeNanoseconds": "1700000000000000000",
        "username": "SECRET",
        "env": {"A": "SECRET"},
        "distributedInfo": {
            "backend": "nccl",
            "rank": -1,
            "world_size": 8,
            "token": "SECRET",
            "pg_config": [{"uid": "SECRET", "ranks": [0]}],
        },
        "deviceProperties": [
            {"id": 0, "name": "H", "totalGlobalMem": 5, "computeMajor": 9, "computeMinor": 0, "numSms": 132}
        ],
        "traceName": "/home/SECRET/t.json",
        "host_name": "node1",
        "WARNING": ["SECRET"],
        "cuda_driver_version": 12040,
    }
    window = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "x", "ts": 0, "dur": 90}
    sink = read_events(tmp_path, [window, operator(ts=5, dur=1), kernel(device=4)], **metadata)
    facts = sink.facts
    assert (facts.rank, facts.world_size, facts.utc_offset_ns, facts.host) == (None, 8, 1700000000000000000, "node1")
    assert (facts.start_ns, facts.end_ns) == (0, 90_000)
    assert "SECRET" not in repr(facts) and "SECRET" not in repr(sink.texts.all) and "SECRET" not in repr(sink.notes)
    assert facts.metadata["cuda_driver_version"] == 12040
    first, second = sink.rows("devices")
    assert (first["device"], first["name"], first["memory_bytes"], first["compute_capability"]) == (0, "H", 5, "9.0")
    assert (second["device"], second["name"]) == (4, None)


@pytest.mark.parametrize(("ts", "offset"), [(1_700_000_000_000_000, 0), (5_000_000, None)])
def test_clock_without_a_base(tmp_path: Path, ts: int, offset: int | None) -> None:
    assert read_events(tmp_path, [operator(ts=ts)]).facts.utc_offset_ns == offset


def test_names_and_identities(tmp_path: Path) -> None:
    def name(kind: str, text: str, pid: Any = 10, tid: Any = 0) -> dict[str, Any]:
        return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": {"name": text}}

    events = [operator(), operator(pid="job", tid="worker"), name("process_name", "python")]
    events += [name("thread_name", "thread 11 (python)", tid=11), name("thread_name", "(pt_autograd_1)", tid=11)]
    sink = read_events(tmp_path, events)
    assert {r["name"] for r in sink.rows("processes")} == {"python", "job"}
    by_name = {r["name"]: r for r in sink.rows("threads")}
    assert by_name["thread 11 (python), (pt_autograd_1)"]["thread"] == 11
    assert by_name["worker"]["thread"] < 0 and by_name["worker"]["process"] < 0


@pytest.mark.parametrize("ids", [(1 << 45, -7), (140_000_000_000_000, "worker")])
def test_large_ids_of_threads_are_kept_whatever_stands_beside_them(tmp_path: Path, ids: tuple[Any, Any]) -> None:
    thread = {"ph": "M", "name": "thread_name", "pid": 10, "tid": ids[0], "ts": 0, "args": {"name": "main"}}
    sink = read_events(tmp_path, [operator(tid=ids[0]), operator(tid=ids[1]), thread])
    assert sink.rows("cpu_events")[0]["thread"] == ids[0]
    assert {r["thread"]: r["name"] for r in sink.rows("threads")}[ids[0]] == "main"


def test_lost_device_records_and_unknown_categories_are_said(tmp_path: Path) -> None:
    sink = read_events(tmp_path, [call(), call(), operator(cat="brand_new"), kernel(cat="cuda_profiler_range")])
    assert notes(sink) == {"no_device_records": 2, "unknown_category": 1, "range_profiler": 1}


def test_legacy_autograd(tmp_path: Path) -> None:
    text = '[{"name": "mm", "ph": "X", "ts": 1.5, "dur": 2, "tid": 1, "pid": "CPU functions", "args": {}}]'
    (event,) = read_text(tmp_path, text).rows("cpu_events")
    assert (event["kind"], event["start_ns"], event["end_ns"], event["thread"]) == ("operator", 1500, 3500, 1)


@pytest.mark.parametrize(
    ("head", "is_trace"),
    [
        (b'{"traceEvents": []}', True),
        (b' [ {"ph":', True),
        (b"\xef\xbb\xbf{\n", True),
        (b"[1, 2]", False),
        (b"a,b\n", False),
        (b"SQLite format 3\x00", False),
        (b"\x89PNG", False),
        (b"", False),
        (b'["traceEvents"]', False),
        (b"==PROF==", False),
    ],
)
def test_recognition(tmp_path: Path, head: bytes, is_trace: bool) -> None:
    (tmp_path / "t").write_bytes(head)
    assert SOURCE.recognise(TraceFile(tmp_path / "t")) is is_trace
