"""Small files of telemetry and traces, and what the program says of them as one run."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import traceanalyzer
from tests.support.store_builder import empty_store
from traceanalyzer.ingestion import ingest
from traceanalyzer.passes.answer import Answer
from traceanalyzer.passes.scope import Scope, resolve
from traceanalyzer.passes.selection import Selection
from traceanalyzer.traceset import TraceSet

BEGIN = datetime(2026, 11, 29, 16, 0, 0, tzinfo=UTC)


def stamp(seconds):
    return (BEGIN + timedelta(seconds=seconds)).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]


def query(path, columns, *lines):
    """A file of `nvidia-smi --query-gpu`: lines are (seconds, index, cells...)."""
    text = [f"timestamp, index, {columns}"]
    text += [", ".join([stamp(line[0]), *map(str, line[1:])]) for line in lines]
    path.write_text("\n".join(text) + "\n")
    return path


def torch_trace(path, *, begun, kernels, pid=4242):
    """A trace of one process: kernels of device 0 as (start, end) in ms after `begun` seconds of the telemetry."""
    base = int(BEGIN.timestamp()) * 10**9
    events = []
    for k, (start, end) in enumerate(kernels):
        at = (begun * 1000 + start) * 1000
        shared = {"correlation": k, "device": 0}
        events.append(
            {
                "ph": "X",
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "pid": pid,
                "tid": pid,
                "ts": at - 5,
                "dur": 3,
            }
            | {"args": {"correlation": k}}
        )
        events.append(
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at, "dur": (end - start) * 1000}
            | {"args": shared | {"stream": 7}}
        )
        events.append(
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{k}", "pid": pid, "tid": pid, "ts": at - 6}
            | {"dur": (end - start) * 1000, "args": {}}
        )
    devices = [{"id": 0, "name": "GPU"}]
    data = {"schemaVersion": 1, "baseTimeNanoseconds": base, "deviceProperties": devices, "traceEvents": events}
    path.write_text(json.dumps(data))
    return path


def uses(values, *, shift=0.0, every=0.1):
    """Lines of utilization: pairs of a time in seconds and a value, each until the next."""
    ends = [start for start, _ in values[1:]] + [values[-1][0] + 1]
    out = []
    for (start, value), end in zip(values, ends, strict=True):
        out += [(shift + start + every * k, 0, f"{value} %") for k in range(round((end - start) / every))]
    return out


def prometheus(path, **series):
    """A range query of the Prometheus API: values a second apart; names as `GPU0_DCGM_FI_...`."""
    result = []
    for name, values in series.items():
        gpu, _, metric = name.partition("_")
        labels = {"__name__": metric, "gpu": gpu.removeprefix("GPU"), "UUID": f"GPU-{gpu}"}
        at = BEGIN.timestamp()
        result.append({"metric": labels, "values": [[at + k, str(v)] for k, v in enumerate(values)]})
    path.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}))
    return path


def pmon(path, *lines):
    text = [
        "#Date        Time         gpu         pid   type     sm    mem     fb    command",
        "#YYYYMMDD    HH:MM:SS     ",
    ]
    text[1] += "Idx           #    C/G      %      %     MB    name"
    text += [
        f" 20261129    16:00:{at:02d}  {gpu}  {pid}  C  {sm}  {mem}  {fb}  {name}"
        for at, gpu, pid, sm, mem, fb, name in lines
    ]
    path.write_text("\n".join(text) + "\n")
    return path


class Asked:
    """Asks for the metrics of files that are ingested as one run: `asked(file, ...)`."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self.traces: TraceSet | None = None

    def __call__(self, *files: Path, **selection: object) -> Answer:
        self.close()
        self._store.write_bytes(empty_store().read_bytes())
        ingest(list(files), self._store, run="run")
        self.traces = traceanalyzer.open(self._store)
        return self.traces.metrics(**selection)

    def scope(self) -> Scope:
        """The scope of what was asked last, for functions of passes."""
        return resolve(self.traces._connection, Selection())

    def close(self) -> None:
        if self.traces is not None:
            self.traces.close()
            self.traces = None


def codes(answer):
    return [finding.code for finding in answer.findings]


def text_of(answer, code):
    """The text of the one finding of a code."""
    (finding,) = [f for f in answer.findings if f.code == code]
    return finding.text
