"""Communication bound: transfers that no compute hides."""

from traceanalyzer.checkup.costed import costed_verdict
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Confidence, Verdict

NAME = "communication_bound"
UNRESOLVED = "communication_unresolved"


def judge(job: Job) -> Verdict | None:
    """Exposed communication without waits, with what cannot be told apart, and communication on the host."""
    cost = job.cost_ns(NAME)
    share = cost / job.step_ns if job.step_ns else 0.0
    title = job.messages.text(f"{NAME}.title", share=job.share(share))
    remarks = []
    unresolved = sum(
        sum(ns for charge, ns in each.parts.get(NAME, {}).items() if charge.category == UNRESOLVED) / each.n_steps
        for each in job.typical
    ) / len(job.typical)
    if unresolved > 0.1 * cost:
        reason = _alone(job)
        remarks.append(job.messages.text(f"{NAME}.unresolved", time=job.time(unresolved), reason=reason))
    # What cannot be told apart may as well be waiting.
    at_most = Confidence.MEDIUM if unresolved > 0.5 * cost else Confidence.HIGH
    return costed_verdict(job, NAME, title, remarks=remarks, at_most=at_most)


def _alone(job: Job) -> str:
    """That the other ranks were not recorded, where the file tells of them."""
    ranks = {each.device.rank for each in job.devices}
    return job.messages.text(f"{NAME}.one_rank", world=job.world_size) if job.world_size > 1 and len(ranks) == 1 else ""
