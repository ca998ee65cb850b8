"""What the job wrote down itself, beside what was traced: a loader that ran alone, and the time of its steps."""

from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Evidence
from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.logged_times import LOADER_TIME, STEP_TIME, LoggedTime, logged_time

SLOWED = 1.1
"""A traced step that is this many times as long as the log's is told of."""


def loader_alone(job: Job) -> tuple[str, Evidence] | None:
    """A loader that was timed alone, held against the compute of a step: a sentence, and the figure."""
    found = logged_time(job.scope, LOADER_TIME)
    if found is None:
        return None
    compute = job.compute_share * job.step_ns
    loader = found.mean_s * 1e9
    key = "slower" if loader > compute else "faster"
    text = job.messages.text(f"loader.{key}", loader=job.time(loader), compute=job.time(compute), count=found.count)
    return text, _evidence(job, found, LOADER_TIME)


def log_findings(job: Job) -> list[Finding]:
    """How long steps are by the training log, where the trace has them longer: recording slows them."""
    found = logged_time(job.scope, STEP_TIME)
    if found is None or not job.stepped or not found.median_s:
        return []
    times = job.step_ns / (found.median_s * 1e9)
    key = "slowed" if times >= SLOWED else "alike"
    values = {"logged": job.time(found.median_s * 1e9), "traced": job.time(job.step_ns), "times": f"{times:.2f}"}
    return [Finding("logged_step_time", job.messages.text(f"log.{key}", **values))]


def _evidence(job: Job, found: LoggedTime, metric: str) -> Evidence:
    command = job.command(f"metrics --table rollup --metric {metric}")
    row: dict[str, object] = {"capture": found.capture, "metric": metric}
    return Evidence(metric, found.mean_s, "s", None, command, "rollup", "mean", row)
