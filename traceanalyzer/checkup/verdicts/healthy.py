"""Healthy: no verdict has a cost."""

from traceanalyzer.checkup.costed import advice_of, confidence_of
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import COSTED_SHARE, Confidence, Evidence, Verdict
from traceanalyzer.checkup.verdicts.dependency_bound import pauses_ns

NAME = "healthy"
WORTH_TELLING = 0.02


def judge(job: Job) -> Verdict:
    """Compute keeps the device busy. To be asked only where no costed verdict holds."""
    most = job.typical[0]
    title = job.messages.text(f"{NAME}.title", share=job.share(job.compute_share), least=job.share(COSTED_SHARE))
    remarks = []
    pauses = pauses_ns(job)
    if pauses > WORTH_TELLING * job.step_ns:
        remarks.append(
            job.messages.text(f"{NAME}.pauses", time=job.time(pauses), share=job.share(pauses / job.step_ns))
        )
    host = job.cost_ns("host_bound")
    if host > COSTED_SHARE * job.step_ns:
        remarks.append(job.messages.text(f"{NAME}.unseen", time=job.time(host), part=job.share(host / job.step_ns)))
    row = {**most.place, "category": "compute"}
    evidence = Evidence(
        f"compute, {most.whose}",
        round(most.compute_ns / most.n_steps),
        "ns",
        None,
        job.command("ledger --table totals"),
        "totals",
        "per_step_ns" if most.stepped else "ns",
        row,
    )
    return Verdict(
        NAME,
        title,
        0,
        0.0,
        Confidence.LOW if confidence_of(job, NAME) is Confidence.LOW else Confidence.HIGH,
        (evidence,),
        job.messages.text(f"{NAME}.experiment"),
        advice_of(job, NAME, {}),
        tuple(remarks),
    )
