"""Scaling: how much of the throughput of more ranks is reached, and what the rest of the step goes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.gaps import nothing_selected
from traceanalyzer.passes.ledger import ledger
from traceanalyzer.passes.logged_rate import logged_rate
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.steps import steps
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.store.database import first_row
from traceanalyzer.units import Unit, counted, format_value

_RANKS = Column("ranks", Type.INT64, "Number of ranks.", Unit.COUNT)

SCALING = TableSpec(
    "scaling",
    "Throughput by number of ranks, the fewest first.",
    (
        _RANKS,
        Column(
            "throughput",
            Type.FLOAT64,
            "Throughput of all ranks together: as the file has it; of runs samples per second where their training logs"
            " tell it or the samples of a step are given, else rank steps per second (ranks / step).",
        ),
        Column(
            "efficiency",
            Type.FLOAT64,
            "Throughput per rank as a share of that of 1 rank, else of the fewest; null where there is no other row.",
            Unit.SHARE,
        ),
        Column("run", Type.TEXT, "The run that it was measured in; null from a file."),
        Column(
            "step_ns",
            Type.INT64,
            "Median of the counted device steps of the slowest rank of the run; null from a file or log.",
            Unit.NS,
        ),
        Column("lost_share", Type.FLOAT64, "Share that is not reached: 1 - efficiency.", Unit.SHARE),
    ),
    cut=False,
)
LOST = TableSpec(
    "lost",
    "How much longer a step of each category is than with the fewest ranks; of a number of ranks they add up.",
    (
        _RANKS,
        Column("category", Type.TEXT, "Category of the ledger; rest: what medians and means differ by."),
        Column("lost_ns", Type.INT64, "Time per step, less that with the fewest ranks.", Unit.NS),
    ),
    cut=False,
)
LEAST_EFFICIENCY = 0.8
"""Less of the throughput than this is a finding."""

_REST = "rest"
_SAME_WORK = 0.8
"""Where a rank computes less than this share of what it does with the fewest ranks, its work may not be the same."""
_DIGITS = 9
"""Significant digits of a throughput of steps: more would be below the nanoseconds of the step."""
_RANK_STEPS = (
    "throughput is in rank steps per second: it tells how well a job scales where every rank does the same work in a"
    " step of each run (weak scaling)"
)
_GIVEN_SAMPLES = (
    "throughput is in samples per second: {} in a step of each run, of all ranks together, as --samples-per-step says"
)
_GIVEN_AND_LOGGED = (
    "throughput is in samples per second of all ranks together: of {} the median of what training logs tell themselves,"
    " else {} in a step, as --samples-per-step says"
)
_LOGGED_SAMPLES = "throughput is in samples per second of all ranks together, the median of what training logs tell"


@dataclass(frozen=True, slots=True)
class _Row:
    """The throughput of a number of ranks; of a run also its name, and its steps where it has a timeline."""

    ranks: int
    throughput: float
    run: str | None = None
    steps: "_Steps | None" = None

    def efficiency(self, base: "_Row") -> float:
        """Throughput per rank as a share of that of another row."""
        return (self.throughput / self.ranks) / (base.throughput / base.ranks)


@dataclass(frozen=True, slots=True)
class _Steps:
    """The counted steps of the slowest rank of a run: those of some devices, as (capture, device, step)."""

    run: str
    ranks: int
    step_ns: int
    devices: tuple[DeviceOfCapture, ...]
    which: frozenset[tuple[int, int, int]]


def scaling(scope: Scope) -> Answer:
    """Tables `scaling`, one row a number of ranks, and `lost`, what a step takes longer for. Times in ns.

    A run counts with the ranks that have device operations, or those of its world where that is larger, and with the
    median device step of its slowest rank: warm-up and incomplete steps left out. Of several runs with as many ranks
    the fastest is taken.

    Throughput is in samples per second where the selection tells the samples of a step, or where every run has a
    training log that tells it; else it is in rank steps. Samples that a log counted itself come before those that were
    given; without device steps these count by the step times of the log. A run of a log alone counts with the ranks
    that the log tells, else another file of the run.

    `lost` compares the ledgers of the slowest ranks: means over their counted steps, for medians of categories add up
    to nothing. The row `rest` is what the median step and the mean one differ by, and with it the rows of a number of
    ranks add up to the difference of `step_ns`, to the ns.
    """
    warnings = list(scope.warnings)
    found, unit = _measured(scope, warnings)
    rows = _fastest(found, warnings)
    lost: dict[int, dict[str, int]] = {}
    if len(rows) > 1:
        parts = {row.ranks: _ledger(scope, row.steps, warnings) for row in rows if row.steps is not None}
        lost = {row.ranks: _lost(row, rows[0], parts) for row in rows[1:] if {row.ranks, rows[0].ranks} <= set(parts)}
        if unit == _RANK_STEPS:
            warnings += [text for row in rows[1:] for text in _other_work(row.ranks, rows[0].ranks, parts)]
        warnings.append(unit)
    else:
        warnings.append(_alone(scope, found))
        warnings += [unit] if found and unit != _RANK_STEPS else []
    answer = _answer(rows, lost, warnings)
    answer.notes.append(scope.note())
    return answer


def _measured(scope: Scope, warnings: list[str]) -> tuple[list[_Row], str]:
    """A row of each run that counts, and what its throughput is, in a sentence."""
    samples = scope.selection.samples_per_step
    found_rates = {run: logged_rate(scope, run, warnings, samples) for run in scope.runs}
    rates = {run: rate for run, rate in found_rates.items() if rate is not None}
    why_not: dict[str, list[str]] = {run: [] for run in scope.runs}
    steps_of = {run: _run(scope, run, why_not[run]) for run in scope.runs}
    logged = bool(rates) and all(run in rates for run, found in steps_of.items() if found is not None)
    own = [run for run, rate in rates.items() if rate.own]
    rows = []
    for run, found in steps_of.items():
        rate = rates.get(run) if samples or logged else None
        if rate is not None and found is not None and not rate.own:
            rate = None  # a step on the device is what --samples-per-step speaks of first
        if rate is None:
            warnings += why_not[run]
            if found is not None:
                rows.append(_Row(found.ranks, (samples or found.ranks) * 1e9 / found.step_ns, run, found))
            continue
        ranks = found.ranks if found is not None else rate.ranks or _world(scope, run)
        if ranks:
            rows.append(_Row(ranks, rate.samples_per_second, run, found))
            warnings += why_not[run] if found is not None else []
        else:
            warnings.append(
                f"run {run} is left out: its training log does not tell how many ranks it has; add a column world_size"
                " to the log, or ingest a trace of the run that states it"
            )
    if samples:
        unit = _GIVEN_AND_LOGGED if own else _GIVEN_SAMPLES
        given = counted(samples, "sample")
        return rows, unit.format(", ".join(own), given) if own else unit.format(given)
    if rates and not logged:
        warnings.append("not every run has a training log with a throughput, so device steps are compared")
    return rows, _LOGGED_SAMPLES if logged else _RANK_STEPS


def _world(scope: Scope, run: str) -> int | None:
    """How many ranks a run has by its other files; None where none tells that it is more than those that are there."""
    _there, world = _ranks(scope, run)
    return world or None


def scaling_of(throughputs: Mapping[int, float], remarks: Sequence[str] = (), note: str = "") -> Answer:
    """The same of throughputs that were measured, by number of ranks. There is no table `lost`: steps are not known."""
    rows = [_Row(ranks, throughputs[ranks]) for ranks in sorted(throughputs)]
    warnings = list(remarks)
    if len(rows) < 2:
        warnings.append(f"{counted(rows[0].ranks, 'rank')} alone: add a row of another number of ranks to compare with")
    answer = _answer(rows, {}, warnings)
    answer.notes += [note] if note else []
    del answer.tables[LOST.name]
    return answer


def _answer(rows: Sequence[_Row], lost: Mapping[int, Mapping[str, int]], warnings: list[str]) -> Answer:
    """The tables and findings of rows, which are in the order of their ranks. The first one is the base."""
    told: list[tuple[object, ...]] = []
    findings: list[Finding] = []
    for row in rows:
        share = row.efficiency(rows[0]) if len(rows) > 1 else None
        step_ns = None if row.steps is None else row.steps.step_ns
        told.append((row.ranks, _rounded(row), share, row.run, step_ns, None if share is None else 1 - share))
        # 0.8 itself is no finding, although a quotient of decimals may be a hair less.
        if share is not None and round(share, 12) < LEAST_EFFICIENCY:
            findings.append(_finding(row, rows[0], share, lost.get(row.ranks, {})))
    if len(rows) > 1 and rows[0].ranks > 1:
        warnings.append(
            f"there is no throughput of 1 rank: efficiency is the throughput per rank beside that of"
            f" {rows[0].ranks:,} ranks, the fewest there are"
        )
    parts = [
        (ranks, category, ns)
        for ranks, by_category in lost.items()
        for category, ns in sorted(by_category.items(), key=lambda item: (item[0] == _REST, -item[1], item[0]))
    ]
    tables = {"scaling": Frame.of_rows(SCALING, told), "lost": Frame.of_rows(LOST, parts)}
    return Answer("scaling", tables, findings, warnings, default_table="scaling")


def _rounded(row: _Row) -> float:
    return row.throughput if row.run is None else float(f"{row.throughput:.{_DIGITS}g}")


def _finding(row: _Row, base: _Row, share: float, lost: Mapping[str, int]) -> Finding:
    """Says that too little is reached and, where it is known, what a step takes longer for."""
    whole = f"{row.ranks:,} x" if base.ranks == 1 else f"{row.ranks:,}/{base.ranks:,} of"
    text = (
        f"{row.ranks:,} ranks reach {format_value(share, Unit.SHARE)} of {whole} the throughput of"
        f" {counted(base.ranks, 'rank')}"
    )
    if row.steps is None or base.steps is None:
        return Finding("low_scaling_efficiency", text)
    cost = row.steps.step_ns - base.steps.step_ns
    text += (
        f": a step takes {format_value(row.steps.step_ns, Unit.NS)} in run {row.steps.run}, and"
        f" {format_value(base.steps.step_ns, Unit.NS)} in run {base.steps.run}"
    )
    known = [(ns, category) for category, ns in lost.items() if category != _REST]
    most, category = max(known, key=lambda item: (item[0], item[1]), default=(0, ""))
    if most > 0:
        text += f"; what grows most is {category}, by {format_value(most, Unit.NS)} a step"
    return Finding("low_scaling_efficiency", text, None, cost)


def _run(scope: Scope, run: str, warnings: list[str]) -> _Steps | None:
    """The counted steps of the slowest rank of a run; None, and a warning why, where there are none."""
    devices = tuple(d for d in scope.devices if d.run == run)
    captures = tuple(sorted({d.capture for d in devices}))
    ranks, world = _ranks(scope, run)
    lengths: dict[tuple[int | None, int, int], dict[tuple[int, int, int], int]] = {}
    answer = steps(replace(scope, runs=(run,), captures=captures, devices=devices, warnings=[]))
    for row in answer.steps.rows():
        if row["device_duration_ns"] is not None and not row["warmup"] and not row["incomplete"]:
            step = row["capture"], row["device"], row["step"]
            lengths.setdefault(_place(row["rank"], *step[:2]), {})[step] = row["device_duration_ns"]
    medians = {place: int(np.median(list(found.values()))) for place, found in lengths.items()}
    slowest = max(medians, key=lambda place: (medians[place], str(place)), default=None)
    if slowest is None or medians[slowest] <= 0 or not ranks:
        warnings.append(f"run {run} is left out: {_why_not(devices, answer, ranks)}")
        return None
    if world > ranks:
        warnings.append(
            f"run {run} holds {ranks:,} of {world:,} ranks and counts with {world:,}: one that is missing may be slower"
        )
    if answer.warnings:
        more = f" (and {counted(len(answer.warnings) - 1, 'more')} like it)" if len(answer.warnings) > 1 else ""
        warnings.append(f"run {run}: {answer.warnings[0]}{more}")
    mine = tuple(d for d in devices if _place(d.rank, d.capture, d.device) == slowest)
    return _Steps(run, max(ranks, world), medians[slowest], mine, frozenset(lengths[slowest]))


def _place(rank: int | None, capture: int, device: int) -> tuple[int | None, int, int]:
    """What has steps of its own: a device of a rank, in whichever captures; without a rank one of a capture."""
    return rank, device, -1 if rank is not None else capture


def _ranks(scope: Scope, run: str) -> tuple[int, int]:
    """How many ranks of a run have device operations, whatever is selected of it, and how many its world has."""
    row = first_row(
        scope.connection.execute(
            """WITH mine AS (SELECT capture, rank, world_size FROM stored.captures WHERE run = $run),
            used AS (SELECT DISTINCT o.capture, o.process FROM stored.gpu_ops o JOIN mine USING (capture))
            SELECT count(DISTINCT coalesce(p.rank, c.rank)), coalesce((SELECT max(world_size) FROM mine), 0)
            FROM used u JOIN mine c ON c.capture = u.capture
            LEFT JOIN stored.processes p ON p.capture = u.capture AND p.process = u.process""",
            {"run": run},
        )
    )
    return (int(row[0]), int(row[1])) if row else (0, 0)


def _why_not(devices: Sequence[DeviceOfCapture], answer: Answer, ranks: int) -> str:
    if not devices:
        return "no device operation of it is selected"
    if not ranks:
        return "the ranks of its files are not known; give the files names such as rank0.json, or ingest them together"
    if len(answer.steps):
        return "none of its steps counts; `traceanalyzer steps` lists them, and --warmup 0 leaves fewer out"
    return answer.warnings[0] if answer.warnings else "it has no steps; give --step-range"


def _fastest(found: Sequence[_Row], warnings: list[str]) -> list[_Row]:
    """The fastest run for each number of ranks, the fewest first; of equal ones the oldest."""
    out = []
    for ranks in sorted({each.ranks for each in found}):
        same = [each for each in found if each.ranks == ranks]
        out.append(max(same, key=lambda each: each.throughput))
        if len(same) > 1:
            others = ", ".join(str(each.run) for each in same if each is not out[-1])
            warnings.append(
                f"several runs have {counted(ranks, 'rank')}: {out[-1].run}, the fastest, is taken, not {others}"
            )
    return out


def _alone(scope: Scope, found: Sequence[_Row]) -> str:
    """Why there is nothing to compare, and what to do."""
    if not scope.devices and not found:
        return nothing_selected(scope)
    if scope.selection.run not in (None, "all"):
        return f"run {scope.selection.run} alone has nothing to compare with; --run all compares all runs of the store"
    if not found:
        return "no run has a step that counts, so there is nothing to compare"
    runs = f"run {found[0].run} alone has" if len(found) == 1 else f"all runs have {counted(found[0].ranks, 'rank')}:"
    nothing = "nothing to compare with" if len(found) == 1 else "there is nothing to compare"
    return (
        f"{runs} {nothing}; ingest a run of another number of ranks into the same store with"
        " `traceanalyzer ingest FILES --run NAME`, or give a file of throughputs"
    )


def _ledger(scope: Scope, run: _Steps, warnings: list[str]) -> dict[str, int]:
    """Time per step by category: means over the counted steps of the slowest rank, rounded to the ns."""
    captures = tuple(sorted({d.capture for d in run.devices}))
    selection = replace(scope.selection, lane="device")
    runs = (run.devices[0].run,)
    part = replace(scope, selection=selection, runs=runs, captures=captures, devices=run.devices, warnings=[])
    answer = ledger(part)
    warnings += [text for text in answer.warnings if text not in warnings]
    sums: dict[str, int] = {}
    for row in answer.ledger.rows():
        if (row["capture"], row["device"], row["step"]) in run.which:
            sums[row["category"]] = sums.get(row["category"], 0) + row["ns"]
    return {category: round(ns / len(run.which)) for category, ns in sums.items()}


def _lost(row: _Row, base: _Row, parts: Mapping[int, Mapping[str, int]]) -> dict[str, int]:
    """By how much longer a step is by category than the base's; `rest` where that is not all."""
    mine, before = parts[row.ranks], parts[base.ranks]
    out = {category: mine.get(category, 0) - before.get(category, 0) for category in sorted({*mine, *before})}
    if row.steps is not None and base.steps is not None:
        rest = row.steps.step_ns - base.steps.step_ns - sum(out.values())
        out |= {_REST: rest} if rest else {}
    return out


def _other_work(ranks: int, fewest: int, parts: Mapping[int, Mapping[str, int]]) -> list[str]:
    """Says that a rank may do less work than with the fewest ranks, where it computes for a shorter time."""
    mine, before = parts[ranks].get("compute", 0), parts[fewest].get("compute", 0)
    if mine >= _SAME_WORK * before:
        return []
    return [
        f"with {ranks:,} ranks a rank computes {format_value(mine, Unit.NS)} a step, and with {fewest:,}"
        f" {format_value(before, Unit.NS)}: if it does less work, efficiency is less than what is said here"
    ]
