"""Unknown: what the files do not tell."""

from traceanalyzer.checkup.charges import LEFT_OVER
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import COSTED_SHARE, Confidence, Evidence, Verdict
from traceanalyzer.passes.causes import Cause, Reason
from traceanalyzer.passes.fitness import PROBLEM
from traceanalyzer.passes.info import info

NAME = "unknown"
LOST = "device_records"
"""The check of fitness whose problem leaves nothing that can be trusted."""


def judge(job: Job) -> Verdict | None:
    """No timeline at all, or idle time that cannot be attributed."""
    if not job.typical and job.scope.devices:
        title = job.messages.text(f"{NAME}.nothing_selected")
        return _verdict(job, title, None, ())
    if not job.typical:
        return _verdict(job, job.messages.text(f"{NAME}.no_timeline"), None, _why_not(job))
    if LOST in job.problems:
        return _verdict(job, job.messages.text(f"{NAME}.lost"), None, _lost(job))
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
        **most.place,
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


def _why_not(job: Job) -> tuple[Evidence, ...]:
    """What `info` says of the first capture, of why it cannot tell gaps."""
    command = job.command("info --table answers")
    answers = info(job.scope).tables["answers"].rows()
    row = next((row for row in answers if row["question"] == "gaps"), None)
    if row is None:
        return ()
    source = job.messages.text("figure.answers")
    place: dict[str, object] = {"capture": row["capture"], "question": "gaps"}
    return (Evidence(source, row["reason"], "", None, command, "answers", "reason", place),)


def _lost(job: Job) -> tuple[Evidence, ...]:
    """What fitness says of the records of the device."""
    command = job.command("info --table fitness")
    rows = [row for row in job.fitness if row["check"] == LOST and row["state"] == PROBLEM]
    return tuple(
        Evidence(LOST, row["text"], "", None, command, "fitness", "text", {"capture": row["capture"], "check": LOST})
        for row in rows[:1]
    )


def _verdict(job: Job, title: str, share: float | None, evidence: tuple[Evidence, ...]) -> Verdict:
    experiment = job.messages.text(f"{NAME}.experiment")
    return Verdict(NAME, title, None, share, Confidence.HIGH, evidence, experiment, ())
