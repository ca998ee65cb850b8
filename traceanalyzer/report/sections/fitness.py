"""What the captures cannot tell, or tell wrong, and which capture would tell it."""

from collections.abc import Iterator

from traceanalyzer.report.blocks import Block, Text, Tone
from traceanalyzer.report.material import Material
from traceanalyzer.report.sections.section import Section, table_of


def blocks(material: Material) -> Iterator[Block]:
    """Warnings of all answers, what to capture next, checks of the captures, and which questions they answer."""
    checkup, info = material.answer("checkup"), material.answer("info")
    yield from (Text(text, Tone.WARNING) for text in material.warnings)
    if len(checkup.tables["next"]):
        yield table_of(material, checkup, "next")
    for name in ("fitness", "answers", "quality"):
        if len(info.tables[name]):
            yield table_of(material, info, name, folded=True, most=200)


SECTION = Section(
    "fitness", "What weakens this, and what could not be answered", "Open questions", blocks, "Nothing was captured."
)
