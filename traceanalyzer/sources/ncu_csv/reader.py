"""Reads the CSV pages of ncu into the common schema: first how numbers are written, then the rows."""

from collections import Counter
from decimal import Decimal

from traceanalyzer.errors import SourceError
from traceanalyzer.schema.kinds import Severity
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.ncu_csv.devices import Devices
from traceanalyzer.sources.ncu_csv.launches import Launch, in_base_units, lacks_unit, sizes_of
from traceanalyzer.sources.ncu_csv.numbers import is_id, is_missing, read_below_1000, read_number, split_instances
from traceanalyzer.sources.ncu_csv.nvtx import joined, range_names
from traceanalyzer.sources.ncu_csv.output import write_launch, write_metric, write_rule
from traceanalyzer.sources.ncu_csv.session import Session
from traceanalyzer.sources.ncu_csv.style_search import styles_of
from traceanalyzer.sources.ncu_csv.tables import PUSH_POP, START_STOP, Layout, Row, Tables
from traceanalyzer.sources.row_batches import Batches

_OPEN_LAUNCHES = 1024
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
Key = tuple[int, str, str]


class CsvReader:
    """One file on its way into a sink. Raises `SourceError` where it has no table, or its numbers are unclear."""

    def __init__(self, file: TraceFile, sink: Sink) -> None:
        self._file, self._sink = file, sink
        self._batches = Batches(sink)
        self._devices = Devices()
        self._session = Session(sink, self._devices)
        self._tables = Tables(file)
        self._units: tuple[int, list[str]] = (-1, [])
        self._open: dict[Key, Launch] = {}
        self._closed: set[Key] = set()
        self._last: Launch | None = None
        self._lost = 0
        self._launches = 0
        self._processes: dict[int, str | None] = {}
        self._odd: Counter[str] = Counter()

    def read(self) -> None:
        """Reads everything."""
        self._styles = styles_of(self._file)
        take = {
            Layout.WIDE: self._take_wide,
            Layout.LONG: self._take_long,
            Layout.SUMMARY: self._take_summary,
            Layout.SESSION: self._session.take,
        }
        for row in self._tables:
            take[row.header.layout](row)
        if not self._tables.count:
            raise SourceError(self._file.path, "no table of ncu in it", "print it: ncu --import REPORT --csv")
        self._finish()

    def _take_wide(self, row: Row) -> None:
        if row.is_units:
            self._units = (row.header.number, row.cells)
            return
        units = self._units[1] if self._units[0] == row.header.number else None
        launch = self._new_launch(row)
        launch.lacks_units = units is None
        for position in row.header.metrics:
            unit = units[position] if units else ""
            self._take_metric(launch, (None, None), row.header.names[position], unit, row.cells[position], row)
        self._write(launch)

    def _take_long(self, row: Row) -> None:
        launch = self._launch_of(row)
        self._mark_torn(launch)
        self._last = launch
        section, metric = row.get("Section Name") or None, row.get("Metric Name").strip()
        if metric:
            place = (section, row.get("Body Item Label") or None)
            self._take_metric(launch, place, metric, row.get("Metric Unit"), row.get("Metric Value"), row)
        if rule := row.get("Rule Name"):
            kind, text = row.get("Rule Type") or None, row.get("Rule Description")
            launch.judge(rule, kind, text)
            speedup = read_below_1000(row.get("Estimated Speedup"))
            estimate = (row.get("Estimated Speedup Type") or None, None if speedup is None else float(speedup))
            write_rule(self._batches, launch, (section, rule, None), kind, text, estimate)

    def _take_metric(
        self, launch: Launch, place: tuple[str | None, str | None], metric: str, unit: str, text: str, row: Row
    ) -> None:
        value, more = self._value(text, row)
        if value is not None and lacks_unit(metric, unit):
            launch.lacks_units = True
            value, more = None, text
        scaled, base = in_base_units(value or Decimal(0), unit)
        if value is not None:
            value = scaled
            launch.take(metric, base, value, place[1])
        else:
            launch.lack(metric)
        if metric.startswith("device__attribute_"):
            self._devices.take(launch.device, metric, value, more)
        write_metric(self._batches, launch, place, metric, (base, unit), value, more)

    def _value(self, text: str, row: Row) -> tuple[Decimal | None, str | None]:
        """(number, text) of a cell: a number, a word, or a number and the list of its instances."""
        if is_missing(text):
            return None, None
        head, instances = split_instances(text)
        value = read_number(head, self._styles[row.header.number], row.header.mixed)
        return (value, instances) if value is not None else (None, text)

    def _take_summary(self, row: Row) -> None:
        pid = self._process(row)
        unit = row.get("Metric Unit")
        columns: dict[str, float | None] = {}
        text = None
        for name in ("Minimum", "Maximum", "Average"):
            value, more = self._value(row.get(name), row)
            columns[name.lower()] = None if value is None else float(in_base_units(value, unit)[0])
            text = text or more
        count, _ = self._value(row.get("Invocations"), row)
        self._batches.add(
            "kernel_summaries",
            {
                "process": pid,
                "kernel": row.get("Kernel Name") or None,
                "grid": _sizes(row.get("Grid Size")),
                "block": _sizes(row.get("Block Size")),
                "device": _whole(row.get("Device") or row.get("Device Id")),
                "nvtx_ranges": self._summary_ranges(row),
                "invocations": None if count is None else int(count),
                "section": row.get("Section Name") or None,
                "item": row.get("Body Item Label") or None,
                "metric": row.get("Metric Name").strip(),
                "metric_unit": in_base_units(Decimal(0), unit)[1],
                "printed_unit": unit,
                **columns,
                "text": text,
            },
        )
        self._devices.see(_whole(row.get("Device") or row.get("Device Id")), row.get("CC") or None)

    @staticmethod
    def _summary_ranges(row: Row) -> str | None:
        position = row.header.starting("Range:")
        if position is None:
            return None
        domain = row.get("Domain")
        return joined(range_names(row.cells[position], row.header.names[position], domain))

    def _launch_of(self, row: Row) -> Launch:
        key = (row.header.number, row.get("Process ID"), row.get("ID"))
        launch = self._open.get(key)
        if launch is None:
            if key in self._closed:
                self._odd["torn"] += 1
            self._open[key] = launch = self._new_launch(row)
            if len(self._open) > _OPEN_LAUNCHES:
                self._close()
        return launch

    def _close(self) -> None:
        """Write the launch that was open longest: rows of a launch stand together, so it is complete."""
        key = next(iter(self._open))
        self._closed.add(key)
        self._write(self._open.pop(key))

    def _write(self, launch: Launch) -> None:
        self._odd["units"] += launch.lacks_units
        write_launch(self._batches, launch)

    def _mark_torn(self, launch: Launch | None) -> None:
        """Rows were lost since the last one: they were of its launch or of this one."""
        lost = self._tables.damaged + self._tables.narrow
        if lost > self._lost:
            for near in (self._last, launch):
                if near is not None:
                    near.torn = True
        self._lost = lost

    def _new_launch(self, row: Row) -> Launch:
        place, process = (self._launches, row.header.number), self._process(row)
        launch = Launch(*place, int(row.get("ID")), process, row.get("Kernel Name"))
        self._launches += 1
        launch.compute_capability = row.get("CC") or None
        launch.nvtx = joined([name for prefix in (START_STOP, PUSH_POP) for name in _ranges(row, prefix)])
        launch.place(
            row.get("Grid Size"),
            row.get("Block Size"),
            context=row.get("Context"),
            stream=row.get("Stream"),
            device=row.get("Device") or row.get("Device Id"),
        )
        self._devices.see(launch.device, launch.compute_capability)
        return launch

    def _process(self, row: Row) -> int | None:
        pid = _whole(row.get("Process ID"))
        if pid is not None:
            self._processes.setdefault(pid, row.get("Process Name") or None)
        host = row.get("Host Name")
        if host and host not in _LOOPBACK and self._sink.facts.host is None:
            self._sink.facts.host = host
        return pid

    def _finish(self) -> None:
        if self._tables.cut:
            self._lost = -1
        self._mark_torn(None)
        while self._open:
            self._close()
        for pid, name in self._processes.items():
            self._batches.add("processes", {"process": pid, "name": name})
        self._devices.write(self._batches)
        self._batches.flush()
        facts, layouts = self._sink.facts, sorted(layout.name.lower() for layout in self._tables.layouts)
        styles = dict.fromkeys(style.name for style in self._styles.values())
        facts.metadata |= {"layouts": layouts, "tables": self._tables.count, "number_style": " and ".join(styles)}
        facts.whole = not self._tables.cut and self._file.damage is None
        self._say()

    def _say(self) -> None:
        note, tables = self._sink.note, self._tables
        if self._file.damage:
            note("compression_damaged", f"The file could not be unpacked to its end: {self._file.damage}.")
        if tables.cut:
            note("truncated", "The file ends within a row: what came after its last whole row is lost.")
        if lost := tables.damaged + tables.narrow:
            note("rows_damaged", "Rows that lack cells, or whose quotes do not close, were left out.", lost)
        if count := self._odd["units"]:
            note(
                "units_missing", "Launches with durations, sizes or shares that have no unit: those are unknown.", count
            )
        if count := self._odd["torn"]:
            note("launch_torn", "Launches whose rows do not stand together count as several.", count)
        if not self._launches:
            summaries = self._batches.counts["kernel_summaries"]
            text = (
                "The file holds averages over launches only: they are in kernel_summaries, and no launch can be judged."
                if summaries
                else "The file holds no profiled launch; the raw page has them: ncu --import REPORT --csv --page raw."
            )
            note("no_launches", text, severity=Severity.INFO if summaries else Severity.WARNING)


def _ranges(row: Row, prefix: str) -> list[str]:
    position = row.header.starting(prefix)
    return [] if position is None else range_names(row.cells[position], row.header.names[position])


def _whole(text: str) -> int | None:
    return int(text) if is_id(text) else None


def _sizes(text: str) -> str | None:
    """A grid or block as text: three sizes, or, as old summaries have it, their product."""
    sizes = sizes_of(text)
    return f"({sizes[0]}, {sizes[1]}, {sizes[2]})" if sizes else text or None
