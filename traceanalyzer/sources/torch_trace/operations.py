"""Device operations: kernels, copies and memory sets -> `gpu_ops`."""

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.batches import HeldBatches
from traceanalyzer.schema.kinds import OpKind, Severity
from traceanalyzer.schema.sink import Sink, Values
from traceanalyzer.sources.torch_trace.categories import copy_of, is_host_to_host, set_memory_of
from traceanalyzer.sources.torch_trace.collectives import Collectives
from traceanalyzer.sources.torch_trace.columns import either, integers, narrow, unless, with_values
from traceanalyzer.sources.torch_trace.records import ABSENT, OperationArguments
from traceanalyzer.sources.torch_trace.rows import Arguments, MaskedIntegers, Rows
from traceanalyzer.sources.torch_trace.timeline_header import TimelineHeader

_AXES = ("x", "y", "z")


class Operations:
    """Collects device operations. They are held back to the end of the file, for only then it is known which process
    launched them and whether their external ids are ids of operators."""

    def __init__(self, sink: Sink, path: object, collectives: Collectives) -> None:
        self.devices: set[int] = set()
        self._sink = sink
        self._collectives = collectives
        self._held = HeldBatches(path)
        self._copies: dict[str, tuple[int, int, int]] = {}
        self.header: TimelineHeader | None = None
        """Of an aligned timeline: it says which process launched what."""
        self._has_external_ids = False
        self._external_ids_are_operators = False

    @property
    def count(self) -> int:
        """Operations so far."""
        return self._held.rows

    def add(self, rows: Rows, kinds: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64]) -> None:
        """Takes events of the categories of operations."""
        arguments = rows.arguments(OperationArguments)
        device = narrow(arguments.integers("device"))
        if np.ma.getmaskarray(device).any():
            device = narrow(either(arguments.integers("device"), integers(rows.process_ids())))
        on_host = np.zeros(len(rows), np.bool_)
        copies = np.flatnonzero(kinds == OpKind.MEMCPY)
        names = rows.take(copies).name_texts()
        known = {name: is_host_to_host(name) for name in set(names)}
        on_host[copies] = [known[name] for name in names]
        unplaced = np.ma.getmaskarray(device) & ~on_host
        if on_host.any():
            text = "Copies from host to host never touch the device and are not counted as its operations."
            self._sink.note("host_to_host_copies", text, int(on_host.sum()), Severity.INFO)
        if unplaced.any():
            text = "Operations that name no device were left out."
            self._sink.note("operations_without_device", text, int(unplaced.sum()))
        columns: dict[str, Values] = {"device": device.data, "kind": kinds, "start_ns": start, "end_ns": end}
        kept = np.flatnonzero(~(on_host | unplaced))
        if len(kept) < len(rows):
            rows = rows.take(kept)
            arguments = rows.arguments(OperationArguments)
            columns = {name: values[kept] for name, values in columns.items()}
        if len(rows):
            self._hold(rows, arguments, columns)

    def _hold(self, rows: Rows, arguments: Arguments, columns: dict[str, Values]) -> None:
        columns |= {
            "context": arguments.integers("context"),
            "stream": _streams(rows, arguments),
            "name": rows.names(self._sink.texts),
            "bytes": arguments.integers("bytes"),
            "graph_id": arguments.integers("graph_id", 0),
            "graph_node_id": arguments.integers("graph_node_id", 0),
            "registers_per_thread": narrow(arguments.integers("registers")),
            "dynamic_shared_bytes": arguments.integers("shared_memory"),
        }
        correlation = arguments.integers("correlation", 0)
        columns["correlation_id"] = unless(correlation, correlation.data == -1)
        columns["external_id"] = external_ids(arguments)
        occupancy = arguments.numbers("occupancy")
        columns["occupancy_pct"] = np.ma.MaskedArray(occupancy, ~(occupancy > 0))
        columns |= _extents("grid", arguments) | _extents("block", arguments)
        columns |= self._copy_columns(rows, columns["kind"])
        if self.header is not None:
            columns["process"] = self.header.launched_by(integers(rows.process_ids()).filled(ABSENT))
        self._look_at_external_ids(columns)
        with_collective = arguments.having("collective")
        if len(with_collective):
            self._collectives.on_device(rows.take(with_collective), with_collective.astype(np.int64) + self.count)
        self.devices.update(np.unique(columns["device"]).tolist())
        self._held.add(with_values(columns))

    def _look_at_external_ids(self, columns: dict[str, Values]) -> None:
        external, correlation = columns["external_id"], columns["correlation_id"]
        known = ~np.ma.getmaskarray(external)
        self._has_external_ids |= bool(known.any())
        differs = known & (np.ma.getmaskarray(correlation) | (external.data != correlation.data))
        self._external_ids_are_operators |= bool(differs.any())

    def _copy_columns(self, rows: Rows, kinds: NDArray[np.uint8]) -> dict[str, Values]:
        copied = (kinds == OpKind.MEMCPY) | (kinds == OpKind.MEMSET)
        if not copied.any():
            return {}
        known = self._copies
        values = np.full((len(rows), 3), -1, np.int64)
        copies = np.flatnonzero(copied)
        names = rows.take(copies).name_texts()
        for name, kind in zip(names, kinds[copies].tolist(), strict=True):
            if name not in known:
                known[name] = copy_of(name) if kind == OpKind.MEMCPY else (-1, -1, set_memory_of(name))
        values[copies] = [known[name] for name in names]
        columns = ("copy_kind", "source_memory", "destination_memory")
        return {c: np.ma.MaskedArray(values[:, k].astype(np.uint8), values[:, k] < 0) for k, c in enumerate(columns)}

    def write(self, process_of: "ProcessOf") -> None:
        """Writes all operations, each with the process that launched it."""
        drop = self._has_external_ids and not self._external_ids_are_operators
        if drop:
            text = (
                "Every device operation has its correlation as external id, as PyTorch 1.13 to 2.3 wrote it: it says"
                " nothing of operators and was left out."
            )
            self._sink.note("external_id_is_correlation", text, self.count, Severity.INFO)
        for columns in self._held.take():
            if drop:
                columns.pop("external_id", None)
            if self.header is None:
                processes = process_of(columns.get("correlation_id"), len(columns["device"]))
                if processes is not None:
                    columns["process"] = processes
            self._sink.write("gpu_ops", columns)


