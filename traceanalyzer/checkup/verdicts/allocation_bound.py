"""Allocation bound: the device idles while memory is allocated and freed."""

from traceanalyzer.checkup.costed import blame_evidence, blamed_for, costed_verdict, where
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Verdict
from traceanalyzer.passes.causes import Cause

NAME = "allocation_bound"


def judge(job: Job) -> Verdict | None:
    """Idle time in calls that allocate, free or register memory."""
    blamed = blamed_for(job, NAME)
    facts = ["empty_cache" if _empties_cache(job) else "shapes"]
    title = job.messages.text(f"{NAME}.title", where=where(job, blamed, NAME))
    return costed_verdict(job, NAME, title, evidence=blame_evidence(job, NAME, blamed), facts=facts)


def _empties_cache(job: Job) -> bool:
    """Whether half of that time or more is inside calls that give the allocator's cache back."""
    account = job.costliest(NAME).account
    inside = job.tree.under("empty_cache")
    whole = mine = 0
    for cause, _reason, node, ns, _count in account.all.groups():
        if cause == int(Cause.MEMORY_MANAGEMENT):
            whole += ns
            mine += ns if node >= 0 and inside[node] else 0
    return 2 * mine >= whole > 0
