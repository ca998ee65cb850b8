"""The check-up of a job: every verdict that holds, what to capture next, and where it ran."""

from dataclasses import replace
from typing import Any

from traceanalyzer.checkup.charges import DeviceCharges
from traceanalyzer.checkup.environment import ENVIRONMENT, environment
from traceanalyzer.checkup.host.findings import host_facts, host_findings
from traceanalyzer.checkup.host.hosts import Given
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.logs import log_findings
from traceanalyzer.checkup.messages import LANGUAGES, Messages
from traceanalyzer.checkup.next_captures import NEXT, next_captures
from traceanalyzer.checkup.recordings import one_recording
from traceanalyzer.checkup.verdict import Verdict
from traceanalyzer.checkup.verdicts import VERDICTS, WITHOUT_TIMELINE, healthy
from traceanalyzer.checkup.verdicts.straggler_bound import NAME as STRAGGLER
from traceanalyzer.checkup.verdicts.unknown import LOST
from traceanalyzer.errors import UsageError
from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.columns import CAPTURE, DEVICE, RANK
from traceanalyzer.passes.gaps import nothing_selected
from traceanalyzer.passes.metrics import metrics
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit

VERDICT_TABLE = TableSpec(
    "verdicts",
    "What limits the job, the costliest first; costs do not overlap, and are never more than the step together.",
    (
        Column("order", Type.INT64, "Place: by cost."),
        Column("verdict", Type.TEXT, "Name of the verdict."),
        Column("title", Type.TEXT, "What it is, in a sentence."),
        Column("cost_ns", Type.INT64, "Cost per counted step, mean of the typical devices; null for a risk.", Unit.NS),
        Column("share", Type.FLOAT64, "Share of the step.", Unit.SHARE),
        Column("confidence", Type.TEXT, "high, medium or low."),
        Column(
            "evidence",
            Type.TEXT,
            "Figures behind it (a list): source, value, unit, threshold, and command, table, column and row where the"
            " figure stands.",
        ),
        Column("experiment", Type.TEXT, "The cheapest experiment that would confirm or refute it."),
        Column("advice", Type.TEXT, "What to change (a list): settings first, then the loop, then rewrites."),
        Column("remarks", Type.TEXT, "What weakens it, or what it takes for granted (a list)."),
    ),
    cut=False,
)
_WHOSE = (
    CAPTURE,
    RANK,
    DEVICE,
    Column("verdict", Type.TEXT, "Verdict, or compute, or left_over."),
)
_TIME = (
    Column("ns", Type.INT64, "Time in the counted steps; without steps in the span.", Unit.NS),
    Column("per_step_ns", Type.INT64, "The same per step.", Unit.NS),
    Column("share", Type.FLOAT64, "Share of the steps.", Unit.SHARE),
    Column("typical", Type.BOOL, "Whether the costs of verdicts are those of this device: its rank is not late."),
)
CHARGES = TableSpec(
    "charges",
    "The ledger of the counted steps cut by verdict; with compute and what is left over it adds up to the step.",
    (
        *_WHOSE,
        Column("category", Type.TEXT, "Category of the ledger."),
        Column(
            "note",
            Type.TEXT,
            "refill: of a synchronisation; sampled: short samples of Python; pause: of the device, at most 3 us.",
        ),
        *_TIME,
    ),
    cut=False,
)
COSTS = TableSpec(
    "costs",
    "What each verdict costs each device: the sums of its charges.",
    (
        *_WHOSE,
        *_TIME,
    ),
    cut=False,
)
TABLES = (VERDICT_TABLE, NEXT, ENVIRONMENT, COSTS, CHARGES)


