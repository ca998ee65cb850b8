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
    first, code = late[0], late[0]["blame"]
    turns = len(late) > 1 and all(each["kind"] != "systematic" for each in late)
    title = job.messages.text(
        f"{NAME}.{'turns' if turns else 'title'}",
        count=len(late),
        rank=first["rank"],
        excess=job.time(first["excess_ns"]),
        when=_when(job, first),
        reason=_reason(job, first),
    )
    efficiency = next(iter(found.tables["efficiency"].rows()), {})
    step = efficiency.get("what_if_step_ns")
    beyond = _beyond_ns(job, late, max(row["steps"] for row in found.tables["ranks"].rows()))
    remarks = []
    if len(late) > 1:
        remarks.append(job.messages.text(f"{NAME}.several", ranks=_named(sorted(each["rank"] for each in late))))
    if beyond:
        remarks.append(job.messages.text(f"{NAME}.beyond", time=job.time(beyond)))
    if step is not None:
        remarks.append(_what_if(job, late, step, efficiency["replay_error"]))
    if len(job.typical) < len(job.devices):
        ranks = sorted({each.device.rank for each in job.typical if each.device.rank is not None})
        remarks.append(job.messages.text("card.typical", ranks=_named(ranks)))
    return costed_verdict(
        job,
        NAME,
        title,
        values={"blame": code} | ({} if step is None else {"falls": job.falls(job.step_ns - step)}),
        evidence=_evidence(job, first, step),
        remarks=remarks,
        facts=[*facts, *(["no_code"] if first["part"] == "compute" or first["cause"] in OF_HOST else [])],
        experiment=f"{NAME}.code" if code else None,
        at_most=Confidence.MEDIUM if beyond else Confidence.HIGH,
    )


def _beyond_ns(job: Job, late: list[dict[str, Any]], steps: int) -> int:
    """What of the waits a step no lateness explains; 0 where that is little."""
    cost = job.cost_ns(NAME)
    beyond = round(cost - sum(each["excess_ns"] * each["late_steps"] for each in late) / steps)
    return beyond if beyond > BEYOND * cost else 0


def _what_if(job: Job, late: list[dict[str, Any]], step_ns: int, replay_error: float | None) -> str:
    """How long a step would be without the late ranks, and how that is known."""
    which = "what_if" if len(late) == 1 else "what_if_all"
    replayed = replay_error is not None and replay_error <= MOST_ERROR
    how = job.messages.text(f"{NAME}.{'replayed' if replayed else 'taken_away'}")
    return job.messages.text(f"{NAME}.{which}", step=job.time(step_ns), how=how)


def _evidence(job: Job, first: dict[str, Any], step_ns: int | None) -> list[Evidence]:
    """Where the lateness of a rank, what the others wait for it, and a step without it stand."""
    row = {"rank": first["rank"], "kind": first["kind"]}
    given = [
        ("excess", first["excess_ns"], "stragglers", "excess_ns", row),
        ("others_wait", first["others_wait_ns"], "stragglers", "others_wait_ns", row),
        ("what_if", step_ns, "efficiency", "what_if_step_ns", {}),
    ]
    return [
        Evidence(
            job.messages.text(f"figure.{name}", **({"rank": first["rank"]} if where else {})),
            value,
            "ns",
            None,
            job.command("imbalance"),
            table,
            column,
            where,
        )
        for name, value, table, column, where in given
        if value is not None
    ]


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
