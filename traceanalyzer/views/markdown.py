"""Tables as Markdown of GitHub: names whole, and no markup out of names."""

import html
from collections.abc import Iterable, Sequence

from traceanalyzer.cells import BETWEEN_FRAMES, cell, heading, printable
from traceanalyzer.passes.answer import Answer, Frame
from traceanalyzer.views import columns_shown, view_of
from traceanalyzer.views.rows import cut, is_number

_ESCAPES = str.maketrans({c: "\\" + c for c in "\\`*_[]|~!"} | {"@": "&#64;"})


def as_markdown(answer: Answer, top: int, table: str | None) -> str:
    """One table of an answer: the columns that people see."""
    return markdown_table(answer, cut(answer.table(table), top))


def markdown_table(answer: Answer, rows: Frame) -> str:
    """Rows of a table of an answer."""
    columns = columns_shown(answer, rows, rows)
    nulls = view_of(answer).nulls
    cells = [
        [cell(value, column, nulls.get(column.name, "")) for value in rows.columns[column.name]] for column in columns
    ]
    texts = [[each if isinstance(each, str) else BETWEEN_FRAMES.join(each) for each in column] for column in cells]
    heads = [(heading(column), is_number(rows, column)) for column in columns]
    return as_rows(heads, zip(*texts, strict=True))


def as_rows(heads: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts below headings, each with whether its column is to be aligned to the right."""
    lines = [
        "| " + " | ".join(escaped(head) for head, _ in heads) + " |",
        "|" + "|".join(" ---: " if right else " --- " for _, right in heads) + "|",
    ]
    lines += ["| " + " | ".join(map(escaped, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """A text that Markdown shows as it is."""
    return html.escape(printable(text), quote=False).translate(_ESCAPES)


def code(text: str) -> str:
    """A text in the type of code: longer runs of backticks around it than in it."""
    safe = printable(text)
    fence = "`"
    while fence in safe:
        fence += "`"
    space = " " if "`" in safe else ""
    return f"{fence}{space}{safe}{space}{fence}"
