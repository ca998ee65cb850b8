"""Sync bound: the host waits for the device, and the device for launches that begin anew after each wait."""

from traceanalyzer.checkup.charges import REFILL
from traceanalyzer.checkup.costed import blame_evidence, blamed_for, costed_verdict, refilled_ns, slowed, where
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Evidence, Verdict
from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.idle.findings import CALLS_A_STEP

NAME = "sync_bound"


def judge(job: Job) -> Verdict | None:
    """Idle time inside blocking calls; and refill, where more than two calls a step block."""
    most = job.costliest(NAME)
    refilled = most.account.refilled()
    if most.blocking_calls > CALLS_A_STEP and refilled is not None and refilled_ns(most):
        blame = most.account.blame_text(refilled.call)
        line = job.messages.text("where.line", blame=blame) if blame else ""
        title = job.messages.text(f"{NAME}.title", calls=f"{most.blocking_calls:,.0f}", per=job.per, where=line)
        alone = sum(each.device.rank == most.device.rank for each in job.devices) == 1
        # Short samples of Python are refill here, and are not in what `gaps` tells of it.
        whole = all(c.category != f"idle:{Cause.PYTHON.text}" for c in most.parts[NAME] if c.note == REFILL)
        evidence = [_refill(job, round(refilled.cost_ns))] if alone and whole else []
    else:
        blamed = blamed_for(job, NAME)
        title = job.messages.text(f"{NAME}.waits", where=where(job, blamed, NAME))
        evidence = blame_evidence(job, NAME, blamed)
    facts = ["copies"] if refilled is not None and "memcpy" in (most.account.text(refilled.call) or "").lower() else []
    return costed_verdict(job, NAME, title, evidence=evidence, remarks=slowed(job, NAME), facts=facts)


def _refill(job: Job, cost_ns: int) -> Evidence:
    most = job.costliest(NAME)
    command = job.command("gaps")
    row = {"code": "refill", "rank": most.device.rank}
    return Evidence(f"refill, {most.whose}", cost_ns, "ns", None, command, "findings", "cost_ns", row)