def check_up(scope: Scope, *, language: str = LANGUAGES[0], inputs: str = "", given: Given | None = None) -> Answer:
    """Tables `verdicts`, `next`, `environment`, `costs`, `charges` of one run.

    `inputs` is what a command line names the same captures and selection by; `language` is one of `LANGUAGES`;
    `given` is what is said of the host. Raises `UsageError` where several runs are selected.
    """
    if len(scope.runs) > 1:
        raise UsageError("a check-up is of one run; --run NAME chooses it")
    scope, left_out = one_recording(scope)
    if left_out:
        captures = frozenset(scope.captures)
        scope = replace(scope, selection=replace(scope.selection, captures=captures))
    job = Job(scope, Messages(language), inputs, given)
    verdicts = verdicts_of(job)
    frames = (
        Frame.of_rows(VERDICT_TABLE, [_row(place, each) for place, each in enumerate(verdicts, 1)]),
        next_captures(job, verdicts),
        environment(scope, host_facts(job)),
        Frame.of_rows(COSTS, _cost_rows(job)),
        Frame.of_rows(CHARGES, _charge_rows(job)),
    )
    answer = Answer("checkup", {f.spec.name: f for f in frames}, warnings=[*scope.warnings, *left_out])
    answer.findings += _late_ranks(job, verdicts)
    answer.findings += host_findings(job)
    answer.default_table = VERDICT_TABLE.name
    answer.language = language
    answer.notes.append(_heading(job))
    answer.findings += _sampled(job)
    answer.findings += log_findings(job)
    if not job.typical and scope.devices:
        answer.warnings.append(nothing_selected(scope))
    if job.typical and not job.stepped:
        marked = any(scope.holds("steps", capture) for capture in scope.captures)
        key = "all_warmup" if marked and scope.selection.warmup else "no_steps"
        answer.warnings.append(job.messages.text(f"card.{key}"))
    return answer


def _late_ranks(job: Job, verdicts: list[Verdict]) -> list[Finding]:
    """Ranks that are late, where their cost makes no verdict: others may wait for them inside of transfers."""
    if job.imbalance is None or any(each.name == STRAGGLER for each in verdicts):
        return []
    return [each for each in job.imbalance.findings if each.code.startswith("straggler_") or each.code == "what_if"]


def _sampled(job: Job) -> list[Finding]:
    """What GPU metrics and telemetry say beside the timeline, where there are some."""
    scope = job.scope
    if not any(scope.holds("metric_samples", capture) for capture in scope.captures):
        return []
    one_sample = replace(scope, selection=replace(scope.selection, top=1), warnings=[])
    return metrics(one_sample, job.watched).findings


def verdicts_of(job: Job) -> list[Verdict]:
    """Every verdict that holds: costs first, the largest first, then risks, then `healthy` and limits of kernels."""
    names = VERDICTS if job.typical else WITHOUT_TIMELINE
    found = [verdict for name in names if (verdict := VERDICTS[name](job)) is not None]
    if job.typical and LOST not in job.problems and not any(verdict.cost_ns for verdict in found):
        found.insert(0, healthy.judge(job))
    if sum(verdict.cost_ns or 0 for verdict in found) > job.step_ns:
        raise AssertionError("the verdicts cost more than the step")
    return sorted(found, key=_order)


def _order(verdict: Verdict) -> tuple[int, int]:
    """Costs, then risks, then what costs nothing."""
    if verdict.cost_ns:
        return 0, -verdict.cost_ns
    return (1, 0) if verdict.cost_ns is None else (2, 0)


def _row(place: int, each: Verdict) -> tuple[Any, ...]:
    return (
        place,
        each.name,
        each.title,
        each.cost_ns,
        each.share,
        each.confidence.value,
        [evidence.as_dict() for evidence in each.evidence],
        each.experiment,
        list(each.advice),
        list(each.remarks),
    )


def _cost_rows(job: Job) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for each in job.devices:
        sums = {verdict: sum(charges.values()) for verdict, charges in each.parts.items()} | {
            "compute": each.compute_ns
        }
        for verdict, ns in sorted(sums.items(), key=lambda item: (-item[1], item[0])):
            rows += [(*each.place.values(), verdict, *_time(job, each, ns))] if ns else []
    return rows


def _charge_rows(job: Job) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for each in job.devices:
        parts = [("compute", "compute", "", each.compute_ns)]
        parts += [
            (verdict, charge.category, charge.note, ns)
            for verdict, charges in each.parts.items()
            for charge, ns in charges.items()
            if ns
        ]
        for verdict, category, note, ns in sorted(parts, key=lambda part: (-part[3], part)):
            rows.append((*each.place.values(), verdict, category, note or None, *_time(job, each, ns)))
    return rows


def _time(job: Job, each: DeviceCharges, ns: int) -> tuple[Any, ...]:
    """Columns `_TIME` of a time of a device."""
    return ns, round(ns / each.n_steps), ns / each.total_ns, any(each is one for one in job.typical)


def _heading(job: Job) -> str:
    """The run, and how long a step takes."""
    if not job.typical:
        return job.scope.note()
    key = "card.heading" if job.stepped else "card.heading_span"
    values = {"step": job.time(job.step_ns), "count": job.n_steps, "compute": job.share(job.compute_share)}
    return f"{job.scope.note()}; {job.messages.text(key, **values)}"
