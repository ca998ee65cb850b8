"""Commands that answers and pages offer take the options that are repeated in them."""

import shlex

import click
import pytest

from traceanalyzer.cli.commands import COMMANDS
from traceanalyzer.cli.main import root
from traceanalyzer.cli.options import _REPEATED
from traceanalyzer.passes.selection import make_selection
from traceanalyzer.views.commands import LACKS, _options, command_line

OFFERED = [entry.name for entry in COMMANDS if entry.name not in ("ingest", "demo", "howto")]


@pytest.mark.parametrize("name", OFFERED)
def test_what_a_command_lacks_is_known(name):
    command = root.get_command(click.Context(root), name)
    options = {option for parameter in command.params for option in parameter.opts}
    changing = ("warmup", "input_range", "user_code", "align", "peaks")
    repeated = {f"--{each.replace('_', '-')}" for each in (*_REPEATED, *changing)}
    assert repeated - options == LACKS.get(name, frozenset())


def test_what_was_selected_is_said_where_it_is_taken():
    chosen = make_selection(
        run="a b", rank="0,2-3", steps="3-7", window="0.5:2", warmup=1, align="utc", input_range="load", capture="4"
    )
    assert command_line("gaps --table causes", "--steps 3-7 t.json", chosen) == (
        "traceanalyzer gaps --table causes --run 'a b' --rank 0,2-3 --capture 4 --window 0.5:2 --warmup 1"
        " --input-range load --steps 3-7 t.json"
    )
    assert command_line("info", "", chosen) == "traceanalyzer info --run 'a b' --rank 0,2-3 --capture 4"
    assert command_line("ledger --warmup 2", "", make_selection(warmup=1)) == "traceanalyzer ledger --warmup 2"
    again = make_selection(window=_options(chosen)[4][1])
    assert again.window_ns == chosen.window_ns == (500_000_000, 2_000_000_000)


@pytest.mark.parametrize(
    ("words", "inputs", "line"),
    [
        ("gaps", "--steps 3-7 t.json", "traceanalyzer gaps --steps 3-7 t.json"),
        ("info --table answers", "--steps 3-7 --rank 0 t.json", "traceanalyzer info --table answers --rank 0 t.json"),
        ("info", "'a b.json'", "traceanalyzer info 'a b.json'"),
        ("info", "--window 0:1 'a b.json'", "traceanalyzer info 'a b.json'"),
        ("collectives", "--step-range 'it .*'", "traceanalyzer collectives"),
        ("gaps", "", "traceanalyzer gaps"),
    ],
)
def test_a_command_line_has_what_the_command_takes(words, inputs, line):
    assert command_line(words, inputs) == line
    assert shlex.split(line)
