"""Answers for people: aligned columns on a terminal, and tables in Markdown."""

import html
from collections.abc import Sequence

from traceanalyzer.cli.render.text import BETWEEN_FRAMES, cell, heading, printable, shortened, shortened_stack, width_of
from traceanalyzer.cli.render.views import columns_shown, frames_shown, view_of
from traceanalyzer.passes.answer import Answer, Frame
from traceanalyzer.schema.column import Column, Type

GAP = "  "
NARROWEST = 12
INDENT = 4
NO_STACK = "(no stack: nothing was open, or the launch is not in the file)"
NO_NAME = "(no name)"
_NUMBERS = frozenset({Type.INT64, Type.INT32, Type.FLOAT64})
_MARKDOWN = str.maketrans({c: "\\" + c for c in "\\`*_[]|~!"} | {"@": "&#64;"})

Cell = str | list[str]


def as_terminal(
    answer: Answer, top: int, table: str | None, width: int, *, hints: bool = True, inputs: str = ""
) -> str:
    """The answer as text for a terminal: notes, tables, findings, and commands worth running next.

    `inputs` is what the command line said of the store or the files, to be repeated in those commands.
    """
    parts = ["\n".join(printable(note) for note in answer.notes)]
    titled = table is None and len(answer.tables) > 1
    parts += [_terminal_table(answer, frame, top, width, titled) for frame in frames_shown(answer, table)]
    if table is None:
        parts.append("\n".join(f"- {printable(finding.text)}" for finding in answer.findings))
        parts.append(_hints(answer, inputs) if hints else "")
    return "\n\n".join(part for part in parts if part) + "\n"


def _hints(answer: Answer, inputs: str) -> str:
    if not any(len(frame) for frame in answer.tables.values()):
        return ""  # others have nothing to say either; a warning tells why
    hints = [(f"{command} {printable(inputs)}".rstrip(), why) for command, why in view_of(answer).hints]
    if not hints:
        return ""
    longest = max(len(command) for command, _ in hints)
    return "\n".join(["next:", *(f"  {command:<{longest}}  {why}" for command, why in hints)])


def _terminal_table(answer: Answer, frame: Frame, top: int, width: int, titled: bool) -> str:
    rows = cut(frame, top)
    columns = columns_shown(answer, frame, rows)
    if not len(frame):
        return f"{printable(frame.spec.name)}: none"
    lines = [f"{printable(frame.spec.name)}: {printable(frame.spec.meaning)}"] if titled else []
    beneath = view_of(answer).beneath.get(frame.spec.name)
    if beneath is not None:
        below = [cell(value, column) for column in columns if column.name == beneath for value in rows.columns[beneath]]
        columns = [column for column in columns if column.name != beneath]
    cells = [[cell(value, column) for value in rows.columns[column.name]] for column in columns]
    heads = [printable(heading(column)) for column in columns]
    table = aligned(heads, cells, [_is_number(rows, column) for column in columns], width)
    if beneath is not None and below:
        indent, stacks = " " * INDENT, beneath == "stack"
        table[1:] = [
            text
            for row, more in zip(table[1:], below, strict=True)
            for text in (row, indent + (_fit(more, width - INDENT) if more else NO_STACK if stacks else NO_NAME))
        ]
    lines += [line.rstrip() for line in table]
    return "\n".join([*lines, *_cut_off(answer, frame, top)])


def _cut_off(answer: Answer, frame: Frame, top: int) -> list[str]:
    """The line that says that rows may be missing. A question that cut its rows itself does not tell how many."""
    if not frame.spec.cut or not 0 < top <= len(frame):
        return []
    if len(frame) > top:
        return [f"... {len(frame) - top:,} more rows; --top 0 lists all"]
    said = any("--top 0" in warning for warning in answer.warnings)
    return [] if said or answer.command == "sql" else [f"... the first {top:,} rows; --top 0 lists all"]


def _is_number(frame: Frame, column: Column) -> bool:
    """Whether a column is to be aligned to the right and never shortened; columns of `sql` only show it by values."""
    values = [value for value in frame.columns[column.name] if value is not None]
    return column.type in _NUMBERS or (bool(values) and all(isinstance(value, (int, float)) for value in values))


def cut(frame: Frame, top: int) -> Frame:
    """The first `top` rows of a table that may be cut; totals stay whole."""
    return frame.head(top) if frame.spec.cut else frame


def aligned(heads: Sequence[str], cells: Sequence[Sequence[Cell]], right: Sequence[bool], width: int) -> list[str]:
    """Lines of a table: a heading, then rows; numbers to the right, long text shortened so that lines fit `width`."""
    natural = [
        max([width_of(h), *(width_of(_plain(v)) for v in column)]) for h, column in zip(heads, cells, strict=True)
    ]
    widths = fitted(natural, [max(width_of(h), NARROWEST) for h in heads], right, width)
    lines = [_line(heads, right, widths)]
    lines += [
        _line([_fit(value, w) for value, w in zip(row, widths, strict=True)], right, widths)
        for row in zip(*cells, strict=True)
    ]
    return lines


def fitted(natural: Sequence[int], least: Sequence[int], fixed: Sequence[bool], width: int) -> list[int]:
    """Widths of columns that fit a line of `width`: the widest text column gives first, none less than its least."""
    widths = list(natural)
    over = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while over > 0:
        able = [i for i, w in enumerate(widths) if not fixed[i] and w > least[i]]
        if not able:
            break
        widest = max(able, key=lambda i: widths[i])
        widths[widest] -= 1
        over -= 1
    return widths


def _plain(value: Cell) -> str:
    return value if isinstance(value, str) else BETWEEN_FRAMES.join(value)


def _fit(value: Cell, width: int) -> str:
    return shortened(value, width) if isinstance(value, str) else shortened_stack(value, width)


def _line(texts: Sequence[str], right: Sequence[bool], widths: Sequence[int]) -> str:
    padded = []
    for text, to_right, width in zip(texts, right, widths, strict=True):
        space = " " * (width - width_of(text))
        padded.append(space + text if to_right else text + space)
    return GAP.join(padded).rstrip()


def as_markdown(answer: Answer, top: int, table: str | None) -> str:
    """One table as GitHub-flavoured Markdown: the columns that people see, names whole, no markup out of names."""
    frame = answer.table(table)
    rows = cut(frame, top)
    columns = columns_shown(answer, frame, rows)
    lines = [
        "| " + " | ".join(_markdown(heading(column)) for column in columns) + " |",
        "|" + "|".join(" ---: " if _is_number(rows, column) else " --- " for column in columns) + "|",
    ]
    lines += [
        "| " + " | ".join(_markdown(_plain(cell(row[column.name], column))) for column in columns) + " |"
        for row in rows.rows()
    ]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    return html.escape(printable(text), quote=False).translate(_MARKDOWN)
