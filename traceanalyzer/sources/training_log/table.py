"""Training logs as CSV: columns in any order, by their usual names; and what a loader alone takes."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, islice, pairwise

from traceanalyzer.errors import SourceError
from traceanalyzer.schema.kinds import Severity
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.telemetry import epoch_ns, is_missing, number
from traceanalyzer.sources.text_lines import Lines
from traceanalyzer.sources.training_log.columns import Meaning, Role, in_seconds, meaning_of, seconds_of
from traceanalyzer.sources.training_log.output import Growing, StepSamples

_DELIMITERS = ",;\t"
_LOOKED_AT = 1000
"""Rows by which it is told whether a column grows from step to step."""
_SURE = 8
"""So many values that only grow are no coincidence: 1 in 40,320 of as many in random order."""
_EPOCH_FROM = 1e9  # seconds: September 2001; no training runs that long
_WORLD = frozenset({"world_size", "ranks", "n_ranks", "num_ranks"})
_MOST_RANKS = 1 << 24
_WORDS = re.compile(r"[A-Za-z]+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a table, and what parts them."""

    columns: tuple[Meaning, ...]
    delimiter: str

    def has(self, *roles: Role) -> bool:
        """Whether there is a column of each of these roles."""
        return set(roles) <= {column.role for column in self.columns}


def header_of(line: str) -> Header | None:
    """The header of a log, if a line is one."""
    delimiter = max(_DELIMITERS, key=line.count)
    try:
        names = [name.strip() for name in next(csv.reader([line.strip().lstrip("#")], delimiter=delimiter), [])]
    except csv.Error:
        return None
    if not names:
        return None
    columns = tuple(meaning_of(name) for name in names)
    if len(columns) == 1 and re.search(r"\b(?:data)?_?loader", names[0], re.I) and not number(names[0]):
        unit = next((u for u in _WORDS.findall(names[0].replace("_", " ")) if seconds_of(u) is not None), None)
        columns = (Meaning(columns[0].name, Role.LOADER_TIME, unit, seconds_of(unit or "")),)
    header = Header(_without_repeats(columns), delimiter)
    alone = len(names) == 2 and header.has(Role.STEP, Role.TIME) and any(n.lower().startswith("batch") for n in names)
    if alone:  # `for batch in loader: pass`, as documented
        loader = (replace(c, role=Role.LOADER_TIME) if c.role is Role.TIME else c for c in header.columns)
        return Header(tuple(loader), delimiter)
    roles = {column.role for column in header.columns} - {None}
    others = roles - {Role.STEP, Role.SAMPLES, Role.TOKENS}
    telling = others & {Role.STEP_TIME, Role.LOADER_TIME, Role.SAMPLES_PER_SECOND, Role.TOKENS_PER_SECOND}
    if telling or (Role.STEP in roles and others) or {Role.TIME, Role.LOSS} <= roles:
        return header
    return None


def _without_repeats(columns: Sequence[Meaning]) -> tuple[Meaning, ...]:
    """Of several columns of one role only the first has it."""
    out: list[Meaning] = []
    for column in columns:
        taken = column.role is not None and any(c.role is column.role for c in out)
        out.append(replace(column, role=None) if taken else column)
    return tuple(out)


