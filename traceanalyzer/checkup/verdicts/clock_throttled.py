"""Clock throttled: telemetry says that a device ran slower than it could. A risk: what it costs, no file tells."""

from traceanalyzer.checkup.costed import advice_of
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.messages import catalogue
from traceanalyzer.checkup.verdict import Confidence, Evidence, Verdict
from traceanalyzer.passes.telemetry.throttling import LEAST_SHARE, Throttled

NAME = "clock_throttled"
MOST_NAMED = 3


def judge(job: Job) -> Verdict | None:
    """Event reasons and violation counters that cost speed, while the device was busy."""
    found = job.watched.throttled
    if not found:
        return None
    first = found[0]
    mine = [each for each in found if (each.capture, each.device, each.instance) == _place(first)]
    evidence = tuple(_evidence(job, each) for each in found[:MOST_NAMED])
    whose = f"GPU {first.device}" + (f" {first.instance}" if first.instance else "")
    apart = _is_apart(job, first)
    # Large products of matrices reach the power limit of a healthy card as well.
    found_cap = all(each.reason == "sw_power_cap" for each in found)
    reasons = "; ".join(dict.fromkeys(_words(job, each) for each in mine[:MOST_NAMED]))
    return Verdict(
        NAME,
        job.messages.text(f"{NAME}.title", whose=whose, reasons=reasons),
        None,
        None,
        Confidence.LOW if apart else Confidence.MEDIUM if found_cap else Confidence.HIGH,
        evidence,
        job.messages.text(f"{NAME}.experiment"),
        advice_of(job, NAME, {}),
        (job.messages.text(f"{NAME}.apart"),) if apart else (),
    )


def _is_apart(job: Job, each: Throttled) -> bool:
    """Whether the telemetry is not known to be of the time that the traces are of."""
    if not job.typical:
        return False
    beside = {found.place.capture for found in job.watched.alignments if found.offset_ns is not None}
    return each.capture not in beside


def _place(each: Throttled) -> tuple[int, int, str | None]:
    return each.capture, each.device, each.instance


def _words(job: Job, each: Throttled) -> str:
    column, share = _column(each)
    key = {"busy_share": "reason", "share": "time", "reason": "reason_alone"}[column]
    known = each.reason if each.reason in catalogue()["throttling"] else "other"
    reason = f"{job.messages.text(f'throttling.{known}')} ({each.reason})"
    return job.messages.text(f"{NAME}.{key}", reason=reason, share=job.share(share or 0.0))


def _column(each: Throttled) -> tuple[str, float | None]:
    """The column of the row that tells how much, and its figure; the reason where none does."""
    if each.busy_share is not None:
        return "busy_share", each.busy_share
    return ("reason", None) if each.share is None else ("share", each.share)


def _evidence(job: Job, each: Throttled) -> Evidence:
    column, share = _column(each)
    command = job.command("metrics --table throttling")
    source = f"{each.reason}, GPU {each.device}, {each.row['source']}"
    value, unit, threshold = (each.reason, "", None) if share is None else (share, "share", LEAST_SHARE)
    return Evidence(source, value, unit, threshold, command, each.table, column, each.row)
