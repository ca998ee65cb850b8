"""`nvidia-smi dmon` and `pmon`: tables of one row a device, or a process of it, and round."""

import re

import numpy as np

from traceanalyzer.schema.sink import Values
from traceanalyzer.sources.nvidia_smi.cells import UNIT_OF_MONITOR, Numbers
from traceanalyzer.sources.nvidia_smi.host import LAST_VALUE_CUT, Host
from traceanalyzer.sources.telemetry import Sample, is_missing
from traceanalyzer.sources.text_lines import LONGEST_LINE as LONGEST_OF_ALL

HEADER = re.compile(r"#\s*(?:date[\s,]+)?(?:time[\s,]+)?gpu[\s,]+\w", re.IGNORECASE)
_KEYS = {"gpu", "pid", "type", "command", "date", "time"}
_ROWS = 8192
_PID_DIGITS = 10

_Row = tuple[int, str | None, str | None, list[str]]
"""Device, pid, command, cells."""


class Monitor:
    """One table, with its header repeated inside of it or changed."""

    is_table = True
    longest_line = LONGEST_OF_ALL

    def __init__(self, host: Host) -> None:
        self._host = host
        self._names: list[str] = []
        self._units: dict[str, str] = {}
        self._commas = self._lacks_units = False
        self._rows: list[_Row] = []
        self._times: list[int | None] = []
        self._ticks: list[int] = []
        self._seen: set[str | None] = set()
        self._last: int | None = None
        self._tick = -1

    def take(self, line: str, cut: bool) -> bool:
        """Reads a line; false where it is none of the table."""
        if line.startswith("#"):
            return self._take_header(line)
        cells = self._cells(line)
        return cells is not None and self._take_row(cells, cut)

    def close(self) -> None:
        """Write what is left."""
        self._flush()

    def _split(self, line: str) -> list[str]:
        if self._commas:
            cells = [cell.strip() for cell in line.split(",")]
            return cells[:-1] if len(cells) > 1 and not cells[-1] and len(cells) != len(self._names) else cells
        return line.split()

    def _take_header(self, line: str) -> bool:
        if HEADER.match(line):
            self._commas = "," in line
            names = self._split(line.lstrip("# "))
            if names != self._names:
                self._flush()
                self._names, self._units = names, {}
            self._lacks_units = True
            return True
        units = self._split(line.lstrip("# "))
        if not self._lacks_units or len(units) != len(self._names):
            return False
        named = dict(zip(self._names, units, strict=True))
        if named != self._units:
            self._flush()
            self._units = named
        self._lacks_units = False
        return True

    def _cells(self, line: str) -> list[str] | None:
        """One cell for each name; commands may hold what parts cells."""
        cells, count = self._split(line), len(self._names)
        if "command" in self._names and len(cells) > count:
            at = self._names.index("command")
            after = count - at - 1
            joined = ("," if self._commas else " ").join(cells[at : len(cells) - after])
            cells = [*cells[:at], joined, *cells[len(cells) - after :]]
        return cells if len(cells) == count else None

    def _take_row(self, cells: list[str], cut: bool) -> bool:
        if cut:
            # Rows are filled up with blanks; one without its end may have lost digits of the last value.
            cells[-1] = "-"
        named = {name.lower(): cell for name, cell in zip(self._names, cells, strict=True)}
        gpu = named.get("gpu", "")
        device = self._host.device(int(gpu)) if gpu.isascii() and gpu.isdigit() and len(gpu) < 10 else None
        if device is None:
            return False
        if cut:
            self._host.sink.note("last_value_cut", LAST_VALUE_CUT)
        pid = named.get("pid")
        self._count_round(device, pid)
        if "pid" in named and (pid is None or not _is_pid(pid)):
            return pid is None or is_missing(pid)
        time = named.get("time")
        instant = None if time is None else self._host.clock.of_day(named.get("date"), time)
        if time is not None and instant is None:
            self._host.sink.note("time_unreadable", "Times that could not be read are null.")
        self._rows.append((device, pid, named.get("command"), cells))
        self._times.append(instant)
        self._ticks.append(self._tick)
        if len(self._rows) >= _ROWS:
            self._flush()
        return True

    def _count_round(self, device: int, pid: str | None) -> None:
        """Rows of a round are in the order of their devices, and name each process of one once."""
        if self._last is None or device < self._last or (device == self._last and (pid in self._seen or pid == "-")):
            self._tick = self._host.next_tick()
            self._seen.clear()
        elif device != self._last:
            self._seen.clear()
        self._last = device
        self._seen.add(pid)

    def _flush(self) -> None:
        if not self._rows:
            return
        devices, pids, commands, rows = zip(*self._rows, strict=True)
        has_pids, note = pids[0] is not None, self._host.sink.note
        shared: dict[str, Values] = {"device": np.array(devices, np.int32)}
        if "time" in map(str.lower, self._names):
            times = self._times
            stated = np.ma.masked_array(np.array([t or 0 for t in times], np.int64), mask=[t is None for t in times])
            series = tuple(self._names)
            shared["t_ns"] = self._host.onward.times(series, shared["device"].astype(np.int64), stated)
        else:
            shared["tick"] = np.array(self._ticks, np.int64)
        if has_pids:
            shared["process"] = np.array([int(pid) for pid in pids], np.int64)
        instances = [None if is_missing(c or "") else c for c in commands] if has_pids else None
        for name, cells in zip(self._names, zip(*rows, strict=True), strict=True):
            if name.lower() in _KEYS:
                continue
            unit = self._units.get(name) or UNIT_OF_MONITOR.get(name.lower())
            numbers = Numbers(unit)
            values = numbers.of(cells)
            if numbers.unread or numbers.other_unit:
                note(
                    "unreadable_value",
                    f"Values of {name} that are no number are null.",
                    numbers.unread + numbers.other_unit,
                )
            if beyond := numbers.beyond(values):
                note(
                    "out_of_range", f"Values of {name} that no GPU has ({unit}) are kept as they were printed.", beyond
                )
            self._host.samples.add_column(
                Sample("pmon" if has_pids else "dmon", name, None, unit), values, instances, **shared
            )
        self._rows, self._times, self._ticks = [], [], []


def _is_pid(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _PID_DIGITS


def open_monitor(line: str, host: Host) -> Monitor | None:
    """The table that a line heads, if it does."""
    if not HEADER.match(line):
        return None
    monitor = Monitor(host)
    monitor.take(line, False)
    return monitor
