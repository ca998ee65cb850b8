"""Launch bound: kernels are launched one by one more slowly than the device runs them."""

from traceanalyzer.checkup.charges import SAMPLED
from traceanalyzer.checkup.costed import blame_evidence, blamed_for, costed_verdict, where
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Verdict
from traceanalyzer.passes.causes import Cause

NAME = "launch_bound"


def judge(job: Job) -> Verdict | None:
    """Idle time in operators, API calls, launches and their latency, without what synchronisations cost after them."""
    if not job.typical:
        return None
    most = job.costliest(NAME)
    sampled = any(charge.note == SAMPLED for charge in most.parts.get(NAME, {}))
    blamed = blamed_for(job, NAME, frozenset({Cause.PYTHON}) if sampled else frozenset())
    title = job.messages.text(f"{NAME}.title", where=where(job, blamed, NAME))
    remarks = [job.messages.text("card.samples")] if sampled else []
    if job.records_frames(most):
        remarks.append(job.messages.text("card.frames"))
    values = {"without": job.time(job.step_ns - job.cost_ns(NAME))}
    evidence = blame_evidence(job, NAME, blamed)
    return costed_verdict(job, NAME, title, values=values, evidence=evidence, remarks=remarks)
