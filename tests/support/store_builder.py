"""A store with one hand-written capture, for tests of what passes make of it."""

import atexit
import functools
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from traceanalyzer.schema.frames import frame_of
from traceanalyzer.schema.kinds import CopyKind, EventKind, MemoryKind, OpKind, RankSource, SampleKind, ThreadState
from traceanalyzer.schema.sink import CaptureFacts
from traceanalyzer.store import catalog
from traceanalyzer.store.commit import CaptureRow, commit_capture
from traceanalyzer.store.database import open_to_write
from traceanalyzer.store.staging import Staging


@dataclass
class Capture:
    """Rows of a small capture: one process, its threads, its devices. Times in ns."""

    ops: list[dict] = field(default_factory=list)
    events: list[dict] = field(default_factory=list)
    samples: list[dict] = field(default_factory=list)
    collectives: list[dict] = field(default_factory=list)
    metrics: list[dict] = field(default_factory=list)
    device_rows: list[dict] = field(default_factory=list)
    allocations: list[dict] = field(default_factory=list)
    process_rows: list[dict] = field(default_factory=list)
    thread_rows: list[dict] = field(default_factory=list)
    slices: list[dict] = field(default_factory=list)
    places: list[tuple] = field(default_factory=list)

    def kernel(self, start: int, end: int, correlation: int | None = None, name: str = "gemm", **more) -> "Capture":
        self.ops.append(
            {"kind": OpKind.KERNEL, "start_ns": start, "end_ns": end, "correlation_id": correlation, "name": name}
            | more
        )
        return self

    def copy(
        self, start: int, end: int, correlation: int | None, way: CopyKind, pageable: bool = False, **more
    ) -> "Capture":
        ends = {
            CopyKind.HTOD: ("source_memory", "destination_memory"),
            CopyKind.DTOH: ("destination_memory", "source_memory"),
        }
        host, device = ends[way]
        row = {"kind": OpKind.MEMCPY, "start_ns": start, "end_ns": end, "correlation_id": correlation, "name": "memcpy"}
        row |= {
            "copy_kind": way,
            host: MemoryKind.PAGEABLE if pageable else MemoryKind.PINNED,
            device: MemoryKind.DEVICE,
        }
        self.ops.append(row | more)
        return self

    def communication(
        self,
        start: int,
        end: int,
        kind: str = "allreduce",
        *,
        group: str = "0",
        ranks: Sequence[int] = (0, 1),
        elements: int = 1024,
        correlation: int | None = None,
        name: str = "ncclDevKernel",
        stream: int = 20,
        **more,
    ) -> "Capture":
        """A kernel that carries a collective, as PyTorch records one; `more` are columns of `collectives`."""
        row = {
            "op_id": len(self.ops),
            "group_name": group,
            "group_ranks": str(list(ranks)),
            "group_size": len(ranks),
            "kind": kind,
            "dtype": "Float",
            "elements_in": elements,
            "elements_out": elements,
        }
        self.collectives.append(row | more)
        return self.kernel(start, end, correlation, name, stream=stream)

    def event(
        self, kind: EventKind, name: str, start: int, end: int, correlation: int | None = None, thread: int | None = 1
    ) -> "Capture":
        self.events.append(
            {
                "kind": kind,
                "name": name,
                "start_ns": start,
                "end_ns": end,
                "correlation_id": correlation,
                "thread": thread,
            }
        )
        return self

    def launch(
        self, start: int, end: int, correlation: int, name: str = "cudaLaunchKernel", thread: int = 1
    ) -> "Capture":
        return self.event(EventKind.API_CALL, name, start, end, correlation, thread)

    def operator(
        self, name: str, start: int, end: int, dims: Sequence[object], types: Sequence[str] = (), thread: int = 1
    ) -> "Capture":
        """An operator with the shapes, and the types, of its inputs, as torch.profiler records them."""
        recorded = {"Input Dims": dims} | ({"Input type": types} if types else {})
        self.event(EventKind.OPERATOR, name, start, end, None, thread)
        self.events[-1]["args"] = json.dumps(recorded, separators=(",", ":"))
        return self

    def metric(
        self, name: str, *samples: tuple[int, float | None], unit: str = "%", device: int | None = 0
    ) -> "Capture":
        """Samples of a GPU metric: instants and values."""
        self.metrics += [{"metric": name, "unit": unit, "device": device, "t_ns": t, "value": v} for t, v in samples]
        return self

    def memory(
        self, t: int, size: int, address: int | None, total: int | None = None, reserved: int | None = None, **more
    ) -> "Capture":
        """An allocation, or a free (negative), on a device; `more` are `device`, `process` and `thread`."""
        row = {"t_ns": t, "bytes": size, "address": address, "allocated_bytes": total, "reserved_bytes": reserved}
        self.allocations.append({"device": 0, "process": 100, "thread": 1} | row | more)
        return self

    def gpu(self, name: str | None, device: int = 0, **more: object) -> "Capture":
        """What the file says of a device: its name, other columns of `devices`."""
        self.device_rows.append({"device": device, "name": name} | more)
        return self

    def process(self, number: int, name: str | None = None, rank: int | None = None) -> "Capture":
        """A process beside the one, numbered 100, that runs all operations."""
        self.process_rows.append({"process": number, "name": name, "rank": rank})
        return self

    def thread(self, process: int, number: int, name: str | None = None) -> "Capture":
        self.thread_rows.append({"process": process, "thread": number, "name": name})
        return self

    def scheduled(
        self, start: int, end: int, reason: str | None = None, *, ran: bool, process: int = 100, thread: int = 1
    ) -> "Capture":
        """A time in which a thread ran on a CPU, or was off it for a reason."""
        state = ThreadState.RUNNING if ran else ThreadState.BLOCKED
        row = {"process": process, "thread": thread, "start_ns": start, "end_ns": end, "state": state}
        self.slices.append(row | {"reason": reason})
        return self

    def place(self, place: str, attribute: str, value: str, other: str | None = None) -> "Capture":
        """What a matrix of connections says of a GPU or network card, or of the way from it to another."""
        self.places.append((place, other, attribute, value))
        return self

    def sample(self, t: int, *frames: str, thread: int = 1) -> "Capture":
        """A sampled Python stack, outermost first; frames as torch.profiler names them: `a.py(3): f`."""
        self.samples.append({"t_ns": t, "frames": frames, "thread": thread})
        return self


