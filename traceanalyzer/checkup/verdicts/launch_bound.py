"""Launch bound: kernels are launched one by one more slowly than the device runs them."""

from traceanalyzer.checkup.charges import REFILL, SAMPLED
from traceanalyzer.checkup.costed import blame_evidence, blamed_for, costed_verdict, slowed, where
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Verdict
from traceanalyzer.passes.causes import Cause

NAME = "launch_bound"


def judge(job: Job) -> Verdict | None:
    """Idle time in operators, API calls, launches and their latency, without what synchronisations cost after them."""
    most = job.costliest(NAME)
    charges = most.parts.get(NAME, {})
    sampled = any(charge.note == SAMPLED for charge in charges)
    blamed = blamed_for(job, NAME, frozenset({Cause.PYTHON}) if sampled else frozenset())
    refill = 2 * sum(ns for charge, ns in charges.items() if charge.note == REFILL) > sum(charges.values())
    key, calls = ("refill" if refill else "title"), f"{most.blocking_calls:,.0f}"
    title = job.messages.text(f"{NAME}.{key}", where=where(job, blamed, NAME), calls=calls, per=job.per)
    remarks = [job.messages.text("card.samples")] if sampled else []
    remarks += slowed(job, NAME)
    evidence = blame_evidence(job, NAME, blamed)
    return costed_verdict(
        job, NAME, title, evidence=evidence, remarks=remarks, facts=["refill" if refill else "launches"]
    )
