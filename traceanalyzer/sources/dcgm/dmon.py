"""Tables of `dcgmi dmon`: rows of entities, in rounds, without times."""

import re

from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.dcgm.fields import RATIO, unit_of
from traceanalyzer.sources.dcgm.values import NotAValueError, value_of
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.telemetry import Sample, Samples, without_escapes
from traceanalyzer.sources.text_lines import Lines

_HEADER = re.compile(r"\s*#\s*Entity\s+(\S.*)")
_ROW = re.compile(r"\s*([A-Za-z][A-Za-z-]*)\s+(\d{1,9})\s+(\S.*)")
_UNITS = re.compile(r"\s*(?:ID|Id)\b")


class DmonTable:
    """Reads a table by its header. A round ends where an entity comes again; rows stand in any order of entities."""

    def __init__(self, file: TraceFile, sink: Sink) -> None:
        self._file, self._sink = file, sink
        self._samples = Samples(sink)
        self._names: list[str] = []
        self._round: set[tuple[str, str]] = set()
        self._devices: set[int] = set()
        self._tick = self._torn = self._above_one = 0

    def read(self) -> int:
        """Write every sample; returns how many there were."""
        lines, held = Lines(self._file), None
        for line in lines:
            if held is not None:
                self._line(held)
            held = line
        if held is not None:
            self._last(held, lines.cut)
        for device in sorted(self._devices):
            self._samples.device(device)
        self._samples.finish()
        if self._torn:
            self._sink.note("torn_lines", "Rows that do not fit the header were left out.", self._torn)
        if self._above_one:
            self._sink.note("ratio_above_one", "Ratios above 1 are kept as they were told.", self._above_one)
        return self._samples.count

    def _last(self, line: str, cut: bool) -> None:
        """The last line; without an end it may have lost digits, unless blanks show that its last cell is whole."""
        if not cut or line != line.rstrip() or not _ROW.match(line):
            self._line(line)
            return
        self._sink.facts.whole = False
        self._sink.note("truncated", "The last row has no end and was left out: a part of it may be missing.")

    def _line(self, line: str) -> None:
        line = without_escapes(line)
        if header := _HEADER.match(line):
            self._names = header[1].split()
        elif row := _ROW.match(line):
            self._row(row[1], row[2], row[3].split())
        elif line.strip() and not _UNITS.match(line) and not line.lstrip().startswith("#"):
            self._torn += 1

    def _row(self, kind: str, number: str, cells: list[str]) -> None:
        try:
            values = [value_of(cell) for cell in cells]
        except NotAValueError:
            values = []
        if not values or len(values) != len(self._names):
            self._torn += 1
            return
        if (kind, number) in self._round:
            self._round.clear()
            self._tick += 1
        self._round.add((kind, number))
        whole = kind.upper() == "GPU"
        device = int(number) if whole else None
        if device is not None:
            self._devices.add(device)
        for name, value in zip(self._names, values, strict=True):
            unit = unit_of(name)
            self._above_one += unit == RATIO and value is not None and value > 1
            self._samples.add(
                Sample("dcgm", name, value, unit, device, None if whole else f"{kind} {number}", tick=self._tick)
            )
