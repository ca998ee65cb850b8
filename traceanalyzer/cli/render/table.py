"""Answers for people on a terminal: aligned columns."""

from collections.abc import Sequence

from traceanalyzer.cells import cell, heading, printable, width_of
from traceanalyzer.cli.render.card import card
from traceanalyzer.cli.render.heat import heat_map
from traceanalyzer.cli.render.layout import Kind, Shown, are_figures, fit, fitted, laid_out, wrapped
from traceanalyzer.passes.answer import Answer, Frame
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.views import SENTENCES, columns_shown, frames_shown, view_of
from traceanalyzer.views.commands import command_line
from traceanalyzer.views.rows import cut, is_number
from traceanalyzer.views.view import View

INDENT = 4
NO_STACK = "(no stack: nothing was open, or the launch is not in the file)"
NO_NAME = "(no name)"


def as_terminal(
    answer: Answer,
    top: int,
    table: str | None,
    width: int,
    *,
    hints: bool = True,
    inputs: str = "",
    wrap: bool = False,
) -> str:
    """The answer as text for a terminal: notes, tables, findings, and commands worth running next.

    `inputs` is what the command line said of the store or the files, to be repeated in those commands. With
    `wrap` sentences are broken where they would not fit.
    """
    room = width if wrap else None
    parts = ["\n".join(_sentence(note, room) for note in answer.notes)]
    titled = table is None and len(answer.tables) > 1
    parts += [_terminal_table(answer, frame, top, width, titled, room) for frame in frames_shown(answer, table)]
    heat = view_of(answer).heat
    if table is None and heat is not None and heat[0] in answer.tables:
        parts.append(heat_map(answer.tables[heat[0]], heat[1], width))
    if table is None and view_of(answer).is_card:
        parts.insert(2, card(answer, width))
    if table is None:
        parts.append("\n".join(_sentence(f"- {finding.text}", room, "  ") for finding in answer.findings))
        parts.append(_hints(answer, inputs, room) if hints else "")
    return "\n\n".join(part for part in parts if part) + "\n"


def _sentence(text: str, room: int | None, indent: str = "") -> str:
    safe = printable(text)
    if room is None or width_of(safe) <= room:
        return safe
    return f"\n{indent}".join(wrapped(safe, max(room - len(indent), 1)))


def _hints(answer: Answer, inputs: str, room: int | None) -> str:
    if not any(len(frame) for frame in answer.tables.values()):
        return ""  # others have nothing to say either; a warning tells why
    said = {word for word in inputs.split() if word.startswith("--")}
    devices = answer.tables.get("devices")
    if devices is not None and "compute" in devices.columns.get("lane", ()):
        said.add("--lane")
    hints = [
        (printable(command_line(command.removeprefix("traceanalyzer "), inputs)), why)
        for command, why in view_of(answer).hints
        if said.isdisjoint(command.split())
    ]
    if not hints:
        return ""
    longest = max(len(command) for command, _ in hints)
    if room is not None and max(longest + 4 + len(why) for _, why in hints) > room:
        return "\n".join(["next:", *(f"  {command}\n      {why}" for command, why in hints)])
    return "\n".join(["next:", *(f"  {command:<{longest}}  {why}" for command, why in hints)])


def _terminal_table(answer: Answer, frame: Frame, top: int, width: int, titled: bool, room: int | None) -> str:
    rows = cut(frame, top)
    columns = columns_shown(answer, frame, rows)
    if not len(frame):
        return f"{printable(frame.spec.name)}: none"
    lines = [_sentence(f"{frame.spec.name}: {frame.spec.meaning}", room)] if titled else []
    view = view_of(answer)
    beneath = view.beneath.get(frame.spec.name)
    shown = {column.name: _shown(rows, column, view) for column in columns}
    below = shown.pop(beneath, None) if beneath is not None else None
    spare = [name for name in view.spare.get(frame.spec.name, ()) if name in shown]
    left_out = next((spare[:k] for k in range(len(spare) + 1) if fitted(_without(shown, spare[:k]), width)), [])
    head, body = laid_out(_without(shown, left_out), width)
    lines += head
    for k, row in enumerate(body):
        lines += row
        if below is not None:
            stack = below.cells[k]
            nothing = NO_STACK if beneath == "stack" else NO_NAME
            more = [fit(stack, width - INDENT)] if stack else wrapped(nothing, width - INDENT)
            lines += [" " * INDENT + line for line in more]
    notes = [f"(too narrow for: {', '.join(shown[name].head for name in left_out)})"] if left_out else []
    return "\n".join([*(line.rstrip() for line in lines), *_cut_off(frame, top), *notes])


def _without(shown: dict[str, Shown], names: Sequence[str]) -> list[Shown]:
    return [column for name, column in shown.items() if name not in names]


def _shown(rows: Frame, column: Column, view: View) -> Shown:
    """A column as it is printed."""
    cells = [cell(value, column, view.nulls.get(column.name, "")) for value in rows.columns[column.name]]
    number = is_number(rows, column)
    if number or column.type is Type.BOOL or are_figures(cells):
        kind = Kind.FIGURES
    else:
        kind = Kind.SENTENCES if column.name in SENTENCES else Kind.NAMES
    return Shown(printable(heading(column)), cells, kind, number)


def _cut_off(frame: Frame, top: int) -> list[str]:
    """The line that says that rows are missing. Questions are asked for one row more than is printed: where no more
    came, they may have left out others themselves.
    """
    more = len(frame) - top
    if not frame.spec.cut or not top or more <= 0:
        return []
    rows = "more rows" if more == 1 else f"{more:,} more rows"
    return [f"... {rows}; --top 0 lists all"]
