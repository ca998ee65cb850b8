"""Options that many commands share, declared once."""

import functools
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from traceanalyzer.cli.render.output import FORMATS, FORMATS_OF_STACKS

Command = TypeVar("Command", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)

_STORE = {
    "db": click.option(
        "--db",
        type=PATH,
        metavar="FILE",
        help="The store.  [default: $TRACEANALYZER_DB, else ./traceanalyzer.duckdb]",
    ),
}
_SELECTION = {
    "run": click.option("--run", metavar="NAME|all", help="Run to speak of.  [default: the newest]"),
    "rank": click.option("--rank", default="all", show_default=True, metavar="all|0,2,4-7", help="Ranks to speak of."),
    "device": click.option("--device", type=click.IntRange(min=0), metavar="N", help="One device only."),
    "source": click.option(
        "--source",
        metavar="torch|nsys",
        help="Whose trace to use where a rank has several.  [default: the more detailed]",
    ),
    "capture": click.option(
        "--capture", metavar="0,2,4-7", help="Captures to speak of, by their numbers in info.  [default: all]"
    ),
    "steps": click.option("--steps", metavar="A-B", help="Steps to speak of, by the trace's own numbers."),
    "window": click.option("--window", metavar="A:B", help="Seconds after the first operation of the file."),
    "lane": click.option(
        "--lane",
        type=click.Choice(("device", "compute")),
        default="device",
        show_default=True,
        help="Idle means: nothing runs on the device, or no compute kernel runs.",
    ),
    "warmup": click.option(
        "--warmup", type=click.IntRange(min=0), metavar="N", help="Leading steps left out of rates.  [default: found]"
    ),
    "step_range": click.option("--step-range", metavar="REGEX", help="NVTX ranges, by whole names, that mark a step."),
    "input_range": click.option("--input-range", metavar="REGEX", help="Ranges in which the program waits for input."),
    "user_code": click.option(
        "--user-code", metavar="REGEX", help="Packages that count as your own code for the blame."
    ),
    "under": click.option("--under", metavar="REGEX", help="Only idle time with a matching frame on its stack."),
    "by": click.option(
        "--by",
        type=click.Choice(("cause", "stack", "function", "range", "thread", "step", "rank")),
        help="Group idle time by this, as one more table.",
    ),
    "align": click.option(
        "--align",
        type=click.Choice(("collectives", "utc", "none")),
        default="collectives",
        show_default=True,
        help="What puts the clocks of ranks on one: ends of collectives, the time of day, or nothing.",
    ),
    "split": click.option(
        "--as",
        "split",
        type=click.Choice(("ledger", "tensorboard")),
        default="ledger",
        show_default=True,
        help="Whose parts: groups of the ledger's categories, or those of TensorBoard's profiler plugin.",
    ),
    "metric": click.option("--metric", metavar="REGEX", help="Only metrics whose name has a match."),
    "peaks": click.option(
        "--peaks", type=PATH, metavar="FILE", help="Peaks of devices (TOML), in place of those that are known."
    ),
    "samples_per_step": click.option(
        "--samples-per-step",
        type=click.IntRange(min=1),
        metavar="N",
        help="Samples of a step, of all ranks together: throughput is in samples per second.",
    ),
}
_EVERY_RUN = click.option("--run", metavar="NAME|all", help="Run to speak of.  [default: all]")
_SPECIAL = frozenset({"under", "by", "align", "metric", "peaks", "split", "samples_per_step"})
"""Options that few questions have; those with `under` print stacks as well."""
_REPEATED = ("run", "rank", "device", "source", "capture", "steps", "window", "step_range")
"""Options that every question of time takes, so that commands which are offered after one repeat them."""
_OUTPUT = {
    "top": click.option(
        "--top",
        type=click.IntRange(min=0),
        default=20,
        show_default=True,
        metavar="N",
        help="Rows of each list, largest first; 0 for all. Totals are never cut.",
    ),
    "form": click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="table and markdown for people, json and csv for programs.",
    ),
    "table": click.option("--table", metavar="NAME", help="The one table to print; csv and markdown print only one."),
    "output": click.option(
        "-o", "--output", type=PATH, metavar="FILE", help="Write to a file, as a whole or not at all."
    ),
    "quiet": click.option("-q", "--quiet", is_flag=True, help="No progress, no hints; warnings are still printed."),
}


_FORM_OF_STACKS = click.option(
    "--format",
    "form",
    type=click.Choice((*FORMATS, *FORMATS_OF_STACKS)),
    default="table",
    show_default=True,
    help="table, tree and markdown for people, json and csv for programs, folded for flame graphs.",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the shared options said: the store or the raw files, the selection, and the form of the answer."""

    traces: tuple[Path, ...] = ()
    db: Path | None = None
    selection: dict[str, Any] = field(default_factory=dict)
    top: int = 20
    form: str = "table"
    table: str | None = None
    output: Path | None = None
    quiet: bool = False

    @property
    def rows(self) -> int:
        """Rows of each list to ask for: one more than `top`, so that the printer knows where it cuts."""
        return self.top + 1 if self.top else 0

    @property
    def inputs(self) -> str:
        """The selection, and the files or the store, as the command line named them, quoted for a shell."""
        given = {"db": self.db} | {name: self.selection.get(name) for name in _REPEATED}
        if given["rank"] == "all":
            given["rank"] = None
        options = [(f"--{name.replace('_', '-')}", str(value)) for name, value in given.items() if value is not None]
        # A name that begins like an option is none with its folder before it.
        files = [f"./{path}" if str(path).startswith("-") else str(path) for path in self.traces]
        return shlex.join([*(word for option in options for word in option), *files])


def question_options(
    *, without: tuple[str, ...] = (), plus: tuple[str, ...] = (), traces: bool = True, every_run: bool = False
) -> Callable[[Command], Command]:
    """Give a command TRACE... and the options of a question, and hand them to it as one `Asked`.

    `without` names options that make no sense for the question, `plus` those of few questions that do; `traces` tells
    whether it takes raw files, `every_run` whether it is about all runs where none is named.
    """
    left_out = {*without, *(_SPECIAL - set(plus))}
    options = {name: each for name, each in (_STORE | _SELECTION | _OUTPUT).items() if name not in left_out}
    if "under" in plus:
        options["form"] = _FORM_OF_STACKS
    if every_run:
        options["run"] = _EVERY_RUN
    files = click.argument("traces", nargs=-1, type=PATH, metavar="[TRACE]...")
    return _with([files] if traces else [], options)


def store_options(*, without: tuple[str, ...] = ()) -> Callable[[Command], Command]:
    """Give a command the options of the store and of the output only."""
    return _with([], _STORE | {name: option for name, option in _OUTPUT.items() if name not in without})


def _with(
    arguments: list[Callable[[Command], Command]], options: dict[str, Callable[[Command], Command]]
) -> Callable[[Command], Command]:
    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def gathered(**given: Any) -> Any:
            selection = {name: given.pop(name) for name in _SELECTION if name in options and name in given}
            shared = {name: given.pop(name) for name in ("traces", *_STORE, *_OUTPUT) if name in given}
            return function(Asked(selection=selection, **shared), **given)

        wrapped: Any = gathered
        for decorator in reversed([*arguments, *options.values()]):
            wrapped = decorator(wrapped)
        return wrapped  # type: ignore[no-any-return]

    return decorate
