"""Where things stand in the timeline: processes and rows, with numbers that are unique in one file of all ranks."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.export.timeline.clocks import TimelineClock
from traceanalyzer.export.timeline.stream import EventStream
from traceanalyzer.numeric.lanes import Lanes
from traceanalyzer.passes.scope import TIMELINES, DeviceOfCapture, Scope
from traceanalyzer.schema.timeline_file import LANES_APART

Ints = NDArray[np.int64]
_LARGEST_PID = 2**31 - 1  # viewers keep numbers of processes and rows in 32 bits
_OWN_ROWS = LANES_APART // 2


class Numbers:
    """Numbers that are given once: the wanted one where it is free and below `limit`, else the next free one."""

    def __init__(self, first: int, limit: int = _LARGEST_PID) -> None:
        self._taken: set[int] = set()
        self._next, self._limit = first, limit

    def take(self, wanted: int | None = None) -> int:
        """A number."""
        if wanted is None or not 0 <= wanted < self._limit or wanted in self._taken:
            while self._next in self._taken:
                self._next += 1
            wanted = self._next
        self._taken.add(wanted)
        return wanted


@dataclass
class Row:
    """A row of a process, and `depth - 1` rows below it for what does not nest there."""

    process: "Process"
    name: str
    order: int
    tid: int
    depth: int = 0
    _lanes: Lanes = field(default_factory=Lanes)

    def spread(self, start: Ints, end: Ints) -> NDArray[np.int64]:
        """The tid of each of some events, which come in opening order."""
        return self.on_lanes(self._lanes.of(start, end))

    def on_lanes(self, lane: NDArray[np.int32]) -> NDArray[np.int64]:
        """The tid of each lane."""
        self.depth = max(self.depth, int(lane.max(initial=0)) + 1)
        return self.tid + lane.astype(np.int64) * LANES_APART


@dataclass
class Process:
    """A process of the timeline: one that was recorded, or the rows of a device. `title` is what viewers show,
    `name` the recorded one; `used` tells of one without rows that it has counters."""

    pid: int
    capture: int
    rank: int | None
    title: str
    name: str | None = None
    used: bool = False
    tids: Numbers = field(default_factory=lambda: Numbers(_OWN_ROWS, LANES_APART))
    rows: dict[object, Row] = field(default_factory=dict)

    def row(self, key: object, name: str, order: int, wanted: int | None = None) -> Row:
        """The row of a key, made at first sight; rows stand by `order`."""
        if key not in self.rows:
            self.rows[key] = Row(self, name, order, self.tids.take(wanted))
        return self.rows[key]


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """The rows of the operations that one process (a place in `Places.hosts`) launched on a device."""

    process: Process
    device: DeviceOfCapture
    number: int
    launched_by: tuple[int, int | None]


class Places:
    """All processes of the timeline: `hosts` by capture and recorded process (None: not known which), `gpus` by
    capture, device and process that launched."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._pids = Numbers(1)
        self._devices = Numbers(0)
        self._number: dict[tuple[int, int], int] = {}
        self.captures = scope.of_source(TIMELINES)
        self._capture_rank: dict[int, int | None] = dict(
            scope.connection.execute(
                f"SELECT capture, rank FROM stored.captures WHERE capture IN {scope.numbers()}"
            ).fetchall()
        )
        self.hosts: dict[tuple[int, int | None], Process] = {}
        self.gpus: dict[tuple[int, int, int | None], DeviceRows] = {}
        self._add_hosts()
        self._add_gpus()

    def _add_hosts(self) -> None:
        rows = self._scope.connection.execute(
            f"""SELECT p.capture, p.process, coalesce(p.rank, c.rank) AS rank, n.text FROM stored.processes p
            JOIN stored.captures c USING (capture) LEFT JOIN stored.names n ON n.name_id = p.name
            WHERE p.capture IN {self._scope.numbers()} ORDER BY rank NULLS LAST, p.capture, p.process"""
        ).fetchall()
        chosen = self._scope.selection.ranks
        for capture, process, rank, name in rows:
            if capture in self.captures and (chosen is None or rank is None or rank in chosen):
                self._add_host(capture, process, rank, name)

    def _add_host(self, capture: int, process: int | None, rank: int | None, name: str | None) -> Process:
        title = f"{name or 'process'}" + (f" {process}" if process is not None and process >= 0 else "")
        made = Process(self._pids.take(process), capture, rank, _titled(rank, title), name)
        self.hosts[capture, process] = made
        return made

    def host(self, capture: int, process: int | None) -> Process:
        """The recorded process of a number; what names none belongs to the only one of its capture, if it is one."""
        if (capture, process) in self.hosts:
            return self.hosts[capture, process]
        if process is None:
            mine = [key for key in self.hosts if key[0] == capture]
            if len(mine) == 1:
                return self.hosts[mine[0]]
        return self._add_host(capture, process, self._capture_rank.get(capture), None)

    def _add_gpus(self) -> None:
        names = dict(self._names_of_devices())
        for device in sorted(self._scope.devices, key=lambda d: (d.rank is None, d.rank or 0, d.capture, d.device)):
            place = device.capture, device.device
            processes = self._scope.connection.execute(
                "SELECT DISTINCT process FROM stored.gpu_ops WHERE capture = ? AND device = ? ORDER BY ALL", [*place]
            ).fetchall()
            for (process,) in processes:
                launched_by = (device.capture, process)
                if launched_by not in self.hosts:
                    self._add_host(device.capture, process, device.rank, None)
                rank = self.hosts[launched_by].rank if process is not None else device.rank
                title = f"GPU {device.device}" + (f" ({names[place]})" if names.get(place) else "")
                if len(processes) > 1:
                    title += f" of process {process}"
                made = Process(self._pids.take(), device.capture, rank, _titled(rank, title))
                self.gpus[(*place, process)] = DeviceRows(made, device, self.number(*place), launched_by)

    def _names_of_devices(self) -> list[tuple[tuple[int, int], str]]:
        rows = self._scope.connection.execute(
            f"""SELECT d.capture, d.device, n.text FROM stored.devices d JOIN stored.names n ON n.name_id = d.name
            WHERE d.capture IN {self._scope.numbers()}"""
        ).fetchall()
        return [((capture, device), text) for capture, device, text in rows]

    def number(self, capture: int, device: int) -> int:
        """The number that a device has in the file: its own, where no other one has that."""
        if (capture, device) not in self._number:
            self._number[capture, device] = self._devices.take(device)
        return self._number[capture, device]

    def first_of(self, capture: int, device: int) -> DeviceRows | None:
        """The rows of a device that hold what was derived for all of it."""
        return next((rows for key, rows in self.gpus.items() if key[:2] == (capture, device)), None)

    def members(self) -> list[tuple[int, int | None]]:
        """Every capture with every rank in it, or None."""
        found = {(p.capture, p.rank) for p in self.hosts.values()}
        found |= {(rows.device.capture, rows.process.rank) for rows in self.gpus.values()}
        return sorted(found, key=lambda m: (m[0], m[1] is None, m[1] or 0))

    def about(self) -> dict[str, object]:
        """What the header says of processes and devices."""
        return {
            "lanes_apart": LANES_APART,
            "processes": [
                {"pid": p.pid, "capture": capture, "recorded_pid": process, "rank": p.rank, "name": p.name}
                for (capture, process), p in self.hosts.items()
            ],
            "devices": [
                {
                    "pid": rows.process.pid,
                    "device": rows.number,
                    "process": self.hosts[rows.launched_by].pid,
                    "rank": rows.process.rank,
                    "capture": rows.device.capture,
                    "recorded_device": rows.device.device,
                }
                for rows in self.gpus.values()
            ],
        }

    def properties(self) -> list[dict[str, object]]:
        """Properties of the devices, in the manner of torch.profiler."""
        rows = self._scope.connection.execute(
            f"""SELECT d.capture, d.device, n.text, d.memory_bytes, d.multiprocessors, k.text FROM stored.devices d
            LEFT JOIN stored.names n ON n.name_id = d.name LEFT JOIN stored.names k ON k.name_id = d.compute_capability
            WHERE d.capture IN {self._scope.numbers()}"""
        ).fetchall()
        out = []
        for capture, device, name, memory, multiprocessors, capability in rows:
            if (capture, device) not in self._number:
                continue
            major, _, minor = (capability or "").partition(".")
            properties = {
                "id": self._number[capture, device],
                "name": name,
                "totalGlobalMem": memory,
                "numSms": multiprocessors,
                "computeMajor": int(major) if major.isdecimal() else None,
                "computeMinor": int(minor) if minor.isdecimal() else None,
            }
            out.append({key: value for key, value in properties.items() if value is not None})
        return sorted(out, key=lambda p: int(str(p["id"])))

    def write_names(self, stream: EventStream, clock: TimelineClock) -> None:
        """Writes names and order of processes and rows: ranks one after the other, the device before its process."""
        by_rank: dict[tuple[bool, int, int], list[tuple[int, Process]]] = defaultdict(list)
        for kind, processes in ((0, [g.process for g in self.gpus.values()]), (1, list(self.hosts.values()))):
            for process in processes:
                key = process.rank is None, process.rank or 0, process.capture
                by_rank[key].append((kind, process))
        ordered = [p for key in sorted(by_rank) for _, p in sorted(by_rank[key], key=lambda kp: kp[0])]
        for place, process in enumerate(ordered):
            if process.rows or process.used:
                stream.add_objects(_names_of(process, place, clock.label(process.capture, process.rank)))


def _titled(rank: int | None, title: str) -> str:
    return title if rank is None else f"rank {rank}: {title}"


def _names_of(process: Process, place: int, label: str) -> list[dict[str, Any]]:
    def said(kind: str, tid: int, **arguments: object) -> dict[str, Any]:
        return {"ph": "M", "name": kind, "pid": process.pid, "tid": tid, "args": arguments}

    events = [
        said("process_name", 0, name=process.title),
        said("process_labels", 0, labels=label),
        said("process_sort_index", 0, sort_index=place),
    ]
    rows = sorted(process.rows.values(), key=lambda each: each.order)
    for k, (row, lane) in enumerate((each, lane) for each in rows for lane in range(each.depth)):
        name, tid = row.name if not lane else f"{row.name} (overlapping {lane})", row.tid + lane * LANES_APART
        events += [said("thread_name", tid, name=name), said("thread_sort_index", tid, sort_index=k)]
    return events
