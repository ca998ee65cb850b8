"""What was recorded: events of threads, operations of devices, and arrows from launches to these."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.export.timeline.clocks import TimelineClock
from traceanalyzer.export.timeline.places import DeviceRows, Places, Process, Row
from traceanalyzer.export.timeline.stream import (
    EventStream,
    Texts,
    arrow_text,
    member,
    slice_text,
    text_member,
    time_slices,
)
from traceanalyzer.export.timeline.windows import Window, Windows, clipped, inside
from traceanalyzer.numeric.grouping import groups
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import EventKind, OpKind
from traceanalyzer.schema.timeline_file import CATEGORY_OF_EVENT, CATEGORY_OF_OPERATION
from traceanalyzer.store.ddl import quoted

Ints = NDArray[np.int64]
_NULL = np.iinfo(np.int64).min
_LAUNCHES, _COLLECTIVES = "timeline_launches", "timeline_collectives"

_DEVICE_ROW_KINDS = (EventKind.DEVICE_ANNOTATION, EventKind.SYNC_RECORD, EventKind.UNIFIED_MEMORY)
_ROWS_OF_KINDS = {
    EventKind.PROCESS_RANGE: "ranges of the process",
    EventKind.OVERHEAD: "overhead of the profiler",
    EventKind.DEVICE_ANNOTATION: "annotations of the device",
    EventKind.SYNC_RECORD: "synchronisations",
    EventKind.MARK: "marks",
    EventKind.UNIFIED_MEMORY: "unified memory",
}
"""Kinds that stand on no row of a thread, and the rows that they have instead."""
_OF_DEVICE, _OF_PROCESS = 100, 200  # places of such rows among those of their process: behind streams and threads

_STEP_NAME = "ProfilerStep#?\\s*\\d+"
"""Names by which torch.profiler marks steps in its own category."""


class Recorded:
    """Writes the events of threads, then the operations: arrows need to know where launches stand."""

    def __init__(self, scope: Scope, places: Places, windows: Windows, clock: TimelineClock) -> None:
        self._scope, self._places, self._windows, self._clock = scope, places, windows, clock
        self._threads: dict[tuple[int, int, int], str] = {}
        self._sources: dict[int, str] = {}
        execute = scope.connection.execute
        columns = "capture INTEGER, event_id BIGINT, pid BIGINT, tid BIGINT, ts BIGINT"
        execute(f"CREATE OR REPLACE TEMP TABLE {_LAUNCHES} ({columns})")
        execute(f"CREATE OR REPLACE TEMP TABLE {_COLLECTIVES} AS {_collectives(scope)}")
        for capture, source in execute(
            f"SELECT capture, source FROM stored.captures WHERE capture IN {scope.numbers()}"
        ).fetchall():
            self._sources[capture] = source
        self._first_arrow = _first_arrows(scope)
        self._chosen = {(device.capture, device.device) for device in scope.devices}
        self._others: set[tuple[int, int]] = set(
            execute(
                f"SELECT capture, device FROM stored.devices WHERE n_ops > 0 AND capture IN {scope.numbers()}"
            ).fetchall()
        ).difference(self._chosen)
        for capture, process, thread, name in execute(
            f"""SELECT t.capture, t.process, t.thread, n.text FROM stored.threads t
            JOIN stored.names n ON n.name_id = t.name WHERE t.capture IN {scope.numbers()}"""
        ).fetchall():
            self._threads[capture, process, thread] = name

    def write(self, stream: EventStream) -> None:
        """Writes everything."""
        for capture in self._places.captures:
            for rows in self._events(capture):
                stream.add_rows(rows, _event_texts(self._sources[capture], capture))
                self._remember(capture, rows)
        for rows_of_device in self._places.gpus.values():
            self._write_operations(stream, rows_of_device)
        for table in (_LAUNCHES, _COLLECTIVES):
            self._scope.connection.execute(f"DROP TABLE {table}")

    def _events(self, capture: int) -> Iterator[dict[str, NDArray[Any]]]:
        window = self._windows.of_host(capture)
        condition = f"capture = {capture} AND {inside(window)}"
        if self._scope.selection.ranks is not None:
            mine = [process for of, process in self._places.hosts if of == capture and process is not None]
            condition += f" AND (process IS NULL OR process IN ({', '.join(map(str, mine)) or 'NULL'}))"
        kinds = ", ".join(str(int(kind)) for kind in _DEVICE_ROW_KINDS)
        for low, high in time_slices(self._scope.connection, "stored.cpu_events", "start_ns", condition):
            got = self._scope.connection.execute(
                f"""SELECT e.event_id, e.kind, e.name, coalesce(e.process, {_NULL}) AS process,
                    coalesce(e.thread, {_NULL}) AS thread, e.start_ns, e.end_ns, e.correlation_id, e.external_id,
                    e.sequence_number, e.forward_thread, e.bytes, e.args,
                    coalesce(CASE WHEN json_valid(a.text)
                        THEN try_cast(json_extract_string(a.text, '$.device') AS INTEGER) END, -1)::BIGINT AS device
                FROM stored.cpu_events e
                LEFT JOIN stored.names a ON e.kind IN ({kinds}) AND a.name_id = e.args
                WHERE {condition} AND start_ns >= {low} AND start_ns < {high}
                ORDER BY e.start_ns, e.end_ns DESC, e.event_id"""
            ).fetchnumpy()
            kept = self._of_chosen_devices(capture, np.asarray(got["kind"]), np.asarray(got["device"]))
            yield self._placed_events(capture, window, {name: values[kept] for name, values in got.items()})

    def _of_chosen_devices(self, capture: int, kinds: Ints, devices: Ints) -> NDArray[np.bool_]:
        """Which events are of no device, or of one that is not left out."""
        kept = np.ones(len(kinds), np.bool_)
        on_device = np.isin(kinds, [int(kind) for kind in _DEVICE_ROW_KINDS]) & (devices >= 0)
        for device in np.unique(devices[on_device]).tolist():
            chosen = (capture, device) in self._chosen
            if not chosen and (self._scope.selection.device is not None or (capture, device) in self._others):
                kept &= ~on_device | (devices != device)
        return kept

    def _placed_events(self, capture: int, window: Window, rows: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The same with times on the timeline, and the row that each stands on."""
        start, end = clipped(np.asarray(rows.pop("start_ns")), np.asarray(rows.pop("end_ns")), window)
        kind, device = np.asarray(rows["kind"]).astype(np.int64), np.asarray(rows.pop("device"))
        process, thread = np.asarray(rows.pop("process")), np.asarray(rows.pop("thread"))
        of_thread = (thread != _NULL) & ~np.isin(kind, [int(k) for k in _ROWS_OF_KINDS if k is not EventKind.OVERHEAD])
        special = np.where(of_thread, -1, kind)
        device = np.where(np.isin(kind, [int(k) for k in _DEVICE_ROW_KINDS]), device, -1)
        found = groups(process, np.where(of_thread, thread, _NULL), special, device)
        keys = zip(*(values[found.row].tolist() for values in (process, thread, special, device)), strict=True)
        rows_of = [self._row(capture, *key) for key in keys]
        # Several may share a row, such as that of what belongs to no known device.
        number = {id(row): k for k, row in enumerate(rows_of)}
        on = np.array([number[id(row)] for row in rows_of], np.int64)[found.of_row]
        out = {name: np.zeros(len(start), np.int64) for name in ("pid", "tid", "ts", "dur")}
        for k in number.values():
            mine, row = np.flatnonzero(on == k), rows_of[k]
            out["pid"][mine], out["tid"][mine] = row.process.pid, row.spread(start[mine], end[mine])
            begun, ended = (self._clock.timeline(capture, row.process.rank, t[mine]) for t in (start, end))
            out["ts"][mine], out["dur"][mine] = begun, ended - begun
        # Of two devices of one number one has another in the file: only that is written anew.
        out["device"] = np.full(len(start), -1, np.int64)
        for recorded in np.unique(device[device >= 0]).tolist():
            if (number_in_file := self._places.number(capture, recorded)) != recorded:
                out["device"][device == recorded] = number_in_file
        return rows | out

    def _row(self, capture: int, process: int, thread: int, special: int, device: int) -> Row:
        """The row of a thread, or of what stands on none."""
        of = None if process == _NULL else process
        if special < 0:
            name = self._threads.get((capture, process, thread)) or f"thread {thread}"
            return self._places.host(capture, of).row((thread,), name, 0, thread)
        kind = EventKind(special)
        on_device = self._places.first_of(capture, device) if device >= 0 else None
        if on_device is not None:
            return on_device.process.row(kind, _ROWS_OF_KINDS[kind], _OF_DEVICE + special)
        return self._places.host(capture, of).row(kind, _ROWS_OF_KINDS.get(kind, "no thread"), _OF_PROCESS + special)

    def _remember(self, capture: int, rows: dict[str, NDArray[Any]]) -> None:
        """Keeps where calls stand that may have launched something; arrows begin on slices that have a length."""
        calls = (np.asarray(rows["kind"]) == int(EventKind.API_CALL)) & (rows["dur"] > 0)
        calls &= ~np.ma.getmaskarray(rows["correlation_id"])
        if not calls.any():
            return
        columns = {name: np.asarray(rows[name])[calls] for name in ("event_id", "pid", "tid", "ts")}
        connection = self._scope.connection
        connection.register("timeline_calls", columns)
        try:
            connection.execute(
                f"INSERT INTO temp.{_LAUNCHES} SELECT {capture}, event_id, pid, tid, ts FROM timeline_calls"
            )
        finally:
            connection.unregister("timeline_calls")

    def _write_operations(self, stream: EventStream, of: DeviceRows) -> None:
        capture, device, process = of.device.capture, of.device.device, of.launched_by[1]
        window = self._windows.of_device(capture, device)
        condition = (
            f"capture = {capture} AND device = {device} AND {inside(window)}"
            f" AND process {'IS NULL' if process is None else f'= {process}'}"
        )
        for low, high in time_slices(self._scope.connection, "stored.gpu_ops", "start_ns", condition):
            got = self._scope.connection.execute(
                f"""SELECT op_id, kind, name, coalesce(stream, {_NULL}) AS row_stream, stream, context, start_ns,
                    end_ns, correlation_id, launch_event_id, bytes, external_id, graph_id, graph_node_id,
                    grid_x, grid_y, grid_z, block_x, block_y, block_z, registers_per_thread, static_shared_bytes,
                    dynamic_shared_bytes, occupancy_pct
                FROM stored.gpu_ops WHERE {condition} AND start_ns >= {low} AND start_ns < {high}
                ORDER BY start_ns, end_ns DESC, op_id"""
            ).fetchnumpy()
            rows = dict(got)
            start, end = clipped(np.asarray(rows.pop("start_ns")), np.asarray(rows.pop("end_ns")), window)
            rows |= self._on_streams(of.process, np.asarray(rows.pop("row_stream")), start, end)
            stream.add_rows(rows, _operation_texts(capture, of.number, self._first_arrow[capture]))

    def _on_streams(self, process: Process, streams: Ints, start: Ints, end: Ints) -> dict[str, NDArray[Any]]:
        tid = np.zeros(len(start), np.int64)
        for number in np.unique(streams).tolist():
            known = number != _NULL
            name = f"stream {number}" if known else "no stream"
            mine = np.flatnonzero(streams == number)
            row = process.row((number,), name, 0, number if known else None)
            tid[mine] = row.spread(start[mine], end[mine])
        begun, ended = (self._clock.timeline(process.capture, process.rank, t) for t in (start, end))
        return {"pid": np.full(len(start), process.pid), "tid": tid, "ts": begun, "dur": ended - begun}


