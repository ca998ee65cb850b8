"""The page says what the commands say: the same numbers, rows that links lead to, commands that run."""

import json
import re
import shlex

import pytest

from tests.report.parsed_page import ParsedPage
from traceanalyzer.cells import cell
from traceanalyzer.cli.main import run
from traceanalyzer.report.page import MOST_TOTALS
from traceanalyzer.report.sections import SECTIONS

MUST_HAVE = {
    "planted_sleep": {("checkup", "costs"), ("ledger", "totals"), ("gaps", "devices"), ("gaps", "blames")},
    "ddp2_slow1": {("imbalance", "ranks"), ("imbalance", "stragglers"), ("collectives", "clocks"), ("steps", "steps")},
    "launch_bound": {("gaps", "stacks"), ("kernels", "kernels"), ("launches", "launches")},
    "kernel_limits": {("throughput", "kernels"), ("throughput", "rollup")},
    "telemetry": {("metrics", "telemetry"), ("metrics", "patterns")},
}
"""Tables that a page of each sample has at the least."""
ADVISED = {"OMP_NUM_THREADS", "NCCL_DEBUG", "NCCL_IB_DISABLE"}
"""Variables that advice names."""


@pytest.fixture(scope="module")
def page(sample):
    return ParsedPage(sample.report.html)


def asked(sample, command):
    """The whole answer of a command, as JSON has it."""
    return sample.traces.checkup() if command == "checkup" else sample.traces.ask(command, top=0)


def test_tables_hold_the_numbers_of_the_commands(sample, page):
    assert MUST_HAVE[sample.name] <= set(page.tables)
    answers = {command: asked(sample, command) for command, _ in page.tables}
    for (command, name), table in page.tables.items():
        frame = answers[command].tables[name]
        columns = {column.name: column for column in frame.spec.columns}
        assert table.rows, (command, name)
        for anchor, cells in table.rows:
            place = int(re.fullmatch(rf"{command}-{name}-r(\d+)", anchor)[1])
            for column, (exact, text) in cells.items():
                value = frame.columns[column][place]
                where = (command, name, place, column)
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    assert float(exact) == value, where
                if column == "path":
                    continue  # shortened
                told = cell(value, columns[column])
                whole = told if isinstance(told, str) else " > ".join(told)
                if value is not None:
                    assert text == whole.strip(), where


def test_no_row_is_missing_without_a_word(sample, page):
    shown = page.text
    for (command, name), table in page.tables.items():
        frame = asked(sample, command).tables[name]
        places = [int(anchor.rpartition("-r")[2]) for anchor, _ in table.rows]
        assert places == sorted(set(places))
        if name == "environment":
            variables = [fact for fact in frame.columns["fact"] if fact.isupper()]
            assert len(places) + len(variables) == len(frame)
            assert not any(variable in shown for variable in variables if variable not in ADVISED)
            continue
        if len(places) < len(frame):
            assert len(places) >= (50 if frame.spec.cut else MOST_TOTALS), (command, name)
            assert re.search(rf"{len(places):,} rows are shown, those that come first; there are more", shown)


def test_every_section_has_its_place(sample, page):
    assert [each for each in page.ids if each in {s.name for s in SECTIONS}] == [
        section.name for section in sample.report.sections
    ]
    assert {section.name for section in sample.report.sections} == {section.name for section in SECTIONS}
    for section in SECTIONS:
        built = next(each for each in sample.report.sections if each.name == section.name)
        assert built.blocks
        assert section.title in page.text
        if built.is_missing:
            assert section.missing in " ".join(page.text.split("\n"))


def test_links_lead_somewhere(page):
    assert len(page.ids) == len(set(page.ids))
    assert page.links
    for link in page.links:
        assert link.startswith("#")
        assert link[1:] in page.ids, link


def test_evidence_leads_to_its_figure(sample, page):
    checked = 0
    by_anchor = {anchor: cells for table in page.tables.values() for anchor, cells in table.rows}
    for verdict in sample.traces.checkup().tables["verdicts"].rows():
        for each in verdict["evidence"]:
            command = each["command"].split()[1]
            if each["table"] == "findings" or (command, each["table"]) not in page.tables:
                continue
            frame = asked(sample, command).tables[each["table"]]
            place = next(
                k for k, row in enumerate(frame.rows()) if all(row[name] == v for name, v in each["row"].items())
            )
            anchor = f"{command}-{each['table']}-r{place}"
            assert f"#{anchor}" in page.links, each
            if each["column"] in by_anchor[anchor] and not isinstance(each["value"], str):
                exact, _ = by_anchor[anchor][each["column"]]
                assert float(exact) == pytest.approx(each["value"], abs=1), each
                checked += 1
    assert checked or sample.name in ("kernel_limits", "telemetry")


def test_the_verdict_comes_first(sample, page):
    verdicts = list(sample.traces.checkup().tables["verdicts"].rows())
    told = [text.strip() for text in page.texts if text.strip()]
    title = verdicts[0]["title"]
    if sample.report.material.has_timeline:
        assert title[:1].upper() + title[1:] in told[:8]
        assert any(verdicts[0]["advice"][0] in text for text in told[:14])
    else:
        assert title in told[:14]
    for verdict in verdicts:
        for text in (*verdict["advice"], verdict["experiment"], *verdict["remarks"]):
            assert text in told, text


def test_commands_of_the_page_run(sample, page, capfdbinary):
    commands = dict.fromkeys(page.commands)
    assert commands
    for text in commands:
        words = shlex.split(text.strip())
        assert words[0] == "traceanalyzer"
        if "-o" in words or words[1] in ("howto", "export"):
            continue
        assert run([*words[1:], "--help"]) == 0, text
        assert b"Usage:" in capfdbinary.readouterr().out


def test_figures_are_whole(sample, page):
    figures = {block.name: block for s in sample.report.sections for block in s.blocks if hasattr(block, "traces")}
    assert {f"figure-{name}" for name in figures} == set(page.figures)
    for anchor, figure in page.figures.items():
        assert figure["traces"], anchor
        assert json.loads(json.dumps(figure, allow_nan=False)) == figure
        for trace in figure["traces"]:
            sizes = {len(trace[key]) for key in ("x", "y", "text", "base") if isinstance(trace.get(key), list)}
            assert len(sizes) == 1 or trace["type"] == "heatmap", (anchor, trace["type"])


def test_nothing_comes_from_outside(sample):
    page = sample.report.html
    for pattern in (r"<(script|img|iframe|link)\b[^>]*\b(src|href)\s*=", r"@import", r"url\(", r"\bfetch\("):
        assert not re.search(pattern, page), pattern
    assert "default-src 'none'" in page
    assert len(page.encode()) < 6_000_000
