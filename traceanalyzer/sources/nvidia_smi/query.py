"""Tables of `nvidia-smi --query-...` (gpu, compute apps, accounted apps), and of scripts that write such."""

import csv
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from traceanalyzer.schema.kinds import Severity
from traceanalyzer.schema.sink import Values
from traceanalyzer.sources.nvidia_smi.cells import Numbers, with_unit
from traceanalyzer.sources.nvidia_smi.headless import nameless_columns, tell_columns
from traceanalyzer.sources.nvidia_smi.host import LAST_VALUE_CUT, Host
from traceanalyzer.sources.nvidia_smi.query_columns import (
    QueryColumn,
    Role,
    cells_of_header,
    columns_of,
    is_header,
    settle,
)
from traceanalyzer.sources.telemetry import Sample, is_missing, number
from traceanalyzer.sources.text_lines import LONGEST_LINE as LONGEST_OF_ALL

_ROWS = 8192
_FACTS = {
    "driver_version": "driver_version",
    "count": "gpu_count",
    "mig.mode.current": "mig_mode",
    "compute_mode": "compute_mode",
    "persistence_mode": "persistence_mode",
    "ecc.mode.current": "ecc_mode",
}
_SAME_ROUND_NS = 50_000_000
_ROW = re.compile(r"(?:[^,]{1,200}, )*-?\d+(?:\.\d+)? (?:%|MiB|W|MHz)(?:, [^,]{1,200})*")


