"""The command `traceanalyzer`."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from traceanalyzer.cli.boundary import State, finish, guarded
from traceanalyzer.cli.group import LazyGroup
from traceanalyzer.version import __version__

PROGRAM = "traceanalyzer"


@click.group(
    cls=LazyGroup,
    name=PROGRAM,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", prog_name=PROGRAM, message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback where traceanalyzer itself fails.")
@click.pass_context
def root(ctx: click.Context, debug: bool) -> None:
    """Say why GPUs are idle, from the traces of nsys and torch.profiler.

    \b
    Examples:
      traceanalyzer gaps trace.json.gz          # why the GPU was idle, straight from a file
      traceanalyzer ingest traces/              # read all ranks of a job into ./traceanalyzer.duckdb
      traceanalyzer gaps --rank all             # ask the store
      traceanalyzer demo                        # see it on bundled traces
    """
    ctx.ensure_object(State).debug = debug
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; nothing but the code comes out of it."""
    state = State()
    words = list(sys.argv[1:] if arguments is None else arguments)
    return guarded(lambda: root.main(words, prog_name=PROGRAM, standalone_mode=False, obj=state), state)


def main() -> NoReturn:
    """Entry point of the installed command."""
    # Started with a closed output, as by `>&-`, Python has no stream to write to.
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    # Asked to end, as by a batch system, it leaves nothing half-done behind: the same as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from traceanalyzer.store.allocation import give_back_large_arrays

    give_back_large_arrays()
    finish(run())
