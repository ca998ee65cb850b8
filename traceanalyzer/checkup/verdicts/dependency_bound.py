"""Dependency bound: what was launched long before waits on the device."""

from traceanalyzer.checkup.charges import PAUSE
from traceanalyzer.checkup.costed import costed_verdict
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import COSTED_SHARE, Verdict

NAME = "dependency_bound"


def judge(job: Job) -> Verdict | None:
    """Idle time of the device itself, where it is more than the short pauses that it makes between any two kernels."""
    if job.cost_ns(NAME) - pauses_ns(job) < COSTED_SHARE * job.step_ns:
        return None
    return costed_verdict(job, NAME, job.messages.text(f"{NAME}.title"))


def pauses_ns(job: Job) -> float:
    """What the short pauses of the device take a step, mean of the typical devices."""
    each = [
        sum(ns for charge, ns in device.parts.get(NAME, {}).items() if charge.note == PAUSE) / device.n_steps
        for device in job.typical
    ]
    return sum(each) / len(each) if each else 0.0
