"""How fast collectives are, as a table in the layout of nccl-tests, measured through torch.distributed."""

import time

import torch
import torch.distributed as dist

ROUNDS = 20
WIDTHS = (13, 13, 8, 7, 6, 8, 8, 8)
HEADS = (
    ("size", "count", "type", "redop", "root", "time", "algbw", "busbw"),
    ("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)"),
)
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")


def bandwidth_table(device: torch.device, world: int, sizes_mb: list[int]) -> str:
    """Time, algorithm and bus bandwidth of each kind and size; factors of the bus bandwidth as nccl-tests has them."""
    version = ".".join(map(str, torch.cuda.nccl.version())) if device.type == "cuda" else "-"
    lines = [f"# torch.distributed (NCCL {version}), {world} ranks, out of place; layout after nccl-tests"]
    for kind in KINDS:
        lines += ["#", f"# {kind}"]
        for heads in HEADS:
            lines.append("#" + " ".join(f"{head:>{width}}" for head, width in zip(heads, WIDTHS, strict=True))[1:])
        for size_mb in sizes_mb:
            size = size_mb * 2**20 // (4 * world) * 4 * world
            seconds = seconds_of(kind, size, device, world)
            factor = (2 if kind == "all_reduce" else 1) * (world - 1) / world
            count = size // 4 if kind == "all_reduce" else size // 4 // world
            operation = "sum" if kind in ("all_reduce", "reduce_scatter") else "none"
            rate = size / seconds / 1e9
            numbers = [f"{value:.2f}" for value in (seconds * 1e6, rate, rate * factor)]
            row = (size, count, "float", operation, -1, *numbers)
            lines.append(" ".join(f"{value:>{width}}" for value, width in zip(row, WIDTHS, strict=True)))
    return "\n".join(lines) + "\n"


def seconds_of(kind: str, size: int, device: torch.device, world: int) -> float:
    """Seconds that one collective of `size` bytes takes, of several in a row."""
    whole = torch.randn(size // 4, device=device)
    other = torch.empty_like(whole) if kind == "alltoall" else torch.randn(size // 4 // world, device=device)
    call = {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, other),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(other, whole),
        "alltoall": lambda: dist.all_to_all_single(other, whole),
    }[kind]
    for _ in range(5):
        call()
    dist.barrier()
    if device.type != "cuda":
        begin = time.perf_counter()
        for _ in range(ROUNDS):
            call()
        return (time.perf_counter() - begin) / ROUNDS
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(ROUNDS):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / ROUNDS / 1e3
