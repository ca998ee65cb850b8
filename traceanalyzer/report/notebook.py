"""Answers in notebooks: findings, figures and tables in a frame of their own, without a server or an extension."""

import html

from traceanalyzer.passes.answer import Answer
from traceanalyzer.report.blocks import Block, Card, Figure, Findings, Table
from traceanalyzer.report.figures import figures_of
from traceanalyzer.report.page import fragment
from traceanalyzer.views import frames_shown

MOST_ROWS = 20
_CARD, _HEAD, _ROW, _LINE, _MOST_HEIGHT = 420, 130, 30, 26, 1_400
"""Heights in pixels that a table, its rows and sentences take, and the most of all; more is scrolled to."""


def in_notebook(answer: Answer) -> str:
    """HTML of an answer, in a frame that nothing outside can reach, and that reaches nothing outside.

    plotly.js is in it where there are figures, since frames share nothing.
    """
    blocks: list[Block] = []
    if answer.command == "checkup":
        blocks += [Card(row, answer.language) for row in answer.tables["verdicts"].rows()]
    if answer.findings:
        blocks.append(Findings(answer.findings, f"traceanalyzer {answer.command}"))
    blocks += figures_of(answer)
    frames = [frame for frame in frames_shown(answer, None) if len(frame)]
    blocks += [
        Table(answer, frame.spec.name, f"traceanalyzer {answer.command} --table {frame.spec.name}", most=MOST_ROWS)
        for frame in frames
    ]
    rows = sum(min(len(frame), MOST_ROWS) * _ROW + _HEAD for frame in frames)
    height = rows + sum(block.height + _HEAD for block in blocks if isinstance(block, Figure))
    height += _CARD * sum(isinstance(block, Card) for block in blocks)
    height += _LINE * (len(answer.findings) + 2)
    inside = html.escape(fragment(answer.command, blocks))
    return (
        f'<iframe srcdoc="{inside}" sandbox="allow-scripts" title="traceanalyzer {html.escape(answer.command)}"'
        f' style="width: 100%; height: {min(height, _MOST_HEIGHT)}px; border: 0; resize: vertical"></iframe>'
    )
