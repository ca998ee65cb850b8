"""Every verdict by its name: a new one is a module with `judge` and one line here."""

from collections.abc import Callable

from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Verdict
from traceanalyzer.checkup.verdicts import (
    allocation_bound,
    clock_throttled,
    communication_bound,
    compile_or_load,
    compute_bound,
    copy_bound,
    dependency_bound,
    device_errors,
    host_bound,
    input_bound,
    launch_bound,
    memory_bandwidth_bound,
    memory_growth,
    periodic_pause,
    profiler_bound,
    straggler_bound,
    sync_bound,
    unknown,
)

VERDICTS: dict[str, Callable[[Job], Verdict | None]] = {
    "periodic_pause": periodic_pause.judge,
    "input_bound": input_bound.judge,
    "host_bound": host_bound.judge,
    "launch_bound": launch_bound.judge,
    "sync_bound": sync_bound.judge,
    "copy_bound": copy_bound.judge,
    "allocation_bound": allocation_bound.judge,
    "compile_or_load": compile_or_load.judge,
    "dependency_bound": dependency_bound.judge,
    "profiler_bound": profiler_bound.judge,
    "communication_bound": communication_bound.judge,
    "straggler_bound": straggler_bound.judge,
    "device_errors": device_errors.judge,
    "clock_throttled": clock_throttled.judge,
    "memory_growth": memory_growth.judge,
    "unknown": unknown.judge,
    "memory_bandwidth_bound": memory_bandwidth_bound.judge,
    "compute_bound": compute_bound.judge,
}
"""All verdicts but `healthy`, which holds where none of these has a cost. They are asked of jobs with a timeline."""

WITHOUT_TIMELINE = ("device_errors", "clock_throttled", "memory_growth", "unknown")
"""Those that are asked of jobs without a timeline as well."""
