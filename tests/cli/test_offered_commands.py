"""Commands that answers and pages offer take the options that are repeated in them."""

import shlex

import click
import pytest

from traceanalyzer.cli.commands import COMMANDS
from traceanalyzer.cli.main import root
from traceanalyzer.cli.options import _REPEATED
from traceanalyzer.views.commands import LACKS, command_line

OFFERED = [entry.name for entry in COMMANDS if entry.name not in ("ingest", "demo", "howto", "sql", "export")]


@pytest.mark.parametrize("name", OFFERED)
def test_what_a_command_lacks_is_known(name):
    command = root.get_command(click.Context(root), name)
    options = {option for parameter in command.params for option in parameter.opts}
    repeated = {f"--{each.replace('_', '-')}" for each in _REPEATED}
    assert repeated - options == LACKS.get(name, frozenset())


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
