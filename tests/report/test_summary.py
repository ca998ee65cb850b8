"""Markdown and JSON of a report, tables over many devices, and answers in notebooks."""

import html
import json
import re

import pytest

from tests.report.parsed_page import ParsedPage
from traceanalyzer.cli.main import run
from traceanalyzer.passes.answer import Answer, Frame, TableSpec
from traceanalyzer.passes.columns import CAPTURE, DEVICE, RANK
from traceanalyzer.report.across import over_devices
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit, format_value


def test_markdown_says_verdict_cost_and_command(sample):
    text = sample.report.markdown
    verdicts = list(sample.traces.checkup().tables["verdicts"].rows())
    plain = re.sub(r"\\(.)", r"\1", html.unescape(text))
    for row in verdicts:
        assert row["title"] in plain
        if row["cost_ns"]:
            assert f"{format_value(row['cost_ns'], Unit.NS)} a step" in plain
    assert f"traceanalyzer report -o report.html {sample.name}" in plain
    assert len(text) < 20_000
    tables = re.findall(r"(?m)^\|.*\|$", text)
    assert len({line.count(" | ") for line in tables[:2]}) == 1


def test_the_summary_for_programs_has_the_rows_of_the_commands(sample):
    answer = sample.report.summary
    checked = 0
    for name, frame in answer.tables.items():
        command, _, table = name.partition("_")
        whole = sample.traces.checkup() if command == "checkup" else sample.traces.ask(command, top=0)
        rows = list(whole.tables[table].rows())
        for k, row in enumerate(frame.rows()):
            if table in ("environment", "captures", "verdicts", "next"):
                continue  # texts are shortened
            assert row == rows[k], (name, k)
            checked += 1
    assert checked
    assert [row["verdict"] for row in answer.tables["checkup_verdicts"].rows()] == [
        row["verdict"] for row in sample.traces.checkup().tables["verdicts"].rows()
    ]


@pytest.mark.parametrize(("name", "begins"), [("r.md", "### "), ("r.json", "{"), ("r.html", "<!doctype html>")])
def test_the_name_of_the_file_says_the_format(tmp_path, name, begins, capfdbinary):
    assert run(["report", "sample_traces/kernel_limits", "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)
    assert capfdbinary.readouterr().out == b""


def test_json_is_one_object(capfdbinary):
    assert run(["report", "sample_traces/planted_sleep", "--format", "json"]) == 0
    whole = json.loads(capfdbinary.readouterr().out)
    assert whole["command"] == "report"
    assert whole["tables"]["checkup_verdicts"][0]["verdict"] == "host_bound"
    assert whole["findings"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["report", "sample_traces/kernel_limits"], b"-o report.html"),
        (["report", "sample_traces/kernel_limits", "--format", "markdown", "--pseudonyms"], b"-o FILE"),
        (["report", "sample_traces/kernel_limits", "--run", "all", "-o", "{folder}/x.html"], b""),
    ],
)
def test_senseless_wishes_are_refused_in_a_line(tmp_path, words, says, capfdbinary):
    code = run([word.format(folder=tmp_path) for word in words])
    out, err = capfdbinary.readouterr()
    if says:
        assert code == 2
        assert says in err
        assert err.count(b"\n") == 1
    else:
        assert code == 0
    assert out == b""


def test_a_report_of_several_runs_is_refused(tmp_path, capfdbinary):
    store = str(tmp_path / "s.duckdb")
    for name in ("kernel_limits", "telemetry"):
        assert run(["ingest", "--db", store, f"sample_traces/{name}", "--run", name, "-q"]) == 0
    capfdbinary.readouterr()
    assert run(["report", "--db", store, "--run", "all", "-o", str(tmp_path / "x.html")]) == 2
    assert b"--run NAME" in capfdbinary.readouterr().err
    assert not (tmp_path / "x.html").exists()


PARTS = TableSpec(
    "summary",
    "Time of each device by part; it adds up.",
    (CAPTURE, RANK, DEVICE, Column("part", Type.TEXT, "Part."), Column("per_step_ns", Type.INT64, "Time.", Unit.NS)),
    cut=False,
)


def test_parts_over_devices_by_hand():
    rows = [(0, 0, 0, "compute", 60), (0, 0, 0, "wait", 40), (1, 1, 0, "compute", 90), (2, 2, 0, "wait", 10)]
    told = over_devices(Answer("summary", {"summary": Frame.of_rows(PARTS, rows)}), "summary", ("part",), "per_step_ns")
    assert list(told.table().rows()) == [
        {"part": "compute", "mean_per_step_ns": 50, "min_per_step_ns": 0, "max_per_step_ns": 90, "max_on": "rank 1"}
        | {"share": 0.75},
        {"part": "wait", "mean_per_step_ns": 17, "min_per_step_ns": 0, "max_per_step_ns": 40, "max_on": "rank 0"}
        | {"share": 0.25},
    ]


def test_answers_show_themselves_in_notebooks(sample):
    answer = sample.traces.kernels() if sample.name != "telemetry" else sample.traces.metrics()
    shown = answer._repr_html_()
    inside = html.unescape(re.search(r'srcdoc="([^"]*)"', shown)[1])
    page = ParsedPage(inside)
    assert len(shown) < 1_500_000
    for finding in answer.findings:
        assert finding.text in page.text
    for (_, name), table in page.tables.items():
        assert len(table.rows) == min(len(answer.tables[name]), 20) or not answer.tables[name].spec.cut
    assert page.tables or not any(len(frame) for frame in answer.tables.values())
    assert "<script" not in shown.replace(inside, "")


def test_tables_show_themselves_in_notebooks():
    hostile = "<script>alert(1)</script>\u202e"
    frame = Frame.of_rows(PARTS, [(0, k, 0, hostile, 1_500_000) for k in range(40)])
    shown = frame._repr_html_()
    assert "<script" not in shown
    assert "\u202e" not in shown
    assert shown.count("<tr>") == 31
    assert "1.500 ms" in shown
    assert "10 more rows" in shown
    assert repr(frame) == "<40 rows of summary: capture, rank, device, part, per_step_ns>"
    assert Answer("summary", {"summary": frame})._repr_html_() is None
    assert repr(Answer("summary", {"summary": frame})) == "<summary; tables summary (40 rows)>"
