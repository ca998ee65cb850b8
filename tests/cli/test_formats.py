"""The forms of an answer: exact for programs, safe for people."""

import csv
import io
import json
import re

import pytest

from tests.cli.answers import BIG, HOSTILE
from traceanalyzer.cells import printable, shortened, shortened_stack, width_of
from traceanalyzer.cli.render.table import as_terminal
from traceanalyzer.passes.answer import Answer, Frame
from traceanalyzer.passes.throughput import KERNELS
from traceanalyzer.views.markdown import as_markdown

CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")


def test_json_is_one_object_of_the_contract(call):
    done = call("gaps", "--format", "json")
    whole = json.loads(done.out)
    assert list(whole) == ["traceanalyzer", "command", "tables", "findings", "warnings"]
    assert whole["command"] == "gaps" and list(whole["tables"]) == ["devices", "causes", "stacks"]
    assert whole["findings"] == [{"code": "drained", "text": "The queue was empty \x1b[2J.", "rank": 0, "cost_ns": 5}]
    assert whole["warnings"] == ["a name\nwith \x1b[31m colour"] and done.err == ""


def test_json_keeps_names_and_numbers_as_they_are(call):
    done = call("gaps", "--format", "json")
    tables = json.loads(done.out)["tables"]
    assert [row["stack"][1] for row in tables["stacks"]] == list(HOSTILE)
    assert tables["devices"][0]["end_ns"] == BIG
    assert tables["causes"][0]["reason"] is None
    assert not CONTROLS.search(done.out)


def test_json_has_no_number_that_json_lacks(call):
    rows = json.loads(call("sql", "SELECT 1", "--format", "json").out, parse_constant=pytest.fail)["tables"]["rows"]
    assert rows[0]["x"] is None


def test_csv_prints_the_default_table_with_all_columns(call):
    read = list(csv.reader(io.StringIO(call("gaps", "--format", "csv").out)))
    assert read[0] == ["cause", "stack", "blame", "idle_ns", "share"] and len(read) == 1 + len(HOSTILE)
    assert json.loads(read[2][1])[1] == HOSTILE[1] and read[2][3] == "99000"


def test_csv_has_no_cell_that_a_spreadsheet_would_run(call):
    cells = [c for row in csv.reader(io.StringIO(call("gaps", "--format", "csv").out)) for c in row]
    assert not [c for c in cells if re.match(r"\s*[=@+-]|[\t\r]", c)]
    assert "'" + HOSTILE[0] in cells


def test_table_picks_another_table(call):
    assert call("gaps", "--format", "csv", "--table", "devices").out.startswith("run,capture,rank,device")
    assert "idle" in call("gaps", "--table", "causes").out


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_text_for_people_has_no_controls_and_no_markup(call, form):
    done = call("gaps", "--format", form)
    assert not CONTROLS.search(done.out) and not CONTROLS.search(done.err)
    if form == "markdown":
        lines = done.out.splitlines()
        assert "<img" not in done.out and "](" not in done.out.replace("\\](", "")
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {len(re.findall(r"\|", lines[0]))}


def test_table_says_note_units_findings_and_what_next(call):
    out = call("gaps").out
    assert out.startswith("run job, whole window, lane device\n")
    assert "12.346 ms" in out and "1,234" in out and "The queue was empty" in out and "\nnext:\n" in out
    assert out.index("devices:") < out.index("causes:") < out.index("stacks:")
    assert "next:" not in (quiet := call("gaps", "--quiet").out) and "lane device" in quiet


def test_hints_repeat_the_store_or_the_files(call):
    assert "traceanalyzer steps --db 'my job.duckdb' " in call("gaps", "--db", "my job.duckdb").out
    assert "traceanalyzer steps a.json b.json " in call("gaps", "a.json", "b.json").out


def test_table_fits_the_terminal(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert max(width_of(line) for line in call("gaps", "--table", "stacks").out.splitlines()) <= 100


def test_top_cuts_lists_but_never_totals(call):
    assert len(json.loads(call("sql", "q", "--format", "json").out)["tables"]["rows"]) == 20
    assert len(json.loads(call("sql", "q", "--format", "json", "--top", "0").out)["tables"]["rows"]) == 50
    assert "30 more rows" in call("sql", "q").out
    tables = json.loads(call("gaps", "--top", "1", "--format", "json").out)["tables"]
    assert [len(rows) for rows in tables.values()] == [2, 2, 1]


def test_warnings_go_to_stderr_in_one_line_each(call):
    assert call("gaps").err == "warning: a name with \\x1b[31m colour\n"


def test_output_replaces_a_file_as_a_whole(call, tmp_path):
    target = tmp_path / "gaps.csv"
    target.write_text("before")
    done = call("gaps", "--format", "csv", "-o", target)
    assert (done.code, done.out) == (0, "")
    assert target.read_text().startswith("cause,") and [p.name for p in tmp_path.iterdir()] == ["gaps.csv"]


def profiled(*kernels):
    """What throughput answers for launches of these kernels; the last one could not be judged."""
    known = {"id": 1, "capture": 0, "grid": "(131072, 1, 1)", "block": "(1024, 1, 1)", "duration_ns": 5, "launch": 0}
    rows = [known | {"kernel": name, "sol_class": "high_throughput", "compute_pct": 85.0} for name in kernels]
    rows[-1] |= {"sol_class": None, "reason": "not in the file: compute throughput, waves a multiprocessor"}
    frame = Frame.of_rows(KERNELS, [[row.get(column.name) for column in KERNELS.columns] for row in rows])
    return Answer("throughput", {"kernels": frame})


def test_kernels_that_were_profiled_have_a_line_of_their_own():
    name = "void vectorized_elementwise_kernel<8, Gelu, std::array<char *, 2>>(int, T2)"
    lines = as_terminal(profiled(name, None, "\x1b[1mk"), 0, None, 200, hints=False).splitlines()
    assert lines[2::2] == [f"    {name}", "    (no name)", "    \\x1b[1mk"]
    assert all(width_of(line) <= 200 for line in lines)
    assert lines[0].split()[:4] == ["id", "duration", "compute", "reason"]


def test_a_column_that_is_empty_in_the_rows_shown_takes_no_room():
    answer = profiled("a", "b", "c")
    assert "reason" not in as_terminal(answer, 2, None, 120) and "reason" in as_terminal(answer, 3, None, 120)
    assert "reason" not in as_markdown(answer, 2, None) and "reason" in as_markdown(answer, 3, None)


def test_text_is_shortened_in_the_middle_to_its_width():
    assert shortened("abcdefghij", 5) == "ab…ij"
    assert width_of(shortened("核" * 30, 9)) <= 9
    assert shortened("short", 10) == "short"


def test_stacks_lose_their_outer_frames_first():
    frames = ["main (train.py:1)", "step (train.py:9)", "load (data.py:5)"]
    assert shortened_stack(frames, 100) == " > ".join(frames)
    assert shortened_stack(frames, 44) == "… > step (train.py:9) > load (data.py:5)"
    assert width_of(shortened_stack(frames, 10)) <= 10


def test_printable_leaves_letters_of_any_script():
    assert printable("核函数 naïve ∑") == "核函数 naïve ∑"
    assert printable("\x1b\u202e\ud800\n\U000e0001") == "\\x1b\\u202e\\ud800\\x0a\\U000e0001"
