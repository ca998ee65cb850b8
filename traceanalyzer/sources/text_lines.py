"""A file as lines of text, whatever its encoding, in bounded memory."""

import codecs
from collections.abc import Iterator

from traceanalyzer.sources.files import TraceFile

LONGEST_LINE = 1 << 24
"""Longer lines are left out: nothing that is read by lines has such."""

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


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
            if len(rest) > LONGEST_LINE:
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
