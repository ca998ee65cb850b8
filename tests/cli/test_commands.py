"""Commands and their options: what they hand on, and that help needs no engine."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from traceanalyzer.cli.commands import COMMANDS, GROUPS
from traceanalyzer.cli.main import root

REPOSITORY = Path(__file__).parents[2]
OWN_ENGINES = ("passes", "store", "sources", "ingestion", "traceset", "numeric")
ENGINES = {
    "duckdb",
    "numpy",
    "msgspec",
    "polars",
    "pyarrow",
    "rich",
    *(f"traceanalyzer.{name}" for name in OWN_ENGINES),
}


def modules_after(arguments, **environment):
    """Names of all modules that a run of the command has imported."""
    code = (
        "import json, sys\nfrom traceanalyzer.cli.main import run\nrun(sys.argv[1:])\n"
        "json.dump(sorted(sys.modules), sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, json.loads(done.stderr.splitlines()[-1])


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_imports_no_engine(arguments):
    _, modules = modules_after(arguments)
    assert [m for m in modules if m in ENGINES] == []


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_help_is_printed_before_anything_is_imported(arguments, call, monkeypatch):
    code = (
        "import json, sys\nfrom traceanalyzer.cli.start import main\nmain()\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    monkeypatch.setenv("COLUMNS", "80")
    assert done.stdout == call("--help").out
    assert {"click", "traceanalyzer.cli.main"} & set(json.loads(done.stderr)) == set()


def test_completion_imports_no_engine():
    code = (
        "import json, sys\nfrom traceanalyzer.cli.main import run\nrun([])\njson.dump(sorted(sys.modules), sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ
        | {
            "PYTHONPATH": str(REPOSITORY),
            "_TRACEANALYZER_COMPLETE": "bash_complete",
            "COMP_WORDS": "traceanalyzer ",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert "plain,gaps" in done.stdout.split()
    assert [m for m in json.loads(done.stderr.splitlines()[-1]) if m in ENGINES] == []


def test_help_shows_every_command_in_its_group(call):
    out = call("--help").out
    for group in GROUPS:
        names = [entry.name for entry in COMMANDS if entry.group == group]
        section = out.partition(f"\n{group}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()] == names
    assert {entry.group for entry in COMMANDS} <= set(GROUPS)


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_command_has_help_and_examples_and_stands_in_the_docs(entry):
    command = root.get_command(click.Context(root), entry.name)
    assert command.name == entry.name and command.help.strip()
    examples = inspect.cleandoc(command.help).partition("\b\nExamples:\n")[2].strip().splitlines()
    assert examples and all(line.strip().startswith(f"traceanalyzer {entry.name}") for line in examples)
    for option in command.params:
        assert isinstance(option, click.Argument) or option.help
    for page in ("README.md", "docs/reference/cli.md"):
        assert f"traceanalyzer {entry.name}" in (REPOSITORY / page).read_text(encoding="utf-8")


def test_options_reach_the_question(call, fake):
    words = (
        "--run a --rank 0,2 --device 1 --source nsys --capture 4 --steps 3-7 --window 0.5:2 --lane compute --top 5 "
        "--warmup 2 --step-range s --input-range i --user-code u --under w --by step"
    )
    call("gaps", *words.split())
    assert fake[-1] == (
        "gaps",
        (),
        {
            "run": "a",
            "rank": "0,2",
            "device": 1,
            "source": "nsys",
            "capture": "4",
            "steps": "3-7",
            "window": "0.5:2",
            "lane": "compute",
            "warmup": 2,
            "step_range": "s",
            "input_range": "i",
            "user_code": "u",
            "under": "w",
            "by": "step",
            "top": 6,  # one more than is printed, which tells whether any are cut
        },
    )


@pytest.mark.parametrize(
    "question",
    ["info", "gaps", "ledger", "steps", "ranges", "kernels", "streams", "launches", "throughput", "scaling"],
)
def test_questions_take_a_store_or_raw_files(call, fake, question):
    assert call(question, "--db", "job.duckdb").code == 0
    assert fake[0] == ("open", (Path("job.duckdb"),), {})
    fake.clear()
    assert call(question, "a.json", "b.json").code == 0
    assert fake[0] == ("of_files", ((Path("a.json"), Path("b.json")),), {})


def test_without_db_the_store_is_found_by_the_library(call, fake):
    call("sql", "SELECT 1")
    name, arguments, selection = fake[-1]
    assert fake[0] == ("open", (None,), {}) and (name, arguments) == ("sql", ("SELECT 1",))
    assert selection["top"] == 20 and selection["rank"] == "all" and selection["run"] is None


def test_sql_hands_on_the_selection(call, fake):
    call("sql", "SELECT 1", "--rank", "1", "--device", "2", "--run", "all", "--steps", "3")
    selection = fake[-1][2]
    assert {name: selection[name] for name in ("rank", "device", "run", "steps")} == {
        "rank": "1",
        "device": 2,
        "run": "all",
        "steps": "3",
    }


def test_export_hands_on_target_tables_and_selection(call, fake):
    words = "out --table gaps --table gpu_ops --format arrow --force --rank 1 --device 2 --warmup 3 --db s.duckdb"
    assert call("export", *words.split()).code == 0
    name, (target,), keywords = fake[-1]
    assert (name, target, keywords["tables"]) == ("export", Path("out"), ("gaps", "gpu_ops"))
    wanted = {"form": "arrow", "force": True, "rank": "1", "device": 2, "warmup": 3}
    assert {key: keywords[key] for key in wanted} == wanted
    assert call("export", "out", "a.json").code == 0
    assert fake[-2] == ("of_files", ((Path("a.json"),),), {})


def test_a_timeline_takes_traces_only(call, fake):
    assert call("export", "--perfetto", "t.json.gz", "a.json", "b.json", "--align", "utc", "--force").code == 0
    assert fake[-2] == ("of_files", ((Path("a.json"), Path("b.json")),), {})
    name, arguments, keywords = fake[-1]
    assert (name, arguments, keywords["align"], keywords["force"]) == (
        "export_timeline",
        (Path("t.json.gz"),),
        "utc",
        True,
    )
    assert call("export", "--perfetto", "t.json").code == 0
    assert fake[-2] == ("open", (None,), {})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--perfetto", "t.json", "--table", "gaps"), "--table and --format are about files of tables"),
        (("--perfetto", "t.json", "--format", "arrow"), "--table and --format are about files of tables"),
        ((), "give FOLDER|FILE for tables, or --perfetto FILE"),
    ],
)
def test_a_timeline_and_tables_are_not_mixed(call, fake, words, said):
    done = call("export", *words)
    assert done.code == 2 and said in done.err and done.err.count("\n") == 1 and not fake


def test_ingest_hands_on_files_store_and_options(call, fake):
    assert call("ingest", "a", "b", "--db", "s.duckdb", "--run", "r", "--keep-environment").code == 0
    name, (paths, store), keywords = fake[-1]
    assert (name, paths, store) == ("ingest", (Path("a"), Path("b")), Path("s.duckdb"))
    assert keywords == {"run": "r", "keep_environment": True, "progress": None}
    call("ingest", "a")
    assert fake[-1][1][1] == Path("traceanalyzer.duckdb")


def test_demo_shows_what_was_captured_and_where_the_time_went(call, fake):
    done = call("demo")
    assert done.code == 0
    assert [a[0] for a in fake].count("ingest") == done.out.count("== Where the time went: ") == 7
    assert "== What was captured ==" in done.out and done.out.index("== Try next ==") > done.out.index("Where the time")


def test_busy_devices_that_copy_show_the_compute_lane_too(call, fake, monkeypatch):
    from tests.cli import answers

    def busy():
        answer = answers.gaps()
        answer.devices.columns["copy_ns"][0] = 5
        return answer

    monkeypatch.setitem(answers.ANSWERS, "gaps", busy)
    assert call("gaps").out.count("devices:") == 2
    assert [a[2]["lane"] for a in fake if a[0] == "gaps"] == ["device", "compute"]
    assert call("gaps", "--format", "json").code == 0 and len([a for a in fake if a[0] == "gaps"]) == 3
