"""The lines of a file as rows of quoted cells, whatever stands between them."""

import csv
import re
from collections.abc import Iterator

from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.text_lines import LONGEST_LINE, Lines

_LONGEST_ROW = 64  # lines; rule texts may be broken
_ROW_START = re.compile(r'"(?:\d+","\d+"|ID","|Process ID","|Domain",")')
_CELL = r'"[^"]*(?:""[^"]*)*"'
_LIKE_A_ROW = re.compile(rf'"\d*\Z|{_CELL},"')
_ROW_WITHIN = re.compile(rf'"\d+",{_CELL},{_CELL},"')
_HEADER_START = re.compile(r'"(?:ID|Process ID|Domain)","')
_QUOTED_CELLS = re.compile(rf"{_CELL}(?:,{_CELL})*")

csv.field_size_limit(LONGEST_LINE)


class Rows:
    """Lines joined to rows where a quoted cell holds a line break. A header whose quotes do not close is one as well.

    What the program printed in front of a row, without ending its line, is a line of its own. `damaged` counts rows
    whose quotes do not close; `cut` says whether the last one was such a row.
    """

    def __init__(self, file: TraceFile) -> None:
        self.lines = Lines(file)
        self.damaged = 0
        self.cut = False

    def __iter__(self) -> Iterator[str]:
        """Every row and every other line."""
        parts: list[str] = []
        for line in self.lines:
            text = line
            again = _ROW_START if _like_a_row(parts) else _LIKE_A_ROW
            if parts and (len(parts) >= _LONGEST_ROW or again.match(text)):
                if _HEADER_START.match(parts[0]):
                    yield parts[0]
                else:
                    self.damaged += _like_a_row(parts)
                parts = []
            if not text.startswith('"') and not _like_a_row(parts) and (found := _ROW_WITHIN.search(text)):
                parts = []
                yield text[: found.start()]
                text = text[found.start() :]
            if not parts and not (text.startswith('"') and text.count('"') % 2):
                yield text
                continue
            parts.append(text)
            if len(parts) > 1 and text.count('"') % 2:
                yield "\n".join(parts)
                parts = []
        self.cut = _like_a_row(parts)


def _like_a_row(parts: list[str]) -> bool:
    """Whether lines begin as a row does; a program prints quotes as well."""
    return bool(parts) and _LIKE_A_ROW.match(parts[0]) is not None


def without_tail(row: str) -> str:
    """A row of quoted cells without what a program printed behind it on its last line."""
    found = None if row.endswith('"') else _QUOTED_CELLS.match(row)
    return found[0] if found else row


def cells_of(row: str) -> list[str]:
    """The cells of a row; none where it is damaged: a lone end of a line in a bare cell, a cell without end."""
    try:
        return next(csv.reader([row]), [])
    except csv.Error:
        return []
