"""Communication bound: transfers that no compute hides."""

from traceanalyzer.checkup.costed import costed_verdict
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Verdict
from traceanalyzer.store.database import first_row

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
    return costed_verdict(job, NAME, title, remarks=remarks)


def _alone(job: Job) -> str:
    """That the other ranks were not recorded, where the file tells of them."""
    row = first_row(
        job.scope.connection.execute(
            f"SELECT max(world_size) FROM stored.captures WHERE capture IN {job.scope.numbers()}"
        )
    )
    world = int(row[0]) if row and row[0] else 0
    ranks = {each.device.rank for each in job.devices}
    return job.messages.text(f"{NAME}.one_rank", world=world) if world > 1 and len(ranks) == 1 else ""
