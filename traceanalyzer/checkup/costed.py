"""What all verdicts with a cost have in common: the threshold, the evidence from the ledger, how sure they are."""

import re
from collections.abc import Collection, Mapping, Sequence

from traceanalyzer.checkup.charges import CHARGED_TO, REFILL, Charge, DeviceCharges
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.settings import Setting
from traceanalyzer.checkup.verdict import COSTED_SHARE, Confidence, Evidence, Verdict, least_sure
from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.idle.accounts import Blamed

_NAME = re.compile(r"[\w.]+")
"""Settings that are called so in code."""
UNSEEN_SHARE = 0.05
"""Share of the step that a cost needs where most of it is time of which nothing but a range, or nothing, was recorded:
what the host did then is not known.
"""
UNSEEN = frozenset({Charge("idle:range"), Charge("idle:outside_events")})
INCOMPLETE = frozenset({"device_records", "in_flight", "graphs", "streams"})
"""Checks of fitness that say of records of the device that they are not all there, or not all that ran."""
FEW_STEPS = 3
"""With fewer counted steps a verdict is not sure."""
MOST_CATEGORIES = 3
"""Categories of the ledger that are given as evidence."""
MOST_BLAMED = 3
"""Lines of code that are given as evidence."""
HOST = frozenset({"host_bound", "launch_bound", "sync_bound"})
"""Verdicts of time that recording the host makes longer."""


def costed_verdict(
    job: Job,
    name: str,
    title: str,
    *,
    values: Mapping[str, object] | None = None,
    evidence: Sequence[Evidence] = (),
    remarks: Sequence[str] = (),
    facts: Collection[str] = (),
    experiment: str | None = None,
    at_most: Confidence = Confidence.HIGH,
) -> Verdict | None:
    """A verdict whose cost is what the ledger charges it with; None where that is too little.

    `title` is filled in already; `values` fill in the experiment and the advice; `evidence` comes after that of the
    ledger; `facts` are what some of the advice is given for only. `at_most` is how sure it can be where it
    rests on little.
    """
    cost, step = job.cost_ns(name), job.step_ns
    if not step or cost < least_share(job, name) * step:
        return None
    given = {"falls": job.falls(cost), **(values or {})}
    return Verdict(
        name,
        title,
        int(cost),
        int(cost) / step,
        least_sure(confidence_of(job, name), at_most),
        (*ledger_evidence(job, name), *evidence),
        job.messages.text(experiment or f"{name}.experiment", **given),
        advice_of(job, name, given, facts=facts),
        tuple(remarks),
    )


def least_share(job: Job, name: str) -> float:
    """Share of the step from which on a verdict has a cost worth telling."""
    unseen = sum(ns for each in job.typical for charge, ns in each.parts.get(name, {}).items() if charge in UNSEEN)
    whole = sum(ns for each in job.typical for ns in each.parts.get(name, {}).values())
    return UNSEEN_SHARE if 2 * unseen > whole else COSTED_SHARE


def advice_of(
    job: Job,
    name: str,
    values: Mapping[str, object],
    known_settings: Mapping[str, Setting] | None = None,
    facts: Collection[str] = (),
) -> tuple[str, ...]:
    """What to change, in order; a setting with its present value, or that this is not known.

    `known_settings` are those that the verdict itself tells.
    """
    out = []
    for each in job.messages.advice(name, facts, is_torch=job.is_torch):
        now = ""
        if each.setting is not None:
            known = (known_settings or {}).get(each.setting) or job.settings.get(each.setting)
            if known is None:
                named = _NAME.fullmatch(each.setting) is not None
                now = job.messages.text("present.unnamed" if not named else "present.unknown", setting=each.setting)
            else:
                source = job.messages.text(f"source.{known.source}")
                now = job.messages.text("present.known", setting=each.setting, value=known.value, source=source)
        out.append(each.text.format_map({**values, "now": now}).strip())
    return tuple(out)


def confidence_of(job: Job, name: str) -> Confidence:
    """How sure a verdict is.

    Low: no steps, fewer than three of them, or records of the device that are known to be incomplete. Medium: less than
    twice the threshold, or time of the host that recording is known to have made longer. Else high.
    """
    if not job.stepped or job.n_steps < FEW_STEPS or job.problems & INCOMPLETE:
        return Confidence.LOW
    if job.cost_ns(name) < 2 * least_share(job, name) * job.step_ns:
        return Confidence.MEDIUM
    slowed = bool(job.problems - INCOMPLETE) or any(job.records_frames(each) for each in job.typical)
    return Confidence.MEDIUM if name in HOST and slowed else Confidence.HIGH


