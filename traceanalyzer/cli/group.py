"""A click group whose commands are imported when they are called, and whose help shows them in groups."""

import importlib
from typing import Any

import click

from traceanalyzer.cli.commands import COMMANDS, GROUPS, Entry


class LazyGroup(click.Group):
    """The root command: knows its commands from `COMMANDS` and imports the one that is called."""

    def __init__(self, *args: Any, entries: tuple[Entry, ...] = COMMANDS, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._entries = {entry.name: entry for entry in entries}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names in the order of `COMMANDS`."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of that name; its module is imported now."""
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = importlib.import_module(entry.module).command
        command.short_help = entry.help
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called; of an unknown one the error names those that may be meant."""
        name = args[0]
        if name not in self._entries and not name.startswith("-") and not ctx.resilient_parsing:
            import difflib  # late: a call that is right does without it

            close = difflib.get_close_matches(name.lower(), self._entries)
            meant = f"; did you mean {' or '.join(close)}?" if close else ""
            ctx.fail(f"No such command {name!r}{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands in their groups, from `COMMANDS` alone: no module is imported."""
        for group in GROUPS:
            lines = [(entry.name, entry.help) for entry in self._entries.values() if entry.group == group]
            if lines:
                with formatter.section(group):
                    formatter.write_dl(lines)
