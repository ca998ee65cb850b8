"""Measures everything and prints a table in Markdown: `python -m tests.bench [--repeat 3] [--folder DIR] [NAME...]`.

The yardstick of a trace is `orjson.loads` of the whole file with the collector off, that of an export a scan of all
rows of its event tables with the standard library. Both alternate with the command in one run, each in a fresh process;
the start of our interpreter and its imports count, theirs do not. The best of the repeats counts; CPU and memory are
those of the whole tree of processes.
"""

import argparse
import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.inputs import (
    NSYS_5_M_KERNELS,
    NSYS_250_MB,
    SHARED,
    TORCH_1_GB,
    TORCH_6_M_EVENTS,
    TORCH_25_MB,
    TORCH_300_MB,
    TORCH_300_MB_GZ,
    Input,
)

ROOT = Path(__file__).resolve().parents[2]
_YARDSTICK = SHARED / "bench" / "yardstick.py"
_IMPORTS = "import click, rich.console, rich.table, msgspec, numpy, duckdb"
_PACKAGES = ("duckdb", "numpy", "msgspec", "numba", "isal", "orjson")


class Row(NamedTuple):
    """One measurement as people read it: what was run, the yardstick, the ratio that has a limit, more of it."""

    what: str
    wall_s: float
    yardstick_s: float
    wall_ratio: float
    cpu_ratio: float | None
    peak_mib: float | None
    limit: str
    held: bool


class Spent(NamedTuple):
    """What a command took, in seconds."""

    wall_s: float
    cpu_s: float


class Bench:
    """Runs commands in a folder of its own."""

    def __init__(self, folder: Path, repeat: int) -> None:
        self.folder, self.repeat = folder, repeat
        self.peaks: dict[str, float] = {}
        self._environment = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")}

    def ingest(self, kind: str, made: Input, measure: str, limit: float) -> Row:
        """Reading a file into a new store against the yardstick; `measure` is the ratio that has the limit."""
        path, store = made.made(self.folder), self.folder / "bench.duckdb"
        command = [sys.executable, "-m", "traceanalyzer", "ingest", "--quiet", str(path), "--db", str(store)]
        done = subprocess.run(
            [
                *(sys.executable, str(_YARDSTICK), kind, str(path), "--repeat", str(self.repeat), "--no-stdlib"),
                *("--rm", str(store), "--rm", f"{store}.wal", "--size-of", str(store), "--run", *command),
            ],
            check=True,
            stdout=subprocess.PIPE,
            env=self._environment,
        )
        found = json.loads(done.stdout)
        ours, theirs = found["command"], found["reference"]["orjson" if kind == "json" else "sqlite"]
        self.peaks[made.name] = ours["rss_mb"]
        ratio = ours[f"ratio_{measure}"]
        what = f"ingest {made.name} ({found['bytes'] / 1e6:,.0f} MB, {theirs['items']:,} {_ITEMS[kind]})"
        yardstick = theirs["wall" if measure == "wall" else "cpu"]
        text = f"{measure} ratio <= {limit}"
        return Row(
            what, ours["wall"], yardstick, ours["ratio_wall"], ours["ratio_cpu"], ours["rss_mb"], text, ratio <= limit
        )

    def torch_300(self) -> Row:
        """A trace of 300 MB."""
        return self.ingest("json", TORCH_300_MB, "wall", 1.2)

    def torch_300_gz(self) -> Row:
        """The same, gzipped."""
        return self.ingest("json", TORCH_300_MB_GZ, "wall", 1.2)

    def torch_1000(self) -> Row:
        """A trace of 1 GB, which must not take much more memory than the one of 300 MB."""
        row = self.ingest("json", TORCH_1_GB, "wall", 0.9)
        limit, held = f"{row.limit}; peak < 768 MiB", row.held and self.peaks[TORCH_1_GB.name] < 768
        if TORCH_300_MB.name in self.peaks:
            growth = self.peaks[TORCH_1_GB.name] / self.peaks[TORCH_300_MB.name] - 1
            limit, held = f"{limit}, {growth:+.0%} of 300 MB's <= +20%", held and growth <= 0.2
        return row._replace(limit=limit, held=held)

    def nsys_250(self) -> Row:
        """An nsys export of 250 MB."""
        return self.ingest("sqlite", NSYS_250_MB, "cpu", 1.0)

    def gaps_25(self) -> Row:
        """The first question about a file that nobody has read yet."""
        path = TORCH_25_MB.made(self.folder)
        imports = self._best([sys.executable, "-c", _IMPORTS])
        gaps = self._best([sys.executable, "-m", "traceanalyzer", "gaps", str(path)])
        held = gaps.wall_s <= imports.wall_s + 1.5
        return _compared(f"gaps {path.name}, not stored yet", gaps, imports, "start and imports + 1.5 s", held)

    def checkup_25(self) -> Row:
        """The whole card of a file that nobody has read yet."""
        path = TORCH_25_MB.made(self.folder)
        imports = self._best([sys.executable, "-c", _IMPORTS])
        card = self._best([sys.executable, "-m", "traceanalyzer", "checkup", str(path)])
        what = f"checkup {path.name}, not stored yet"
        return _compared(what, card, imports, f"{CARD_SECONDS} s", card.wall_s <= CARD_SECONDS)

    def attribution(self, made: Input) -> Row:
        """Attributing all gaps of a large store, without start and imports."""
        store = self.folder / f"{made.name}.duckdb"
        if not store.exists():
            ingest = [sys.executable, "-m", "traceanalyzer", "ingest", "--quiet", str(made.made(self.folder))]
            subprocess.run([*ingest, "--db", str(store)], check=True, stdout=subprocess.DEVNULL, env=self._environment)
        command = [sys.executable, "-m", "tests.bench.attribution", str(store), str(self.repeat)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=self._environment, cwd=ROOT)
        found = json.loads(done.stdout)
        return Row(
            f"gaps of {made.name} attributed",
            found["ours_s"],
            found["reference_s"],
            found["ratio"],
            None,
            found["peak_mib"],
            "wall ratio <= 6 of union and launch join in the engine; peak < 2560 MiB",
            found["ratio"] <= 6 and found["peak_mib"] < 2560,
        )

    def attribution_launches(self) -> Row:
        """Five million kernels, ten million calls."""
        return self.attribution(NSYS_5_M_KERNELS)

    def attribution_stacks(self) -> Row:
        """A million kernels, six million events with Python stacks."""
        return self.attribution(TORCH_6_M_EVENTS)

    def help(self) -> Row:
        """The help of the program."""
        nothing = self._best([sys.executable, "-c", "pass"], 20)
        ours = self._best([sys.executable, "-m", "traceanalyzer", "--help"], 20)
        held = ours.wall_s <= 4 * nothing.wall_s
        return _compared("--help", ours, nothing, "wall ratio <= 4 of `python -c pass`", held)

    def _best(self, command: list[str], times: int = 1) -> Spent:
        """The shortest wall time and the least CPU time of a command, each time without any cache of ours."""
        best = Spent(float("inf"), float("inf"))
        for _ in range(self.repeat * times):
            subprocess.run(["rm", "-rf", str(self.folder / "cache")], check=True)
            used, begun = _cpu_of_children(), time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=self._environment)
            wall, cpu = time.perf_counter() - begun, _cpu_of_children() - used
            best = Spent(min(best.wall_s, wall), min(best.cpu_s, cpu))
        return best


