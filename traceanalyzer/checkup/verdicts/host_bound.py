"""Host bound: the GPU idles while the launching thread does something other than launching."""

from traceanalyzer.checkup.charges import Charge
from traceanalyzer.checkup.costed import UNSEEN, blame_evidence, blamed_for, costed_verdict, slowed, where
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Confidence, Verdict
from traceanalyzer.passes.causes import Cause

NAME = "host_bound"


def judge(job: Job) -> Verdict | None:
    """Idle time in Python, in ranges, in calls of the system, for the interpreter lock, or outside of all events."""
    blamed = blamed_for(job, NAME)
    most = job.costliest(NAME)
    charges = most.parts.get(NAME, {})
    whole = sum(charges.values())
    unseen = sum(ns for charge, ns in charges.items() if charge in UNSEEN)
    line = where(job, blamed, NAME)
    locked = 2 * _of(charges, Cause.GIL_WAIT) > whole
    if locked:
        title = job.messages.text(f"{NAME}.lock", holder=_holder(job))
    elif 2 * _of(charges, Cause.GARBAGE_COLLECTION) > whole:
        title = job.messages.text(f"{NAME}.collection")
    elif 2 * _of(charges, Cause.OS_BLOCKED) > whole:
        title = job.messages.text(f"{NAME}.blocked", where=line)
    elif 2 * unseen > whole:
        title = job.messages.text(f"{NAME}.unseen", where=line)
    else:
        title = job.messages.text(f"{NAME}.title", where=line)
    remarks = []
    if unseen > 0.1 * whole:
        remarks.append(job.messages.text("card.unseen", time=job.time(unseen / most.n_steps)))
    remarks += slowed(job, NAME)
    hidden = 2 * unseen > whole and not job.records_stacks(most)
    facts = ["lock"] if locked else ["unseen"] if hidden else ["code"] if line else ["code", "no_code"]
    evidence = blame_evidence(job, NAME, blamed)
    at_most = Confidence.MEDIUM if hidden else Confidence.HIGH
    # Taking out the code that is named saves what that code costs, and no more.
    saved = (blamed[0][0].gain_ns if most.stepped else blamed[0][0].idle_ns) if line else None
    values = {} if saved is None else {"falls": job.falls(saved)}
    return costed_verdict(
        job, NAME, title, values=values, evidence=evidence, remarks=remarks, facts=facts, at_most=at_most
    )


def _of(charges: dict[Charge, int], cause: Cause) -> int:
    return sum(ns for charge, ns in charges.items() if charge.category == f"idle:{cause.text}")


def _holder(job: Job) -> str:
    """The code that holds the lock most, in words."""
    rows = job.costliest(NAME).account.lock.rows()
    blame = next((row[2] for row in rows if row[2]), None)
    return job.messages.text(f"{NAME}.lock_holder", holder=blame) if blame else ""
