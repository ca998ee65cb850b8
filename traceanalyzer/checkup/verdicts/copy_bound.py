"""Copy bound: data is copied while no kernel runs."""

from traceanalyzer.checkup.charges import DeviceCharges
from traceanalyzer.checkup.costed import blame_evidence, blamed_for, costed_verdict
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.settings import LEAST_PAGEABLE
from traceanalyzer.checkup.verdict import Verdict
from traceanalyzer.schema.kinds import CopyKind, OpKind

NAME = "copy_bound"
TO_DEVICE, TO_HOST = "to_device", "to_host"
MOSTLY = 0.5


def judge(job: Job) -> Verdict | None:
    """Copies and memory sets that no kernel hides, and idle time in which the host copies pageable memory."""
    most = job.costliest(NAME)
    times = _times(job, most)
    whole = sum(times.values())
    ways = [way for way in (TO_DEVICE, TO_HOST) if whole and times.get(way, 0) > MOSTLY * whole]
    how = job.messages.text(f"{NAME}.{ways[0]}") if ways else ""
    pageable = job.settings.pageable_share or 0.0
    if ways == [TO_DEVICE] and pageable >= LEAST_PAGEABLE:
        how += job.messages.text(f"{NAME}.pageable", share=job.share(pageable))
    remarks = []
    paused = {step for pause in most.pauses for step in pause.steps}
    if paused and (share := _share_in(job, most, paused)) > MOSTLY:
        remarks.append(job.messages.text(f"{NAME}.in_pauses", share=job.share(share)))
    facts = [*ways, *(["pageable"] if ways == [TO_DEVICE] and not job.settings.all_pinned else [])]
    evidence = blame_evidence(job, NAME, blamed_for(job, NAME))
    title = job.messages.text(f"{NAME}.title", how=how)
    return costed_verdict(job, NAME, title, evidence=evidence, remarks=remarks, facts=facts)


def _times(job: Job, most: DeviceCharges) -> dict[str, int]:
    """Summed time of copies by their way; of memory sets, and of others, as `other`."""
    rows = job.scope.connection.execute(
        f"""SELECT CASE copy_kind WHEN {int(CopyKind.HTOD)} THEN '{TO_DEVICE}'
            WHEN {int(CopyKind.DTOH)} THEN '{TO_HOST}' ELSE 'other' END AS way, sum(end_ns - start_ns)
        FROM stored.gpu_ops WHERE capture = ? AND device = ? AND kind IN ({int(OpKind.MEMCPY)}, {int(OpKind.MEMSET)})
        GROUP BY way""",
        [most.device.capture, most.device.device],
    ).fetchall()
    return {way: int(ns) for way, ns in rows}


def _share_in(job: Job, most: DeviceCharges, steps: set[int]) -> float:
    """Share of the time of copies that is of those launched in some steps."""
    row = job.scope.connection.execute(
        f"""SELECT coalesce(sum(end_ns - start_ns) FILTER (step IN (SELECT unnest($steps::BIGINT[]))), 0),
            sum(end_ns - start_ns)
        FROM stored.gpu_ops WHERE capture = $capture AND device = $device AND kind = {int(OpKind.MEMCPY)}""",
        {"steps": sorted(steps), "capture": most.device.capture, "device": most.device.device},
    ).fetchone()
    return row[0] / row[1] if row and row[1] else 0.0
