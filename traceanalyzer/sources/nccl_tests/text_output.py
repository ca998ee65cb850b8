"""Output of nccl-tests as it is printed: of every version, several in a file, among other lines."""

import re
from datetime import datetime, timedelta

from traceanalyzer.schema.kinds import Severity
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.nccl_lines import Environment
from traceanalyzer.sources.nccl_tests.instance import instance_of
from traceanalyzer.sources.nccl_tests.kinds import kind_in, kind_in_name
from traceanalyzer.sources.nccl_tests.layout import TIMES, USUAL, Row, columns_of, fits, is_row, row_of, without_tags
from traceanalyzer.sources.telemetry import Sample, Samples, number
from traceanalyzer.sources.text_lines import Lines

SOURCE_NAME = "nccl_tests"
_RANK = re.compile(r"#\s+Rank\s+(\d{1,8})\s.*?\bon\s+(\S+)\s+device\s+(\d{1,5})\s+\[[^\]]*\]\s*(.*)")
_PLACE = re.compile(r"(out[ -]of[ -]place)|(in[ -]place)", re.I)
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*(\S+)")
_WRONG = re.compile(r"#\s*Out of bounds values\s*:\s*(\d{1,18})")
_BEGIN = re.compile(r"#\s*nThread \d")
_COUNT_OF_RANKS = re.compile(r"\b(\d{1,7}) ranks\b")
_BOTH = ("out-of-place", "in-place")
"""What the two measurements of a row are, in every version."""
_FORMAT = "%Y-%m-%d %H:%M:%S"


class TextOutput:
    """Reads a file line by line. Rows are numbered, in the order of the file, by their `tick`."""

    def __init__(self, file: TraceFile, sink: Sink) -> None:
        self._file, self._sink = file, sink
        self._samples, self._environment = Samples(sink), Environment(sink)
        self._columns: tuple[str, ...] | None = None
        self._usual = 5
        self._places: list[str] = []
        self._kind: str | None = None
        self._kind_of_file = kind_in_name(file.path.name)
        self._ranks = 0
        self._hosts: set[str] = set()
        self._devices: dict[int, str] = {}
        self._output = self._rows = self._torn = self._unheaded = self._named_by_file = 0
        self._in_table = False

    def read(self) -> int:
        """Write every row; returns how many there were."""
        lines, held = Lines(self._file), None
        for line in lines:
            if held is not None:
                self._line(held)
            held = line
        if held is not None:
            self._last(held, lines.cut)
        for device, name in sorted(self._devices.items()):
            self._samples.device(device, name or None)
        self._samples.finish()
        self._environment.finish()
        if len(self._hosts) == 1:
            self._sink.facts.host = next(iter(self._hosts))
        self._note()
        return self._rows

    def _last(self, line: str, cut: bool) -> None:
        if not cut:
            self._line(line)
        elif is_row(without_tags(line).split()):
            self._sink.facts.whole = False
            self._sink.note("truncated", "The last row has no end and was left out: a part of it may be missing.")

    def _note(self) -> None:
        note = self._sink.note
        if self._torn:
            note("torn_lines", "Rows that do not fit their header were left out.", self._torn)
        if self._unheaded:
            text = (
                "Rows without a header above them were taken for time, algbw, busbw, #wrong out of place and in place."
            )
            note("rows_without_header", text, self._unheaded, Severity.INFO)
        if self._named_by_file:
            text = "The collective is told by the name of the file alone."
            note("collective_by_file_name", text, self._named_by_file, Severity.INFO)

    def _line(self, line: str) -> None:
        plain = without_tags(line)
        cells = plain.split()
        if is_row(cells):
            self._row(cells)
            return
        header = columns_of(plain)
        if header is not None:
            self._usual, self._columns = header
            if sum(name in TIMES for name in self._columns) == len(_BOTH):
                self._places = list(_BOTH)
            self._begin_table()
        elif "#" in plain:
            self._comment(plain[plain.index("#") :])
        if kind := kind_in(plain):
            self._kind = kind
        self._environment.line(plain)

    def _begin_table(self) -> None:
        self._output += 1
        self._in_table = True

    def _comment(self, text: str) -> None:
        if rank := _RANK.match(text):
            self._rank(int(rank[1]), rank[2], int(rank[3]), rank[4].strip())
        elif _BEGIN.match(text):
            self._ranks, self._in_table = 0, False
        elif average := _AVERAGE.match(text):
            self._summary("average_busbw", "GB/s", number(average[1]))
        elif wrong := _WRONG.match(text):
            self._summary("out_of_bounds_values", None, number(wrong[1]))
        elif places := [("out-of-place" if out else "in-place") for out, _in in _PLACE.findall(text)]:
            self._places = places
        if ranks := _COUNT_OF_RANKS.search(text):
            self._ranks, self._in_table = int(ranks[1]), False

    def _rank(self, rank: int, host: str, device: int, name: str) -> None:
        if self._in_table:  # the ranks of the next output
            self._ranks, self._in_table = 0, False
        self._ranks = max(self._ranks, rank + 1)
        if host not in ("localhost", "127.0.0.1"):
            self._hosts.add(host)
        self._devices.setdefault(device, name)

    def _row(self, cells: list[str]) -> None:
        row = row_of(cells, self._columns or USUAL, self._usual)
        if row is None or (self._columns is None and not fits(row)):
            self._torn += 1
            return
        if self._columns is None:
            self._unheaded += 1
            if not self._output:
                self._begin_table()
            self._places = list(_BOTH)
        self._named_by_file += self._kind is None and self._kind_of_file is not None
        for metric, unit, value, measurement in row.values:
            place = self._places[measurement] if measurement is not None and measurement < len(self._places) else None
            self._add(metric, unit, value, self._parts(row) | {"place": place}, _instant(row.stamp))
        self._rows += 1

    def _parts(self, row: Row | None = None) -> dict[str, object]:
        parts: dict[str, object] = {
            "collective": self._kind or self._kind_of_file,
            "ranks": self._ranks or None,
            "output": self._output if self._output > 1 else None,
        }
        if row is not None:
            root = row.root if row.root is not None and row.root >= 0 else None
            parts |= {"bytes": row.size, "dtype": row.dtype, "redop": row.redop, "root": root}
        return parts

    def _summary(self, metric: str, unit: str | None, value: float | None) -> None:
        self._add(metric, unit, value, self._parts())

    def _add(
        self, metric: str, unit: str | None, value: float | None, parts: dict[str, object], instant: int | None = None
    ) -> None:
        instance = instance_of(parts)
        self._samples.add(Sample(SOURCE_NAME, metric, value, unit, instance=instance, t_ns=instant, tick=self._rows))


def _instant(stamp: str | None) -> int | None:
    """The time of day of a row, which has no zone, as if it were UTC."""
    try:
        return (
            None
            if stamp is None
            else (datetime.strptime(stamp, _FORMAT) - datetime(1970, 1, 1)) // timedelta(microseconds=1) * 1000
        )
    except ValueError:
        return None