class Query:
    """One table; its header may come again."""

    is_table = True
    longest_line = LONGEST_OF_ALL

    def __init__(self, host: Host, header: list[str], separator: str, columns: list[QueryColumn]) -> None:
        self._host, self._header, self._separator, self._columns = host, header, separator, columns
        self._rows: list[list[str]] = []
        self._numbers: dict[int, Numbers] = {}
        self._command = next((k for k, c in enumerate(columns) if c.role is Role.COMMAND), None)
        self._settled = False
        self._last: tuple[int, int] = -1, -1
        self._source = "compute_apps" if any(c.role is Role.PID for c in columns) else "query_gpu"
        if any(c.name == "max_memory_usage" for c in columns):
            self._source = "accounted_apps"

    def take(self, line: str, cut: bool) -> bool:
        """Reads a line; false where it is none of the table."""
        if '"' in line:
            cells = [
                cell.strip() for cell in next(csv.reader([line], delimiter=self._separator, skipinitialspace=True))
            ]
        else:
            cells = [cell.strip() for cell in line.split(self._separator)]
        if cells == self._header:
            return True
        cells = self._with_whole_command(cells)
        if len(cells) != len(self._columns) or (not line[:1].isdigit() and is_header(line)):
            return False
        if cut and not self._is_whole(cells[-1]):
            cells[-1] = "-"
            self._host.sink.note("last_value_cut", LAST_VALUE_CUT)
        self._rows.append(cells)
        if len(self._rows) >= _ROWS:
            self._flush()
        return True

    def close(self) -> None:
        """Write what is left."""
        self._flush()

    def _with_whole_command(self, cells: list[str]) -> list[str]:
        """Names of programs may hold the separator."""
        more = len(cells) - len(self._columns)
        at = self._command
        if more <= 0 or at is None:
            return cells
        return [*cells[:at], f"{self._separator} ".join(cells[at : at + more + 1]), *cells[at + more + 1 :]]

    def _is_whole(self, cell: str) -> bool:
        """Whether a cell without an end can have lost none of it: it ends with its unit."""
        unit, found = self._columns[-1].unit, with_unit(cell)
        return unit is not None and found is not None and found[1] == unit

    def _flush(self) -> None:
        if not self._rows:
            return
        cells: list[tuple[str, ...]] = list(zip(*self._rows, strict=True))
        self._rows = []
        count = len(cells[0])
        if not self._settled:
            self._settle(cells)
        shared = self._times(cells)
        devices = self._devices(cells, shared.get("t_ns"))
        if "t_ns" in shared:
            known = np.array([-1 if d is None else d for d in devices], np.int64)
            names = tuple(column.name for column in self._columns)
            shared["t_ns"] = self._host.onward.times((self._source, names), known, shared["t_ns"])
        shared["device"] = np.ma.masked_array([d or 0 for d in devices], [d is None for d in devices], np.int32)
        if "t_ns" not in shared:
            shared["tick"] = self._rounds(devices, count)
        instances = self._processes(cells, shared)
        for place, (column, texts) in enumerate(zip(self._columns, cells, strict=True)):
            if column.role is Role.METRIC:
                numbers = self._numbers.setdefault(place, Numbers(column.unit))
                self._write(column, numbers, texts, instances, shared)
            elif column.role is Role.FACT and column.name in _FACTS:
                for value in {t for t in texts if not is_missing(t)}:
                    self._host.fact(_FACTS[column.name], value)
        self._describe(cells, devices)

    def _settle(self, cells: Sequence[Sequence[str]]) -> None:
        self._settled = True
        if not self._header:
            for text in tell_columns(self._columns, cells):
                self._host.sink.note("column_assumed", text)
        if guessed := settle(self._columns, cells):
            text = f"Units that the file does not state are told by the range of the values: {', '.join(guessed)}."
            self._host.sink.note("unit_assumed", text, severity=Severity.INFO)
        for column, texts in zip(self._columns, cells, strict=True):
            if column.role is Role.TIME:
                self._host.clock.learn(texts)

    def _of(self, role: Role, cells: Sequence[Sequence[str]]) -> Sequence[str] | None:
        return next((t for c, t in zip(self._columns, cells, strict=True) if c.role is role), None)

    def _times(self, cells: Sequence[Sequence[str]]) -> dict[str, Values]:
        texts = self._of(Role.TIME, cells)
        if texts is None:
            return {}
        if (dates := self._of(Role.DATE, cells)) is not None:
            texts = [f"{date} {time}" for date, time in zip(dates, texts, strict=True)]
        clock = self._host.clock
        times = [clock.moment(text) for text in texts]
        if all(t is None for t in times):
            times = [clock.of_day(None, text) for text in texts]
        if all(t is None for t in times):
            times = [_seconds(text) for text in texts]
        if unread := times.count(None):
            self._host.sink.note("time_unreadable", "Times that could not be read are null.", unread)
        if unread == len(times):
            return {}
        return {"t_ns": np.ma.masked_array([t or 0 for t in times], [t is None for t in times], np.int64)}

    def _devices(self, cells: Sequence[Sequence[str]], times: Any) -> list[int | None]:
        host, count = self._host, len(cells[0])
        indices, uuids, buses = (self._of(role, cells) for role in (Role.INDEX, Role.UUID, Role.BUS))
        if indices is None and uuids is None and buses is None:
            return self._unnamed(count, times)
        nothing: Sequence[str] = [""] * count
        keys = list(zip(indices or nothing, uuids or nothing, buses or nothing, strict=True))
        known: dict[tuple[str, str, str], int | None] = {}
        for key in dict.fromkeys(keys):
            stated = int(key[0]) if key[0].isascii() and key[0].isdigit() and len(key[0]) < 10 else None
            lost = stated is None and (indices is not None or all(map(is_missing, key)))
            known[key] = None if lost else host.device(stated, key[1] or None, key[2] or None)
        if indices is None:
            text = "Devices are numbered in the order in which the file names them: it states no index."
            host.say_once("devices_by_order", text)
        if None in known.values():
            none = sum(known[key] is None for key in keys)
            host.sink.note("device_unknown", "Rows that do not tell their device belong to none.", none)
        return [known[key] for key in keys]

    def _unnamed(self, count: int, times: Any) -> list[int | None]:
        """The device of rows that do not name one: the first, unless several rows are of one moment."""
        if times is not None and count > 1 and _in_rounds(np.ma.compressed(times)):
            text = (
                "Rows of several GPUs come without index, uuid or pci.bus_id, so that they cannot be told apart:"
                " their values belong to no device; query index as well."
            )
            self._host.say_once("devices_not_told", text, Severity.WARNING)
            return [None] * count
        text = "Nothing tells which GPU the rows are of: it counts as device 0."
        self._host.say_once("device_assumed", text)
        return [self._host.device(0)] * count

    def _rounds(self, devices: Sequence[int | None], count: int) -> Values:
        """Numbers of the rounds: a new one begins where a device does not come after the last one."""
        ticks = np.empty(count, np.int64)
        last, tick = self._last
        processes = self._source != "query_gpu"
        for k, device in enumerate(devices):
            number = -1 if device is None else device
            if tick < 0 or number < last or (number == last and not processes):
                tick = self._host.next_tick()
            last = number
            ticks[k] = tick
        self._last = last, tick
        return ticks

    def _processes(self, cells: Sequence[Sequence[str]], shared: dict[str, Values]) -> list[str | None] | None:
        pids, names = self._of(Role.PID, cells), self._of(Role.COMMAND, cells)
        if pids is None:
            return None
        numbers = [int(p) if p.isascii() and p.isdigit() and len(p) < 18 else None for p in pids]
        shared["process"] = np.ma.masked_array([n or 0 for n in numbers], [n is None for n in numbers], np.int64)
        return None if names is None else [None if is_missing(name) else name for name in names]

    def _write(
        self,
        column: QueryColumn,
        numbers: Numbers,
        texts: Sequence[str],
        instances: list[str | None] | None,
        shared: dict[str, Values],
    ) -> None:
        note, name = self._host.sink.note, column.name
        numbers.unread = numbers.other_unit = 0
        values = numbers.of(texts)
        if numbers.unread:
            note("unreadable_value", f"Values of {name} that are no number are null.", numbers.unread)
        if numbers.other_unit:
            note("other_unit", f"Values of {name} in another unit than its own are null.", numbers.other_unit)
        if beyond := numbers.beyond(values):
            text = f"Values of {name} that no GPU has ({column.unit}) are kept as they were printed."
            note("out_of_range", text, beyond)
        self._host.samples.add_column(Sample(self._source, name, None, column.unit), values, instances, **shared)

    def _describe(self, cells: Sequence[Sequence[str]], devices: Sequence[int | None]) -> None:
        names = self._of(Role.NAME, cells)
        memory = next(
            (t for c, t in zip(self._columns, cells, strict=True) if c.name == "memory.total" and c.unit == "MiB"), None
        )
        for number_of_device in {d for d in devices if d is not None}:
            k = devices.index(number_of_device)
            found = None if memory is None else with_unit(memory[k])
            name = None if names is None or is_missing(names[k]) else names[k]
            self._host.describe(number_of_device, name, None if found is None else found[0])


