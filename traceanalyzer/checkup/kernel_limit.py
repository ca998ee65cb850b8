"""What limits the kernels themselves, as a verdict: it costs nothing that is lost."""

from traceanalyzer.checkup.costed import advice_of
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Confidence, Evidence, Verdict
from traceanalyzer.passes.limits.device_limits import COMMUNICATION
from traceanalyzer.passes.limits.limit import Limit, LimitSource

LEAST_COMPUTE = 0.3
"""Where compute runs for less of the step than this, what limits kernels is not the question."""
LEAST_SHARE = 0.5
"""A limit is told where it is that of this share of the kernel time."""


def limit_verdict(job: Job, name: str, limit: Limit) -> Verdict | None:
    """A verdict where most of the kernel time is in kernels of one limit; None where it is not, or not known."""
    if not job.typical or job.compute_share < LEAST_COMPUTE:
        return None
    rows = [row for row in job.limits if row["class"] == limit.value]
    whole = sum(row["total_ns"] for row in job.limits if row["class"] != COMMUNICATION)
    mine = sum(row["total_ns"] for row in rows)
    if not whole or mine < LEAST_SHARE * whole:
        return None
    sources = {row["class_source"] for row in rows}
    command = job.command("kernels --table limits --format json --top 0")
    evidence = tuple(
        Evidence(
            f"{limit.words} kernels by {row['class_source']}",
            row["total_ns"],
            "ns",
            None,
            command,
            "limits",
            "total_ns",
            {key: row[key] for key in ("capture", "rank", "device", "class", "class_source")},
        )
        for row in rows[:3]
    )
    confidence = Confidence.MEDIUM if sources == {LimitSource.ESTIMATED.value} else Confidence.HIGH
    return Verdict(
        name,
        job.messages.text(f"{name}.title", share=job.share(mine / whole), reached=""),
        0,
        0.0,
        confidence,
        evidence,
        job.messages.text(f"{name}.experiment"),
        advice_of(job, name, {}),
    )
