"""Compute bound: most of the kernel time is in kernels that arithmetic or instruction issue limits."""

from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.kernel_limit import limit_verdict
from traceanalyzer.checkup.verdict import Verdict
from traceanalyzer.passes.limits.limit import Limit

NAME = "compute_bound"


def judge(job: Job) -> Verdict | None:
    """Nothing to gain but in the kernels themselves."""
    return limit_verdict(job, NAME, Limit.COMPUTE_BOUND)