class Table:
    """Reads one table."""

    def __init__(self, file: TraceFile, sink: Sink) -> None:
        self._file, self._sink = file, sink
        self._samples = StepSamples(sink)
        self._torn = 0
        self._absolute = False

    def read(self) -> int:
        """Write every row; returns how many there were."""
        lines = Lines(self._file)
        stream = (line.replace("\0", "\ufffd") for line in lines)
        first = next((line for line in stream if line.strip()), "")
        header = header_of(first)
        if header is None:
            raise SourceError(self._file.path, "a table whose columns are not known", "write step,time,loss,samples")
        rows = self._rows(stream, header)
        begin = list(islice(rows, _LOOKED_AT))
        self._decide(header, begin)
        count, held = 0, None
        for row in chain(begin, rows):
            if held is not None:
                count += self._row(count, held)
            held = row
        if held is not None and lines.cut:
            self._sink.facts.whole = False
            text = "The last row has no line end and was left out: a part of it may be missing."
            self._sink.note("truncated", text)
        elif held is not None:
            count += self._row(count, held)
        self._samples.finish(utc=self._absolute)
        self._note()
        return count

    def _rows(self, lines: Iterator[str], header: Header) -> Iterator[list[str]]:
        reader = csv.reader(lines, delimiter=header.delimiter)
        while True:
            try:
                row = next(reader, None)
            except csv.Error:
                self._torn += 1
                continue
            if row is None:
                return
            cells = [cell.strip() for cell in row]
            if header.delimiter == ";":  # written where numbers have a decimal comma
                cells = [cell.replace(",", ".") if cell.count(",") == 1 else cell for cell in cells]
            again = number(cells[0]) is None and header_of(header.delimiter.join(cells)) is not None if cells else False
            if any(cells) and not again:
                yield cells

    def _decide(self, header: Header, rows: list[list[str]]) -> None:
        """What each column is, by its name and its first rows."""
        self._columns = list(header.columns)
        self._growing: dict[int, Growing] = {}
        self._text: set[int] = set()
        for place, column in enumerate(self._columns):
            cells = [row[place] for row in rows if place < len(row) and not is_missing(row[place])]
            values = [v for cell in cells if (v := number(cell)) is not None]
            if column.role in (Role.TIME, Role.LOADER_TIME):
                self._decide_time(place, column, cells, values)
            elif column.role in (Role.SAMPLES, Role.TOKENS) and len(values) > 2 and _only_grows(values):
                self._growing[place] = Growing()
            elif cells and not values:
                self._text.add(place)
            if column.role is None and column.name.lower() in _WORLD and values and len(set(values)) == 1:
                self._sink.facts.world_size = int(values[0]) if 1 <= values[0] < _MOST_RANKS else None
        self._say_units()

    def _decide_time(self, place: int, column: Meaning, cells: list[str], values: list[float]) -> None:
        if column.role is Role.TIME and cells and not values and _moment(cells[0]) is not None:
            self._absolute = True
            self._columns[place] = replace(column, unit="date", seconds=None)
            self._growing[place] = Growing()
            return
        if column.role is Role.TIME and values and min(values) * (column.seconds or 1.0) >= _EPOCH_FROM:
            self._absolute = True
            self._columns[place] = replace(column, unit="epoch", seconds=None)
            self._growing[place] = Growing()
            return
        runs_on = True if column.elapsed else _runs_on(values)
        if runs_on is None:
            text = (
                f"Whether {column.name} is the time of a step or runs on cannot be told by so few rows; it is listed."
            )
            self._sink.note("time_unclear", text)
            self._columns[place] = replace(column, role=None)
        elif runs_on:
            self._growing[place] = Growing()
        elif column.role is Role.TIME:
            self._columns[place] = replace(column, role=Role.STEP_TIME)

    def _say_units(self) -> None:
        for place, column in enumerate(self._columns):
            timed = column.role in (Role.TIME, Role.STEP_TIME, Role.LOADER_TIME)
            if timed and column.seconds is None and column.unit not in ("date", "epoch"):
                text = (
                    f"Column {column.name} names no unit and is taken for seconds; write {column.name}_ms if it is ms."
                )
                self._sink.note("unit_assumed", text)
                self._columns[place] = replace(column, seconds=1.0)

    def _row(self, ordinal: int, cells: list[str]) -> bool:
        """Write a row; whether it is one."""
        values = [number(cell) for cell in cells]
        step = self._step(ordinal, values)
        bad = any(
            value is None and not is_missing(cell) and place not in self._text and self._columns[place].unit != "date"
            for place, (value, cell) in enumerate(zip(values, cells, strict=True))
            if place < len(self._columns)
        )
        if step is None or bad or len(cells) > len(self._columns):
            self._torn += 1
            return False
        t_ns = self._instant(cells)
        for place, (column, value) in enumerate(zip(self._columns, values, strict=False)):
            if column.role is not Role.STEP and place not in self._text:
                self._cell(place, column, step, value, t_ns)
        return True

    def _step(self, ordinal: int, values: list[float | None]) -> int | None:
        place = next((k for k, column in enumerate(self._columns) if column.role is Role.STEP), None)
        if place is None:
            return ordinal
        value = values[place] if place < len(values) else None
        return int(value) if value is not None and value == int(value) and 0 <= value < 2**53 else None

    def _instant(self, cells: list[str]) -> int | None:
        for place, column in enumerate(self._columns):
            if column.role is Role.TIME and column.unit in ("date", "epoch") and place < len(cells):
                return epoch_ns(cells[place]) if column.unit == "epoch" else _moment(cells[place])
        return None

    def _cell(self, place: int, column: Meaning, step: int, value: float | None, t_ns: int | None) -> None:
        growing = self._growing.get(place)
        if column.role is None:
            self._samples.other(column.name, column.unit, step, value, t_ns)
            return
        role = Role.STEP_TIME if column.role is Role.TIME else column.role
        if column.unit in ("date", "epoch") and column.role is Role.TIME:
            value = None if t_ns is None else t_ns / 1e9
        elif value is not None and column.seconds is not None:
            value = in_seconds(value, column.seconds)
        if growing is not None:
            if role in (Role.SAMPLES, Role.TOKENS):
                self._samples.other(f"consumed_{role.value}", None, step, value, t_ns)
            value = None if value is None else growing.per_step(step, value)
        self._samples.known(role, step, value, t_ns)

    def _note(self) -> None:
        if self._torn:
            self._sink.note("torn_lines", "Rows that are torn or hold no numbers were left out.", self._torn)
        resets = sum(each.resets for each in self._growing.values())
        if resets:
            text = "Where a column that grows starts anew, the step there has no value of it."
            self._sink.note("started_anew", text, resets, Severity.INFO)


def _only_grows(values: list[float]) -> bool:
    return all(a < b for a, b in pairwise(values))


def _runs_on(values: list[float]) -> bool | None:
    """Whether times run on from row to row; None where it cannot be told."""
    if len(values) > 1 and not _only_grows(values):
        return False
    if len(values) >= _SURE:
        return True
    gaps = sorted(b - a for a, b in pairwise(values))
    if len(values) > 2 and values[0] <= 2 * gaps[len(gaps) // 2]:
        return True
    return None


def _moment(text: str) -> int | None:
    """Nanoseconds since 1970 of a date and time; without a zone as if it were UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
