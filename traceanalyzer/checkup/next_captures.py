"""Which capture would answer what is still unknown, with the command that makes it."""

import re
from collections.abc import Iterator, Sequence

from traceanalyzer.checkup.costed import HOST
from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Verdict
from traceanalyzer.checkup.verdicts.unknown import LOST
from traceanalyzer.passes.answer import Frame, TableSpec
from traceanalyzer.passes.logged_times import LOADER_TIME, logged_time
from traceanalyzer.passes.scope import TELEMETRY
from traceanalyzer.passes.telemetry.names import Metric
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.store.database import first_row

NEXT = TableSpec(
    "next",
    "What is still unknown, and the capture that would tell.",
    (
        Column("question", Type.TEXT, "What is not known."),
        Column("capture_command", Type.TEXT, "The command, or the line of code, that records what would tell."),
    ),
    cut=False,
)
OF_CODE = frozenset(
    {
        "input_bound",
        "host_bound",
        "launch_bound",
        "sync_bound",
        "allocation_bound",
        "compile_or_load",
        "straggler_bound",
    }
)
"""Verdicts that a line of code is looked for."""
UNKNOWN_SHARE = 0.5
"""A profile of kernels is worth its while where nothing tells a limit of this share of their time."""
_PROFILER = (
    "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule=schedule(wait=20, warmup=5, active=10),"
)
_NSYS = "nsys profile --trace=cuda,nvtx,osrt"
_SCRIPT = "-o run python train.py"
_LOADER = (
    "print('batch,loader_s'); t = time.time(); [(print(f'{i},{time.time() - t}'), t := time.time()) for i, _ in"
    " enumerate(loader)]  # into loader.csv, to be given beside the trace"
)
_ACTIVITY = "dcgmi dmon -e 1001,1002,1004,1005 -d 1000 > dcgm.log"
_Row = tuple[str, str]


def next_captures(job: Job, verdicts: Sequence[Verdict]) -> Frame:
    """Table `next`: one row a question that the files leave open and that matters for these verdicts."""
    rows: list[_Row] = []
    if not job.typical and job.scope.devices:
        return Frame.of_rows(NEXT, rows)
    if not job.typical:
        command = f"{_PROFILER} record_shapes=True, with_stack=True)"
        if job.scope.of_source(("nsys",)):
            command = f"{_NSYS} --python-sampling=true {_SCRIPT}"
        rows.append((job.messages.text("next.timeline"), command))
    else:
        for find in (_records, _stacks, _frames, _steps, _ranks, _loader, _kernels, _memory):
            rows += find(job, verdicts)
    rows += _telemetry(job)
    return Frame.of_rows(NEXT, rows)


def _is_nsys(job: Job) -> bool:
    return job.typical[0].device.source == "nsys"


def _records(job: Job, _verdicts: Sequence[Verdict]) -> Iterator[_Row]:
    if LOST in job.problems:
        command = f"{_NSYS} --cuda-flush-interval=1000 {_SCRIPT}"
        if not _is_nsys(job):
            command = f"{_PROFILER} record_shapes=True)  # fewer steps, torch.cuda.synchronize() at the end"
        yield job.messages.text("next.records"), command


def _stacks(job: Job, verdicts: Sequence[Verdict]) -> Iterator[_Row]:
    first = next((each for each in verdicts if each.name in OF_CODE and each.cost_ns), None)
    if first is None or all(job.records_stacks(each) for each in job.typical):
        return
    command = f"{_NSYS} --python-sampling=true --python-sampling-frequency=1000 {_SCRIPT}"
    if not _is_nsys(job):
        command = f"{_PROFILER} record_shapes=True, with_stack=True)"
    yield job.messages.text("next.stacks", verdict=first.name), command


def _frames(job: Job, verdicts: Sequence[Verdict]) -> Iterator[_Row]:
    host = any(each.name in HOST and each.cost_ns for each in verdicts)
    if host and any(job.records_frames(each) for each in job.typical):
        yield job.messages.text("next.frames"), f"{_PROFILER} record_shapes=True)"


def _steps(job: Job, _verdicts: Sequence[Verdict]) -> Iterator[_Row]:
    if not job.stepped:
        nsys = 'with torch.cuda.nvtx.range(f"step {step}"): train_step()'
        yield job.messages.text("next.steps"), nsys if _is_nsys(job) else "profiler.step()  # after each step"


def _ranks(job: Job, _verdicts: Sequence[Verdict]) -> Iterator[_Row]:
    recorded = len({each.device.rank for each in job.devices if each.device.rank is not None})
    if 0 < recorded < job.world_size:
        command = 'on_trace_ready=lambda p: p.export_chrome_trace(f"traces/rank{rank}.json.gz")  # on every rank'
        if _is_nsys(job):
            command = f"{_NSYS} -o run_%q{{RANK}} python train.py  # on every rank"
        yield job.messages.text("next.ranks", recorded=recorded, world=job.world_size), command


def _loader(job: Job, verdicts: Sequence[Verdict]) -> Iterator[_Row]:
    known = logged_time(job.scope, LOADER_TIME) is not None
    if not known and any(each.name == "input_bound" for each in verdicts):
        yield job.messages.text("next.loader"), _LOADER


def _kernels(job: Job, _verdicts: Sequence[Verdict]) -> Iterator[_Row]:
    whole = sum(row["total_ns"] for row in job.limits)
    unknown = sum(row["total_ns"] for row in job.limits if row["class"] is None)
    if job.is_hip or not whole or unknown < UNKNOWN_SHARE * whole or job.compute_share < UNKNOWN_SHARE:
        return
    name = _largest_kernel(job)
    only = f'--kernel-name "regex:{name}" ' if name else ""
    command = f"ncu --set full {only}--launch-count 20 --csv --page raw python train.py > kernels.csv"
    yield job.messages.text("next.kernels", share=job.share(unknown / whole)), command


def _largest_kernel(job: Job) -> str:
    """The function name of the kernel that takes most time, without arguments, as ncu filters by it."""
    device = job.typical[0].device
    row = first_row(
        job.scope.connection.execute(
            """SELECT n.text FROM stored.gpu_ops o JOIN stored.names n ON n.name_id = o.name
            WHERE o.capture = ? AND o.device = ? AND o.kind = 0 GROUP BY n.text
            ORDER BY sum(o.end_ns - o.start_ns) DESC, n.text LIMIT 1""",
            [device.capture, device.device],
        )
    )
    found = re.search(r"([A-Za-z_]\w*)\s*(?:[<(]|$)", str(row[0])) if row else None
    return found[1] if found else ""


def _memory(job: Job, _verdicts: Sequence[Verdict]) -> Iterator[_Row]:
    if not any(job.scope.holds("memory_events", capture) for capture in job.scope.captures):
        command = f"{_NSYS} --cuda-memory-usage=true {_SCRIPT}"
        if not _is_nsys(job):
            command = f"{_PROFILER} profile_memory=True, with_stack=True)"
        yield job.messages.text("next.memory"), command


def _telemetry(job: Job) -> Iterator[_Row]:
    watched = {measured.metric for measured in job.watched.telemetry.measured}
    if Metric.UTILIZATION in watched and not watched & {Metric.SM_ACTIVE, Metric.ENGINE_ACTIVE}:
        yield job.messages.text("next.activity"), _ACTIVITY
    if not job.is_hip and not job.scope.of_source(TELEMETRY):
        yield job.messages.text("next.telemetry"), "nvidia-smi dmon -s pucvmet -d 1 -o DT > dmon.log"
