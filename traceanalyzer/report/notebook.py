"""Answers in notebooks: findings, figures and tables in a frame of their own, which needs no server and no extension."""

import base64
import gzip
import html

from traceanalyzer.passes.answer import Answer
from traceanalyzer.report.blocks import Block, Figure, Findings, Table
from traceanalyzer.report.figures import figures_of
from traceanalyzer.report.page import fragment
from traceanalyzer.views import frames_shown

MOST_ROWS = 20
_HEAD, _ROW, _LINE, _MOST_HEIGHT = 130, 30, 26, 900
"""Heights in pixels that a table, its rows and sentences take, and the most of all; more is scrolled to."""


def in_notebook(answer: Answer) -> str:
    """HTML of an answer, in a frame that nothing outside can reach, and that reaches nothing outside.

    plotly.js is packed into it where there are figures, since frames share nothing.
    """
    blocks: list[Block] = []
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
    height += _LINE * (len(answer.findings) + 2)
    inside = html.escape(fragment(answer.command, blocks, packed))
    return (
        f'<iframe srcdoc="{inside}" sandbox="allow-scripts" title="traceanalyzer {html.escape(answer.command)}"'
        f' style="width: 100%; height: {min(height, _MOST_HEIGHT)}px; border: 0"></iframe>'
    )


def packed(script: str) -> str:
    """A script that unpacks another one and runs it: half the size, in a page that is kept in a notebook."""
    data = base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode()
    return (
        f'window.unpacked=(async()=>{{const bytes=Uint8Array.from(atob("{data}"),(c)=>c.charCodeAt(0));'
        'const stream=new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));'
        'const text=await new Response(stream).text();const script=document.createElement("script");'
        "script.textContent=text;document.head.append(script);})();"
    )
