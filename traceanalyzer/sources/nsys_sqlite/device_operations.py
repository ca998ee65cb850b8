"""Device operations: kernels, copies, memory sets, and CUDA graphs that were recorded as a whole."""

from typing import Any

import numpy as np

from traceanalyzer.schema.kinds import CopyKind, EventKind, MemoryKind, OpKind, Severity
from traceanalyzer.schema.sink import NO_TEXT
from traceanalyzer.sources.nsys_sqlite.capture import Capture, distinct, masked, positive
from traceanalyzer.sources.nsys_sqlite.database import NULL, Block, Integers
from traceanalyzer.sources.nsys_sqlite.devices import Devices
from traceanalyzer.sources.nsys_sqlite.launches import LaunchKeys, graph_launches, launch_keys

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH_TRACE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"

_WHERE = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "graphId", "graphNodeId")
_KERNEL_NAMES = ("demangledName", "shortName", "mangledName")
_SHAPE = {
    "grid_x": "gridX",
    "grid_y": "gridY",
    "grid_z": "gridZ",
    "block_x": "blockX",
    "block_y": "blockY",
    "block_z": "blockZ",
    "registers_per_thread": "registersPerThread",
    "static_shared_bytes": "staticSharedMemory",
    "dynamic_shared_bytes": "dynamicSharedMemory",
}

# ENUM_CUDA_MEMCPY_OPER: name, direction. Arrays are memory of the device. 9 and 11-13 are no operations.
_COPIES = {
    0: ("Memcpy", CopyKind.OTHER),
    1: ("Memcpy HtoD", CopyKind.HTOD),
    2: ("Memcpy DtoH", CopyKind.DTOH),
    3: ("Memcpy HtoA", CopyKind.HTOD),
    4: ("Memcpy AtoH", CopyKind.DTOH),
    5: ("Memcpy AtoA", CopyKind.DTOD),
    6: ("Memcpy AtoD", CopyKind.DTOD),
    7: ("Memcpy DtoA", CopyKind.DTOD),
    8: ("Memcpy DtoD", CopyKind.DTOD),
    10: ("Memcpy PtoP", CopyKind.PTOP),
}
_HOST_TO_HOST = 9
_UNIFIED = {11: "HtoD", 12: "DtoH", 13: "DtoD"}
_MIGRATION_CAUSES = {1: "prefetch", 2: "page fault", 3: "speculative prefetch", 4: "eviction", 5: "access counters"}
# ENUM_CUDA_MEM_KIND
_MEMORY = {
    0: ("Pageable", MemoryKind.PAGEABLE),
    1: ("Pinned", MemoryKind.PINNED),
    2: ("Device", MemoryKind.DEVICE),
    3: ("Array", MemoryKind.ARRAY),
    4: ("Managed", MemoryKind.MANAGED),
    5: ("Device", MemoryKind.DEVICE),
    6: ("Managed", MemoryKind.MANAGED),
    7: ("Unknown", MemoryKind.UNKNOWN),
}


