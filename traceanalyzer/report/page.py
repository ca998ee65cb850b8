"""The report as one HTML file: nothing is fetched, and names are only ever text."""

import functools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from traceanalyzer.cells import cell, heading, shortened, shortened_stack
from traceanalyzer.checkup.evidence import figure_of_evidence, question_of
from traceanalyzer.checkup.messages import Messages
from traceanalyzer.passes.answer import Frame
from traceanalyzer.report.across import SUFFIX
from traceanalyzer.report.blocks import (
    Block,
    Built,
    Card,
    Commands,
    Definitions,
    Figure,
    Findings,
    Table,
    Text,
    anchor_of,
)
from traceanalyzer.report.rendering import asset, drawing, figure_json, inlined, template
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit, counted, format_value
from traceanalyzer.views import SENTENCES, columns_shown, view_of
from traceanalyzer.views.rows import is_number

LONGEST_NAME = 64
"""Characters of a name or stack; of a longer one the whole is shown on demand."""
MOST_TOTALS = 200
"""Rows of totals, which commands never cut: of a job with more ranks the figures and the command tell the rest."""
MOST_FINDINGS = 8
"""Sentences that are shown at once; the others on demand."""
_NAMES = (
    *("kernel", "family", "op", "operation", "module", "range", "metric", "reading", "blame", "cause", "category"),
    *("part", "verdict", "question", "check", "code", "fact", "class"),
)
"""Columns that say what a row is about: they come first, since a page has no line beneath a row."""
_NULLS = {"class": "not known", "blame": "(no code of yours)"}


@dataclass(frozen=True, slots=True)
class Lead:
    """A verdict in a line, at the top of the page."""

    cost: str
    title: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Head:
    """What stands at the top of the page, before any section."""

    title: str
    headline: str
    cost: str | None
    notes: Sequence[str]
    made_from: Sequence[str]
    leads: Sequence[Lead]
    first_change: str | None
    doubt: str | None
    language: str
    version: str
    made: str
    command: str
    command_note: str | None
    left_out: Sequence[str]


def page(head: Head, sections: Sequence[Built]) -> str:
    """The whole page."""
    links = _Links(sections)
    shown = [
        {
            "name": section.name,
            "title": section.title,
            "short": section.short,
            "empty": section.is_missing,
            "blocks": [_block(block, links) for block in section.blocks],
        }
        for section in sections
    ]
    has_figures = any(isinstance(block, Figure) for section in sections for block in section.blocks)
    rendered: str = template("page.html").render(
        page={
            **{name: getattr(head, name) for name in Head.__slots__},
            "sections": shown,
            "css": inlined(asset("page.css")),
            "js": inlined(asset("page.js")),
            "plotly": drawing() if has_figures else "",
        }
    )
    return rendered


def fragment(title: str, blocks: Sequence[Block]) -> str:
    """A small page of some blocks."""
    links = _Links([Built("answer", title, title, blocks)])
    has_figures = any(isinstance(block, Figure) for block in blocks)
    rendered: str = template("fragment.html").render(
        page={
            "title": title,
            "blocks": [_block(block, links) for block in blocks],
            "css": inlined(asset("page.css")),
            "js": inlined(asset("page.js")),
            "plotly": drawing() if has_figures else "",
        }
    )
    return rendered


class _Links:
    """Where in the page the rows are that evidence names, and which rows have to be shown for that."""

    def __init__(self, sections: Sequence[Built]) -> None:
        blocks = [block for section in sections for block in section.blocks]
        self._frames = {block.anchor: block.frame for block in blocks if isinstance(block, Table)}
        self._findings = {
            _finding_anchor(question_of(block.command), finding.code)
            for block in blocks
            if isinstance(block, Findings)
            for finding in block.findings
        }
        self.wanted: dict[str, set[int]] = {}
        self.given: set[str] = set()  # anchors of sentences: of several with one code, and of repeated ones, the first
        for block in blocks:
            if isinstance(block, Card):
                for evidence in block.row["evidence"]:
                    self._want(evidence)

    def to(self, evidence: dict[str, Any]) -> str | None:
        """The anchor of the row behind a figure; None where the page has no such table."""
        question = question_of(evidence["command"])
        if evidence["table"] == "findings":
            anchor = _finding_anchor(question, str(evidence["row"].get("code")))
            return anchor if anchor in self._findings else None
        anchor = anchor_of(question, evidence["table"])
        if anchor not in self._frames:
            return None
        place = self._place(anchor, evidence["row"])
        return anchor if place is None else f"{anchor}-r{place}"

    def _want(self, evidence: dict[str, Any]) -> None:
        anchor = anchor_of(question_of(evidence["command"]), evidence["table"])
        if anchor in self._frames and (place := self._place(anchor, evidence["row"])) is not None:
            self.wanted.setdefault(anchor, set()).add(place)

    def _place(self, anchor: str, row: dict[str, Any]) -> int | None:
        frame = self._frames[anchor]
        columns = frame.columns
        if not row:
            return 0 if len(frame) == 1 else None
        if not set(row) <= set(columns):
            return None
        wanted = tuple(row.values())
        cells = zip(*(columns[name] for name in row), strict=True)
        return next((k for k, values in enumerate(cells) if values == wanted), None)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", ":")) else f"{text}."


def _finding_anchor(question: str, code: str) -> str:
    return f"finding-{question}-{code}"


@functools.singledispatch
def _block(block: Block, links: _Links) -> dict[str, Any]:  # noqa: ARG001
    """What the template needs to know of a block."""
    raise TypeError(f"no way to show a {type(block).__name__}")


@_block.register
def _(block: Text, links: _Links) -> dict[str, Any]:  # noqa: ARG001
    return {"kind": "text", "tone": block.tone.value, "text": block.text}


