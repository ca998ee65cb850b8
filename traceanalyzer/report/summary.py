"""A report in short: Markdown for issues and pull requests, and tables for programs."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from traceanalyzer.checkup.evidence import figure_of_evidence
from traceanalyzer.checkup.messages import Messages
from traceanalyzer.passes.answer import Answer, Frame
from traceanalyzer.report.across import together
from traceanalyzer.report.material import Material
from traceanalyzer.report.page import Head, cost_of
from traceanalyzer.units import Unit, counted, format_value
from traceanalyzer.views.markdown import as_rows, code, escaped, markdown_table

TOP = 5
"""Rows of each table in Markdown."""
TOP_OF_TABLES = 20
MOST_WARNINGS = 5
_LONG = frozenset({"stack", "gap_before_ns", "n_pieces"})
_TABLES = {
    "checkup": ("verdicts", "next", "environment", "costs"),
    "summary": ("summary",),
    "ledger": ("totals",),
    "steps": ("pauses",),
    "gaps": ("devices", "causes", "blames"),
    "imbalance": ("efficiency", "stragglers", "ranks"),
    "collectives": ("clocks", "bandwidth"),
    "kernels": ("families", "limits"),
    "throughput": ("rollup", "utilization"),
    "memory": ("memory", "growing"),
    "metrics": ("readings", "patterns", "throttling", "errors"),
    "info": ("captures", "fitness"),
}
"""Tables of the summary for programs, by question."""
_SHOWN = (
    ("gaps", "causes", "Idle time by cause"),
    ("gaps", "blames", "Whose code"),
    ("imbalance", "stragglers", "Late ranks"),
    ("imbalance", "efficiency", "Efficiency"),
    ("kernels", "families", "Kernels"),
    ("throughput", "rollup", "Profiled kernels"),
    ("memory", "growing", "Memory that grows"),
    ("metrics", "patterns", "Telemetry"),
)
"""Tables in Markdown: question, table, title."""


def summary(material: Material) -> Answer:
    """The tables that matter most as one answer, for programs: each named `<question>_<table>`."""
    tables: dict[str, Frame] = {}
    findings = []
    for answer in material.answers:
        findings += answer.findings
        for name in _TABLES.get(answer.command, ()):
            frame = answer.tables[name]
            spec = replace(frame.spec, name=f"{answer.command}_{name}")
            rows = frame.head(TOP_OF_TABLES) if spec.cut else frame
            tables[spec.name] = Frame(spec, rows.columns)
    return Answer("report", tables, findings, material.warnings)


def markdown(head: Head, material: Material) -> str:
    """The report in short as Markdown of GitHub."""
    return "\n".join(_blocks(head, material)).rstrip() + "\n"


def _blocks(head: Head, material: Material) -> Iterator[str]:
    checkup = material.answer("checkup")
    verdicts = list(checkup.tables["verdicts"].rows())
    yield f"### {escaped(head.headline)}\n"
    if head.cost:
        yield f"**{escaped(head.cost)}**\n"
    yield from (f"{escaped(note)}\n" for note in head.notes)
    if head.first_change:
        yield f"**Change first:** {escaped(head.first_change)}\n"
    if verdicts:
        yield _verdict_table(verdicts)
        yield from _evidence(verdicts[0], checkup.language)
    yield "<details><summary>Tables</summary>\n"
    for question, name, title in _SHOWN:
        answer = next((each for each in material.answers if each.command == question), None)
        if answer is not None and len(answer.tables[name]):
            told = (together(material, answer, name) if len(material.scope.devices) > 1 else None) or answer
            frame = told.table(name if told is answer else None)
            yield f"**{title}**" + (f" (the first {TOP} of {len(frame):,} rows)" if len(frame) > TOP else "") + "\n"
            yield markdown_table(told, _brief(frame.head(TOP)))
    yield "</details>\n"
    yield from _doubts(material)
    left_out = escaped("; ".join(head.left_out))
    yield f"<sub>traceanalyzer {escaped(head.version)}, {code(head.command)}; {left_out}</sub>"


def _brief(frame: Frame) -> Frame:
    """A table without what is long: reasons and stacks."""
    columns = tuple(column for column in frame.spec.columns if column.name not in _LONG)
    return Frame(replace(frame.spec, columns=columns), {c.name: frame.columns[c.name] for c in columns})


def _verdict_table(verdicts: list[dict[str, Any]]) -> str:
    heads = [("", True), ("verdict", False), ("cost", True), ("share", True), ("confidence", False), ("", False)]
    return as_rows(
        heads,
        [
            (
                str(row["order"]),
                row["verdict"],
                cost_of(row),
                format_value(row["share"], Unit.SHARE),
                row["confidence"],
                row["title"],
            )
            for row in verdicts
        ],
    )


def _evidence(row: dict[str, Any], language: str) -> Iterator[str]:
    messages = Messages(language)
    yield "<details><summary>Evidence for the first</summary>\n"
    for each in row["evidence"]:
        yield f"- {escaped(figure_of_evidence(each, messages))}: {code(each['command'])}"
    yield "\n</details>\n"


def _doubts(material: Material) -> Iterator[str]:
    problems = [row for row in material.answer("info").tables["fitness"].rows() if row["state"] == "problem"]
    texts = list(dict.fromkeys([*(row["text"] for row in problems), *material.warnings]))
    if texts:
        yield "**What weakens this**\n"
        yield from (f"- {escaped(text)}" for text in texts[:MOST_WARNINGS])
        if len(texts) > MOST_WARNINGS:
            yield f"- {counted(len(texts) - MOST_WARNINGS, 'more remark')}: {code(material.command('info'))}"
        yield ""
