"""Device errors: telemetry counts errors of a device or its links. A risk, to be looked at before anything else."""

from traceanalyzer.checkup.costed import advice_of
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Confidence, Evidence, Verdict
from traceanalyzer.passes.telemetry.errors import DeviceError

NAME = "device_errors"
MOST_NAMED = 3


def judge(job: Job) -> Verdict | None:
    """Errors that are a reason to look at the device: XID, uncorrectable memory errors, links that replay."""
    found = [each for each in job.watched.errors if each.serious]
    if not found:
        return None
    errors = "; ".join(_words(job, each) for each in found[:MOST_NAMED])
    return Verdict(
        NAME,
        job.messages.text(f"{NAME}.title", errors=errors),
        None,
        None,
        Confidence.HIGH if any(each.error != "xid" for each in found) else Confidence.MEDIUM,
        tuple(_evidence(job, each) for each in found[:MOST_NAMED]),
        job.messages.text(f"{NAME}.experiment"),
        advice_of(job, NAME, {}),
    )


def _words(job: Job, each: DeviceError) -> str:
    last = f"{each.last:,.0f}"
    growth = job.messages.text(f"{NAME}.growth", count=f"{each.growth:,.0f}") if each.growth else ""
    return job.messages.text(f"{NAME}.error", device=each.device, error=each.error, last=last, growth=growth)


def _evidence(job: Job, each: DeviceError) -> Evidence:
    command = job.command("metrics --table errors")
    return Evidence(
        f"{each.error}, GPU {each.device}, {each.row['source']}",
        each.last,
        "",
        None,
        command,
        each.table,
        "last",
        each.row,
    )
