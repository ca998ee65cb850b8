"""One rank of a job: runs every pattern with every plant, measured on the host, and captured.

Started by `recording.__main__`, once a rank, with the environment of torchrun and its config as JSON.
"""

import contextlib
import gc
import gzip
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from recording.bandwidth import bandwidth_table
from recording.nsys import without_host
from recording.patterns import PATTERNS, Part, Step, region
from recording.plants import Plant, load_extra_batch, plants

SKIPPED = 3
"""Steps that a profiler runs before those it keeps: one idle, two to warm it up."""


class Rank:
    """A process of the job, and how it is configured."""

    def __init__(self, config: dict[str, Any]):
        self.config = config
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.cuda = torch.cuda.is_available()
        local = 0 if config["share_gpu"] else int(os.environ["LOCAL_RANK"])
        self.device = torch.device("cuda", local) if self.cuda else torch.device("cpu")
        limit = timedelta(seconds=120)
        if self.cuda:
            torch.cuda.set_device(self.device)
            dist.init_process_group("nccl", device_id=self.device, timeout=limit)
        else:
            dist.init_process_group("gloo", timeout=limit)
        self.groups: dict[tuple[int, ...], dist.ProcessGroup] = {}
        self.step_index = 0
        self.late_ms: list[float] = []

    def run(self) -> None:
        """Every pattern with every plant, and the table of bandwidths."""
        if self.config["bandwidth_mb"]:
            table = bandwidth_table(self.device, self.world, self.config["bandwidth_mb"])
            if self.rank == 0:
                (Path(self.config["out"]) / f"bandwidth{self.world}.txt").write_text(table)
        known = plants(self.world)
        for pattern in self.config["patterns"] if self.config["modes"] else ():
            for plant in self.config["plants"]:
                begin = time.perf_counter()
                self.record(pattern, known[plant])
                if self.rank == 0:
                    print(f"{pattern} {plant}: {time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)
        dist.barrier()
        dist.destroy_process_group()

    def record(self, pattern: str, plant: Plant) -> None:
        """One pattern with one plant: its steps without a profiler, then every capture."""
        torch.manual_seed(self.rank)
        sizes = {key: self.config[key] for key in ("dim", "width", "rows", "layers", "repeats", "training_rows")}
        part = Part(
            self.rank, self.world, self.device, **sizes, extra_work=plant.works_more(self.rank), groups=self.groups
        )
        step = self.planted_step(PATTERNS[pattern](part), plant)
        folder = Path(self.config["out"]) / f"{pattern}{self.world}_{plant.name}"
        folder.mkdir(parents=True, exist_ok=True)
        self.step_index = 0
        self.timed_steps(step, self.config["warmup"])
        measured = {}
        for mode in self.config["modes"]:
            dist.barrier()
            if mode == "unprofiled":
                measured[mode] = self.timed_steps(step, self.config["unprofiled_steps"])
            elif mode in ("torch", "stack"):
                path = folder / (f"rank{self.rank}.json" if mode == "torch" else f"rank{self.rank}.stack.json")
                measured[mode] = self.profiled_steps(
                    step, self.config[f"{mode}_steps"], path, with_stack=mode == "stack"
                )
            else:
                measured[mode] = self.marked_steps(step, self.config["nsys_steps"])
        truth = {
            "pattern": pattern,
            "plant": plant.name,
            "planted": plant.as_truth(),
            "ranks": self.world,
            "sizes": sizes,
            "versions": self.versions(),
            "measured": measured,
        }
        (folder / f"rank{self.rank}.{'-'.join(self.config['modes'])}.truth").write_text(json.dumps(truth))
        del step, part
        gc.collect()
        if self.cuda:
            torch.cuda.empty_cache()

    def planted_step(self, step: Step, plant: Plant) -> Step:
        """A step of this rank with what is planted on it."""

        def whole_step() -> None:
            late_ms = 0.0
            if plant.sleeps(self.rank, self.step_index, self.world):
                begin = time.perf_counter()
                load_extra_batch(plant.sleeps_ms)
                late_ms = (time.perf_counter() - begin) * 1e3
            step()
            self.synchronize()
            self.late_ms.append(round(late_ms, 4))
            self.step_index += 1

        return whole_step

    def timed_steps(self, step: Step, count: int) -> dict[str, Any]:
        """Some steps, timed on the host."""
        with self.stop_watch() as result:
            for _ in range(count):
                with self.one_step(result), region("step"):
                    step()
        return result

    def marked_steps(self, step: Step, count: int) -> dict[str, Any]:
        """Some steps that Nsight Systems records, as they are marked for it."""
        torch.cuda.profiler.start()
        dist.barrier()
        result = self.timed_steps(step, count)
        dist.barrier()
        self.synchronize()
        torch.cuda.profiler.stop()
        return result

    def profiled_steps(self, step: Step, count: int, path: Path, *, with_stack: bool) -> dict[str, Any]:
        """Some steps under torch.profiler, which writes them to `path` with `.gz`."""
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if self.cuda:
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        profiler = torch.profiler.profile(
            activities=kinds,
            record_shapes=True,
            acc_events=True,
            with_stack=with_stack,
            schedule=torch.profiler.schedule(wait=1, warmup=SKIPPED - 1, active=count, repeat=1),
            on_trace_ready=lambda done: write_trace(done, path),
        )
        with profiler:
            for _ in range(SKIPPED):
                step()
                profiler.step()
            with self.stop_watch() as result:
                for i in range(count):
                    with self.one_step(result):
                        step()
                    if i + 1 < count:
                        profiler.step()
            dist.barrier()  # so that nobody is stopped by the writing of another
            profiler.step()
        return result

    @contextlib.contextmanager
    def stop_watch(self) -> Iterator[dict[str, Any]]:
        """What is measured of some steps: their host times, and which of them were late on this rank, in ms."""
        result: dict[str, Any] = {"first_step": self.step_index, "host_step_ms": []}
        self.late_ms = []
        self.synchronize()
        yield result
        result["steps"] = len(result["host_step_ms"])
        result["median_step_ms"] = round(statistics.median(result["host_step_ms"]), 4)
        result["late_ms"] = list(self.late_ms)

    @contextlib.contextmanager
    def one_step(self, result: dict[str, Any]) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        result["host_step_ms"].append(round((time.perf_counter() - begin) * 1e3, 4))

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.cuda:
            torch.cuda.synchronize()

    def versions(self) -> dict[str, str]:
        """The software that ran."""
        found = {"python": sys.version.split()[0], "torch": torch.__version__}
        if self.cuda:
            found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
            found["gpu"] = torch.cuda.get_device_name(self.device)
        return found


def write_trace(profiler: torch.profiler.profile, path: Path) -> None:
    """The trace, packed, without the name of the machine."""
    profiler.export_chrome_trace(str(path))
    with gzip.GzipFile(f"{path}.gz", "wb", 9, mtime=0) as packed:
        packed.write(without_host(path.read_text()).encode())
    path.unlink()


if __name__ == "__main__":
    Rank(json.loads(sys.argv[1])).run()
