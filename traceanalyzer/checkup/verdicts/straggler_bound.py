"""Straggler bound: ranks wait in collectives for one that comes late."""

from typing import Any

from traceanalyzer.checkup.costed import costed_verdict
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Evidence, Verdict

NAME = "straggler_bound"
OF_HOST = frozenset({"os_blocked", "framework", "launch_call", "api_call"})
"""Causes for which a slower host may be why a rank is late."""
MOST_NAMED = 8
"""Ranks that a remark names."""


def judge(job: Job) -> Verdict | None:
    """Waits of the ranks that are not late, in collectives, that no compute hides; which rank is late, and why."""
    found = job.imbalance
    late: list[dict[str, Any]] = list(found.tables["stragglers"].rows()) if found else []
    if not late or found is None:
        return costed_verdict(job, NAME, job.messages.text(f"{NAME}.nobody"))
    first = late[0]
    title = job.messages.text(
        f"{NAME}.title",
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
        Evidence(
            job.messages.text("figure.others_wait", rank=first["rank"]),
            first["others_wait_ns"],
            "ns",
            None,
            command,
            "stragglers",
            "others_wait_ns",
            row,
        ),
    ]
    remarks = []
    falls: dict[str, object] = {}
    efficiency = next(iter(found.tables["efficiency"].rows()), None)
    if efficiency and efficiency["what_if_step_ns"] is not None:
        step = efficiency["what_if_step_ns"]
        falls = {"falls": job.falls(job.step_ns - step)}
        remarks.append(job.messages.text(f"{NAME}.what_if", step=job.time(step)))
        evidence.append(
            Evidence(
                job.messages.text("figure.what_if"), step, "ns", None, command, "efficiency", "what_if_step_ns", {}
            )
        )
    if len(job.typical) < len(job.devices):
        ranks = sorted({each.device.rank for each in job.typical if each.device.rank is not None})
        named = ", ".join(map(str, ranks[:MOST_NAMED])) + (", ..." if len(ranks) > MOST_NAMED else "")
        remarks.append(job.messages.text("card.typical", ranks=named))
    code = first["blame"]
    return costed_verdict(
        job,
        NAME,
        title,
        values={"blame": code} | falls,
        evidence=evidence,
        remarks=remarks,
        facts=["no_code"] if first["part"] == "compute" or first["cause"] in OF_HOST else [],
        experiment=f"{NAME}.code" if code else None,
    )


def _reason(job: Job, row: dict[str, Any]) -> str:
    """What the late rank does more of."""
    line = job.messages.text("where.line", blame=row["blame"]) if row["blame"] else ""
    cause = job.messages.text(f"cause.{row['cause']}") if row["cause"] else ""
    return job.messages.text(f"{NAME}.{row['part']}", more=job.time(row["more_ns"]), where=line, cause=cause)


def _when(job: Job, row: dict[str, Any]) -> str:
    return job.messages.text(f"{NAME}.{row['kind']}", period=row["period"], steps=row["late_steps"])