def external_ids(arguments: Arguments) -> MaskedIntegers:
    """Ids of operators, in either spelling."""
    external = arguments.integers("external_id", 0)
    if not np.ma.getmaskarray(external).any():
        return external
    return either(external, arguments.integers("external_id_lower", 0))


def _streams(rows: Rows, arguments: Arguments) -> MaskedIntegers:
    """Streams by the arguments, else by the row."""
    stream = arguments.integers("stream")
    return either(stream, integers(rows.thread_ids())) if np.ma.getmaskarray(stream).any() else stream


def _extents(name: str, arguments: Arguments) -> dict[str, Values]:
    """Three columns of the extents of grids or blocks."""
    flat, missing = arguments.triples(name)
    if missing.all():
        return {}
    return {f"{name}_{axis}": narrow(np.ma.MaskedArray(flat[:, k], missing)) for k, axis in enumerate(_AXES)}


class ProcessOf:
    """Which process launched an operation: the only one that made calls, else the one whose call it belongs to."""

    def __init__(self, calls: dict[int, list[NDArray[np.int64]]], fallback: int | None) -> None:
        self.only = next(iter(calls)) if len(calls) == 1 else fallback if not calls else None
        self._correlations = np.zeros(0, np.int64)
        if len(calls) > 1:
            values = [np.unique(np.concatenate(parts)) for parts in calls.values()]
            keys = np.concatenate(values)
            owners = np.concatenate([np.full(len(v), pid, np.int64) for v, pid in zip(values, calls, strict=True)])
            unique, first, counts = np.unique(keys, return_index=True, return_counts=True)
            # A correlation that two processes use says nothing.
            self._correlations, self._owners = unique[counts == 1], owners[first[counts == 1]]

    def __call__(self, correlations: Values | None, count: int) -> Values | None:
        """Processes of operations; None where none is known."""
        if self.only is not None:
            return np.full(count, self.only, np.int64)
        if correlations is None or not len(self._correlations):
            return None
        data = np.ma.getdata(correlations)
        at = np.minimum(np.searchsorted(self._correlations, data), len(self._correlations) - 1)
        found = (self._correlations[at] == data) & ~np.ma.getmaskarray(correlations)
        return np.ma.MaskedArray(self._owners[at], ~found)
