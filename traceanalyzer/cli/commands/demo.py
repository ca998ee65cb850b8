"""`traceanalyzer demo`: the bundled sample traces, read and asked."""

import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import click

from traceanalyzer.cells import from_here
from traceanalyzer.cli.progress import progress_bar
from traceanalyzer.cli.render.output import deliver, rendered, warn
from traceanalyzer.errors import SourceError

TOP = 3
"""Rows of each list: the demo is a few screens."""
MOST_RANKS = 2
"""Of jobs of more ranks than this only those that are late are shown."""

SAMPLES = "sample_traces"
PROGRAM = "traceanalyzer"
_TRACES = "*.gz"
"""Traces are packed; folders without one show other formats, and are no jobs."""
_STORE = "./traceanalyzer.duckdb"


@click.command("demo")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
def command(quiet: bool) -> None:
    """Read the bundled sample traces and show what can be asked.

    Reads them into a temporary store, prints what was captured, and then for each job where the time of its GPUs
    went, which rank is late, or what limits its kernels. What was wrong with each job is told in the README.md beside
    the traces.

    \b
    Examples:
      traceanalyzer demo
    """
    from traceanalyzer.ingestion import ingest
    from traceanalyzer.traceset import open as open_store

    folder = sample_folder()
    files = {path: len(list(path.glob(_TRACES))) for path in folder.iterdir() if path.is_dir()}
    jobs = sorted((path for path, count in files.items() if count), key=lambda path: (files[path], path.name))
    if not jobs:
        raise SourceError(folder, "holds no sample traces", "install traceanalyzer again")
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-demo-") as temporary:
        store = Path(temporary) / "demo.duckdb"
        for job in jobs:
            with progress_bar(quiet) as progress:
                warn(ingest([job], store, run=job.name, progress=progress).warnings)
        with open_store(store) as traces:
            _heading("What was captured")
            info = traces.info(run="all")
            for table in ("captures", "quality"):
                deliver(rendered(info, "table", top=0, table=table) + "\n", None)
            timelines: list[Path] = []
            for job in jobs:
                gaps = traces.gaps(run=job.name)
                if len(gaps.table("devices")):
                    timelines.append(job)
                    ranks = len(set(gaps.table("devices").columns["rank"]))
                    if ranks <= MOST_RANKS:
                        _heading(f"Where the time went: {job.name}")
                        deliver(rendered(gaps, "table", top=TOP), None)
                    if ranks > 1:
                        _heading(f"Which rank is late: {job.name}")
                        deliver(rendered(traces.imbalance(run=job.name), "table", top=TOP), None)
                elif len((limits := traces.throughput(run=job.name)).table("kernels")):
                    _heading(f"What limits the kernels: {job.name}")
                    deliver(rendered(limits, "table", top=TOP), None)
                else:
                    _heading(f"What was sampled: {job.name}")
                    deliver(rendered(traces.metrics(run=job.name), "table", top=TOP), None)
    _heading("Try next")
    for line, why in _commands(timelines or jobs):
        click.echo(f"  {line}\n      {why}")


def sample_folder() -> Path:
    """Where the sample traces are: inside of the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[2]
    for folder in (package / SAMPLES, package.parent / SAMPLES):
        if folder.is_dir():
            return folder
    raise SourceError(package / SAMPLES, "the sample traces are missing", "install traceanalyzer again")


def _heading(text: str) -> None:
    click.echo(f"\n== {text} ==\n")


def _commands(jobs: list[Path]) -> list[tuple[str, str]]:
    program, first, last = _program(), shlex.quote(from_here(str(jobs[0]))), shlex.quote(from_here(str(jobs[-1])))
    return [
        (f"{program} gaps --table gaps --top 5 {first}", f"the five longest gaps of {jobs[0].name}"),
        (f"{program} ingest {last} && {program} steps", f"a store in {_STORE}, and the steps of {jobs[-1].name}"),
        (f"{program} report -o report.html {first}", f"everything about {jobs[0].name} in one page"),
        (f"{program} gaps YOUR_TRACE", "your own: a trace of torch.profiler, or an nsys export to SQLite"),
    ]


def _program() -> str:
    """The command as it can be typed here: its path where the shell would not find it."""
    called = Path(sys.argv[0])
    found = shutil.which(PROGRAM) is not None or called.name != PROGRAM
    return PROGRAM if found else shlex.quote(from_here(str(called.absolute())))
