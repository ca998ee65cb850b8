"""The file as lines of text and as rows of quoted cells, whatever stands between them."""

import codecs
import csv
import re
from collections.abc import Iterator

from traceanalyzer.sources.files import TraceFile

_LONGEST_LINE = 1 << 24
_LONGEST_ROW = 64  # lines; rule texts may be broken
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_ROW_START = re.compile(r'"(?:\d+","\d+"|ID","|Process ID","|Domain",")')
_CELL = r'"[^"]*(?:""[^"]*)*"'
_LIKE_A_ROW = re.compile(rf'"\d*\Z|{_CELL},"')
_ROW_WITHIN = re.compile(rf'"\d+",{_CELL},{_CELL},"')
_HEADER_START = re.compile(r'"(?:ID|Process ID|Domain)","')
_QUOTED_CELLS = re.compile(rf"{_CELL}(?:,{_CELL})*")

csv.field_size_limit(_LONGEST_LINE)


class Lines:
    """The lines of a file, without their ends. `cut` says after reading whether the last one had no end."""

    def __init__(self, file: TraceFile) -> None:
        self._file = file
        self.cut = False
        self.too_long = 0

    def __iter__(self) -> Iterator[str]:
        """Every line, in order; one that is absurdly long is counted and left out."""
        rest, skipping = b"", False
        for block in _in_utf8(self._file):
            whole, mark, tail = (rest + block).rpartition(b"\n")
            rest = tail
            if mark:
                lines = whole.split(b"\n")
                yield from map(_text, lines[1:] if skipping else lines)
                skipping = False
            if len(rest) > _LONGEST_LINE:
                self.too_long += not skipping
                rest, skipping = b"", True
        if rest and not skipping:
            self.cut = True
            yield _text(rest)


def _in_utf8(file: TraceFile) -> Iterator[bytes]:
    """The content without its mark of byte order; UTF-16, as a shell on Windows writes it, is turned into UTF-8."""
    encoding = _UTF16.get(file.head[:2])
    if encoding is not None:
        decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        for number, block in enumerate(file.blocks()):
            text = decoder.decode(block)
            yield (text.removeprefix("\ufeff") if number == 0 else text).encode("utf-8", "replace")
        return
    for number, block in enumerate(file.blocks()):
        yield block.removeprefix(codecs.BOM_UTF8) if number == 0 else block


def _text(line: bytes) -> str:
    line = line.removesuffix(b"\r")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")  # a locale of one byte a character: its blanks group thousands


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
