"""Input bound: the GPU waits for the next batch."""

from traceanalyzer.checkup.costed import blame_evidence, blamed_for, costed_verdict, where
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.logs import loader_alone
from traceanalyzer.checkup.verdict import Verdict

NAME = "input_bound"


def judge(job: Job) -> Verdict | None:
    """Idle time inside the loader's `__next__`, or in ranges that `--input-range` names."""
    blamed = blamed_for(job, NAME)
    values = {"compute": job.time(job.compute_share * job.step_ns)}
    title = job.messages.text(f"{NAME}.title", where=where(job, blamed, NAME))
    evidence = blame_evidence(job, NAME, blamed)
    remarks = []
    if (alone := loader_alone(job)) is not None:
        remarks.append(alone[0])
        evidence.append(alone[1])
    return costed_verdict(job, NAME, title, values=values, evidence=evidence, remarks=remarks)
