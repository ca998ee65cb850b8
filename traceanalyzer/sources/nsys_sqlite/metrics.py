"""Sampled metrics of GPUs and NICs, and memory that programs allocate on devices."""

import json
import re
from typing import Any

import numpy as np

from traceanalyzer.schema.sink import NO_TEXT
from traceanalyzer.sources.nsys_sqlite.capture import Capture, masked
from traceanalyzer.sources.nsys_sqlite.database import NULL, Integers
from traceanalyzer.sources.nsys_sqlite.devices import Devices

_GPU_METRICS = "gpu_metrics"
_NIC = "nic"
_BRACKET = re.compile(r"\s*\[([^\[\]]*)\]$")
_PERCENTAGES = re.compile(r"\b(Active|Issue|Throughput|Bandwidth|In Flight|Unallocated)\b")
_HOST_MEMORY = (0, 1)  # ENUM_CUDA_MEM_KIND: pageable, pinned


def read_metrics(capture: Capture) -> None:
    """Write `metric_samples`: of GPUs from GPU_METRICS, else from the JSON that older nsys wrote, and of NICs."""
    if "GPU_METRICS" in capture.database.tables:
        _gpu_metrics(capture)
    else:
        _generic_events(capture)
    _nic_metrics(capture)


def _gpu_metrics(capture: Capture) -> None:
    metrics = _MetricNames(capture)
    # Ids of metrics are not stable between files and repeat between types: only both together name a metric.
    known: dict[tuple[int, int], str] = {}
    for kind, metric, name in capture.database.rows("TARGET_INFO_GPU_METRICS", "typeId", "metricId", "metricName"):
        if isinstance(kind, int) and isinstance(metric, int) and isinstance(name, str):
            known[kind, metric] = name
    unnamed = 0
    for block in capture.database.blocks("GPU_METRICS", ("timestamp", "typeId", "metricId"), ("value",)):
        kind, metric = block["typeId"], block["metricId"]
        names = np.full(block.rows, NO_TEXT, np.int32)
        units = np.full(block.rows, NO_TEXT, np.int32)
        for (a, b), text in known.items():
            rows = (metric == b) & (kind == a)
            if rows.any():
                names[rows], units[rows] = metrics.codes(text)
        keep = np.flatnonzero((block["timestamp"] != NULL) & (names != NO_TEXT))
        unnamed += block.rows - len(keep)
        values = np.array([v if isinstance(v, (int, float)) else np.nan for v in block.values("value")], np.float64)
        named = {"metric": names[keep], "metric_unit": units[keep]}
        _write(capture, metrics, kind[keep], {**named, "t_ns": block["timestamp"][keep], "value": values[keep]})
    capture.note(
        "metrics_without_name",
        "Some samples of GPU metrics have no time, or a metric that the file does not name; they were left out.",
        unnamed,
    )


def _write(capture: Capture, metrics: "_MetricNames", kind: Integers, columns: dict[str, Any]) -> None:
    capture.write(
        "metric_samples",
        {
            **columns,
            "source": np.full(len(kind), metrics.source, np.int32),
            "device": kind & 0xFF,  # the low byte of a type is the GPU's id
            "value": np.ma.masked_array(columns["value"], np.isnan(columns["value"])),
        },
    )


