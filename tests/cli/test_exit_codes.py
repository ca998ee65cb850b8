"""Exit codes, and the one line that goes with them."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from traceanalyzer.errors import TraceAnalyzerError, UsageError

BAD = [
    ("gaps", "--no-such-option"),
    ("no-such-command",),
    ("--no-such-option",),
    ("gaps", "--db", "none/absent.duckdb"),
    ("gaps", "--format", "xml"),
    ("gaps", "--top", "-1"),
    ("gaps", "--top", "many"),
    ("gaps", "--lane", "fast"),
    ("gaps", "--table", "nothing"),
    ("gaps", "--table", "nothing", "--format", "json"),
    ("gaps", "--db", "a.duckdb", "trace.json"),
    ("gaps", "-o", "no/such/folder/out.csv"),
    ("gaps", "-o", "/"),
    ("ingest",),
    ("sql",),
    ("gaps", "--db"),
    ("gaps", "--\x1b[31m\nred"),
]


@pytest.mark.parametrize("arguments", BAD, ids=" ".join)
def test_bad_usage_is_one_line_and_exit_2(call, arguments):
    done = call(*arguments)
    lines = [line for line in done.err.splitlines() if not line.startswith("warning: ")]
    assert (done.code, len(lines), done.out) == (2, 1, "")
    assert "\x1b" not in done.err and "Traceback" not in done.err


def test_an_unknown_command_names_those_that_may_be_meant(call):
    assert call("gap").err == "error: No such command 'gap'; did you mean gaps? (see 'traceanalyzer --help')\n"
    assert "did you mean" not in call("zzzz").err


def test_usage_error_names_the_option_and_the_help(call):
    assert "--no-such" in (err := call("gaps", "--no-such").err) and "traceanalyzer gaps --help" in err


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (TraceAnalyzerError("two\nlines"), 2, "two lines"),
        (UsageError("--rank x: give numbers"), 2, "--rank x"),
        (FileNotFoundError(2, "No such file or directory", "x.json"), 2, "x.json"),
        (MemoryError(), 2, "memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("Query interrupted"), 130, "interrupted"),
        (BrokenPipeError(), 0, None),
        (RuntimeError("boom"), 70, "--debug"),
        (SystemExit(1), 0, None),
    ],
)
def test_exceptions_become_exit_codes(call, monkeypatch, error, code, says):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("traceanalyzer.cli.commands.steps.answer_question", fail)
    done = call("steps")
    assert done.code == code
    assert len(done.err.strip().splitlines()) == (says is not None)
    assert says is None or says in done.err


def test_debug_shows_the_traceback_of_a_fault_of_ours_only(call, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("boom")

    monkeypatch.setattr("traceanalyzer.cli.commands.steps.answer_question", fail)
    assert "Traceback" in call("--debug", "steps").err
    assert "Traceback" not in call("--debug", "gaps", "--db", "absent").err


def test_help_version_and_no_command_are_answers(call):
    assert call("--help").code == call("--version").code == call().code == call("gaps", "-h").code == 0


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@pytest.mark.parametrize("arguments", ["gaps --help", "--help"])
@pytest.mark.parametrize(("where", "code"), [(">&-", 0), ("2>&-", 0), (">/dev/full", 2)])
def test_output_that_cannot_be_written(arguments, where, code):
    command = f"{shlex.quote(sys.executable)} -m traceanalyzer {arguments} {where}"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False, env=environment)
    assert done.returncode == code and b"Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [("gaps", "--help"), ("--help",)])
def test_a_reader_that_leaves_is_no_error(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "traceanalyzer", *arguments],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
