"""Device operations and GPUs of nsys exports, on files made by hand."""

from tests.sources.nsys_support import codes, events, read
from tests.support.nsys_builder import build, call, gpid, kernel, memcpy

KERNEL, MEMCPY = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET, GRAPH = "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
STRINGS = {
    1: "void gemm<float>(int)",
    2: "gemm",
    3: "cudaLaunchKernel_v7000",
    4: "cudaGraphLaunch_v10000",
    5: "_Z4gemm",
}


def test_kernel_with_all_its_columns(tmp_path):
    shape = {"gridX": 2, "gridY": 3, "gridZ": 4, "blockX": 128, "blockY": 1, "blockZ": 1, "registersPerThread": 32}
    row = kernel(100, 250, staticSharedMemory=16, dynamicSharedMemory=1024, graphNodeId=None, graphId=None, **shape)
    (op,) = read(build(tmp_path / "a.sqlite", {KERNEL: [row]}, STRINGS)).rows("gpu_ops")
    assert op["name"] == "void gemm<float>(int)"
    assert (op["start_ns"], op["end_ns"], op["process"], op["device"], op["stream"], op["context"]) == (
        100,
        250,
        10,
        0,
        7,
        1,
    )
    assert (op["grid_x"], op["grid_y"], op["grid_z"], op["block_x"], op["registers_per_thread"]) == (2, 3, 4, 128, 32)
    assert (op["static_shared_bytes"], op["dynamic_shared_bytes"], op["correlation_id"]) == (16, 1024, 1)
    assert op["graph_node_id"] is None and op["graph_id"] is None and op["kind"] == "kernel"


def test_name_falls_back_to_the_short_then_the_mangled_one(tmp_path):
    rows = [
        kernel(1, 2, demangledName=99, mangledName=5),
        kernel(3, 4, demangledName=None, shortName=None, mangledName=5),
        kernel(5, 6, demangledName=None, shortName=None, mangledName=None),
    ]
    names = [op["name"] for op in read(build(tmp_path / "a.sqlite", {KERNEL: rows}, STRINGS)).rows("gpu_ops")]
    assert names == ["gemm", "_Z4gemm", None]


def test_columns_that_other_tools_add_are_ignored_and_missing_ones_are_null(tmp_path):
    row = {"start": 5, "end": 9, "deviceId": 0, "kernel_name": "dlprof", "demangledName": 1}
    (op,) = read(build(tmp_path / "a.sqlite", {KERNEL: [row]}, STRINGS)).rows("gpu_ops")
    assert op["name"] == "void gemm<float>(int)"
    assert op["process"] is None and op["correlation_id"] is None and op["grid_x"] is None


def test_times_that_cannot_be_are_repaired_or_dropped_and_said(tmp_path):
    rows = [kernel(100, 90), kernel(None, 5), kernel(7, None), kernel(-50, -20), kernel(200, 210)]
    sink = read(build(tmp_path / "a.sqlite", {KERNEL: rows}, STRINGS))
    assert [(o["start_ns"], o["end_ns"]) for o in sink.rows("gpu_ops")] == [(100, 100), (-50, -20), (200, 210)]
    assert {code: n for (code, _), n in sink.notes.items()} == {"negative_duration": 1, "operations_without_time": 2}


def test_correlation_zero_is_none(tmp_path):
    rows = [kernel(1, 2, correlation=0), kernel(2, 3, correlation=None), kernel(3, 4, correlation=2**32 - 1)]
    sink = read(build(tmp_path / "a.sqlite", {KERNEL: rows}, STRINGS))
    assert [o["correlation_id"] for o in sink.rows("gpu_ops")] == [None, None, 2**32 - 1]


