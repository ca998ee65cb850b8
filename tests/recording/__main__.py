"""Start a job of one process a rank, and put its captures into folders with what was planted."""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from recording import nsys
from recording.patterns import PATTERNS
from recording.plants import plants
from recording.truth import write_truth

GPU_SHARE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
NSYS = "nsys"
MODES = ("unprofiled", "torch", "stack", NSYS)
TINY = {"dim": 64, "width": 128, "rows": 64, "training_rows": 64, "layers": 2}


def main() -> None:
    """Run the job without a profiler and for torch.profiler, then for Nsight Systems, and write what was planted."""
    options = parsed()
    out = options.out.resolve()
    folders = [out / f"{pattern}{options.ranks}_{plant}" for pattern in options.patterns for plant in options.plants]
    if taken := [folder for folder in folders if folder.exists()]:
        raise SystemExit(f"{taken[0]} exists: give another --out")
    out.mkdir(parents=True, exist_ok=True)
    write_topology(out / "topology.txt")
    config = {**vars(options), "out": str(out), "modes": [mode for mode in options.modes if mode != NSYS]}
    if config["modes"] or options.bandwidth_mb:
        run_ranks(config)
    failed = record_with_nsys(config, folders) if NSYS in options.modes else []
    for folder in folders if options.modes else ():
        write_truth(folder, options.ranks, share_gpu=options.share_gpu)
    if failed:
        raise SystemExit(f"{len(failed)} reports were not exported, the first one for: {failed[0]}")


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m recording", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the captures")
    parser.add_argument("--ranks", type=int, help="processes (as many as there are GPUs)")
    parser.add_argument("--share-gpu", action="store_true", help="all ranks on one GPU, each as if on its own host")
    for name, known, given in (
        ("patterns", tuple(PATTERNS), tuple(PATTERNS)),
        ("plants", tuple(plants(2)), tuple(plants(2))),
        ("modes", MODES, MODES[:-1]),
    ):
        told = f"of {', '.join(known)} ({', '.join(given)})"
        parser.add_argument(f"--{name}", type=some_of(known), default=list(given), metavar="A,B", help=told)
    parser.add_argument(
        "--bandwidth-mb",
        type=numbers,
        default=[],
        metavar="MB,MB",
        help="also a table of bandwidths, by size of message",
    )
    parser.add_argument("--dim", type=int, default=4096, help="width of activations")
    parser.add_argument("--width", type=int, default=8192, help="width of hidden layers, where a pattern has them")
    parser.add_argument("--rows", type=int, default=8192, help="batch of a rank, where activations are communicated")
    parser.add_argument("--training-rows", type=int, default=8192, help="the same, where gradients are")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument(
        "--repeats", type=int, default=1, help="how often activations are computed before they are sent"
    )
    parser.add_argument("--warmup", type=int, default=5, help="steps before everything")
    parser.add_argument("--unprofiled-steps", type=int, default=20)
    parser.add_argument("--torch-steps", type=int, default=16)
    parser.add_argument("--stack-steps", type=int, default=8)
    parser.add_argument("--nsys-steps", type=int, default=8)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try it")
    options = parser.parse_args()
    if options.tiny:
        vars(options).update(TINY)
    if options.ranks is None:
        import torch

        options.ranks = torch.cuda.device_count()
    if options.ranks < 1:
        parser.error("no GPU was found: give --ranks (processes on the CPU), and --tiny")
    return options


def some_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    """What takes names of a list, with commas; none at all for an empty text."""

    def chosen(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        if strange := sorted(set(names) - set(known)):
            raise argparse.ArgumentTypeError(f"{strange[0]} is none of {', '.join(known)}")
        return names

    return chosen


def numbers(text: str) -> list[int]:
    """Numbers, with commas."""
    return [int(number) for number in text.split(",") if number]


def write_topology(file: Path) -> None:
    """How the GPUs are connected, where the driver tells."""
    tool = shutil.which("nvidia-smi")
    if tool is not None:
        told = subprocess.run([tool, "topo", "-m"], check=False, capture_output=True, text=True).stdout
        file.write_text(re.sub("\x1b\\[[0-9;]*m", "", told))


def record_with_nsys(config: dict[str, Any], folders: list[Path]) -> list[BaseException]:
    """Run the job under Nsight Systems, a report a rank for each folder; what kept reports from being exported."""
    with tempfile.TemporaryDirectory() as scratch:
        run_ranks({**config, "modes": [NSYS], "bandwidth_mb": [], "reports": scratch})
        with ThreadPoolExecutor() as pool:
            exports = [
                pool.submit(nsys.export, nsys.report_of(scratch, rank), number, folder / f"nsys.rank{rank}.sqlite.gz")
                for rank in range(config["ranks"])
                for number, folder in enumerate(folders, 1)
            ]
        return [error for error in (export.exception() for export in exports) if error is not None]


def run_ranks(config: dict[str, Any]) -> None:
    """Run one process a rank until all have ended.

    Raises:
        SystemExit: One failed; the others, with what they started, are ended.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world, share_gpu = config["ranks"], config["share_gpu"]
    ranks = [
        subprocess.Popen(
            command(rank, config), env=environment(rank, world, port, share_gpu=share_gpu), start_new_session=True
        )
        for rank in range(world)
    ]
    try:
        while any(rank.poll() is None for rank in ranks) and not any(rank.poll() for rank in ranks):
            time.sleep(0.1)
    finally:
        for rank in ranks:
            if rank.poll() is None:
                os.killpg(rank.pid, signal.SIGKILL)
    if any(rank.wait() for rank in ranks):
        raise SystemExit("a rank failed")


def command(rank: int, config: dict[str, Any]) -> list[str]:
    """What starts a rank."""
    before = []
    if config["modes"] == [NSYS]:
        ranges = len(config["patterns"]) * len(config["plants"])
        before = nsys.profile_command(nsys.report_of(config["reports"], rank), ranges)
    return [*before, sys.executable, "-m", "recording.rank", json.dumps(config)]


def environment(rank: int, world: int, port: int, *, share_gpu: bool) -> dict[str, str]:
    """The variables of a rank, as torchrun sets them.

    NCCL refuses two ranks on one GPU of a host. Where they are to share it each says that it is another host, and
    they talk through sockets. Under NVIDIA's Multi-Process Service (`nvidia-cuda-mps-control -d`) their kernels run
    side by side, each on its share of the GPU, as on one of its own; without it they take turns. What the machine sets
    for NCCL, such as NVLink multicast switched off, stays as it is.
    """
    told = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING": "false",
    }
    if share_gpu:
        told |= {
            "NCCL_HOSTID": f"host{rank}",
            "NCCL_NET": "Socket",
            "NCCL_SOCKET_IFNAME": "lo",
            "NCCL_MNNVL_ENABLE": "0",
            "NCCL_MAX_NCHANNELS": "1",
            GPU_SHARE: os.environ.get(GPU_SHARE, str(100 // world)),
        }
    return {**os.environ, **told}


if __name__ == "__main__":
    main()
