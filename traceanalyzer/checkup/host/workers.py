"""Who wants the cores of a host: more loader workers than cores, threads that wait for a CPU, cores that are full."""

from collections.abc import Iterator

from traceanalyzer.checkup.charges import DeviceCharges
from traceanalyzer.checkup.host.hosts import WORKER, WORKER_PROCESSES, Host
from traceanalyzer.checkup.job import Job
from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.idle.scheduling import PREEMPTED, scheduled_shares
from traceanalyzer.schema.kinds import ThreadState
from traceanalyzer.store.database import first_row

LEAST_RUNNABLE = 0.05
"""Share of its scheduled time in which a launching thread was off a CPU though it could run: a thread that has a core
of its own is preempted for far less than that.
"""
LEAST_WAITING = 0.1
"""The same share of workers, of the time in which they ran or could have run: they may share cores for a while."""
FULL = 0.9
"""Share of the cores that the recorded threads keep busy from which on there is no core left for more."""
_OF_WORKERS = (
    "SELECT process, state, reason, sum(end_ns - start_ns) AS ns FROM sched_slices"
    f" JOIN (SELECT DISTINCT capture, process FROM threads WHERE name LIKE '%{WORKER}%') USING (capture, process)"
    " GROUP BY ALL"
)
_OF_ALL = (
    "SELECT capture, sum(end_ns - start_ns) FILTER (state = 'running') / (max(end_ns) - min(start_ns)) AS cores"
    " FROM sched_slices GROUP BY capture"
)


def core_findings(job: Job) -> Iterator[Finding]:
    """Findings `workers_exceed_cores` and `cpu_contention`."""
    for host in job.hosts:
        yield from _exceeding(job, host)
    yield from _launching(job)
    yield from _waiting_workers(job)
    for host in job.hosts:
        yield from _full(job, host)


def _exceeding(job: Job, host: Host) -> Iterator[Finding]:
    if host.workers is None or host.cores is None or host.workers <= host.cores:
        return
    each = host.workers_per_rank
    text = job.messages.text(
        "workers_exceed_cores.each" if each is not None and host.ranks > 1 else "workers_exceed_cores.all",
        ranks=host.ranks,
        each=each,
        workers=host.workers,
        cores=host.cores,
        assumed=job.messages.text("workers_exceed_cores.assumed", recorded=host.recorded, ranks=host.ranks)
        if host.ranks > host.recorded
        else "",
        command=job.command(" ".join(["checkup", "--table environment", *_given(job)])),
    )
    yield Finding("workers_exceed_cores", text)


def _given(job: Job) -> list[str]:
    given = {"--workers": job.given.workers, "--cpus": job.given.cpus}
    return [f"{name} {value}" for name, value in given.items() if value is not None]


def _launching(job: Job) -> Iterator[Finding]:
    """The thread that launches most, of the device on which it waits longest for a CPU."""
    found: list[tuple[float, DeviceCharges, int]] = []
    for each in job.devices:
        capture = each.device.capture
        threads = [(idle, number) for number, idle, _ in each.account.by_thread() if number >= 0]
        if not threads or not job.scope.holds("sched_slices", capture):
            continue
        owner = each.account.threads[max(threads)[1]]
        runnable = scheduled_shares(job.scope, capture, owner.process, owner.thread)[1]
        if runnable is not None and runnable >= LEAST_RUNNABLE:
            found.append((runnable, each, owner.thread))
    if found:
        share, charges, thread = max(found, key=lambda row: row[0])
        values = {"thread": thread, "whose": charges.whose, "share": job.share(share)}
        command = job.command("gaps --table threads")
        text = job.messages.text("cpu_contention.launching", **values, command=command)
        yield Finding("cpu_contention", text, charges.device.rank)


def _waiting_workers(job: Job) -> Iterator[Finding]:
    row = first_row(
        job.scope.connection.execute(
            f"""SELECT sum(s.end_ns - s.start_ns) FILTER (s.state = {int(ThreadState.RUNNING)}),
                sum(s.end_ns - s.start_ns) FILTER (s.state <> {int(ThreadState.RUNNING)} AND n.text = $preempted)
            FROM stored.sched_slices s JOIN ({WORKER_PROCESSES}) USING (capture, process)
            LEFT JOIN stored.names n ON n.name_id = s.reason WHERE s.capture IN {job.scope.numbers()}""",
            {"preempted": PREEMPTED},
        )
    )
    running, waiting = (int(value or 0) for value in row or (0, 0))
    if waiting and waiting >= LEAST_WAITING * (running + waiting):
        share = job.share(waiting / (running + waiting))
        command = job.command(f'sql "{_OF_WORKERS}"')
        yield Finding("cpu_contention", job.messages.text("cpu_contention.workers", share=share, command=command))


def _full(job: Job, host: Host) -> Iterator[Finding]:
    """The cores that the recorded threads keep busy, of one capture of each rank: those were taken side by side."""
    if host.cores is None:
        return
    row = first_row(
        job.scope.connection.execute(
            f"""SELECT sum(most) FROM (SELECT max(cores) AS most FROM (
                SELECT capture, sum(end_ns - start_ns) FILTER (state = {int(ThreadState.RUNNING)})
                    / nullif(max(end_ns) - min(start_ns), 0) AS cores
                FROM stored.sched_slices WHERE capture IN ({", ".join(map(str, host.captures))})
                    AND capture IN {job.scope.numbers()} GROUP BY capture)
            JOIN stored.captures USING (capture) GROUP BY rank)"""
        )
    )
    busy = float(row[0] or 0) if row else 0.0
    if busy >= FULL * host.cores:
        values = {"busy": f"{busy:.1f}", "cores": host.cores, "command": job.command(f'sql "{_OF_ALL}"')}
        yield Finding("cpu_contention", job.messages.text("cpu_contention.full", **values))
