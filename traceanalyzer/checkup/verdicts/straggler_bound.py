"""Straggler bound: ranks wait in collectives for one that comes late."""

from typing import Any

from traceanalyzer.checkup.costed import costed_verdict
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Confidence, Evidence, Verdict
from traceanalyzer.passes.communication.replay import MOST_ERROR

NAME = "straggler_bound"
OF_HOST = frozenset({"os_blocked", "framework", "launch_call", "api_call"})
"""Causes for which a slower host may be why a rank is late."""
BEYOND = 0.2
"""From this share of the waits on it is said what of them the lateness of ranks does not explain."""
MOST_NAMED = 8
"""Ranks that a remark names."""


def judge(job: Job) -> Verdict | None:
    """Waits of the ranks that are not late, in collectives, that no compute hides; which rank is late, and why."""
    found = job.imbalance
    late: list[dict[str, Any]] = list(found.tables["stragglers"].rows()) if found else []
    facts = ["messages"] if job.waits_in_messages else []
    if not late or found is None:
        return costed_verdict(job, NAME, job.messages.text(f"{NAME}.nobody"), facts=facts)
    first = late[0]
    turns = len(late) > 1 and all(each["kind"] != "systematic" for each in late)
    title = job.messages.text(
        f"{NAME}.{'turns' if turns else 'title'}",
        count=len(late),
        rank=first["rank"],
        excess=job.time(first["excess_ns"]),
        when=_when(job, first),
        reason=_reason(job, first),
    )
    command = job.command("imbalance")
    row = {"rank": first["rank"], "kind": first["kind"]}
    evidence = [
        Evidence(
            job.messages.text("figure.excess", rank=first["rank"]),
            first["excess_ns"],
            "ns",
            None,
            command,
            "stragglers",
            "excess_ns",
            row,
        ),
    ]
    if first["others_wait_ns"] is not None:
        evidence.append(
            Evidence(
                job.messages.text("figure.others_wait", rank=first["rank"]),
                first["others_wait_ns"],
                "ns",
                None,
                command,
                "stragglers",
                "others_wait_ns",
                row,
            )
        )
    remarks = []
    if len(late) > 1:
        named = _named(sorted(each["rank"] for each in late))
        remarks.append(job.messages.text(f"{NAME}.several", count=len(late), ranks=named))
    steps = max(row["steps"] for row in found.tables["ranks"].rows())
    explained = sum(each["excess_ns"] * each["late_steps"] for each in late) / steps
    beyond = round(job.cost_ns(NAME) - explained)
    at_most = Confidence.HIGH
    if beyond > BEYOND * job.cost_ns(NAME):
        at_most = Confidence.MEDIUM
        remarks.append(job.messages.text(f"{NAME}.beyond", time=job.time(beyond)))
    falls: dict[str, object] = {}
    efficiency = next(iter(found.tables["efficiency"].rows()), None)
    if efficiency and efficiency["what_if_step_ns"] is not None:
        step = efficiency["what_if_step_ns"]
        falls = {"falls": job.falls(job.step_ns - step)}
        which = "what_if" if len(late) == 1 else "what_if_all"
        error = efficiency["replay_error"]
        how = job.messages.text(f"{NAME}.{'replayed' if error is not None and error <= MOST_ERROR else 'taken_away'}")
        remarks.append(job.messages.text(f"{NAME}.{which}", step=job.time(step), how=how))
        evidence.append(
            Evidence(
                job.messages.text("figure.what_if"), step, "ns", None, command, "efficiency", "what_if_step_ns", {}
            )
        )
    if len(job.typical) < len(job.devices):
        ranks = sorted({each.device.rank for each in job.typical if each.device.rank is not None})
        remarks.append(job.messages.text("card.typical", ranks=_named(ranks)))
    code = first["blame"]
    return costed_verdict(
        job,
        NAME,
        title,
        values={"blame": code} | falls,
        evidence=evidence,
        remarks=remarks,
        facts=[*facts, *(["no_code"] if first["part"] == "compute" or first["cause"] in OF_HOST else [])],
        experiment=f"{NAME}.code" if code else None,
        at_most=at_most,
    )


def _named(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:MOST_NAMED])) + (", ..." if len(ranks) > MOST_NAMED else "")


def _reason(job: Job, row: dict[str, Any]) -> str:
    """What the late rank does more of."""
    line = job.messages.text("where.line", blame=row["blame"]) if row["blame"] else ""
    cause = job.messages.text(f"cause.{row['cause']}") if row["cause"] else ""
    return job.messages.text(f"{NAME}.{row['part']}", more=job.time(row["more_ns"]), where=line, cause=cause)


def _when(job: Job, row: dict[str, Any]) -> str:
    kind = "once" if row["kind"] == "occasional" and row["late_steps"] == 1 else row["kind"]
    return job.messages.text(f"{NAME}.{kind}", period=row["period"], steps=row["late_steps"])
