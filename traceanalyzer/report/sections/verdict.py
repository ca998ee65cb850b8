"""What limits the job, what it costs a step, and what to change first."""

from collections.abc import Iterator

from traceanalyzer.report.blocks import Block, Card
from traceanalyzer.report.figures import figures_of
from traceanalyzer.report.material import BESIDE_TIMELINES, Material
from traceanalyzer.report.sections.section import Section, findings_of, table_of


def blocks(material: Material) -> Iterator[Block]:
    """The verdicts as cards, what a step is made of, and the table of them."""
    answer = material.answer("checkup")
    rows = list(answer.tables["verdicts"].rows())
    if not material.has_timeline:
        for question in BESIDE_TIMELINES:
            yield from findings_of(material, material.answer(question), None)
    yield from figures_of(answer)
    yield from (Card(row, answer.language) for row in rows)
    if material.has_timeline:
        yield from findings_of(material, answer, None)
    for name in ("verdicts", "costs", "charges"):
        if len(answer.tables[name]):
            yield table_of(material, answer, name, folded=True, most=100)


SECTION = Section("verdict", "What limits the job", "Verdict", blocks, "No verdict: nothing was recorded.")
