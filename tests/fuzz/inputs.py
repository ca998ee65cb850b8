"""Small whole inputs to damage: made ones, real ones cut down, and what lies beside the checkout where it does."""

import gzip
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.support import ncu_report_writer, ncu_writer, nsys_builder
from traceanalyzer.sources.ncu_csv.recognise import can_read_reports

ROOT = Path(__file__).parents[2]
_SAMPLES = ROOT / "sample_traces"
_BESIDE = ROOT.parent / "shared" / "public"
_MOST_BESIDE = 24_000
_MOST_BESIDE_PLAIN = 100_000
_MOST_EVENTS = 240
_MOST_ROWS = 60


@dataclass(frozen=True, slots=True)
class Input:
    """A whole input: its source, a file name and the plain content."""

    source: str
    name: str
    content: bytes


@lru_cache
def inputs(source: str, beside: bool = False) -> tuple[Input, ...]:
    """Inputs of a source, always the same ones in the same order; `beside` adds those that lie beside the checkout.

    Reports of ncu are none where the package is not installed that reads them.
    """
    found = list({"torch": _torch, "nsys": _nsys, "ncu": _ncu, "ncu-rep": _reports}[source]())
    return (*found, *_of_beside(source)) if beside else tuple(found)


def _torch() -> Iterator[Input]:
    document = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "GPU", "totalGlobalMem": 1 << 34}],
        "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 4, "pg_config": [{"pg_name": "0"}]},
        "traceEvents": list(made_events()),
        "traceName": "/tmp/made.json",
    }
    yield Input("torch", "made.json", json.dumps(document).encode())
    real = json.loads(gzip.decompress((_SAMPLES / "planted_sleep" / "torch.stack.json.gz").read_bytes()))
    real["traceEvents"] = _middle(real["traceEvents"])
    yield Input("torch", "real.json", json.dumps(real, indent=1).encode())


