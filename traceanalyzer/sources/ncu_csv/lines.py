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
    """Lines joined to rows where a quoted cell holds a line break.

    `damaged` counts rows whose quotes do not close; `cut` says whether the last one was such a row.
    """

    def __init__(self, file: TraceFile) -> None:
        self.lines = Lines(file)
        self.damaged = 0
        self.cut = False

    def __iter__(self) -> Iterator[str]:
        """Every row and every other line."""
        parts: list[str] = []
        for line in self.lines:
            if parts and (len(parts) >= _LONGEST_ROW or _ROW_START.match(line)):
                self.damaged += 1
                parts = []
            if not parts and not (line.startswith('"') and line.count('"') % 2):
                yield line
                continue
            parts.append(line)
            if len(parts) > 1 and line.count('"') % 2:
                yield "\n".join(parts)
                parts = []
        self.cut = bool(parts)


def cells_of(row: str) -> list[str]:
    """The cells of a row; none where it is damaged: a lone end of a line in a bare cell, a cell without end."""
    try:
        return next(csv.reader([row]), [])
    except csv.Error:
        return []
