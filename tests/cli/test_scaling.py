"""`traceanalyzer scaling`: which of its two questions the command line asks, and what it refuses."""

import json
import types
from pathlib import Path

import pytest

from tests.support.store_builder import Capture, store_of
from traceanalyzer.cli.main import run as run_command
from traceanalyzer.schema.kinds import EventKind

TABLE = "ranks,throughput\n1,100\n2,150\n"


@pytest.fixture
def command(capfdbinary, monkeypatch, tmp_path):
    """Run the command on the program itself: exit code, stdout and stderr as text."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(TABLE)

    def run_it(*arguments):
        code = run_command(["scaling", *map(str, arguments)])
        out, err = capfdbinary.readouterr()
        return types.SimpleNamespace(code=code, out=out.decode(), err=err.decode())

    return run_it


def rank(length):
    """Three steps of a launch and a kernel, with a kernel in flight before them."""
    capture = Capture().kernel(-500, 0)
    for number in range(3):
        at = length * number
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{number}", at, at + length)
        capture.launch(at, at + 10, number + 1).kernel(at + 1_000, at + length, number + 1)
    return capture


def test_a_file_of_throughputs_is_answered_in_every_form(command):
    whole = json.loads(command("t.csv", "--format", "json").out)
    assert whole["command"] == "scaling" and whole["warnings"] == []
    assert [(r["ranks"], r["throughput"], r["efficiency"]) for r in whole["tables"]["scaling"]] == [
        (1, 100.0, 1.0),
        (2, 150.0, 0.75),
    ]
    assert [f["code"] for f in whole["findings"]] == ["low_scaling_efficiency"]
    assert command("t.csv", "--format", "csv").out == (
        "ranks,throughput,efficiency,run,step_ns,lost_share\n1,100.0,1.0,,,0.0\n2,150.0,0.75,,,0.25\n"
    )
    assert command("t.csv", "--format", "markdown").out.splitlines()[-1] == "| 2 | 150.0 | 75.0 % | 25.0 % |"
    shown = command("t.csv")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines()[0] == "file t.csv" and "next:" not in shown.out
    assert "- 2 ranks reach 75.0 % of 2 x the throughput of 1 rank" in shown.out


def test_all_runs_of_a_store_are_compared(command):
    store_of(Path("s.duckdb"), rank(10_000), run="one")
    store_of(Path("s.duckdb"), rank(20_000), rank(20_000), run="two")
    done = command("--db", "s.duckdb")
    assert done.code == 0 and done.out.startswith("run one, two\n") and "- 2 ranks reach 50.0 %" in done.out
    assert "what grows most is compute, by 10.000 us a step" in done.out
    lost = command("--db", "s.duckdb", "--table", "lost", "--format", "csv").out.splitlines()
    assert lost[:2] == ["ranks,category,lost_ns", "2,compute,10000"]
    alone = command("--db", "s.duckdb", "--run", "two")
    assert alone.code == 0 and "warning: run two alone has nothing to compare with" in alone.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("absent.csv",), "absent.csv: no such file"),
        (("t.csv", "t.csv"), "t.csv: give one file of throughputs, and nothing beside it"),
        (("t.csv", "trace.json"), "give one file of throughputs"),
        (("t.csv", "--db", "s.duckdb"), "give either a file of throughputs or --db, not both"),
        (("t.csv", "--run", "a"), "--run: a file of throughputs has nothing to select by it; leave it out"),
        (("t.csv", "--steps", "1-2"), "--steps: a file of throughputs"),
        (("t.csv", "--step-range", "x"), "--step-range: a file of throughputs"),
        (("t.csv", "--warmup", "0"), "--warmup: a file of throughputs"),
        (("t.csv", "--table", "lost"), "scaling has no table 'lost'; it has scaling"),
        (("t.csv", "--rank", "0"), "No such option"),
        (("bad.csv",), "bad.csv: the first line names no column ranks"),
        (("bad\nname.csv",), "no such file"),
        (("red.csv",), "line 2: throughput '\\x1b[31m' is no positive number"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_2(command, arguments, says):
    Path("bad.csv").write_text("a,b\n1,2\n")
    Path("red.csv").write_text("ranks,throughput\n1,\x1b[31m\n")
    done = command(*arguments)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert says in done.err and "\x1b" not in done.err


def test_a_selection_reaches_the_question(call, fake):
    assert call("scaling", "--run", "a", "--steps", "3-7", "--warmup", "2", "--input-range", "i").code == 0
    name, _, selection = fake[-1]
    wanted = {"run": "a", "steps": "3-7", "warmup": 2, "input_range": "i"}
    assert name == "scaling" and {key: selection[key] for key in wanted} == wanted
    assert not {"rank", "device", "lane"} & set(selection)
    assert call("scaling").code == 0 and fake[-1][2]["run"] is None


def test_a_training_log_in_csv_is_no_file_of_throughputs(command, monkeypatch, tmp_path):
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path / "cache"))
    Path("train.csv").write_text("step,samples_per_second,world_size\n0,100,4\n1,104,4\n2,102,4\n")
    shown = command("train.csv", "--format", "json")
    assert (shown.code, json.loads(shown.out)["tables"]["scaling"][0]["throughput"]) == (0, 102.0)
    assert "has nothing to compare with" in shown.err + shown.out


def test_samples_per_step_says_nothing_about_a_file(command):
    shown = command("t.csv", "--samples-per-step", "8")
    assert (shown.code, shown.out) == (2, "") and "--samples-per-step" in shown.err
    assert command("--samples-per-step", "0").code == 2
