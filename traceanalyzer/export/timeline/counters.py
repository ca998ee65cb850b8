"""Counters: sampled metrics of GPUs, telemetry on the clock of the traces, and what the allocator holds."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.export.timeline.clocks import TimelineClock
from traceanalyzer.export.timeline.places import Places, Process
from traceanalyzer.export.timeline.stream import EventStream, Texts, json_text, microseconds, time_slices
from traceanalyzer.export.timeline.windows import Windows
from traceanalyzer.passes.scope import Scope, resolve
from traceanalyzer.passes.selection import Selection
from traceanalyzer.passes.telemetry.alignment import Alignment, align
from traceanalyzer.passes.telemetry.series import Telemetry, telemetry_captures
from traceanalyzer.passes.telemetry.traces import Traces
from traceanalyzer.schema.timeline_file import DERIVED
from traceanalyzer.store.ddl import quoted

_NO_DEVICE = -1


def _counter(name: str, values: str) -> str:
    """SQL: the text of a counter; name and values are SQL of JSON."""
    return f"""concat('{{"ph":"C","cat":"{DERIVED}counter","name":', {name}, ',"pid":', r.pid, ',"tid":0,"ts":',
        {microseconds("r.ts")}, ',"args":{{', {values}, '}}}}')"""


_METRIC = Texts(
    _counter(
        """to_json(concat(m.text, CASE WHEN i.text != '' THEN ' ' || i.text END,
            CASE WHEN u.text != '' THEN ' [' || u.text || ']' END))""",
        """'"value":', r.value""",
    ),
    """LEFT JOIN stored.names m ON m.name_id = r.metric LEFT JOIN stored.names i ON i.name_id = r.instance
    LEFT JOIN stored.names u ON u.name_id = r.metric_unit""",
)
_MEMORY = Texts(
    _counter("""'"allocator [B]"'""", """'"allocated":', r.allocated_bytes, ',"reserved":', r.reserved_bytes""")
)


class Counters:
    """Writes counters of the devices and captures of a timeline, as far as they lie in its time."""

    def __init__(self, scope: Scope, places: Places, windows: Windows, clock: TimelineClock, last_ns: int) -> None:
        self._scope, self._places, self._windows, self._clock = scope, places, windows, clock
        self._last_ns = last_ns
        self.left_out: list[str] = []

    def write(self, stream: EventStream) -> None:
        """Writes all of them; `left_out` says afterwards what has no place."""
        for capture in self._places.captures:
            metrics = "metric, instance, metric_unit, value"
            self._write_table(
                stream, capture, "metric_samples", metrics, "process IS NULL AND isfinite(value)", _METRIC
            )
            memory = "allocated_bytes, reserved_bytes"
            known = "device IS NOT NULL AND allocated_bytes >= 0 AND reserved_bytes >= 0"
            self._write_table(stream, capture, "memory_events", memory, known, _MEMORY)
        self._write_telemetry(stream)

    def _process(self, capture: int, device: int) -> Process | None:
        """Whose counters those of a device are: None where the device is not in the timeline."""
        if device == _NO_DEVICE:
            return self._places.host(capture, None)
        rows = self._places.first_of(capture, device)
        return None if rows is None else rows.process

    def _write_table(
        self, stream: EventStream, capture: int, table: str, columns: str, known: str, texts: Texts
    ) -> None:
        low, high = self._windows.hull(capture)
        condition = f"capture = {capture} AND t_ns >= {low} AND t_ns < {high} AND {known}"
        for begin, end in time_slices(self._scope.connection, f"stored.{table}", "t_ns", condition):
            got = self._scope.connection.execute(
                f"""SELECT coalesce(device, {_NO_DEVICE})::BIGINT AS device, t_ns, {columns} FROM stored.{table}
                WHERE {condition} AND t_ns >= {begin} AND t_ns < {end} ORDER BY t_ns, rowid"""
            ).fetchnumpy()
            device, instants = np.asarray(got.pop("device")), np.asarray(got.pop("t_ns"))
            for number in np.unique(device).tolist():
                if (process := self._process(capture, number)) is not None:
                    mine = device == number
                    ts = self._clock.timeline(capture, process.rank, instants[mine])
                    self._write(stream, process, ts, {name: values[mine] for name, values in got.items()}, texts)

    def _write(
        self, stream: EventStream, process: Process, ts: NDArray[np.int64], values: Mapping[str, Any], texts: Texts
    ) -> None:
        kept = (ts >= 0) & (ts <= self._last_ns)
        if kept.any():
            process.used = True
            rows = {"pid": np.full(int(kept.sum()), process.pid), "ts": ts[kept]}
            stream.add_rows(rows | {name: column[kept] for name, column in values.items()}, texts)

    def _write_telemetry(self, stream: EventStream) -> None:
        """Telemetry knows no ranks and steps; what is selected of it is what lies in the time of the timeline."""
        whole = Selection(run=self._scope.runs[0])
        everything = resolve(self._scope.connection, whole)
        if not telemetry_captures(everything):
            return
        telemetry, traces = Telemetry(everything), Traces(everything)
        beside = [
            (each, process)
            for each in align(everything, telemetry, traces)
            if (process := self._process(each.match.device.capture, each.match.device.device)) is not None
        ]
        done: set[tuple[int, str, str]] = set()
        for each, process in beside:
            utc = traces.clocks[each.match.device.capture].utc_offset_ns
            if each.offset_ns is None or utc is None:
                self.left_out.append(f"telemetry of {each.place.words()}: {each.text}")
            else:
                self._write_place(stream, telemetry, each, process, each.offset_ns - utc, done)
        if not beside:
            self.left_out.append("telemetry: it has no device of the timeline whose use was measured")

    def _write_place(
        self,
        stream: EventStream,
        telemetry: Telemetry,
        beside: Alignment,
        process: Process,
        shift_ns: int,
        done: set[tuple[int, str, str]],
    ) -> None:
        """The metrics of a device; each source is written once for each device."""
        for measured in telemetry.at(beside.place):
            key = process.pid, measured.metric.value, measured.raw.source
            loaded = telemetry.load(measured)
            if key in done or not loaded.timed:
                continue
            done.add(key)
            known = np.isfinite(loaded.value)
            ts = self._clock.timeline(process.capture, process.rank, loaded.t[known] + np.int64(shift_ns))
            name = json_text(f"{measured.metric.value} [{measured.unit}] {measured.raw.source}")
            texts = Texts(_counter(quoted(name), """'"value":', r.value"""))
            self._write(stream, process, ts, {"value": loaded.value[known]}, texts)
