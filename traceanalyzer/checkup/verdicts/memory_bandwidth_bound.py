"""Memory bandwidth bound: most of the kernel time is in kernels that memory limits."""

from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.kernel_limit import limit_verdict
from traceanalyzer.checkup.verdict import Verdict
from traceanalyzer.passes.limits.limit import Limit

NAME = "memory_bandwidth_bound"


def judge(job: Job) -> Verdict | None:
    """Nothing to gain but in the kernels themselves."""
    return limit_verdict(job, NAME, Limit.MEMORY_BOUND)
