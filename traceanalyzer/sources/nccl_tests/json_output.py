"""Output of nccl-tests in JSON (`-J FILE`)."""

import json
from collections.abc import Mapping
from typing import Any

from traceanalyzer.errors import SourceError
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.nccl_lines import Environment
from traceanalyzer.sources.nccl_tests.instance import instance_of
from traceanalyzer.sources.nccl_tests.kinds import kind_in
from traceanalyzer.sources.telemetry import Sample, Samples

_MOST_BYTES = 1 << 28
_Metrics = Mapping[str, tuple[str, str | None]]
_MEASURED: _Metrics = {
    "time": ("time", "us"),
    "cpu_time": ("cpu_time", "us"),
    "alg_bw": ("algbw", "GB/s"),
    "bus_bw": ("busbw", "GB/s"),
    "nwrong": ("wrong", None),
}
_PER_ITERATION: _Metrics = {
    "min_us": ("time_min", "us"),
    "max_us": ("time_max", "us"),
    "p99_us": ("time_p99", "us"),
    "cv_pct": ("time_variation", "%"),
}
_PLACES = {"out_of_place": "out-of-place", "in_place": "in-place"}


class JsonOutput:
    """Reads one file. Of a cut one the results that are whole are kept."""

    def __init__(self, file: TraceFile, sink: Sink) -> None:
        self._file, self._sink = file, sink
        self._samples, self._environment = Samples(sink), Environment(sink)
        self._rows = 0

    def read(self) -> int:
        """Write every result; returns how many there were."""
        text = self._text()
        data, results = self._parts(text)
        config = data.get("config")
        devices = config.get("devices") if isinstance(config, dict) else data.get("devices")
        devices = [d for d in devices if isinstance(d, dict)] if isinstance(devices, list) else []
        self._devices(devices)
        ranks = {d.get("rank") for d in devices if isinstance(d.get("rank"), int)}
        for result in results:
            self._result(result, data, len(ranks) or None)
        if isinstance(data.get("nccl_version"), int):
            self._environment.version_code(data["nccl_version"])
        self._environment.variables(data["env"] if isinstance(data.get("env"), list) else [])
        self._summary(data, len(ranks) or None)
        self._samples.finish()
        self._environment.finish()
        return self._rows

    def _text(self) -> str:
        content = bytearray()
        for block in self._file.blocks():
            content += block
            if len(content) > _MOST_BYTES:
                raise SourceError(self._file.path, "output of nccl-tests of more than 256 MB", "cut it into parts")
        return content.decode("utf-8-sig", "replace")

    def _parts(self, text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The whole object and its results; of a cut one the keys and results that are whole."""
        try:
            data = json.loads(text)
            results = data.get("results") if isinstance(data, dict) else None
            whole = data if isinstance(data, dict) else {}
            return whole, [r for r in results if isinstance(r, dict)] if isinstance(results, list) else []
        except (ValueError, RecursionError):
            self._sink.facts.whole = False
            self._sink.note("truncated", "The file ends early or is damaged: what is whole of it was read.")
        return _salvaged(text)

    def _devices(self, devices: list[dict[str, Any]]) -> None:
        names: dict[int, str | None] = {}
        for each in devices:
            number, name = each.get("device"), each.get("device_info")
            if isinstance(number, int) and 0 <= number < 1 << 16:
                names.setdefault(number, name.strip() if isinstance(name, str) else None)
        for number, name in sorted(names.items()):
            self._samples.device(number, name)
        hosts = {each["hostname"] for each in devices if isinstance(each.get("hostname"), str)}
        if len(hosts) == 1:
            self._sink.facts.host = hosts.pop()

    def _result(self, result: dict[str, Any], data: dict[str, Any], ranks: int | None) -> None:
        size = result.get("size")
        if not isinstance(size, int):
            return
        root = str(result.get("root", "")).strip()
        redop = result.get("redop")
        parts = {
            "collective": _kind(result, data),
            "bytes": size,
            "dtype": _word(result.get("type")),
            "redop": None if redop == "none" else _word(redop),
            "root": root if root.isdigit() else None,
            "ranks": ranks,
        }
        for key, place in _PLACES.items():
            self._measured(result.get(key), _MEASURED, parts | {"place": place})
            self._measured(result.get(f"{key}_per_iter"), _PER_ITERATION, parts | {"place": place})
        self._measured(result, {"actual_iterations": ("iterations", None)}, parts)
        self._rows += 1

    def _measured(self, values: object, metrics: _Metrics, parts: dict[str, Any]) -> None:
        if not isinstance(values, dict):
            return
        for key, (metric, unit) in metrics.items():
            if key in values:
                value = values[key]
                told = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
                if told is not None and abs(told) == float("inf"):
                    told = None
                instance = instance_of(parts)
                self._samples.add(Sample("nccl_tests", metric, told, unit, instance=instance, tick=self._rows))

    def _summary(self, data: dict[str, Any], ranks: int | None) -> None:
        parts = {"collective": _kind({}, data), "ranks": ranks}
        self._measured(data.get("average_bus_bandwidth"), {"bandwidth": ("average_busbw", "GB/s")}, parts)
        self._measured(data.get("out_of_bounds"), {"count": ("out_of_bounds_values", None)}, parts)


def _kind(result: dict[str, Any], data: dict[str, Any]) -> str | None:
    args = data.get("args")
    program = args[0] if isinstance(args, list) and args else None
    names = [name for name in (result.get("experiment_name"), program) if isinstance(name, str)]
    return next((kind for name in names if (kind := kind_in(name) or kind_in(f"# {name}"))), None)


def _word(value: object) -> str | None:
    text = value.strip() if isinstance(value, str) else ""
    return text if text and not any(c.isspace() or c == "=" for c in text) else None


def _salvaged(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Keys of the outermost object with whole values, and whole objects of its list `results`."""
    decoder, data, results = json.JSONDecoder(), {}, []
    at = text.find("{") + 1
    while at:
        try:
            key, at = decoder.raw_decode(text, _blank(text, at))
            at = _blank(text, at, ":")
            if key == "results" and text.startswith("[", at):
                at = _blank(text, at + 1)
                while not text.startswith("]", at):
                    result, at = decoder.raw_decode(text, at)
                    results += [result] if isinstance(result, dict) else []
                    at = _blank(text, at)
                at += 1
            else:
                data[str(key)], at = decoder.raw_decode(text, at)
            at = _blank(text, at)
        except (ValueError, RecursionError):
            break
    return data, results


def _blank(text: str, at: int, marks: str = ",") -> int:
    while at < len(text) and (text[at].isspace() or text[at] in marks):
        at += 1
    return at
