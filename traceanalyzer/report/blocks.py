"""What a page is made of: blocks of text, tables and figures. They say what is shown; `page` and `markdown` say how."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from traceanalyzer.passes.answer import Answer, Finding, Frame


class Tone(StrEnum):
    """What a text is for: plain words, a warning, or what is missing and which capture would fill it."""

    PLAIN = "plain"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Findings:
    """Sentences of an answer, with the command that says them; `table` is the anchor of the table behind them."""

    findings: Sequence[Finding]
    command: str
    table: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a table of an answer, with the command that prints it.

    `most` is how many rows a list shows before it says how many more there are; totals are shown whole up to
    `MOST_TOTALS`. `is_cut` says that the question was asked for no more rows than there are. `title` stands in for the
    meaning of the table.
    """

    answer: Answer
    name: str
    command: str
    title: str | None = None
    most: int = 50
    folded: bool = False
    is_cut: bool = False

    @property
    def frame(self) -> Frame:
        """The rows."""
        return self.answer.tables[self.name]

    @property
    def anchor(self) -> str:
        """Where links to it point."""
        return anchor_of(self.answer.command, self.name)


def anchor_of(command: str, table: str) -> str:
    """The anchor of a table of a command."""
    return f"{command}-{table}"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure for plotly.js: traces and layout as it takes them, and the same in words for those who cannot see it.

    All text in it is a name or a sentence that is shown as it is, but for the values of `hovertemplate` and
    `texttemplate`, which are never made from names. `colors` of traces are names of `palette.PALETTE`.
    """

    name: str
    title: str
    words: str
    traces: Sequence[dict[str, Any]]
    layout: dict[str, Any] = field(default_factory=dict)
    height: int = 320
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands worth running, and why."""

    commands: Sequence[tuple[str, str]]
    title: str = "Next"


@dataclass(frozen=True, slots=True)
class Card:
    """A verdict with everything behind it: a row of the table `verdicts` of the check-up."""

    row: dict[str, Any]
    language: str


@dataclass(frozen=True, slots=True)
class Definitions:
    """Terms and what they mean."""

    rows: Sequence[tuple[str, str]]
    title: str | None = None


Block = Text | Findings | Table | Figure | Commands | Card | Definitions


@dataclass(frozen=True, slots=True)
class Built:
    """A section as it came out: anchor, title, the same in a word, blocks."""

    name: str
    title: str
    short: str
    blocks: Sequence[Block]

    @property
    def is_missing(self) -> bool:
        """Whether it only says which capture would fill it."""
        return all(isinstance(block, Text) and block.tone is Tone.MISSING for block in self.blocks)
