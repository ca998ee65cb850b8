"""Profiler bound: the device idles while the profiler does its own work."""

from traceanalyzer.checkup.costed import costed_verdict
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Verdict

NAME = "profiler_bound"


def judge(job: Job) -> Verdict | None:
    """Idle time that the profiler recorded as its own overhead."""
    return costed_verdict(job, NAME, job.messages.text(f"{NAME}.title"))
