"""Periodic pause: steps that recur idle longer than the others, as for checkpoints or evaluation."""

from traceanalyzer.checkup.costed import costed_verdict
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Confidence, Evidence, Verdict
from traceanalyzer.passes.pauses import Pause

NAME = "periodic_pause"


def judge(job: Job) -> Verdict | None:
    """The idle time by which such steps exceed the median step; the costliest pause gives the title."""
    most = job.costliest(NAME)
    if not most.pauses:
        return None
    first = most.pauses[0]
    title = job.messages.text(
        f"{NAME}.title",
        when=_when(job, first),
        excess=job.time(first.idle_ns / len(first.first_steps)),
        kind=job.messages.text(f"{NAME}.{first.kind}"),
        where=job.messages.text("where.line", blame=first.blame) if first.blame else "",
    )
    row = {
        **most.place,
        "first_step": first.first_steps[0],
        "kind": first.kind,
    }
    command = job.command("steps --table pauses")
    source = f"{first.kind}, {most.whose}"
    evidence = Evidence(source, first.cost_ns, "ns", None, command, "pauses", "cost_ns", row)
    longer = sum(pause.excess_ns * len(pause.first_steps) for pause in most.pauses) / most.n_steps
    values = {"falls": job.falls(longer)}
    once = len(first.first_steps) == 1
    remarks = [job.messages.text(f"{NAME}.once", counted=first.n_counted)] if once else []
    at_most = Confidence.LOW if once else Confidence.HIGH
    return costed_verdict(job, NAME, title, values=values, evidence=[evidence], remarks=remarks, at_most=at_most)


def _when(job: Job, pause: Pause) -> str:
    if pause.period_steps is not None:
        return job.messages.text(f"{NAME}.every", period=pause.period_steps)
    steps = len(pause.first_steps)
    return job.messages.text(f"{NAME}.some", steps=steps, counted=pause.n_counted)