def _first_arrows(scope: Scope) -> dict[int, int]:
    """Of each capture, the number of the arrow to its operation 0: numbers of arrows are unique in the file."""
    rows = scope.connection.execute(
        f"SELECT capture, max(op_id) FROM stored.gpu_ops WHERE capture IN {scope.numbers()} GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    out, first = {}, 1
    for capture, last in rows:
        out[capture] = first
        first += last + 1
    return out


def _collectives(scope: Scope) -> str:
    """SQL: what was recorded of collectives as members of an object, one row an operation or event."""
    numbers = (("In msg nelems", "elements_in"), ("Out msg nelems", "elements_out"), ("Group size", "group_size"))
    texts = (("Collective name", "kind"), ("dtype", "dtype"), ("Process Group Name", "group_name"))
    more = (("Process Group Description", "group_description"), ("Process Group Ranks", "group_ranks"))
    ends = (("Dst Rank", "peer"), ("Src Rank", "peer"), ("Root Rank", "root"), ("Seq", "sequence"))
    members = [
        *(text_member(key, column) for key, column in texts),
        *(text_member(key, column) for key, column in more),
        *(member(key, column) for key, column in (*numbers, *ends)),
        text_member("Comms Id", "communicator"),
        member("message bytes", "bytes"),
    ]
    return f"""SELECT capture, op_id, event_id, concat({", ".join(members)}) AS members FROM main.collectives
        WHERE capture IN {scope.numbers()}
        QUALIFY row_number() OVER (PARTITION BY capture, op_id, event_id ORDER BY kind, members) = 1"""


_ARGUMENTS = """CASE WHEN r.device < 0 THEN a.text
    ELSE json_merge_patch(a.text, concat('{"device":', r.device, '}'))::VARCHAR END"""
"""SQL: what torch.profiler says of an event, with the number that its device has in the file."""


def _event_texts(source: str, capture: int) -> Texts:
    cases = " ".join(
        f"WHEN {int(kind)} THEN {quoted(category)}"
        for kind, category in CATEGORY_OF_EVENT.items()
        if kind not in (EventKind.API_CALL, EventKind.STEP_MARK)
    )
    call = quoted(CATEGORY_OF_EVENT[EventKind.API_CALL])
    category = f"""CASE r.kind {cases}
        WHEN {int(EventKind.API_CALL)} THEN
            CASE WHEN n.text LIKE 'cu%' AND n.text NOT LIKE 'cuda%' THEN 'cuda_driver' ELSE {call} END
        WHEN {int(EventKind.STEP_MARK)} THEN
            CASE WHEN regexp_full_match(n.text, '{_STEP_NAME}') THEN {quoted(CATEGORY_OF_EVENT[EventKind.RANGE])}
            ELSE {quoted(CATEGORY_OF_EVENT[EventKind.STEP_MARK])} END
        END"""
    # What torch.profiler says is made of its own members; of other sources it is any text.
    arguments = (
        "CASE WHEN a.text LIKE '{%}' AND a.text != '{}' THEN ',' || substr({text}, 2, length({text}) - 2) END".replace(
            "{text}", _ARGUMENTS
        )
        if source == "torch"
        else text_member("payload", "a.text")
    )
    members = [
        member("External id", "r.external_id"),
        member("correlation", "r.correlation_id"),
        member("Sequence number", "r.sequence_number"),
        member("Fwd thread id", "r.forward_thread"),
        member("bytes", "r.bytes"),
        "m.members",
        arguments,
    ]
    name = "coalesce(to_json(n.text)::VARCHAR, '\"\"')"
    plain = slice_text(category, name, ", ".join(members))
    instant = f"""concat('{{"ph":"i","s":"p","name":', {name}, ',"pid":', r.pid, ',"tid":', r.tid,
        ',"ts":', r.ts // 1000, '.', lpad((r.ts % 1000)::VARCHAR, 3, '0'), '}}')"""
    return Texts(
        f"CASE WHEN r.kind = {int(EventKind.MARK)} THEN {instant} ELSE {plain} END",
        f"""LEFT JOIN stored.names n ON n.name_id = r.name LEFT JOIN stored.names a ON a.name_id = r.args
        LEFT JOIN temp.{_COLLECTIVES} m ON m.capture = {capture} AND m.op_id IS NULL AND m.event_id = r.event_id""",
    )


def _operation_texts(capture: int, device: int, first_arrow: int) -> Texts:
    kinds = "".join(f" WHEN {int(kind)} THEN {quoted(name)}" for kind, name in CATEGORY_OF_OPERATION.items())
    shared = "coalesce(r.static_shared_bytes, 0) + r.dynamic_shared_bytes"
    members = [
        f"""',"device":{device}'""",
        member("context", "r.context"),
        member("stream", "r.stream"),
        member("correlation", "r.correlation_id"),
        member("External id", "r.external_id"),
        member("bytes", "r.bytes"),
        member("graph id", "r.graph_id"),
        member("graph node id", "r.graph_node_id"),
        *(
            f"""',"{name}":[' || r.{name}_x || ',' || r.{name}_y || ',' || r.{name}_z || ']'"""
            for name in ("grid", "block")
        ),
        member("registers per thread", "r.registers_per_thread"),
        f"CASE WHEN r.kind = {int(OpKind.KERNEL)} THEN {member('shared memory', shared)} END",
        member("est. achieved occupancy %", "CASE WHEN isfinite(r.occupancy_pct) THEN r.occupancy_pct END"),
        "m.members",
    ]
    plain = slice_text(f"CASE r.kind{kinds} END", "coalesce(to_json(n.text)::VARCHAR, '\"\"')", ", ".join(members))
    identity = f"r.op_id + {first_arrow}"
    arrow = arrow_text("ac2g", identity, ("l.pid", "l.tid", "l.ts"), ("r.pid", "r.tid", "r.ts"))
    # An arrow that would end before it begins, as clocks of device and host may have it, is none.
    drawn = "l.ts IS NOT NULL AND r.dur > 0 AND l.ts <= r.ts"
    return Texts(
        f"concat({plain}, CASE WHEN {drawn} THEN ',\n' || {arrow} END)",
        f"""LEFT JOIN stored.names n ON n.name_id = r.name
        LEFT JOIN temp.{_LAUNCHES} l ON l.capture = {capture} AND l.event_id = r.launch_event_id
        LEFT JOIN temp.{_COLLECTIVES} m ON m.capture = {capture} AND m.op_id = r.op_id""",
        f"CASE WHEN {drawn} THEN 3 ELSE 1 END",
    )