class _MetricNames:
    """Names and units of metrics: "SMs Active [Throughput %]" carries its unit, older names do not."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._codes: dict[str, tuple[int, int]] = {}
        self.source = capture.names.code(_GPU_METRICS)

    def codes(self, name: str) -> tuple[int, int]:
        """Codes of name and unit."""
        if name not in self._codes:
            bracket = _BRACKET.search(name)
            unit = bracket.group(1).removeprefix("Throughput ") if bracket else None
            if "Clock Frequency" in name:
                # The values are in Hz, also where the name says [MHz].
                name_of_clock, unit = _BRACKET.sub("", name), "Hz"
                self._codes[name] = (self._capture.names.code(name_of_clock), self._capture.names.code(unit))
                return self._codes[name]
            if unit is None and _PERCENTAGES.search(name):
                unit = "%"
            self._codes[name] = (self._capture.names.code(name), self._capture.names.code(unit))
        return self._codes[name]


def _generic_events(capture: Capture) -> None:
    """GPU metrics before schema 3.7: one JSON object an instant, whose numbers are texts."""
    types = _metric_types(capture)
    if not types:
        return
    metrics = _MetricNames(capture)
    for block in capture.database.blocks("GENERIC_EVENTS", ("timestamp", "rawTimestamp", "typeId"), ("data",)):
        at = np.where(block["timestamp"] == NULL, block["rawTimestamp"], block["timestamp"])
        out: list[tuple[int, int, int, int, float]] = []
        for row, text in enumerate(block.values("data")):
            kind = int(block["typeId"][row])
            if kind in types and at[row] != NULL:
                for name, value in _numbers(text):
                    out.append((int(at[row]), kind, *metrics.codes(name), value))
        if out:
            instants, kinds, names, units, values = zip(*out, strict=True)
            columns = {
                "metric": np.array(names, np.int32),
                "metric_unit": np.array(units, np.int32),
                "t_ns": np.array(instants, np.int64),
                "value": np.array(values, np.float64),
            }
            _write(capture, metrics, np.array(kinds, np.int64), columns)


def _metric_types(capture: Capture) -> set[int]:
    """Types of generic events that come from the source of GPU metrics."""
    sources = {
        i for i, data in capture.database.rows("GENERIC_EVENT_SOURCES", "sourceId", "data") if "GpuMetrics" in str(data)
    }
    rows = capture.database.rows("GENERIC_EVENT_TYPES", "typeId", "sourceId")
    return {kind for kind, source in rows if source in sources and isinstance(kind, int)}


def _numbers(text: Any) -> list[tuple[str, float]]:
    try:
        return [(name, float(value)) for name, value in json.loads(text).items()]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return []


def _nic_metrics(capture: Capture) -> None:
    database = capture.database
    cards = {nic: name for nic, name in database.rows("TARGET_INFO_NIC_INFO", "nicId", "name") if isinstance(name, str)}
    by_global = {g: cards[nic] for nic, g in database.rows("NIC_ID_MAP", "nicId", "globalId") if nic in cards}
    known = {
        (listing, index): (capture.names.code(name), capture.names.code(unit if isinstance(unit, str) else None))
        for listing, index, name, unit in database.rows(
            "TARGET_INFO_NETWORK_METRICS", "metricsListId", "metricsIdx", "name", "unit"
        )
        if isinstance(name, str) and "NET_NIC_METRIC" in database.tables
    }
    columns = ("start", "end", "globalId", "portId", "metricsListId", "metricsIdx")
    for block in database.blocks("NET_NIC_METRIC", columns, ("value",)):
        names = np.full(block.rows, NO_TEXT, np.int32)
        units = np.full(block.rows, NO_TEXT, np.int32)
        for (listing, index), codes in known.items():
            rows = (block["metricsListId"] == listing) & (block["metricsIdx"] == index)
            names[rows], units[rows] = codes
        keep = np.flatnonzero((names != NO_TEXT) & (block["end"] != NULL))
        values = block.values("value")
        cards_of_rows = [by_global.get(g, f"NIC {g & (2**64 - 1)}") for g in block["globalId"][keep].tolist()]
        numbers = np.array([_number(values[row]) for row in keep.tolist()], np.float64)
        capture.write(
            "metric_samples",
            {
                "source": np.full(len(keep), capture.names.code(_NIC), np.int32),
                "instance": capture.sink.texts.codes(cards_of_rows),
                "metric": names[keep],
                "metric_unit": units[keep],
                "t_ns": block["end"][keep],  # the value is the sum over the interval that ends here
                "value": np.ma.masked_array(numbers, np.isnan(numbers)),
            },
        )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")


def read_memory(capture: Capture, devices: Devices) -> None:
    """Write `memory_events` of CUDA_GPU_MEMORY_USAGE_EVENTS: allocations positive, frees negative."""
    columns = ("start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType")
    for block in capture.database.blocks("CUDA_GPU_MEMORY_USAGE_EVENTS", columns):
        operation = block["memoryOperationType"]
        keep = np.flatnonzero((block["start"] != NULL) & np.isin(operation, (0, 1)) & (block["bytes"] != NULL))
        process = capture.process(block["globalPid"][keep])
        device = block["deviceId"][keep].copy()
        for one in set(zip(process.tolist(), device.tolist(), strict=True)):
            device[(process == one[0]) & (block["deviceId"][keep] == one[1])] = devices.of_one(*one)
        device[np.isin(block["memKind"][keep], _HOST_MEMORY)] = NULL
        size = block["bytes"][keep]
        capture.write(
            "memory_events",
            {
                **capture.processes(block["globalPid"][keep]),
                "device": masked(device),
                "t_ns": block["start"][keep],
                "bytes": np.where(operation[keep] == 0, size, -size),
                "address": masked(block["address"][keep]),
            },
        )
