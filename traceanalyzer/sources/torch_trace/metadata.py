"""What a trace says of itself: rank, clock, devices, versions. Only known and harmless facts are kept."""

import json
import re
from typing import Any

import numpy as np

from traceanalyzer.schema.kinds import RankSource, Severity
from traceanalyzer.schema.sink import Sink, Values
from traceanalyzer.sources.torch_trace.columns import integers, narrow, with_values
from traceanalyzer.sources.torch_trace.records import ABSENT, whole_number

_SAFE_KEYS = (
    "schemaVersion",
    "record_shapes",
    "with_stack",
    "with_modules",
    "profile_memory",
    "with_flops",
    "cupti_version",
    "cuda_runtime_version",
    "cuda_driver_version",
    "roctracer_version",
    "rocprofiler_version",
    "hip_runtime_version",
    "hip_driver_version",
    "trace_id",
    "displayTimeUnit",
)
_SAFE_DISTRIBUTED = ("backend", "nccl_version", "pg_count")
_SAFE_GROUP = ("pg_name", "pg_desc", "backend_config", "pg_size", "ranks")
_MOST_GROUPS = 1 << 16
_LONGEST_TEXT = 200
_SURROGATE = re.compile(r"[\ud800-\udfff]")  # bytes that were no UTF-8, or an escape of half a character
_UNIX_FROM_NS = 978_307_200 * 10**9  # 2001: no clock that starts with the machine or the window comes near


def write_facts(sink: Sink, metadata: dict[str, Any], ranks: set[int], extent: tuple[int, int] | None) -> None:
    """Fills the facts of the capture; `ranks` are those that collectives name, `extent` is the time recorded."""
    facts = sink.facts
    version = metadata.get("schemaVersion")
    facts.format_version = None if version is None else clean(version)
    host = metadata.get("host_name")
    facts.host = clean(host) if isinstance(host, str) and host else None
    distributed = metadata.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    rank, size = whole_number(distributed.get("rank")), whole_number(distributed.get("world_size"))
    if (rank is None or rank < 0) and len(ranks) == 1:
        rank = next(iter(ranks))
    if rank is not None and 0 <= rank < 1 << 31:
        facts.rank, facts.rank_source = rank, RankSource.METADATA
    if size is not None and 0 < size < 1 << 31:
        facts.world_size = size
    if extent is not None:
        facts.start_ns, facts.end_ns = extent
    facts.utc_offset_ns = _utc_offset(metadata, extent)
    facts.metadata = _safe(metadata, distributed)
    _note_log(sink, metadata)


def _utc_offset(metadata: dict[str, Any], extent: tuple[int, int] | None) -> int | None:
    base = whole_number(metadata.get("baseTimeNanoseconds"))
    if base is not None and 0 < base < 1 << 63:
        return base
    return 0 if extent is not None and extent[0] >= _UNIX_FROM_NS else None


def _safe(metadata: dict[str, Any], distributed: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key in _SAFE_KEYS:
        value = metadata.get(key)
        if isinstance(value, (int, str)):
            out[key] = clean(value) if isinstance(value, str) else value
    name = metadata.get("traceName")
    if isinstance(name, str):
        out["traceName"] = clean(name.replace("\\", "/").rsplit("/", 1)[-1])
    known = {
        k: clean(v) if isinstance(v, str) else v for k in _SAFE_DISTRIBUTED if (v := distributed.get(k)) is not None
    }
    groups = distributed.get("pg_config")
    if isinstance(groups, list):
        kept = [{k: group[k] for k in _SAFE_GROUP if k in group} for group in groups if isinstance(group, dict)]
        if len(json.dumps(kept)) <= _MOST_GROUPS:
            known["pg_config"] = _clean_all(kept)
    known = {k: v for k, v in known.items() if isinstance(v, (int, str, list))}
    return out | ({"distributedInfo": known} if known else {})


def _note_log(sink: Sink, metadata: dict[str, Any]) -> None:
    for key, severity in (("ERROR", Severity.WARNING), ("WARNING", Severity.INFO)):
        lines = metadata.get(key)
        if isinstance(lines, list) and lines:
            text = f"The profiler logged messages of the level {key} into the trace while it recorded."
            sink.note(f"profiler_log_{key.lower()}", text, len(lines), severity)


def clean(value: Any) -> str:
    """Text that can be stored: what is no character of Unicode is replaced, and it is cut to a sane length."""
    return _SURROGATE.sub("\ufffd", str(value)[:_LONGEST_TEXT])


def _clean_all(value: Any) -> Any:
    if isinstance(value, list):
        return [_clean_all(v) for v in value]
    if isinstance(value, dict):
        return {k: _clean_all(v) for k, v in value.items()}
    return clean(value) if isinstance(value, str) else value


def write_devices(sink: Sink, metadata: dict[str, Any], used: set[int]) -> None:
    """Writes the devices that the file lists and those that operations ran on."""
    listed: dict[int, dict[str, Any]] = {}
    entries = metadata.get("deviceProperties") or metadata.get("computeProperties")
    for entry in entries if isinstance(entries, list) else []:
        number = whole_number(entry.get("id")) if isinstance(entry, dict) else None
        if number is not None and 0 <= number < 1 << 31:
            listed[number] = entry
    if listed and used - listed.keys():
        text = (
            "Operations ran on devices that the file's list of devices does not have: on ROCm the two are numbered"
            " differently."
        )
        sink.note("device_numbers_differ", text, len(used - listed.keys()), Severity.INFO)
    numbers = sorted(used | listed.keys())
    if not numbers:
        return
    described = [listed.get(n, {}) for n in numbers]

    def column(*keys: str) -> np.ma.MaskedArray[Any, Any]:
        return integers([next((entry[k] for k in keys if k in entry), ABSENT) for entry in described])

    names = [clean(e["name"]) if e.get("name") else None for e in described]
    columns: dict[str, Values] = {
        "device": np.array(numbers, np.int32),
        "name": sink.texts.codes(names, len(names)),
        "memory_bytes": column("totalGlobalMem"),
        "multiprocessors": narrow(column("numSms", "multiProcessorCount")),
        "compute_capability": sink.texts.codes([_capability(e) for e in described], len(described)),
    }
    sink.write("devices", with_values(columns))


def _capability(entry: dict[str, Any]) -> str | None:
    major = whole_number(entry.get("computeMajor", entry.get("major")))
    minor = whole_number(entry.get("computeMinor", entry.get("minor")))
    return None if major is None or minor is None else f"{major}.{minor}"
