"""`traceanalyzer report`: everything about a run in one file that a team can pass around."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.cli.ask import opened
from traceanalyzer.cli.options import Asked, question_options
from traceanalyzer.cli.progress import progress_bar
from traceanalyzer.cli.render.output import deliver, rendered
from traceanalyzer.errors import UsageError

if TYPE_CHECKING:
    from traceanalyzer.report.report import Report

FORMATS = {".html": "html", ".htm": "html", ".md": "markdown", ".json": "json"}
"""Formats by what the name of the file ends in."""


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
    Each figure links to the row behind it and shows the command that prints it. The page needs no network and no
    server.

    Environment variables and names of users never get into it; paths and host names are shortened, and the page says
    what was left out. Names that a program gave (ranges, threads, files, runs) stay, but for what looks like a path, a
    host or a user in them. markdown and json are summaries for issues and pull requests.

    \b
    Examples:
      traceanalyzer report -o report.html                  # the newest run of the store
      traceanalyzer report -o report.html rank*.json.gz    # straight from files
      traceanalyzer report --format markdown               # a summary for a pull request
      traceanalyzer report --pseudonyms -o report.html     # for people outside; the key stays here
    """
    target = asked.output
    kind = file_format or (FORMATS.get(target.suffix.lower()) if target is not None else None) or "html"
    if kind == "html" and target is None:
        raise UsageError("a page goes into a file: give -o report.html, or --format markdown for the terminal")
    if pseudonyms and target is None:
        raise UsageError("--pseudonyms keeps a key beside the file: give -o FILE")
    key = None if target is None or not pseudonyms else key_beside(target)
    with opened(asked) as traces, progress_bar(asked.quiet, bytes_of_files=False) as progress:
        report = traces.report(
            inputs=asked.inputs, lang=lang, full_paths=full_paths, key=key, progress=progress, **asked.selection
        )
        text = _written(report, kind)
    # Before the page, so that there is none whose names nobody can tell.
    if report.pseudonyms is not None:
        report.pseudonyms.save()
    deliver(text, target)


def _written(report: "Report", kind: str) -> str:
    if kind == "html":
        return report.html
    return report.markdown if kind == "markdown" else rendered(report.summary, "json", top=0)


def key_beside(target: Path) -> Path:
    """The file that keeps what pseudonyms of a page stand for."""
    return target.with_name(f"{target.name}.key.json")
