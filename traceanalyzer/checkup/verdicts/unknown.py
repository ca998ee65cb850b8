"""Unknown: what the files do not tell."""

from traceanalyzer.checkup.charges import LEFT_OVER
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import COSTED_SHARE, Confidence, Evidence, Verdict
from traceanalyzer.passes.causes import Cause, Reason

NAME = "unknown"


def judge(job: Job) -> Verdict | None:
    """No timeline at all, or idle time that cannot be attributed."""
    if not job.typical:
        return _verdict(job, job.messages.text(f"{NAME}.no_timeline"), None, ())
    share = job.cost_ns(LEFT_OVER) / job.step_ns
    if share < COSTED_SHARE:
        return None
    most = job.costliest(LEFT_OVER)
    sums: dict[int, int] = {}
    for cause, reason, _node, ns, _count in most.account.all.groups():
        if cause == int(Cause.UNATTRIBUTED):
            sums[reason] = sums.get(reason, 0) + ns
    why = Reason(max(sums, key=lambda each: sums[each])).text if sums else None
    row = {
        "capture": most.device.capture,
        "rank": most.device.rank,
        "device": most.device.device,
        "cause": Cause.UNATTRIBUTED.text,
        "reason": why,
    }
    evidence = Evidence(
        f"idle:unattributed, {most.whose}",
        max(sums.values(), default=0),
        "ns",
        round(COSTED_SHARE * most.total_ns),
        job.command("gaps --table causes"),
        "causes",
        "idle_ns",
        row,
    )
    title = job.messages.text(f"{NAME}.left_over", share=job.share(share), reason=why or "")
    return _verdict(job, title, share, (evidence,))


def _verdict(job: Job, title: str, share: float | None, evidence: tuple[Evidence, ...]) -> Verdict:
    experiment = job.messages.text(f"{NAME}.experiment")
    return Verdict(NAME, title, None, share, Confidence.HIGH, evidence, experiment, ())
