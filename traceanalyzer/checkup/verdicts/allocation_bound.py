"""Allocation bound: the device idles while memory is allocated and freed."""

from traceanalyzer.checkup.costed import blame_evidence, blamed_for, costed_verdict, where
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Verdict

NAME = "allocation_bound"


def judge(job: Job) -> Verdict | None:
    """Idle time in calls that allocate, free or register memory."""
    if not job.typical:
        return None
    blamed = blamed_for(job, NAME)
    title = job.messages.text(f"{NAME}.title", where=where(job, blamed, NAME))
    values = {"without": job.time(job.step_ns - job.cost_ns(NAME))}
    return costed_verdict(job, NAME, title, values=values, evidence=blame_evidence(job, NAME, blamed))
