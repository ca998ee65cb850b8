"""`traceanalyzer report`: everything about a run in one file that a team can pass around."""

import sys
from pathlib import Path

import click

from traceanalyzer.cells import printable
from traceanalyzer.cli.ask import opened
from traceanalyzer.cli.options import Asked, question_options
from traceanalyzer.cli.progress import progress_bar
from traceanalyzer.cli.render.output import deliver, said_of
from traceanalyzer.errors import UsageError
from traceanalyzer.units import Unit, format_value


@click.command("report")
@question_options(without=("lane", "top", "form", "table"), plus=("align", "peaks"))
@click.option(
    "--format",
    "file_format",
    type=click.Choice(("html", "markdown", "json")),
    help="html is the page; markdown and json are summaries.  [default: that of FILE's name, else html]",
)
@click.option("--full-paths", is_flag=True, help="Keep paths and host names whole, but for users in them.")
@click.option(
    "--pseudonyms",
    is_flag=True,
    help="Replace names of hosts, paths, runs and kernels; the key is kept in FILE.key.json, which is not for others.",
)
@click.option(
    "--lang", type=click.Choice(("en", "zh")), default="en", show_default=True, help="Language of the verdicts."
)
def command(asked: Asked, file_format: str | None, full_paths: bool, pseudonyms: bool, lang: str) -> None:
    """Everything about a run in one HTML file, to be passed around.

    The verdict comes first: what limits the job, what it costs a step, what to change. Then where the time went, steps,
    idle time by cause and line of code, ranks, kernels, operators, memory, metrics, and what could not be answered.
    Each number behind a verdict links to its row, beside the command that prints it. The page needs no network and no
    server.

    Environment variables (but for settings that a verdict names) and names of users are left out; paths and host names
    are shortened, and the page says what was left out. Names that a program gave (ranges, threads, files, runs) stay,
    but for what looks like a path, a host or a user in them. markdown and json are summaries for issues and pull
    requests.

    \b
    Examples:
      traceanalyzer report -o report.html                  # the newest run of the store
      traceanalyzer report -o report.html rank*.json.gz    # straight from files
      traceanalyzer report --format markdown               # a summary for a pull request
      traceanalyzer report --pseudonyms -o report.html     # for people outside; the key stays here
    """
    target = asked.output
    if target is None and file_format in (None, "html"):
        raise UsageError("a page goes into a file: give -o report.html, or --format markdown for the terminal")
    if pseudonyms and target is None:
        raise UsageError("--pseudonyms keeps a key beside the file: give -o FILE")
    if target is not None and file_format is None:
        from traceanalyzer.report.report import form_of

        form_of(target)  # before minutes of work
    if target is not None and target.is_dir():
        raise UsageError(f"{target}: is a folder; give the name of a file")
    key = None if target is None or not pseudonyms else key_beside(target)
    with opened(asked) as traces, progress_bar(asked.quiet, bytes_of_files=False) as progress:
        report = traces.report(
            inputs=asked.inputs, lang=lang, full_paths=full_paths, key=key, progress=progress, **asked.selection
        )
        if target is None:
            deliver(report.written(str(file_format)), None)
        else:
            with said_of(target):
                report.write(target, file_format)
            if not asked.quiet and sys.stderr.isatty():
                click.echo(f"{printable(str(target))}: {format_value(target.stat().st_size, Unit.BYTES)}", err=True)


def key_beside(target: Path) -> Path:
    """The file that keeps what pseudonyms of a page stand for."""
    return target.with_name(f"{target.name}.key.json")