def test_copies_keep_direction_memory_and_bytes(tmp_path):
    rows = [
        memcpy(10, 20, 1, size=2**35, srcKind=0, dstKind=2),
        memcpy(20, 30, 2, srcKind=2, dstKind=1),
        memcpy(30, 40, 8, srcKind=None, dstKind=None),
        memcpy(40, 50, 10, srcKind=5, dstKind=6),
    ]
    ops = read(build(tmp_path / "a.sqlite", {MEMCPY: rows})).rows("gpu_ops")
    assert [o["name"] for o in ops] == [
        "Memcpy HtoD (Pageable -> Device)",
        "Memcpy DtoH (Device -> Pinned)",
        "Memcpy DtoD",
        "Memcpy PtoP (Device -> Managed)",
    ]
    assert [(o["copy_kind"], o["source_memory"], o["destination_memory"]) for o in ops] == [
        ("htod", "pageable", "device"),
        ("dtoh", "device", "pinned"),
        ("dtod", None, None),
        ("ptop", "device", "managed"),
    ]
    assert [o["bytes"] for o in ops] == [2**35, 4096, 4096, 4096]


def test_host_copies_and_migrations_are_no_operations(tmp_path):
    rows = [
        memcpy(10, 20, 9),
        memcpy(30, 45, 11, correlation=0, size=2048, migrationCause=1),
        memcpy(50, 60, 12, correlation=0, size=64, migrationCause=2),
    ]
    sink = read(build(tmp_path / "a.sqlite", {MEMCPY: rows}))
    assert sink.rows("gpu_ops") == []
    moved = events(sink, "unified_memory")
    assert [(e["name"], e["bytes"], e["start_ns"], e["end_ns"]) for e in moved] == [
        ("Unified memory HtoD (prefetch)", 2048, 30, 45),
        ("Unified memory DtoH (page fault)", 64, 50, 60),
    ]
    assert all(e["process"] == 10 and e.get("thread") is None for e in moved)
    assert "host_to_host_copies" in codes(sink)


def test_memory_sets(tmp_path):
    row = {**memcpy(1, 2, 0), "memKind": 2}
    (op,) = read(build(tmp_path / "a.sqlite", {MEMSET: [row]})).rows("gpu_ops")
    assert (op["kind"], op["name"], op["bytes"], op["destination_memory"]) == (
        "memset",
        "Memset (Device)",
        4096,
        "device",
    )


