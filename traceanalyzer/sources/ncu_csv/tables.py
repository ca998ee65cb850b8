"""The tables of a file: where each begins, which layout it has, and its rows."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.ncu_csv.lines import Rows, cells_of, without_tail
from traceanalyzer.sources.ncu_csv.numbers import is_id, is_missing

_HEADER = re.compile(
    r'"ID","Process ID",|ID,Process ID,|"Process ID","Process Name",|Process ID,Process Name,'
    r'|"Domain","Range:|Domain,Range:'
)
_PIECES_OF_HEADER = ('"Process Name","Host Name"', '"Host Name","Kernel Name"')
_SESSION_HEADER = re.compile(r'"(?:Launch|Session|Device) Attribute",|"Process Id","Process Name"')
_SOURCE_HEADER = re.compile(r'"(?:Address|#)","Source"|"#","Address"')
_IDENTIFYING = (
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Kernel Time",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "Device Id",
    "CC",
)
_NUMBERS = ("Process ID", "Context", "Stream", "Device", "Device Id")
_SIZES = ("Block Size", "Grid Size")
PUSH_POP = "thread Domain:Push/Pop_Range"
START_STOP = "Id:Domain:Start/Stop_Range"


class Layout(Enum):
    """What a row of a table is."""

    WIDE = auto()  # a launch, its metrics as columns
    LONG = auto()  # a metric or a rule of a launch
    SUMMARY = auto()  # a metric over all launches of a kernel
    SESSION = auto()  # a fact of the session
    SOURCE = auto()  # a line of code


@dataclass(frozen=True)
class Header:
    """The header of a table. `number` counts the tables of the file from 0."""

    number: int
    layout: Layout
    names: tuple[str, ...]
    quoted: bool = True
    where: dict[str, int] = field(init=False, repr=False)
    metrics: range = field(init=False, repr=False)
    """Positions of the columns that hold metrics of a wide table."""

    def __post_init__(self) -> None:
        where: dict[str, int] = {}
        for position, name in enumerate(self.names):
            where.setdefault(name, position)
        ranges = (PUSH_POP, START_STOP)
        known = [p for p, name in enumerate(self.names) if name in _IDENTIFYING or name.startswith(ranges)]
        object.__setattr__(self, "where", where)
        object.__setattr__(self, "metrics", range(max(known, default=-1) + 1, len(self.names)))

    @property
    def mixed(self) -> bool:
        """Whether decimals of the table may keep a point in every locale."""
        return self.layout is not Layout.LONG

    def starting(self, prefix: str) -> int | None:
        """Position of the first column whose name starts so."""
        return next((p for p, name in enumerate(self.names) if name.startswith(prefix)), None)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table, padded to the width of its header."""

    header: Header
    cells: list[str]

    @property
    def is_units(self) -> bool:
        """Whether it holds the units of a wide table: such a row has no ID."""
        return self.header.layout is Layout.WIDE and not self.cells[0]

    def get(self, name: str) -> str:
        """The cell of a column by its name; empty where the table has no such column."""
        position = self.header.where.get(name)
        return "" if position is None else self.cells[position]


