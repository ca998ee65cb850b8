"""What limits the kernels themselves, as a verdict: it costs nothing that is lost."""

from traceanalyzer.checkup.costed import advice_of
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.settings import Setting
from traceanalyzer.checkup.verdict import Confidence, Evidence, Verdict
from traceanalyzer.passes.limits.device_limits import COMMUNICATION
from traceanalyzer.passes.limits.families import MATHEMATICS
from traceanalyzer.passes.limits.limit import Limit, LimitSource
from traceanalyzer.passes.limits.timeline import KernelOnTimeline

LEAST_COMPUTE = 0.3
"""Where compute runs for less of the step than this, what limits kernels is not the question."""
MOSTLY = 0.9
"""Where tensor cores are used in this share of the time, there is no advice to use them."""
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
    tensor = _on_tensor_cores(job, limit)
    part = job.share(tensor)
    reached = job.messages.text(f"{name}.reached", part=part) if limit is Limit.COMPUTE_BOUND else ""
    known = {"precision": Setting(job.messages.text("value.tensor", part=part), "kernels")} if reached else {}
    sources = {row["class_source"] for row in rows}
    command = job.command("kernels --table limits")
    evidence = tuple(
        Evidence(
            job.messages.text("figure.kernels", words=limit.words, source=row["class_source"]),
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
        job.messages.text(f"{name}.title", share=job.share(mine / whole), reached=reached),
        0,
        0.0,
        confidence,
        evidence,
        job.messages.text(f"{name}.experiment"),
        advice_of(job, name, {}, known, _facts(job, limit, tensor)),
    )


def _limited(job: Job, limit: Limit) -> list[KernelOnTimeline]:
    return [each for each in job.kernels.kernels.values() if each.use is not None and each.use.limited.limit is limit]


def _on_tensor_cores(job: Job, limit: Limit) -> float:
    """Share of the time of the kernels of a limit in which tensor cores are used."""
    mine = _limited(job, limit)
    whole = sum(each.ns for each in mine)
    return sum(each.ns for each in mine if each.tensor_cores[0]) / whole if whole else 0.0


def _facts(job: Job, limit: Limit, tensor: float) -> list[str]:
    """Whether most of that time is in products of matrices, which tensor cores are for, and whether they are used."""
    mine = _limited(job, limit)
    products = sum(each.ns for each in mine if each.family in MATHEMATICS)
    if 2 * products < sum(each.ns for each in mine):
        return ["no_matmul"]
    return ["matmul", "few_tensor_cores"] if tensor < MOSTLY else ["matmul"]