def test_a_graph_counts_as_one_operation_unless_its_nodes_were_recorded(tmp_path):
    def graph(start, end, correlation, pid, number):
        row = {"start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7, "graphId": number}
        return {**row, "correlationId": correlation, "globalPid": gpid(pid)}

    tables = {
        # The launch with correlation 2 of process 20 has its node, that of process 10 has not.
        KERNEL: [kernel(10, 20, pid=20, correlation=2, graphNodeId=2**33 + 1)],
        GRAPH: [graph(10, 30, 2, 20, 5), graph(40, 60, 2, 10, 9)],
        RUNTIME: [call(1, 2, 4, pid=20, correlation=2), call(1, 2, 4, pid=10, correlation=2)],
    }
    sink = read(build(tmp_path / "a.sqlite", tables, STRINGS))
    assert [(o["kind"], o["name"], o["process"], o["graph_id"]) for o in sink.rows("gpu_ops")] == [
        ("kernel", "void gemm<float>(int)", 20, None),
        ("graph", "CUDA graph 9", 10, 9),
    ]
    assert sink.rows("gpu_ops")[0]["graph_node_id"] == 2**33 + 1
    assert "graphs_not_recorded" not in codes(sink)


def test_graph_launches_without_any_operation_are_said(tmp_path):
    tables = {
        KERNEL: [kernel(10, 20, correlation=1)],
        RUNTIME: [call(1, 2, 3, correlation=1), call(3, 4, 4, correlation=2), call(5, 6, 4, correlation=3)],
    }
    sink = read(build(tmp_path / "a.sqlite", tables, STRINGS))
    assert [n for (code, _), n in sink.notes.items() if code == "graphs_not_recorded"] == [2]


def test_ordinals_are_resolved_by_process(tmp_path):
    tables = {
        KERNEL: [kernel(1, 2, pid=20), kernel(1, 3, pid=21), kernel(5, 6, pid=22, device=1)],
        "TARGET_INFO_CUDA_DEVICE": [
            {"gpuId": 0, "cudaId": 0, "pid": 20, "uuid": "aaaa"},
            {"gpuId": 1, "cudaId": 0, "pid": 21, "uuid": "bbbb"},
            {"gpuId": None, "cudaId": 1, "pid": 22, "uuid": "bbbb"},
        ],
        "TARGET_INFO_GPU": [
            {"vmId": 1, "id": 1, "name": "B", "uuid": "bbbb", "smCount": 132, "computeMajor": 9, "computeMinor": 0},
            {"vmId": 1, "id": 0, "name": "A", "uuid": "aaaa", "smCount": 0, "totalMemory": 80 << 30},
            {"vmId": 1, "id": 2, "name": "C", "uuid": "cccc"},
        ],
    }
    sink = read(build(tmp_path / "a.sqlite", tables, STRINGS))
    assert [o["device"] for o in sink.rows("gpu_ops")] == [0, 1, 1]
    devices = sink.rows("devices")
    assert [(d["device"], d["name"], d["uuid"], d["ambiguous"]) for d in devices] == [
        (0, "A", "aaaa", False),
        (1, "B", "bbbb", False),
        (2, "C", "cccc", False),
    ]
    assert devices[0]["memory_bytes"] == 80 << 30 and devices[0]["multiprocessors"] is None
    assert devices[1]["compute_capability"] == "9.0" and devices[1]["multiprocessors"] == 132


def test_one_ordinal_of_several_processes_is_ambiguous_without_a_map(tmp_path):
    rows = [kernel(1, 2, pid=20), kernel(1, 3, pid=21), kernel(5, 6, pid=20, device=1)]
    sink = read(build(tmp_path / "a.sqlite", {KERNEL: rows}, STRINGS))
    assert [(d["device"], d["ambiguous"]) for d in sink.rows("devices")] == [(0, True), (1, False)]
    assert "ambiguous_device" in codes(sink)


def test_first_layouts_of_the_gpu_tables(tmp_path):
    tables = {
        KERNEL: [kernel(1, 2)],
        "TARGET_INFO_GPU": [{"vmId": 1, "deviceId": 0, "name": "Old GPU", "busLocation": "x", "isDiscrete": 1}],
        "TARGET_INFO_CUDA_GPU": [
            {
                "deviceId": 0,
                "name": "Old GPU",
                "globalMemorySize": 8 << 30,
                "numMultiprocessors": 68,
                "coreClockRate": 1740000,
                "globalMemoryBandwidth": 760080000,
                "computeCapabilityMajor": 8,
                "computeCapabilityMinor": 6,
            }
        ],
    }
    (device,) = read(build(tmp_path / "a.sqlite", tables, STRINGS)).rows("devices")
    assert (device["name"], device["memory_bytes"], device["multiprocessors"]) == ("Old GPU", 8 << 30, 68)
    assert (device["clock_rate_hz"], device["memory_bandwidth_bytes_per_s"]) == (1740000000, 760080000000)
    assert device["compute_capability"] == "8.6"


def test_machines_of_one_report_are_kept_apart(tmp_path):
    rows = [kernel(1, 2, pid=20), {**kernel(1, 3, pid=20), "globalPid": gpid(20, machine=2)}]
    sink = read(build(tmp_path / "a.sqlite", {KERNEL: rows}, STRINGS))
    assert [(o["process"], o["device"]) for o in sink.rows("gpu_ops")] == [(20, 0), (20 + (1 << 24), 1000)]
    assert "several_machines" in codes(sink)
    assert [p["process"] for p in sink.rows("processes")] == [20, 20 + (1 << 24)]


def test_allocations_become_memory_events(tmp_path):
    common = {"globalPid": gpid(10), "deviceId": 0, "address": 4096}
    rows = [
        {**common, "start": 5, "bytes": 100, "memKind": 2, "memoryOperationType": 0},
        {**common, "start": 9, "bytes": 100, "memKind": 2, "memoryOperationType": 1},
        {**common, "start": 9, "bytes": 7, "memKind": 1, "memoryOperationType": 0},
    ]
    sink = read(build(tmp_path / "a.sqlite", {"CUDA_GPU_MEMORY_USAGE_EVENTS": rows}))
    assert [(m["t_ns"], m["bytes"], m["device"]) for m in sink.rows("memory_events")] == [
        (5, 100, 0),
        (9, -100, 0),
        (9, 7, None),
    ]
