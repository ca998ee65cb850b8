"""Memory growth: memory of a device grows from step to step. A risk, not a cost."""

from traceanalyzer.checkup.costed import FEW_STEPS, advice_of
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Confidence, Evidence, Verdict
from traceanalyzer.passes.memory import memory_growth
from traceanalyzer.units import Unit, format_value

NAME = "memory_growth"


def judge(job: Job) -> Verdict | None:
    """The device whose memory grows most in every counted step."""
    found = [each for each in memory_growth(job.scope) if each.is_leak]
    if not found:
        return None
    most = max(found, key=lambda each: (each.bytes_per_step, -each.device.capture, -each.device.device))
    row = {"capture": most.device.capture, "rank": most.device.rank, "device": most.device.device}
    command = job.command("memory --table memory")
    source = job.messages.text("figure.growth", whose=job.scope.whose(most.device))
    evidence = Evidence(
        source, most.bytes_per_step, "bytes", None, command, "memory", "growth_bytes_per_step", dict(row)
    )
    code = most.next_call or most.blame
    title = job.messages.text(
        f"{NAME}.title",
        bytes=format_value(most.bytes_per_step, Unit.BYTES),
        where=job.messages.text("where.line", blame=code) if code else "",
    )
    remarks = []
    if most.steps_to_full is not None:
        remarks.append(job.messages.text(f"{NAME}.full", steps=f"{most.steps_to_full:,}"))
    return Verdict(
        NAME,
        title,
        None,
        None,
        Confidence.HIGH if most.counted >= FEW_STEPS else Confidence.MEDIUM,
        (evidence,),
        job.messages.text(f"{NAME}.experiment"),
        advice_of(job, NAME, {}),
        tuple(remarks),
    )