class Tables:
    """Reads the tables of a file.

    After reading: `count` of tables and their `layouts`; `cut` if the file ends within a row; `damaged` and `narrow`
    rows, whose quotes do not close or that lack cells.
    """

    def __init__(self, file: TraceFile) -> None:
        self._rows = Rows(file)
        self.count = 0
        self.cut = False
        self.narrow = 0
        self.layouts: set[Layout] = set()

    @property
    def damaged(self) -> int:
        """Rows whose text is damaged."""
        return self._rows.damaged + self._rows.lines.too_long

    def __iter__(self) -> Iterator[Row]:
        """Every row of every table, units rows included."""
        header: Header | None = None
        last_was_narrow = has_units = False
        for text in self._rows:
            found = self._header(text)
            if found is not None:
                header, last_was_narrow, has_units = found, False, False
                continue
            if header is None or not text or (header.quoted and not text.startswith('"')):
                last_was_narrow = last_was_narrow and not text
                continue
            row = _read(header, text)
            if row is not None and row.is_units:
                if has_units:
                    header = self._lost_header()
                    continue
                has_units = True
            last_was_narrow = row is None and header.layout is not Layout.SOURCE and _begins_a_row(header, text)
            if row is not None:
                yield row
            elif last_was_narrow:
                self.narrow += 1
        cut_in_row = last_was_narrow and self._rows.lines.cut
        self.narrow -= cut_in_row
        self.cut = self._rows.cut or cut_in_row

    def _header(self, text: str) -> Header | None:
        found = _HEADER.search(text) if "Process ID" in text or "Domain" in text else None
        if found and (text[found.start()] == '"' or found.start() == 0):
            # The program's last line may stand in front of it, without an end of its own.
            header = text[found.start() :]
            if header.count('"') % 2:
                return self._lost_header()
            names = tuple(cells_of(header))
            return self._new(_layout(names), names, header.startswith('"'))
        if any(piece in text for piece in _PIECES_OF_HEADER):
            return self._lost_header()
        if _SESSION_HEADER.match(text):
            return self._new(Layout.SESSION, tuple(cells_of(text)))
        if _SOURCE_HEADER.match(text):
            return self._new(Layout.SOURCE, tuple(cells_of(text)))
        return None

    def _lost_header(self) -> Header:
        """The header of a table whose own is damaged: nothing tells what its columns are."""
        self.narrow += 1
        return self._new(Layout.SOURCE, ())

    def _new(self, layout: Layout, names: tuple[str, ...], quoted: bool = True) -> Header:
        header = Header(self.count, layout, names, quoted)
        self.count += 1
        self.layouts.add(layout)
        return header


def _layout(names: tuple[str, ...]) -> Layout:
    if "Invocations" in names and "Average" in names:
        return Layout.SUMMARY
    if "ID" not in names:
        return Layout.SOURCE  # a damaged header: rows without an ID are no launches
    if "Metric Name" in names:
        return Layout.LONG if "Metric Value" in names else Layout.SOURCE
    return Layout.WIDE


def _read(header: Header, text: str) -> Row | None:
    """The row that a text is; None where it is none, as a line of the program's own output."""
    row = _row(header, cells_of(without_tail(text)))
    if row is None and not text.endswith(","):  # else it was cut before a quote
        row = _row(header, cells_of(text))
    return row


def _row(header: Header, cells: list[str]) -> Row | None:
    """The row of these cells; None where they do not fit the table."""
    width = len(header.names)
    if header.layout is Layout.SESSION:
        return Row(header, cells) if len(cells) == width else None
    if header.layout is Layout.SOURCE:
        return None
    if header.layout is Layout.WIDE:
        fits = len(cells) == width and (_has_id(header, cells) or not any(cells[: header.metrics.start]))
        return Row(header, cells) if fits else None
    last = header.where.get("Average" if header.layout is Layout.SUMMARY else "Metric Value", width - 1)
    if not last < len(cells) <= width or not cells[0]:
        return None
    row = Row(header, cells + [""] * (width - len(cells)))
    if header.layout is Layout.LONG:
        # Where cells have no quotes, a comma within one moves those behind it.
        moved = not header.quoted and row.get("Metric Name") and any(row.cells[last + 1 :])
        return row if _is_launch(header, row.cells) and not moved else None
    return row


def _has_id(header: Header, cells: list[str]) -> bool:
    return is_id(cells[header.where["ID"]])


def _is_launch(header: Header, cells: list[str]) -> bool:
    """Whether the cells that identify a launch are such: those of another table, or moved ones, are not."""
    where = header.where
    if not _has_id(header, cells):
        return False
    numbers, sizes = ([cells[where[name]] for name in names if name in where] for names in (_NUMBERS, _SIZES))
    return all(is_id(cell) or is_missing(cell) for cell in numbers) and all(map(_is_size, sizes))


def _is_size(cell: str) -> bool:
    return cell.endswith(")") or is_id(cell) or is_missing(cell)


def _begins_a_row(header: Header, text: str) -> bool:
    """Whether it has an ID and a process; a list of numbers in the program's own output goes on with more of them."""
    cells = cells_of(text)
    numbers = [is_id(cell) for cell in cells[:3]]
    return header.layout is not Layout.SESSION and numbers[:2] == [True, True] and numbers[2:] != [True]