def ledger_evidence(job: Job, name: str) -> list[Evidence]:
    """The largest categories of the ledger that a verdict is charged with, on the device where it costs most.

    First comes what it is charged with in all, and the threshold. What other verdicts share is shown by the charges,
    the rest by the ledger itself.
    """
    most = job.costliest(name)
    charges = {charge: ns for charge, ns in most.parts.get(name, {}).items() if ns}
    largest = sorted(charges, key=lambda each: (-charges[each], each))[:MOST_CATEGORIES]
    return [_whole(job, most, name), *(_category(job, most, name, charge) for charge in largest)]


def _whole(job: Job, most: DeviceCharges, name: str) -> Evidence:
    """All that a device is charged with, and how much of a step a verdict needs."""
    row = {**most.place, "verdict": name}
    source = job.messages.text("figure.whole", verdict=name, whose=most.whose)
    threshold = round(least_share(job, name) * most.step_ns)
    value = round(sum(most.parts.get(name, {}).values()) / most.n_steps)
    command = job.command("checkup --table costs")
    return Evidence(source, value, "ns", threshold, command, "costs", "per_step_ns", row)


def _category(job: Job, most: DeviceCharges, name: str, charge: Charge) -> Evidence:
    mine = most.parts[name][charge]
    every = sum(ns for parts in most.parts.values() for each, ns in parts.items() if each.category == charge.category)
    value = round(mine / most.n_steps)
    row: dict[str, object] = {**most.place, "category": charge.category}
    if mine == every:
        column = "per_step_ns" if most.stepped else "ns"
        command = job.command("ledger --table totals")
        return Evidence(f"{charge.category}, {most.whose}", value, "ns", None, command, "totals", column, row)
    note = f" ({charge.note})" if charge.note else ""
    row |= {"verdict": name, "note": charge.note or None}
    command = job.command("checkup --table charges")
    source = f"{charge.category}{note}, {most.whose}"
    return Evidence(source, value, "ns", None, command, "charges", "per_step_ns", row)


def causes_of(name: str) -> frozenset[int]:
    """Causes of idle time that a verdict is charged with, refill and samples aside."""
    return frozenset(int(cause) for cause, verdict in CHARGED_TO.items() if verdict == name)


def blamed_for(job: Job, name: str, also: frozenset[Cause] = frozenset()) -> list[tuple[Blamed, int]]:
    """Frames that own idle time of a verdict, where it costs most: each with its time, the most first."""
    causes = causes_of(name) | {int(cause) for cause in also}
    found = []
    for each in job.costliest(name).account.blamed():
        ns = sum(part for cause, part in each.causes.items() if cause in causes)
        if each.blame is not None and ns:
            found.append((each, ns))
    return sorted(found, key=lambda item: (-item[1], item[0].blame or ""))


def blame_evidence(job: Job, name: str, blamed: Sequence[tuple[Blamed, int]]) -> list[Evidence]:
    """What the most costly frames cost in all: as `gaps` tells it, whatever the causes."""
    most = job.costliest(name)
    out = []
    for each, _ in blamed[:MOST_BLAMED]:
        column = "gain_ns" if each.gain_ns is not None else "idle_ns"
        value = each.gain_ns if each.gain_ns is not None else each.idle_ns
        if value < 0.01 * job.step_ns:
            continue
        command = job.command("gaps --table blames")
        source = job.messages.text("figure.blame", blame=each.blame, whose=most.whose)
        row = {**most.place, "blame": each.blame}
        out.append(Evidence(source, value, "ns", None, command, "blames", column, row))
    return sorted(out, key=lambda each: (-float(each.value), each.source))


def where(job: Job, blamed: Sequence[tuple[Blamed, int]], name: str) -> str:
    """The line of code that owns most, in words; empty where nothing owns half of it."""
    whole = sum(ns for _, ns in blamed)
    if not blamed or 2 * blamed[0][1] < whole or whole < 0.25 * job.costliest(name).cost_ns(name):
        return ""
    return job.messages.text("where.line", blame=blamed[0][0].blame)


def slowed(job: Job, name: str) -> list[str]:
    """What recording does to time of the host, as a remark."""
    if any(job.records_frames(each) for each in job.typical):
        return [job.messages.text("card.frames")]
    return [job.messages.text("card.profiler")] if name in HOST else []


def refilled_ns(most: DeviceCharges) -> int:
    """Refill of a device, in its counted steps."""
    return sum(ns for charges in most.parts.values() for charge, ns in charges.items() if charge.note == REFILL)
