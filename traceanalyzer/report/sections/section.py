"""What a section is: a title, and blocks made from answers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from traceanalyzer.passes.answer import Answer
from traceanalyzer.report.across import together
from traceanalyzer.report.blocks import Block, Built, Findings, Table, Text, Tone, anchor_of
from traceanalyzer.report.figures import figures_of
from traceanalyzer.report.material import Material
from traceanalyzer.views import frames_shown

FEW_DEVICES = 8
"""Of more devices, tables with a row for each device and part are told as one row a part."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the report: its anchor, its title, the same in a word for the list of sections.

    `missing` says in one line which capture would fill it, where `blocks` makes none.
    """

    name: str
    title: str
    short: str
    blocks: Callable[[Material], Iterable[Block]]
    missing: str

    def built(self, material: Material) -> Built:
        """The section as it comes out of some answers."""
        blocks = list(self.blocks(material))
        return Built(self.name, self.title, self.short, blocks or [Text(self.missing, Tone.MISSING)])


def whole_answer(
    material: Material,
    question: str,
    *,
    tables: Sequence[str] = (),
    folded: Sequence[str] = (),
) -> Iterator[Block]:
    """Findings, figures and tables of an answer; nothing where none of its tables has a row.

    `tables` picks tables and their order, in place of those that people see on a terminal; `folded` are shown on
    demand. Of many devices, tables of `OVER_DEVICES` are told as one row a part, and device by device on demand.
    """
    answer = material.answer(question)
    names = tables or ([] if folded else [frame.spec.name for frame in frames_shown(answer, None)])
    shown = [name for name in [*names, *folded] if name in answer.tables and len(answer.tables[name])]
    if not shown:
        return
    yield from findings_of(material, answer, shown[0])
    yield from figures_of(answer)
    many = len(material.scope.devices) > FEW_DEVICES
    for name in shown:
        told = together(material, answer, name) if many else None
        if told is not None:
            yield Table(told, told.table().spec.name, command_of(material, answer, name), folded=name in folded)
        yield table_of(material, answer, name, folded=name in folded or told is not None)


def findings_of(material: Material, answer: Answer, table: str | None) -> Iterator[Findings]:
    """What an answer finds, beside the command that says it and the table behind it."""
    if answer.findings:
        anchor = None if table is None else anchor_of(answer.command, table)
        yield Findings(answer.findings, material.command(answer.command), anchor)


def table_of(
    material: Material, answer: Answer, name: str, title: str | None = None, *, folded: bool = False, most: int = 50
) -> Table:
    """A table of an answer, beside the command that prints it."""
    is_cut = material.is_cut(answer, name)
    return Table(answer, name, command_of(material, answer, name), title, most=most, folded=folded, is_cut=is_cut)


def command_of(material: Material, answer: Answer, name: str) -> str:
    """The command that prints a table of an answer."""
    words = answer.command if name == answer.table().spec.name else f"{answer.command} --table {name}"
    return material.command(words)