DEFAULTS = {"device": 0, "stream": 7, "process": 100}
GEOMETRY = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
MAY_BE_NULL = (
    "correlation_id",
    "thread",
    "source_memory",
    "destination_memory",
    "copy_kind",
    "process",
    "stream",
    "bytes",
    *GEOMETRY,
)


def _columns(staging: Staging, rows: Sequence[dict], names: Sequence[str]) -> dict:
    out = {}
    for name in names:
        values = [row.get(name, DEFAULTS.get(name)) for row in rows]
        if name == "name":
            out[name] = staging.texts.codes(values)
        elif name in MAY_BE_NULL:
            kind = np.int64
            out[name] = np.ma.masked_array(
                np.array([0 if v is None else v for v in values], kind), mask=[v is None for v in values]
            )
        else:
            out[name] = np.array(values, np.int64)
    return out


OP_COLUMNS = [
    "kind",
    "start_ns",
    "end_ns",
    "correlation_id",
    "name",
    "device",
    "stream",
    "process",
    "copy_kind",
    "source_memory",
    "destination_memory",
    "bytes",
    *GEOMETRY,
]
EVENT_COLUMNS = ["kind", "name", "start_ns", "end_ns", "correlation_id", "thread", "process"]


def _backtraces(staging: Staging, events: Sequence[dict]) -> dict:
    """Native back traces that events carry as `backtrace`, outermost frame first."""
    nodes = []
    for event in events:
        node = -1
        for name in event.get("backtrace", ()):
            node = staging.stacks.node(node, name, module="/x/libtorch.so")
        nodes.append(node)
    none = np.array(nodes) < 0
    return {} if none.all() else {"backtrace_node_id": np.ma.masked_array(np.maximum(nodes, 0), mask=none)}


def _sample_columns(staging: Staging, samples: Sequence[dict]) -> dict:
    nodes = []
    for sample in samples:
        node = -1
        for name in sample["frames"]:
            frame = frame_of(EventKind.PYTHON_FRAME, name)
            node = staging.stacks.node(node, frame.text, frame.file, frame.line, kind=EventKind.PYTHON_FRAME)
        nodes.append(node)
    count = len(samples)
    return {
        "process": np.full(count, DEFAULTS["process"]),
        "thread": np.array([sample["thread"] for sample in samples]),
        "kind": np.full(count, SampleKind.PYTHON),
        "t_ns": np.array([sample["t_ns"] for sample in samples], np.int64),
        "node_id": np.array(nodes, np.int64),
    }


def _collective_columns(staging: Staging, rows: Sequence[dict]) -> dict:
    out = {"op_id": np.array([row["op_id"] for row in rows], np.int64)}
    out["process"] = np.full(len(rows), DEFAULTS["process"])
    for name in ("group_name", "group_ranks", "kind", "dtype"):
        out[name] = staging.texts.codes([row.get(name) for row in rows])
    for name in ("group_size", "elements_in", "elements_out", "sequence", "peer", "root"):
        values = [row.get(name) for row in rows]
        out[name] = np.ma.masked_array([0 if v is None else v for v in values], mask=[v is None for v in values])
    return out


def _metric_columns(staging: Staging, rows: Sequence[dict]) -> dict:
    out = {"source": staging.texts.codes(["gpu_metrics"] * len(rows))}
    out["metric"] = staging.texts.codes([row["metric"] for row in rows])
    out["metric_unit"] = staging.texts.codes([row["unit"] for row in rows])
    out["t_ns"] = np.array([row["t_ns"] for row in rows], np.int64)
    for name in ("device", "value"):
        values = [row[name] for row in rows]
        out[name] = np.ma.masked_array([0 if v is None else v for v in values], mask=[v is None for v in values])
    return out


