"""Ranks of processes: from the environment of the launched one, MPI, NVTX names, NCCL, else the order of devices."""

import re
from dataclasses import dataclass, field

from traceanalyzer.schema.kinds import RankSource
from traceanalyzer.sources.nsys_sqlite.capture import Capture
from traceanalyzer.sources.nsys_sqlite.collectives import Collectives
from traceanalyzer.sources.nsys_sqlite.devices import Devices
from traceanalyzer.sources.nsys_sqlite.nvtx import NvtxNames

# The first one that is set counts: what the framework sets is closer to the program than what the launcher sets.
RANK_VARIABLES = (
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "MPI_LOCALRANKID",
    "SLURM_PROCID",
    "FLUX_TASK_RANK",
    "PALS_RANKID",
)
WORLD_VARIABLES = (
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "SLURM_NTASKS",
    "FLUX_JOB_SIZE",
)
_MPI_THREAD = re.compile(r"MPI Rank (\d+)")
_RANK_NAME = re.compile(r"(?i)(?:global[ _-]?)?rank\s*[:=#_ -]?\s*(\d+)")


@dataclass(slots=True)
class Ranks:
    """Ranks of processes with their sources, and the size of the world where the file tells it."""

    of_process: dict[int, tuple[int, RankSource]] = field(default_factory=dict)
    world_size: int | None = None

    def offer(self, process: int, rank: int, source: RankSource) -> None:
        """Take a rank for a process unless a better source already told one."""
        if 0 <= rank < 2**31:
            self.of_process.setdefault(process, (rank, source))


def find_ranks(
    capture: Capture, environment: dict[str, str], nvtx: NvtxNames, collectives: Collectives, devices: Devices
) -> Ranks:
    """Ranks of the processes of the capture, by the best source that tells them."""
    ranks = Ranks(world_size=_number_of(environment, WORLD_VARIABLES))
    gpu = sorted(capture.gpu_processes)
    working = gpu or sorted({capture.process_of(t) for t in capture.global_threads if t >= 0})
    # The environment is that of the process that nsys launched. If several work on GPUs, it was their launcher's.
    rank = _number_of(environment, RANK_VARIABLES)
    if rank is not None and len(working) == 1:
        ranks.offer(working[0], rank, RankSource.ENVIRONMENT)
    _from_mpi(capture, ranks)
    for thread, names in nvtx.threads.items():
        for name in names:
            if match := _MPI_THREAD.fullmatch(name):
                ranks.offer(capture.process_of(thread), int(match[1]), RankSource.MPI)
            elif match := _RANK_NAME.fullmatch(name):
                ranks.offer(capture.process_of(thread), int(match[1]), RankSource.RANGES)
    _from_nccl(collectives, ranks)
    _from_range_names(capture, ranks)
    _by_device_order(capture, ranks, collectives, devices, gpu)
    return ranks


def _number_of(environment: dict[str, str], names: tuple[str, ...]) -> int | None:
    return next((int(environment[n]) for n in names if environment.get(n, "").isdecimal()), None)


def _from_mpi(capture: Capture, ranks: Ranks) -> None:
    for thread, rank in capture.database.rows("MPI_RANKS", "globalTid", "rank"):
        if isinstance(thread, int) and isinstance(rank, int):
            ranks.offer(capture.process_of(thread), rank, RankSource.MPI)
    sizes = [row[0] for row in capture.database.rows("MPI_COMMUNICATORS", "size") if isinstance(row[0], int)]
    if sizes and ranks.world_size is None:
        ranks.world_size = max(sizes)  # the largest communicator is the world, as far as the file tells


def _from_nccl(collectives: Collectives, ranks: Ranks) -> None:
    """A process is rank r of n in the largest communicator that it joined."""
    largest = {process: max(found, key=lambda pair: pair[1]) for process, found in collectives.ranks.items()}
    for process, (rank, size) in largest.items():
        alone = {r for r, n in collectives.ranks[process] if n == size}
        if len(alone) == 1 and isinstance(rank, int):
            ranks.offer(process, rank, RankSource.METADATA)
    sizes = [size for _, size in largest.values()]
    if sizes and ranks.world_size is None:
        ranks.world_size = max(sizes)


def _from_range_names(capture: Capture, ranks: Ranks) -> None:
    """Ranges and marks of processes that are named "rank 3" and nothing else."""
    where = """"text" LIKE '%rank%' AND length("text") < 32 AND "eventType" IN (34, 59, 60)"""
    if not capture.database.has("NVTX_EVENTS", "text", "eventType", "globalTid"):
        return
    found: dict[int, set[int]] = {}
    for block in capture.database.blocks("NVTX_EVENTS", ("globalTid",), ("text",), where=where):
        process = capture.process(block["globalTid"]).tolist()
        for one, text in zip(process, block.values("text"), strict=True):
            if isinstance(text, str) and (match := _RANK_NAME.fullmatch(text.strip())):
                found.setdefault(one, set()).add(int(match[1]))
    for process, numbers in found.items():
        if len(numbers) == 1:
            ranks.offer(process, numbers.pop(), RankSource.RANGES)


def _by_device_order(
    capture: Capture, ranks: Ranks, collectives: Collectives, devices: Devices, gpu: list[int]
) -> None:
    """Processes that talk to each other by NCCL, each with one GPU of its own, are ranks in the order of the GPUs."""
    users = devices.users
    own = {process: [d for d, who in users.items() if process in who] for process in gpu}
    single = len(gpu) > 1 and all(len(d) == 1 for d in own.values()) and all(len(who) == 1 for who in users.values())
    if not single or any(p in ranks.of_process for p in gpu) or not set(gpu) <= collectives.processes:
        return
    for rank, process in enumerate(sorted(gpu, key=lambda p: own[p])):
        ranks.offer(process, rank, RankSource.ORDER)
    capture.note(
        "ranks_by_device_order",
        "The file does not tell the ranks of its processes; they were numbered in the order of their GPUs.",
        len(gpu),
    )
