"""How values and names look to people, wherever they stand: on a terminal, in a page, in a notebook."""

import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from traceanalyzer.schema.column import Column
from traceanalyzer.units import Unit, format_value

ELLIPSIS = "…"
BETWEEN_FRAMES = " > "
_INSTANTS = frozenset({"start_ns", "end_ns", "t_ns"})
_IN_NAMES = {
    Unit.NS: ("ns", "time"),
    Unit.BYTES: ("bytes", "size"),
    Unit.PERCENT: ("pct", "percent"),
    Unit.GB_PER_S: ("gbs", "bandwidth"),
    Unit.BYTES_PER_S: ("bytes_per_s", "bandwidth"),
}
"""What names of columns end in by their unit, and what a name becomes that is nothing else."""


def printable(text: str) -> str:
    """The text with everything escaped that a terminal may act upon: control and format characters, such as escape
    sequences and changes of the writing direction, line separators and lone surrogates.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    if unicodedata.category(character) == "Zs":
        return " "
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cell(value: Any, column: Column, null: str = "") -> str | list[str]:
    """A value as people read it, safe to print; a list of text stays a list, so that it can be shortened by frames.

    `null` is what stands for null.
    """
    if value is None:
        return null
    if isinstance(value, (list, tuple)):
        return [printable(str(item)) for item in value]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column.name in _INSTANTS and isinstance(value, int):
        return str(value)
    if column.name == "path" and isinstance(value, str):
        return printable(from_here(value))
    return printable(format_value(value, column.unit))


def from_here(path: str) -> str:
    """The path from the working directory, where it lies in there."""
    return path.removeprefix(f"{Path.cwd()}{os.sep}")


def heading(column: Column) -> str:
    """Name of a column for people: without a unit that stands in its cells, with one that does not."""
    name = column.name
    if name in _INSTANTS or column.unit not in _IN_NAMES:
        return name
    suffix, bare = _IN_NAMES[column.unit]
    return bare if name == suffix else name.removesuffix(f"_{suffix}")


def printable_lines(text: str) -> str:
    """The same for text of several lines: line ends and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\r\t" else _escaped(c) for c in text)


def width_of(text: str) -> int:
    """Columns that the text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_width_of_character(c) for c in text)


def _width_of_character(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shortened(text: str, width: int) -> str:
    """The text in at most `width` columns, cut in its middle: both ends of a kernel's name tell something."""
    if width_of(text) <= width:
        return text
    head = (width - 1) // 2
    return first_columns(text, head) + ELLIPSIS + first_columns(text[::-1], width - 1 - head)[::-1]


def first_columns(text: str, width: int) -> str:
    """As much of the text from its beginning as takes at most `width` columns."""
    used = 0
    for position, character in enumerate(text):
        used += _width_of_character(character)
        if used > width:
            return text[:position]
    return text


def shortened_stack(frames: Sequence[str], width: int) -> str:
    """A stack in one line of at most `width` columns: outer frames are left out first, the innermost stays."""
    whole = BETWEEN_FRAMES.join(frames)
    if width_of(whole) <= width:
        return whole
    lead = ELLIPSIS + BETWEEN_FRAMES
    kept = ""
    for frame in reversed(frames):
        longer = frame + BETWEEN_FRAMES + kept if kept else frame
        if width_of(lead) + width_of(longer) > width:
            break
        kept = longer
    return lead + kept if kept else shortened(frames[-1], width)
