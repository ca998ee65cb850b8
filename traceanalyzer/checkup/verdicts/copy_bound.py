"""Copy bound: data is copied while no kernel runs."""

from traceanalyzer.checkup.costed import blame_evidence, blamed_for, costed_verdict
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.settings import LEAST_PAGEABLE
from traceanalyzer.checkup.verdict import Verdict

NAME = "copy_bound"


def judge(job: Job) -> Verdict | None:
    """Copies and memory sets that no kernel hides, and idle time in which the host copies pageable memory."""
    known = job.settings.get("pin_memory") is not None
    pageable = job.settings.pageable_share if known else 0.0
    how = job.messages.text(f"{NAME}.pageable", share=job.share(pageable)) if pageable >= LEAST_PAGEABLE else ""
    title = job.messages.text(f"{NAME}.title", how=how, where="")
    evidence = blame_evidence(job, NAME, blamed_for(job, NAME)) if job.typical else []
    values = {"without": job.time(job.step_ns - job.cost_ns(NAME))}
    return costed_verdict(job, NAME, title, values=values, evidence=evidence)
