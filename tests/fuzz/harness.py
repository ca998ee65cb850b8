"""One input through the whole program, and whether it was handled right."""

import atexit
import contextlib
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import traceanalyzer
from tests.fuzz.inputs import Input
from tests.fuzz.mutations import Mutation
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingestion import ingest
from traceanalyzer.store.database import open_to_write

MOST_SECONDS = 20
MOST_MEMORY = 2 << 30


class Hang(BaseException):
    """It took too long."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an input: answered, warned or refused; `wrong` says what was not right."""

    what: str
    seconds: float
    wrong: str = ""
    detail: str = ""


def attempt(item: Input, mutation: Mutation, seed: int) -> Outcome:
    """Mutate an input and try it."""
    data = mutation.change(Random(seed), item.content)
    before = _totals_of(item) if mutation.whole else None
    return tried(data, item.name, cut=mutation.cut, expected=before)


def tried(data: bytes, name: str, *, cut: bool = False, expected: Any = None) -> Outcome:
    """Ingest some content and ask about it; `expected` are totals that have to come out."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path, store = Path(folder) / name, Path(folder) / "s.duckdb"
        path.write_bytes(data)
        begun = time.monotonic()
        try:
            with _limited():
                warned, totals, wrong = _answers(path, store)
        except TraceAnalyzerError as error:
            text = str(error)
            wrong = "refused in several lines" if len(text.splitlines()) > 1 or len(text) > 2000 else ""
            if expected is not None:
                wrong = "refused, though whole"
            if [p.name for p in Path(folder).iterdir()] != [name]:
                wrong = f"left behind: {sorted(p.name for p in Path(folder).iterdir())}"
            return Outcome("refused", time.monotonic() - begun, wrong, text)
        except Hang:
            return Outcome("hang", time.monotonic() - begun, "hang", "".join(traceback.format_exc(limit=-4)))
        except Exception as error:
            return Outcome("crash", time.monotonic() - begun, f"{type(error).__name__}", traceback.format_exc(limit=-5))
        took = time.monotonic() - begun
    if expected is not None and totals != expected:
        wrong = "other totals, though whole"
    elif cut and not warned and not wrong:
        wrong = "cut, but no warning"
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > MOST_MEMORY:
        wrong = wrong or "memory"
    return Outcome("warned" if warned else "answered", took, wrong, f"{totals} {expected}" if wrong else "")


def _answers(path: Path, store: Path) -> tuple[bool, Any, str]:
    """Whether there were warnings or notes; totals; and what of the sums is wrong."""
    shutil.copyfile(_empty_store(), store)
    try:
        answer = ingest([path], store)
    except TraceAnalyzerError:
        store.unlink(missing_ok=True)  # it was not ingest that made it
        raise
    with traceanalyzer.open(store) as traces:
        info, gaps, ledger, steps = traces.info(), traces.gaps(), traces.ledger(), traces.steps()
        profiles = list(traces.throughput().kernels.rows())
    devices = list(gaps.devices.rows())
    of_causes, of_stacks = _sums(gaps.causes, "idle_ns"), _sums(gaps.stacks, "idle_ns")
    of_ledger = _sums(ledger.tables["ledger"], "ns")
    wrong = ""
    for row in devices:
        place = row["rank"], row["device"]
        if row["span_ns"] != row["busy_ns"] + row["idle_ns"] or row["span_ns"] != row["end_ns"] - row["start_ns"]:
            wrong = f"span is not busy and idle: {row}"
        elif row["span_ns"] < 0 or row["idle_ns"] < 0 or row["busy_ns"] < 0:
            wrong = f"negative time: {row}"
        elif of_causes.get(place, 0) != row["idle_ns"] or of_stacks.get(place, 0) != row["idle_ns"]:
            wrong = f"causes or stacks do not add up: {row} {of_causes} {of_stacks}"
        elif of_ledger.get(place, 0) != row["span_ns"]:
            wrong = f"the ledger does not add up: {row} {of_ledger}"
    causes = sorted((str(r["device"]), r["cause"], r["idle_ns"]) for r in gaps.causes.rows())
    n_events = sum(r["n_events"] or 0 for r in answer.files.rows())
    lanes = [(r["device"], r["span_ns"], r["busy_ns"], r["compute_ns"], r["copy_ns"], r["n_ops"]) for r in devices]
    marks = [(r["step"], r["duration_ns"], r["busy_ns"]) for r in steps.steps.rows()]
    warned = bool(answer.warnings or list(info.quality.rows()))
    profiled = sorted(str((r["id"], r["kernel"], r["duration_ns"], r["compute_pct"])) for r in profiles)
    return warned, (lanes, causes, sorted(of_ledger.items(), key=str), marks, n_events, profiled), wrong


def _sums(frame: Any, column: str) -> dict[tuple[Any, Any], int]:
    out: dict[tuple[Any, Any], int] = {}
    for row in frame.rows():
        place = row["rank"], row["device"]
        out[place] = out.get(place, 0) + row[column]
    return out


@lru_cache
def _totals_of(item: Input) -> Any:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder) / item.name
        path.write_bytes(item.content)
        try:
            return _answers(path, Path(folder) / "s.duckdb")[1]
        except TraceAnalyzerError:
            return None


@lru_cache
def _empty_store() -> Path:
    """A store without anything, to be copied: making one takes longer than reading a small file."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-empty-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "empty.duckdb"
    open_to_write(path).close()
    return path


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Raises `Hang` where the work takes too long, as far as the interpreter gets a turn."""

    def ring(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(MOST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