class DeviceOperations:
    """Reads the four tables of device operations.

    `recorded` watches which launches of graphs have an operation: of a graph that was recorded both by its nodes and
    as a whole only the nodes are kept, and launches without any operation are said.
    """

    def __init__(self, capture: Capture, devices: Devices) -> None:
        self._capture = capture
        self._devices = devices
        self._recorded = LaunchKeys()

    def read(self) -> None:
        """Write `gpu_ops`, and the migrations of unified memory, which are no operations, to `cpu_events`."""
        capture = self._capture
        launched = graph_launches(capture)
        traced = _graph_keys(capture)
        self._recorded = LaunchKeys(np.concatenate([launched, traced]))
        for block in capture.database.blocks(KERNEL, (*_WHERE, *_KERNEL_NAMES, *_SHAPE.values())):
            self._kernels(block)
        columns = (*_WHERE, "bytes", "copyKind", "srcKind", "dstKind", "migrationCause")
        for block in capture.database.blocks(MEMCPY, columns):
            self._copies(block)
        for block in capture.database.blocks(MEMSET, (*_WHERE, "bytes", "memKind")):
            self._memory_sets(block)
        by_nodes = self._recorded.seen_keys()
        for block in capture.database.blocks(GRAPH_TRACE, (*_WHERE, "graphExecId")):
            self._graphs(block, by_nodes)
        missing = np.setdiff1d(launched, self._recorded.seen_keys())
        capture.note(
            "graphs_not_recorded",
            "Some launches of CUDA graphs have no operation on a device: what these graphs did is missing, so the"
            " device may have been busy where it looks idle; record with --cuda-graph-trace=node.",
            len(missing),
        )

    def _common(self, block: Block, keep: Any = None) -> tuple[dict[str, Any], Any]:
        """Columns that all operations share, and which rows of the block they are."""
        start, end = block["start"], block["end"]
        sound = (start != NULL) & (end != NULL) & (block["deviceId"] != NULL)
        dropped = int((~sound).sum())
        self._capture.note(
            "operations_without_time",
            "Some device operations have no start, no end or no device; they were left out.",
            dropped,
        )
        rows = sound if keep is None else sound & keep
        take = slice(None) if rows.all() else np.flatnonzero(rows)
        start, global_pid = start[take], block["globalPid"][take]
        end = self._capture.repaired(start, end[take], "device operations")
        process = self._capture.process(global_pid)
        self._capture.processes(global_pid)
        self._capture.gpu_processes.update(distinct(process))
        correlation = block["correlationId"][take]
        self._recorded.see(launch_keys(process, correlation))
        columns = {
            "process": masked(process),
            "device": self._devices.of(process, block["deviceId"][take]),
            "context": masked(block["contextId"][take]),
            "stream": masked(block["streamId"][take]),
            "start_ns": start,
            "end_ns": end,
            "correlation_id": positive(correlation),
            "graph_id": positive(block["graphId"][take]),
            "graph_node_id": positive(block["graphNodeId"][take]),
        }
        return columns, take

    def _kernels(self, block: Block) -> None:
        columns, take = self._common(block)
        names = self._capture.names
        codes = names.codes(block["demangledName"][take])
        for other in _KERNEL_NAMES[1:]:
            if (codes == NO_TEXT).any():
                codes = np.where(codes == NO_TEXT, names.codes(block[other][take]), codes)
        columns |= {name: masked(block[column][take]) for name, column in _SHAPE.items()}
        count = len(columns["start_ns"])
        self._capture.write_operations({**columns, "name": codes, "kind": np.full(count, OpKind.KERNEL, np.uint8)})

    def _copies(self, block: Block) -> None:
        kind = block["copyKind"]
        unified = np.isin(kind, list(_UNIFIED))
        host = kind == _HOST_TO_HOST
        self._capture.note(
            "host_to_host_copies",
            "Copies from host to host never touch the device; they are not counted as device operations.",
            int(host.sum()),
            Severity.INFO,
        )
        # The launch was recorded, be it by a copy that is no operation.
        process = self._capture.process(block["globalPid"][host])
        self._recorded.see(launch_keys(process, block["correlationId"][host]))
        if unified.any():
            self._migrations(block, np.flatnonzero(unified))
        columns, take = self._common(block, ~(unified | host))
        source, target = block["srcKind"][take], block["dstKind"][take]
        kind = kind[take]
        self._capture.write_operations(
            {
                **columns,
                "kind": np.full(len(kind), OpKind.MEMCPY, np.uint8),
                "name": self._copy_names(kind, source, target),
                "bytes": masked(block["bytes"][take]),
                "copy_kind": _chosen(kind, {k: v[1] for k, v in _COPIES.items()}, CopyKind.OTHER),
                "source_memory": _memory(source),
                "destination_memory": _memory(target),
            }
        )

    def _copy_names(self, kind: Integers, source: Integers, target: Integers) -> Any:
        """Names such as "Memcpy HtoD (Pageable -> Device)", as torch.profiler writes them."""
        packed = (np.clip(kind, -1, 99) * 100 + np.clip(source, -1, 9) + 1) * 100 + np.clip(target, -1, 9) + 1
        distinct, first, where = np.unique(packed, return_index=True, return_inverse=True)
        codes = np.empty(len(distinct), np.int32)
        for i, row in enumerate(first.tolist()):
            text = _COPIES.get(int(kind[row]), _COPIES[0])[0]
            ends = [_MEMORY[int(k)][0] for k in (source[row], target[row]) if int(k) in _MEMORY]
            codes[i] = self._capture.names.code(f"{text} ({' -> '.join(ends)})" if len(ends) == 2 else text)
        return codes[where]

    def _migrations(self, block: Block, rows: Integers) -> None:
        rows = rows[(block["start"][rows] != NULL) & (block["end"][rows] != NULL)]
        names = []
        for kind, cause in zip(block["copyKind"][rows].tolist(), block["migrationCause"][rows].tolist(), strict=True):
            why = _MIGRATION_CAUSES.get(cause)
            names.append(f"Unified memory {_UNIFIED[kind]}" + (f" ({why})" if why else ""))
        self._capture.write_events(
            EventKind.UNIFIED_MEMORY,
            "migrations of unified memory",
            {
                **self._capture.processes(block["globalPid"][rows]),
                "name": self._capture.sink.texts.codes(names),
                "start_ns": block["start"][rows],
                "end_ns": block["end"][rows],
                "bytes": masked(block["bytes"][rows]),
            },
        )

    def _memory_sets(self, block: Block) -> None:
        columns, take = self._common(block)
        memory = block["memKind"][take]
        texts = {k: self._capture.names.code(f"Memset ({text})") for k, (text, _) in _MEMORY.items()}
        plain = self._capture.names.code("Memset")
        self._capture.write_operations(
            {
                **columns,
                "kind": np.full(len(memory), OpKind.MEMSET, np.uint8),
                "name": np.array([texts.get(m, plain) for m in memory.tolist()], np.int32),
                "bytes": masked(block["bytes"][take]),
                "destination_memory": _memory(memory),
            }
        )

    def _graphs(self, block: Block, by_nodes: Integers) -> None:
        keys = launch_keys(self._capture.process(block["globalPid"]), block["correlationId"])
        columns, take = self._common(block, ~np.isin(keys, by_nodes))
        graphs = block["graphId"][take]
        names = ["CUDA graph" if g == NULL else f"CUDA graph {g}" for g in graphs.tolist()]
        self._capture.write_operations(
            {
                **columns,
                "kind": np.full(len(graphs), OpKind.GRAPH, np.uint8),
                "name": self._capture.sink.texts.codes(names),
            }
        )


def _graph_keys(capture: Capture) -> Integers:
    """Launches of the graphs that were recorded as a whole."""
    parts = [
        launch_keys(capture.process(block["globalPid"]), block["correlationId"])
        for block in capture.database.blocks(GRAPH_TRACE, ("globalPid", "correlationId"))
    ]
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)


def _chosen(values: Integers, choices: dict[int, Any], otherwise: int) -> Any:
    out = np.full(len(values), otherwise, np.uint8)
    for value, choice in choices.items():
        out[values == value] = choice
    return out


def _memory(kinds: Integers) -> Any:
    chosen = _chosen(kinds, {k: v[1] for k, v in _MEMORY.items()}, MemoryKind.UNKNOWN)
    return np.ma.masked_array(chosen, kinds == NULL)
