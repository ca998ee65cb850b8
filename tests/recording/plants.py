"""What is planted: which rank is late, in which steps, by how much, and by which function."""

import time
from dataclasses import asdict, dataclass
from typing import Any

from recording.groups import tensor_groups

SLEEP_MS = 8.0
EXTRA_WORK = 0.15


@dataclass(frozen=True)
class Plant:
    """Who is late in a step, and how."""

    name: str
    rank: int | None = None
    sleeps_ms: float = 0.0
    extra_work: float = 0.0
    takes_turns: bool = False

    def sleeps(self, rank: int, step: int, world: int) -> bool:
        """Whether the rank sleeps before its part of a step."""
        if not self.sleeps_ms:
            return False
        return rank == (step % world if self.takes_turns else self.rank)

    def works_more(self, rank: int) -> float:
        """The share of GPU work that the rank does beyond its part, in every step."""
        return self.extra_work if rank == self.rank else 0.0

    def as_truth(self) -> dict[str, Any]:
        """The plant as `truth.json` has it."""
        told = {key: value for key, value in asdict(self).items() if key != "name" and value}
        if self.sleeps_ms:
            told["function"] = load_extra_batch.__name__
        return told


def plants(world: int) -> dict[str, Plant]:
    """The plants of a job of so many ranks, by name. The late rank is the second of a tensor-parallel group."""
    groups = tensor_groups(world)
    late = groups[(len(groups) - 1) // 2][:2][-1]
    every = (
        Plant("balanced"),
        Plant("late_host", rank=late, sleeps_ms=SLEEP_MS),
        Plant("more_work", rank=late, extra_work=EXTRA_WORK),
        Plant("takes_turns", sleeps_ms=SLEEP_MS, takes_turns=True),
    )
    return {plant.name: plant for plant in every}


def load_extra_batch(milliseconds: float) -> None:
    """What a late host waits in: the name to be found in the stacks."""
    time.sleep(milliseconds / 1e3)