@_block.register
def _(block: Findings, links: _Links) -> dict[str, Any]:
    question, rows = question_of(block.command), []
    for each in block.findings:
        anchor = _finding_anchor(question, each.code)
        rows.append({"text": each.text, "anchor": None if anchor in links.given else anchor})
        links.given.add(anchor)
    return {
        "kind": "findings",
        "rows": rows[:MOST_FINDINGS],
        "more": rows[MOST_FINDINGS:],
        "command": block.command,
        "table": block.table,
    }


@_block.register
def _(block: Commands, links: _Links) -> dict[str, Any]:  # noqa: ARG001
    return {"kind": "commands", "title": block.title, "commands": block.commands}


@_block.register
def _(block: Definitions, links: _Links) -> dict[str, Any]:  # noqa: ARG001
    return {"kind": "definitions", "title": block.title, "rows": block.rows}


@_block.register
def _(block: Figure, links: _Links) -> dict[str, Any]:  # noqa: ARG001
    return {
        "kind": "figure",
        "anchor": block.name,
        "title": block.title,
        "words": " ".join(_sentence(text) for text in (block.words, block.note) if text),
        "height": block.height,
        "json": figure_json(block),
    }


@_block.register
def _(block: Card, links: _Links) -> dict[str, Any]:
    row, messages = block.row, Messages(block.language)
    groups = []
    for command, each in groupby(row["evidence"], key=lambda evidence: str(evidence["command"])):
        figures = [{"text": figure_of_evidence(one, messages), "link": links.to(one)} for one in each]
        groups.append({"command": command, "figures": figures})
    return {
        "kind": "card",
        "anchor": card_anchor(row),
        "card_kind": "costly" if row["cost_ns"] else "free",
        **{name: row[name] for name in ("order", "verdict", "title", "confidence", "advice", "experiment", "remarks")},
        "cost": cost_of(row),
        "share": None if not row["share"] else f"{format_value(row['share'], Unit.SHARE)} of the step",
        "evidence": groups,
        "labels": {name: messages.text(f"card.{name}") for name in ("evidence", "experiment", "advice", "remarks")},
    }


@_block.register
def _(block: Table, links: _Links) -> dict[str, Any]:
    answer, frame = block.answer, block.frame
    most = block.most if frame.spec.cut else max(MOST_TOTALS, block.most)
    places = sorted({*range(min(most, len(frame))), *links.wanted.get(block.anchor, ())})
    part = Frame(frame.spec, {name: [values[k] for k in places] for name, values in frame.columns.items()})
    columns = sorted(columns_shown(answer, frame, part), key=_place)
    nulls = _NULLS | view_of(answer).nulls
    numbers = {column.name: column.type is not Type.BOOL and is_number(part, column) for column in columns}
    return {
        "kind": "table",
        "anchor": block.anchor,
        "question": answer.command,
        "name": block.name,
        **_titles(block),
        "command": block.command,
        "folded": block.folded,
        "derived": block.name.endswith(SUFFIX),
        "count": len(places),
        "size": ("the first " if block.is_cut else "") + counted(len(frame), "row"),
        "more": _more(len(places), frame, block.command),
        "columns": [
            {
                "name": column.name,
                "heading": heading(column),
                "meaning": column.meaning,
                "is_number": numbers[column.name],
                "is_sentence": column.name in SENTENCES,
            }
            for column in columns
        ],
        "rows": [
            {
                "place": place,
                "cells": [_cell(part.columns[c.name][k], c, numbers[c.name], nulls.get(c.name, "")) for c in columns],
            }
            for k, place in enumerate(places)
        ],
    }


def _place(column: Column) -> int:
    return _NAMES.index(column.name) if column.name in _NAMES else len(_NAMES)


def _titles(block: Table) -> dict[str, str]:
    """Title of a table, and what else is to say of it: the parts of its meaning."""
    meaning = block.frame.spec.meaning
    if block.title is not None:
        return {"title": block.title, "meaning": meaning}
    title, _, rest = re.sub(r"; |(?<=.{20}): ", "\0", meaning, count=1).partition("\0")
    return {"title": title.rstrip("."), "meaning": rest[:1].upper() + rest[1:]}


def _more(shown: int, frame: Frame, command: str) -> str | None:
    """Says that there are more rows than are shown, and what prints them. Lists may be cut by the question itself."""
    if shown >= len(frame):
        return None
    how = f"{command} --top 0" if frame.spec.cut else command
    return f"{shown:,} rows are shown, those that come first; there are more: {how} lists all."


def _cell(value: Any, column: Column, number: bool, null: str) -> dict[str, Any]:
    text = cell(value, column, null)
    whole = text if isinstance(text, str) else " > ".join(text)
    short = whole
    if len(whole) > LONGEST_NAME and not number and column.name not in SENTENCES:
        short = shortened(text, LONGEST_NAME) if isinstance(text, str) else shortened_stack(text, LONGEST_NAME)
    exact = (int(value) if isinstance(value, bool) else value) if isinstance(value, (int, float)) else None
    if isinstance(exact, float) and not math.isfinite(exact):
        exact, short = None, null  # as in JSON
    return {
        "short": short,
        "full": whole if short != whole else None,
        "value": exact,
        "is_number": number,
    }


def cost_of(row: dict[str, Any]) -> str:
    """The cost of a verdict in words."""
    if row["cost_ns"] is None:
        return "cost not known" if row["verdict"] == "unknown" else "a risk"
    return format_value(row["cost_ns"], Unit.NS) + " a step" if row["cost_ns"] else "no cost of its own"


def card_anchor(row: dict[str, Any]) -> str:
    """The anchor of a verdict."""
    return f"verdict-{row['order']}"