def _seconds(text: str) -> int | None:
    """Seconds since some start, in nanoseconds."""
    value = number(text)
    return None if value is None or not 0 <= value < 1e9 else round(value * 1e9)


def _in_rounds(times: Values) -> bool:
    """Whether rows come several at a time: then some steps between them are far shorter than others."""
    steps = np.diff(times)
    if not len(steps):
        return False
    longest = np.percentile(steps, 95)
    short = (steps < _SAME_ROUND_NS) & (steps < longest / 4)
    return bool(short.mean() > 0.3)


def open_query(line: str, host: Host) -> Query | None:
    """The table that a line heads, if it does."""
    separator = is_header(line)
    if separator is None:
        return None
    header = cells_of_header(line, separator)
    return Query(host, header, separator, columns_of(header))


def open_nameless(line: str, host: Host, cut: bool) -> Query | None:
    """The table of which a line is the first row, where cells tell units, and no header does."""
    if not is_nameless(line):
        return None
    columns = nameless_columns([cell.strip() for cell in line.split(",")])
    text = "There is no header: columns have their place and unit, and no name; query again without noheader."
    host.sink.note("no_header", text)
    query = Query(host, [], ",", columns)
    query.take(line, cut)
    return query


def is_nameless(line: str) -> bool:
    """Whether a line is a row that tells units, as nvidia-smi prints them."""
    return len(line) < 1 << 14 and _ROW.fullmatch(line) is not None
