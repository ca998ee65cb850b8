"""The reference page of the command line, made from the commands: `python -m traceanalyzer.cli.reference`."""

import inspect
import sys

import click

from traceanalyzer.cli.boundary import Exit
from traceanalyzer.cli.commands import COMMANDS, GROUPS
from traceanalyzer.cli.main import PROGRAM, root

_INTRODUCTION = f"""\
# Commands

Generated from the commands by `python -m traceanalyzer.cli.reference`; do not edit.

`{PROGRAM} [--debug] COMMAND ...`; `{PROGRAM} --help` lists the commands, `{PROGRAM} --version` tells the version.
"""

_EXITS = {
    Exit.ANSWERED: "answered; warnings are allowed, and stand on stderr or in the JSON",
    Exit.GATE_FAILED: "a gate failed (for commands that check something against a limit)",
    Exit.BAD_INPUT: "bad input or usage: one line on stderr says what, and what to do",
    Exit.NOT_COMPARABLE: "not comparable (for commands that compare)",
    Exit.OUR_FAULT: f"a fault of {PROGRAM} itself; `{PROGRAM} --debug COMMAND ...` shows where",
    Exit.INTERRUPTED: "interrupted",
}

_FORMS = """\
## Forms of an answer

- `table`: for a terminal. Numbers are scaled and carry their unit, long names are shortened to the width of the
  terminal (`$COLUMNS`, or 120 columns in a pipe), columns without a value are left out, and characters that a terminal
  may act upon are shown as escapes.
- `json`: one object with `traceanalyzer` (version), `command`, `tables` (name to list of rows), `findings` and
  `warnings`. Every column, whole names, exact integers, shares from 0 to 1; what is not a number is null.
- `csv`: one table (`--table`) with every column and exact numbers. Lists are JSON. Text that a spreadsheet would run
  as a formula (it begins with `=`, `+`, `-`, `@`, a tab or a line end) gets an apostrophe before it.
- `markdown`: one table (`--table`) with the columns and the scaled numbers of `table`, names whole.

`--output FILE` replaces the file as a whole or leaves it as it was. `--top` cuts lists, never totals.

## Shell completion

Completion is click's: `eval "$(_TRACEANALYZER_COMPLETE=bash_source traceanalyzer)"`, with `zsh_source` or
`fish_source` for the other shells.
"""


def command_reference() -> str:
    """The page, as Markdown."""
    context = click.Context(root, info_name=PROGRAM)
    parts = [_INTRODUCTION, "## Exit codes\n", "| code | meaning |\n| ---: | --- |"]
    parts += [f"| {code.value} | {meaning} |" for code, meaning in _EXITS.items()]
    parts.append("\n" + _FORMS)
    for group in GROUPS:
        for entry in COMMANDS:
            if entry.group == group and (command := root.get_command(context, entry.name)) is not None:
                parts.append(_section(command, group))
    return "\n".join(parts)


def _section(command: click.Command, group: str) -> str:
    arguments = [str(p.metavar) for p in command.params if isinstance(p, click.Argument)]
    usage = " ".join([PROGRAM, str(command.name), "[OPTIONS]", *arguments])
    lines = [f"## {PROGRAM} {command.name}", "", f"Group: {group}. Usage: `{usage}`", "", _prose(command), ""]
    options = [p for p in command.params if isinstance(p, click.Option)]
    lines += ["| option | meaning |", "| --- | --- |", *map(_option, options), ""]
    return "\n".join(lines)


def _prose(command: click.Command) -> str:
    """The help text; its blocks that are kept verbatim become code."""
    out = []
    for block in inspect.cleandoc(command.help or "").split("\n\n"):
        if block.startswith("\b\nExamples:\n"):
            out.append("```sh\n" + inspect.cleandoc("\n" + block.removeprefix("\b\nExamples:\n")) + "\n```")
        else:
            out.append(block.removeprefix("\b\n"))
    return "\n\n".join(out)


def _option(option: click.Option) -> str:
    choices = "|".join(option.type.choices) if isinstance(option.type, click.Choice) else ""
    value = "" if option.is_flag else f" {option.metavar or choices}"
    default = f"  [default: {option.default}]" if option.show_default else ""
    name = ", ".join(option.opts) + value
    return f"| `{_cell(name)}` | {_cell((option.help or '') + default)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(command_reference())
