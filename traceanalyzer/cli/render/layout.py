"""How columns share the width of a terminal.

Figures are never cut. Sentences wrap onto more lines, headings break at their underscores, and long names are
shortened, in that order, until a row fits. Where it does not fit even so, each row becomes lines of `heading value`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from traceanalyzer.cells import BETWEEN_FRAMES, first_columns, shortened, shortened_stack, width_of

GAP = "  "
WIDE_SENTENCE = 40
"""Columns that a sentence keeps before headings are broken."""
NARROWEST = 24
"""Columns that a sentence or a name keeps; shorter ones stay whole."""
NARROWEST_IN_RECORD = 8

Cell = str | list[str]
_FIGURES = re.compile(r"[\d\s(),.:x+-]*\d[\d\s(),.:x+-]*")


class Kind(Enum):
    """What a column holds: figures stay whole, names may be shortened, sentences wrap."""

    FIGURES = auto()
    NAMES = auto()
    SENTENCES = auto()


@dataclass(frozen=True, slots=True)
class Shown:
    """A column that is to be printed: its heading, its cells, and where they stand."""

    head: str
    cells: Sequence[Cell]
    kind: Kind
    right: bool = False

    @property
    def widest_cell(self) -> int:
        """Columns that its widest cell takes."""
        return max((width_of(plain(value)) for value in self.cells), default=0)

    @property
    def narrowest_head(self) -> int:
        """Columns that its heading takes where it is broken at every underscore."""
        return max(width_of(part) for part in _parts(self.head))


def are_figures(values: Sequence[Cell]) -> bool:
    """Whether texts are figures, such as sizes `(256, 1, 1)`; empty ones are nothing."""
    told = [value for value in values if value]
    return bool(told) and all(isinstance(value, str) and _FIGURES.fullmatch(value) for value in told)


def laid_out(columns: Sequence[Shown], width: int) -> tuple[list[str], list[list[str]]]:
    """Lines of the heading, and of each row. Without a heading each row names its values itself."""
    widths = fitted(columns, width)
    rows = list(zip(*(column.cells for column in columns), strict=True))
    if widths is None:
        return [], [_record(columns, row, width) for row in rows]
    heads = [_broken(column.head, w) for column, w in zip(columns, widths, strict=True)]
    most = max(map(len, heads), default=0)
    padded = [[""] * (most - len(lines)) + lines for lines in heads]  # the last lines stand above the values
    return _lines(columns, padded, widths), [_lines(columns, _fit_row(columns, row, widths), widths) for row in rows]


def fitted(columns: Sequence[Shown], width: int) -> list[int] | None:
    """Widths with which a row fits into `width`; None where there are none."""
    widths = [max(width_of(column.head), column.widest_cell) for column in columns]
    over = sum(widths) + len(GAP) * (len(widths) - 1) - width
    for stage in (_sentences_wrap, _headings_break, _names_give):
        least = [stage(column) for column in columns]
        while over > 0:
            able = [i for i, w in enumerate(widths) if w > least[i]]
            if not able:
                break
            widest = max(able, key=lambda i: widths[i])
            widths[widest] -= 1
            over -= 1
    return widths if over <= 0 else None


def _sentences_wrap(column: Shown) -> int:
    whole = max(width_of(column.head), column.widest_cell)
    return max(width_of(column.head), min(whole, WIDE_SENTENCE)) if column.kind is Kind.SENTENCES else whole


def _headings_break(column: Shown) -> int:
    cells = min(column.widest_cell, WIDE_SENTENCE) if column.kind is Kind.SENTENCES else column.widest_cell
    return max(column.narrowest_head, cells)


def _names_give(column: Shown) -> int:
    cells = column.widest_cell if column.kind is Kind.FIGURES else min(column.widest_cell, NARROWEST)
    return max(column.narrowest_head, cells)


def plain(value: Cell) -> str:
    """A cell as one text."""
    return value if isinstance(value, str) else BETWEEN_FRAMES.join(value)


def fit(value: Cell, width: int) -> str:
    """A name or a stack in at most `width` columns."""
    return shortened(value, width) if isinstance(value, str) else shortened_stack(value, width)


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns, broken between words; a word that is too long is broken inside."""
    lines = [""]
    for word in text.split():
        rest = word
        if lines[-1] and width_of(lines[-1]) + 1 + width_of(rest) <= width:
            lines[-1] += f" {rest}"
            continue
        if lines[-1]:
            lines.append("")
        while width_of(rest) > width:
            head = first_columns(rest, width) or rest[0]
            lines[-1], rest = head, rest[len(head) :]
            lines.append("")
        lines[-1] = rest
    return [line for line in lines if line] or [""]


def _parts(head: str) -> list[str]:
    """A heading, cut behind its underscores."""
    return re.findall(r"[^_]*_|[^_]+", head) or [head]


def _broken(head: str, width: int) -> list[str]:
    lines = [""]
    for part in _parts(head):
        if lines[-1] and width_of(lines[-1]) + width_of(part) > width:
            lines.append("")
        lines[-1] += part
    return lines


def _fit_row(columns: Sequence[Shown], row: Sequence[Cell], widths: Sequence[int]) -> list[list[str]]:
    """The lines of each cell of a row."""
    return [
        wrapped(plain(value), w) if column.kind is Kind.SENTENCES else [fit(value, w)]
        for column, value, w in zip(columns, row, widths, strict=True)
    ]


def _lines(columns: Sequence[Shown], cells: Sequence[list[str]], widths: Sequence[int]) -> list[str]:
    """Lines of a row whose cells are lines."""
    out = []
    for k in range(max(map(len, cells), default=0)):
        padded = []
        for column, lines, width in zip(columns, cells, widths, strict=True):
            text = lines[k] if k < len(lines) else ""
            space = " " * (width - width_of(text))
            padded.append(space + text if column.right else text + space)
        out.append(GAP.join(padded).rstrip())
    return out


def _record(columns: Sequence[Shown], row: Sequence[Cell], width: int) -> list[str]:
    """A row as lines of `heading value`, as many in a line as fit; sentences come last, in lines of their own."""
    room = width - len(GAP)
    lines: list[str] = []
    sentences: list[str] = []
    for column, value in zip(columns, row, strict=True):
        text = plain(value)
        if not text:
            continue
        if column.kind is Kind.SENTENCES:
            sentences += wrapped(f"{column.head}: {text}", room)
            continue
        if column.kind is Kind.NAMES:
            text = fit(value, max(room - width_of(column.head) - 1, NARROWEST_IN_RECORD))
        pair = f"{column.head} {text}"
        if lines and width_of(lines[-1]) + len(GAP) + width_of(pair) <= width:
            lines[-1] += GAP + pair
        else:
            lines.append(GAP + pair if lines else pair)
    return lines + [GAP + line for line in sentences] or ["(null)"]
