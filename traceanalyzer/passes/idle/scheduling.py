"""Launching threads: what idle time is theirs, and whether they ran, could have run or were blocked."""

from traceanalyzer.passes.answer import TableSpec
from traceanalyzer.passes.columns import CAPTURE, DEVICE, IDLE_SHARE, RANK
from traceanalyzer.passes.idle.accounts import DeviceAccount
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import ThreadState
from traceanalyzer.store.database import first_row
from traceanalyzer.units import Unit

THREADS = TableSpec(
    "threads",
    "Threads that launch operations: the idle time before their launches, and what the scheduler did with them.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("process", Type.INT64, "Process."),
        Column("thread", Type.INT64, "Thread; null for launches that are not in the file."),
        Column("name", Type.TEXT, "Name of the thread."),
        Column("idle_ns", Type.INT64, "Idle time of the device in gaps that its launches end.", Unit.NS),
        IDLE_SHARE,
        Column("running_share", Type.FLOAT64, "Share of its scheduled time on a CPU; null: not recorded.", Unit.SHARE),
        Column(
            "runnable_share",
            Type.FLOAT64,
            "Share in which it was off a CPU though it could run; null where the file does not say why it was off.",
            Unit.SHARE,
        ),
        Column("blocked_share", Type.FLOAT64, "Share in which it waited for something; null as before.", Unit.SHARE),
    ),
    cut=False,
)
PREEMPTED = "Running"
"""State of a thread that is taken off a CPU without having to wait, in nsys' words."""


def thread_rows(scope: Scope, account: DeviceAccount, names: dict[tuple[int, int], str]) -> list[tuple[object, ...]]:
    """Rows of the launching threads of a device, the largest first. Shares are of the time between its first and last
    scheduling event."""
    total = account.idle_ns
    rows: list[tuple[object, ...]] = []
    for number, idle, _ in sorted(account.by_thread(), key=lambda row: -row[1]):
        share = idle / total if total else None
        if number < 0:
            rows.append((*account.place, None, None, None, idle, share, None, None, None))
            continue
        owner = account.threads[number]
        name = names.get((owner.process, owner.thread))
        shares = scheduled_shares(scope, account.device.capture, owner.process, owner.thread)
        rows.append((*account.place, owner.process, owner.thread, name, idle, share, *shares))
    return rows


def scheduled_shares(scope: Scope, capture: int, process: int, thread: int) -> tuple[float | None, ...]:
    """Shares of the scheduled time of a thread in which it ran, could have run and was blocked; null: not recorded.

    The last two are known only where the file says of every time off a CPU why it was: nsys often does not.
    """
    if not scope.holds("sched_slices", capture):
        return None, None, None
    row = first_row(
        scope.connection.execute(
            f"""SELECT sum(end_ns - start_ns) FILTER (WHERE state = {int(ThreadState.RUNNING)}),
                sum(end_ns - start_ns) FILTER (WHERE state <> {int(ThreadState.RUNNING)} AND n.text = $preempted),
                sum(end_ns - start_ns) FILTER (WHERE state <> {int(ThreadState.RUNNING)} AND n.text <> $preempted),
                sum(end_ns - start_ns) FILTER (WHERE state <> {int(ThreadState.RUNNING)} AND n.text IS NULL)
            FROM stored.sched_slices s LEFT JOIN stored.names n ON n.name_id = s.reason
            WHERE capture = $capture AND process = $process AND thread = $thread""",
            {"capture": capture, "process": process, "thread": thread, "preempted": PREEMPTED},
        )
    )
    running, runnable, blocked, unknown = (int(x or 0) for x in row or (0, 0, 0, 0))
    total = running + runnable + blocked + unknown
    if not total:
        return None, None, None
    return running / total, *((None, None) if unknown else (runnable / total, blocked / total))