def _memory_columns(rows: Sequence[dict]) -> dict:
    out = {name: np.array([row[name] for row in rows], np.int64) for name in ("t_ns", "bytes")}
    for name in ("device", "process", "thread", "address", "allocated_bytes", "reserved_bytes"):
        values = [row[name] for row in rows]
        out[name] = np.ma.masked_array([0 if v is None else v for v in values], mask=[v is None for v in values])
    return out


def _device_columns(staging: Staging, rows: Sequence[dict]) -> dict:
    out = {"device": np.array([row["device"] for row in rows])}
    for name in ("name", "compute_capability"):
        out[name] = staging.texts.codes([row.get(name) for row in rows])
    for name in ("multiprocessors", "clock_rate_hz", "memory_bandwidth_bytes_per_s", "memory_bytes"):
        values = [row.get(name) for row in rows]
        out[name] = np.ma.masked_array([0 if v is None else v for v in values], mask=[v is None for v in values])
    return out


def _integers(rows: Sequence[dict], name: str) -> np.ma.MaskedArray:
    values = [row[name] for row in rows]
    return np.ma.masked_array([0 if v is None else v for v in values], mask=[v is None for v in values])


def _process_columns(staging: Staging, rows: Sequence[dict]) -> dict:
    rows = [{"process": DEFAULTS["process"], "name": None, "rank": None}, *rows]
    return {
        "process": np.array([row["process"] for row in rows]),
        "name": staging.texts.codes([row["name"] for row in rows]),
        "rank": _integers(rows, "rank"),
    }


def _thread_columns(staging: Staging, rows: Sequence[dict]) -> dict:
    out = {name: np.array([row[name] for row in rows], np.int64) for name in ("process", "thread")}
    return out | {"name": staging.texts.codes([row["name"] for row in rows])}


def _slice_columns(staging: Staging, rows: Sequence[dict]) -> dict:
    names = ("process", "thread", "start_ns", "end_ns")
    out = {name: np.array([row[name] for row in rows], np.int64) for name in names}
    out["state"] = np.array([row["state"] for row in rows], np.uint8)
    return out | {"reason": staging.texts.codes([row["reason"] for row in rows])}


@functools.cache
def empty_store() -> Path:
    """An empty store, made once: most of the time of a small test would go into making it."""
    folder = tempfile.mkdtemp(prefix="traceanalyzer-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    open_to_write(Path(folder) / "empty.duckdb").close()
    return Path(folder) / "empty.duckdb"


def store_of(
    path: Path, *captures: Capture, source: str = "torch", run: str = "run", facts: CaptureFacts | None = None
) -> Path:
    """A store at `path` with these captures as ranks 0, 1, ... of one run."""
    if not path.exists():
        shutil.copy(empty_store(), path)
    connection = open_to_write(path)
    for rank, capture in enumerate(captures):
        staging = Staging(path)
        if facts:
            staging.facts = facts
        connection.execute("BEGIN TRANSACTION")
        if capture.ops:
            staging.write("gpu_ops", _columns(staging, capture.ops, OP_COLUMNS))
        if capture.events:
            events = _columns(staging, capture.events, EVENT_COLUMNS)
            if any("args" in event for event in capture.events):
                events["args"] = staging.texts.codes([event.get("args") for event in capture.events])
            staging.write("cpu_events", events | _backtraces(staging, capture.events))
        if capture.collectives:
            staging.write("collectives", _collective_columns(staging, capture.collectives))
        if capture.metrics:
            staging.write("metric_samples", _metric_columns(staging, capture.metrics))
        if capture.device_rows:
            staging.write("devices", _device_columns(staging, capture.device_rows))
        if capture.allocations:
            staging.write("memory_events", _memory_columns(capture.allocations))
        if capture.samples:
            staging.write("samples", _sample_columns(staging, capture.samples))
        if capture.thread_rows:
            staging.write("threads", _thread_columns(staging, capture.thread_rows))
        if capture.slices:
            staging.write("sched_slices", _slice_columns(staging, capture.slices))
        if capture.places:
            columns = zip(("place", "other", "attribute", "value"), zip(*capture.places, strict=True), strict=True)
            staging.write("topology", {name: staging.texts.codes(list(texts)) for name, texts in columns})
        staging.write("processes", _process_columns(staging, capture.process_rows))
        choice = catalog.RunChoice(run, str(path.parent))
        known = dict(connection.execute("SELECT run, run_id FROM stored.runs").fetchall())
        catalog.touch_run(connection, catalog.RunChoice(run, choice.folder, known.get(run)))
        number = catalog.next_capture(connection)
        commit_capture(
            connection,
            staging,
            CaptureRow(number, run, f"rank{rank}.json", source, f"hash{number}".strip, 1, rank, RankSource.METADATA),
        )
        connection.execute("COMMIT")
        staging.close()
    connection.close()
    return path