def _cpu_of_children() -> float:
    """CPU seconds of all processes that were started here and have ended, and of those that they waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _compared(what: str, ours: Spent, theirs: Spent, limit: str, held: bool) -> Row:
    """The row of a command beside a yardstick that was measured the same way."""
    wall, cpu = ours.wall_s / theirs.wall_s, ours.cpu_s / theirs.cpu_s
    return Row(what, ours.wall_s, theirs.wall_s, wall, cpu, None, limit, held)


CARD_SECONDS = 10
"""A check-up of 25 MB that nobody has read yet takes no longer."""
_ITEMS = {"json": "events", "sqlite": "rows"}
MEASUREMENTS: dict[str, Callable[[Bench], Row]] = {
    "torch-300": Bench.torch_300,
    "torch-300-gz": Bench.torch_300_gz,
    "torch-1000": Bench.torch_1000,
    "nsys-250": Bench.nsys_250,
    "gaps-25": Bench.gaps_25,
    "checkup-25": Bench.checkup_25,
    "help": Bench.help,
    "attribution-launches": Bench.attribution_launches,
    "attribution-stacks": Bench.attribution_stacks,
}


def machine() -> str:
    """What the figures were measured on, in a line."""
    facts = dict(
        line.split(":", 1) for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if ":" in line
    )
    model = next((value.strip() for name, value in facts.items() if name.strip() == "model name"), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    packages = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    cores = len(os.sched_getaffinity(0))
    python = platform.python_version()
    return f"{cores} cores of {model}, {memory:.0f} GiB; load {os.getloadavg()[0]:.1f}; Python {python}, {packages}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _cells(row: Row) -> list[str]:
    def number(value: Any, digits: int) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    seconds = [number(row.wall_s, 2), number(row.yardstick_s, 2)]
    ratios = [number(row.wall_ratio, 2), number(row.cpu_ratio, 2)]
    return [row.what, *seconds, *ratios, number(row.peak_mib, 0), row.limit, "held" if row.held else "NOT HELD"]


def main() -> int:
    """Measure, print, and tell by the exit code whether every limit holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(MEASUREMENTS)}; all if none is given")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the inputs are made and kept; a temporary one if not given")
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(MEASUREMENTS):
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    if not _YARDSTICK.exists():
        print(f"skipped: the captures and the yardstick are not there ({_YARDSTICK})", file=sys.stderr)
        return 0
    print(f"Measured on {datetime.date.today():%Y-%m-%d}: {machine()}. Best of {asked.repeat}.\n")
    print("| what | wall s | yardstick s | wall ratio | CPU ratio | peak MiB | limit | |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |", flush=True)
    held = True
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-bench-") as folder:
        chosen = asked.folder or Path(folder)
        chosen.mkdir(parents=True, exist_ok=True)
        bench = Bench(chosen, asked.repeat)
        for name, measurement in MEASUREMENTS.items():
            if not asked.names or name in asked.names:
                row = measurement(bench)
                held &= row.held
                print(f"| {' | '.join(_cells(row))} |", flush=True)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
