"""Compile or load: the device idles while kernels are compiled or loaded."""

from traceanalyzer.checkup.costed import blame_evidence, blamed_for, costed_verdict, where
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Verdict

NAME = "compile_or_load"


def judge(job: Job) -> Verdict | None:
    """Idle time while modules, libraries or kernels are loaded or compiled."""
    blamed = blamed_for(job, NAME)
    title = job.messages.text(f"{NAME}.title", where=where(job, blamed, NAME))
    return costed_verdict(job, NAME, title, evidence=blame_evidence(job, NAME, blamed))