def _middle(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The names of threads, and the events around one step mark."""
    names = [e for e in events if e.get("ph") == "M"]
    timed = sorted((e for e in events if e.get("ph") == "X"), key=lambda e: float(e["ts"]))
    kernels = [k for k, e in enumerate(timed) if e.get("cat") == "kernel"]
    middle = kernels[len(kernels) // 2]
    marks = [e for e in timed if str(e.get("name")).startswith("ProfilerStep")]
    chosen = timed[max(0, middle - _MOST_EVENTS // 2) : middle + _MOST_EVENTS // 2]
    return [*names, *(m for m in marks if m not in chosen), *chosen]


def made_events(steps: int = 2, ops: int = 8) -> Iterator[dict[str, Any]]:
    """Two steps: frames, operators, launches, kernels, copies, a collective, memory, flows and names."""
    yield {"ph": "M", "name": "process_name", "pid": 100, "args": {"name": "python"}}
    yield {"ph": "M", "name": "thread_name", "pid": 100, "tid": 100, "args": {"name": "main"}}
    place = {"pid": 100, "tid": 100}
    for step in range(steps):
        t = 1000.125 + 500 * step
        yield {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": t, "dur": 480.5, **place}
        frame = {"Python id": step + 1, "Python parent id": None}
        yield {
            "ph": "X",
            "cat": "python_function",
            "name": "train.py(7): step",
            "ts": t + 1,
            "dur": 470,
            "args": frame,
            **place,
        }
        for k in range(ops):
            at, number = t + 5 + 50 * k, 100 * step + k + 1
            what = ("kernel", "gemm") if k % 3 else ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)")
            yield {
                "ph": "X",
                "cat": "cpu_op",
                "name": "aten::mm",
                "ts": at,
                "dur": 20.25,
                "args": {"External id": number, "Input Dims": [[2, 3], []]},
                **place,
            }
            yield {
                "ph": "X",
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel" if k % 3 else "cudaMemcpyAsync",
                "ts": at + 2,
                "dur": 5,
                "args": {"correlation": number, "External id": number},
                **place,
            }
            op = {
                "device": 0,
                "stream": 7,
                "context": 1,
                "correlation": number,
                "grid": [1, 2, 3],
                "block": [32, 1, 1],
                "bytes": 64,
            }
            if k == ops - 1:
                what = "kernel", "ncclDevKernel_AllReduce"
                op |= {"Collective name": "allreduce", "In msg nelems": 8, "Process Group Name": "0", "Group size": 4}
            yield {
                "ph": "X",
                "cat": what[0],
                "name": what[1],
                "pid": 0,
                "tid": 7,
                "ts": at + 15,
                "dur": 17.5,
                "args": op,
            }
            yield {"ph": "s", "id": number, "cat": "ac2g", "name": "ac2g", "ts": at + 2, **place}
        memory = {"Bytes": 512, "Addr": 77, "Device Type": 1, "Device Id": 0, "Total Allocated": 512}
        yield {"ph": "i", "s": "t", "name": "[memory]", "ts": t + 100, "args": memory, **place}


def _nsys() -> Iterator[Input]:
    yield Input("nsys", "made.sqlite", _made_export())
    database = sqlite3.connect(":memory:")
    database.deserialize(gzip.decompress((_SAMPLES / "launch_bound" / "nsys.sqlite.gz").read_bytes()))
    tables = [t for (t,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        if table != "StringIds" and not table.startswith(("ENUM_", "META_", "TARGET_", "EXPORT_")):
            database.execute(f'DELETE FROM "{table}" WHERE rowid > (SELECT min(rowid) + {_MOST_ROWS} FROM "{table}")')
    used = "SELECT nameId FROM CUPTI_ACTIVITY_KIND_RUNTIME UNION SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL"
    more = (
        "UNION SELECT shortName FROM CUPTI_ACTIVITY_KIND_KERNEL UNION SELECT textId FROM NVTX_EVENTS WHERE textId >= 0"
    )
    database.execute(f"DELETE FROM StringIds WHERE id > 200 AND id NOT IN ({used} {more})")
    database.commit()
    database.execute("VACUUM")
    yield Input("nsys", "real.sqlite", database.serialize())
    database.close()


def _made_export() -> bytes:
    import tempfile

    strings = {1: "gemm(float*)", 2: "gemm", 3: "cudaLaunchKernel_v7000", 4: "cudaMemcpyAsync_v3020", 5: "python"}
    kernels, copies, calls, ranges = [], [], [], []
    for k in range(24):
        t, number = 10_000 + 5_003 * k, 100 + k
        calls.append(nsys_builder.call(t, t + 700, 4 if k % 5 == 4 else 3, correlation=number, eventClass=k % 2))
        if k % 5 == 4:
            copies.append(nsys_builder.memcpy(t + 1000, t + 1500, 1 + k % 2, correlation=number))
        else:
            kernels.append(nsys_builder.kernel(t + 900, t + 2900, correlation=number, gridX=4, blockX=32))
        if k % 6 == 0:
            ranges.append(nsys_builder.nvtx(t - 50, t + 6 * 5_003 - 90, text=f"step {k // 6}"))
    tid = nsys_builder.gtid(10, 11)
    tables = {
        "TARGET_INFO_GPU": [{"vmId": 1, "id": 0, "name": "GPU", "busLocation": "0000:01:00.0", "uuid": "GPU-0"}],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_700_000_000_000_000_000}],
        "PROCESSES": [{"globalPid": nsys_builder.gpid(10), "pid": 10, "name": "python"}],
        "ThreadNames": [{"nameId": 5, "priority": 1, "globalTid": tid}],
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "CUPTI_ACTIVITY_KIND_MEMCPY": copies,
        "NVTX_EVENTS": ranges,
        "OSRT_API": [{"start": 11_000, "end": 12_000, "globalTid": tid, "nameId": 5, "correlationId": 0}],
    }
    with tempfile.TemporaryDirectory() as folder:
        return nsys_builder.build(Path(folder) / "made.sqlite", tables, strings).read_bytes()


def _ncu() -> Iterator[Input]:
    metrics = [
        ncu_writer.metric(name, unit, value, id_=launch, kernel=kernel)
        for launch, kernel in enumerate(("gemm(float *, int)", "copy<float4>(float *, const float *)"))
        for name, unit, value in (
            ("Duration", "ns", "1,234,567"),
            ("Compute (SM) Throughput", "%", "81.25"),
            ("Memory Throughput", "%", "12.50"),
        )
    ]
    found = ncu_writer.rule("Bottleneck", "INF", "High throughput")
    yield Input("ncu", "details.csv", ncu_writer.page(*metrics, found).encode())
    header = ("gpu__time_duration.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed")
    launches = [(ncu_writer.launch(k, grid=f"({k + 1}, 1, 1)"), (f"{k + 1}.5", "33.25")) for k in range(5)]
    yield Input("ncu", "raw.csv", ncu_writer.wide(header, ("us", "%"), *launches).encode())
    yield Input("ncu", "real.csv", gzip.decompress((_SAMPLES / "kernel_limits" / "raw.csv.gz").read_bytes()))


def _reports() -> Iterator[Input]:
    if not can_read_reports():
        return
    time, compute = "gpu__time_duration.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    found = ("SOLBottleneck", "Bottleneck", "High throughput", 1)
    launches = [
        ncu_report_writer.Profiled(f"gemm<{k}>(float *)", metrics={time: 1000.5 * k, compute: 33.25}, rules=[found])
        for k in range(4)
    ]
    yield Input("ncu-rep", "made.ncu-rep", ncu_report_writer.report(*launches))


def _of_beside(source: str) -> Iterator[Input]:
    if source == "ncu-rep":
        for path in sorted((_BESIDE / "ncu").glob("*-rep*")):
            if can_read_reports() and path.stat().st_size <= _MOST_BESIDE_PLAIN:
                yield Input(source, path.name, path.read_bytes())
        return
    packed = sorted((_BESIDE / source).glob("*.gz"))
    plain = [path for end in ("csv", "txt", "log") for path in sorted((_BESIDE / source).glob(f"*.{end}"))]
    for path in packed:
        if path.stat().st_size <= _MOST_BESIDE:
            yield Input(source, path.name.removesuffix(".gz"), gzip.decompress(path.read_bytes()))
    for path in plain:
        if path.stat().st_size <= _MOST_BESIDE_PLAIN:
            yield Input(source, path.name, path.read_bytes())
