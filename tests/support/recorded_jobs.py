"""Jobs of several ranks that `tests.recording` recorded, with what it planted and measured: `truth.json` beside them.

Those in the checkout, and those that lie beside it: more of them are picked up wherever a folder has that file.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.real_traces import TRACES

_ROOT = Path(__file__).parents[2]
_PLACES = (_ROOT / "sample_traces", _ROOT / "tests" / "captures", TRACES)
_NAMES = {"torch": "rank{}.json.gz", "stack": "rank{}.stack.json.gz", "nsys": "nsys.rank{}.sqlite.gz"}
STACKS = ("stack", "nsys")
"""Ways of recording that tell Python functions."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedJob:
    """A job as one profiler recorded it, a file a rank."""

    folder: Path
    way: str
    truth: dict[str, Any]

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.folder.name}-{self.way}"

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return int(self.truth["ranks"])

    @property
    def files(self) -> list[Path]:
        """The file of each rank."""
        return [self.folder / _NAMES[self.way].format(rank) for rank in range(self.ranks)]

    @property
    def measured(self) -> dict[str, Any]:
        """What the program measured on the host in the steps that were recorded."""
        found: dict[str, Any] = self.truth["measured"][self.way]
        return found

    def late_ns(self, rank: int, step: int) -> int:
        """How long a rank slept in a recorded step, counted from 0."""
        return round(self.measured["late_ms"][rank][step] * 1e6)


def recorded_jobs(**wanted: object) -> list[RecordedJob]:
    """Every recording that has all its files, where its truth has the wanted values."""
    out = []
    for path in sorted(found for place in _PLACES for found in place.rglob("truth.json")):
        truth = json.loads(path.read_text(encoding="utf-8"))
        if "pattern" not in truth or any(truth[key] != value for key, value in wanted.items()):
            continue
        jobs = [RecordedJob(path.parent, way, truth) for way in _NAMES if way in truth["measured"]]
        out += [job for job in jobs if all(file.exists() for file in job.files)]
    return out


BANDWIDTH_TABLES = sorted(path for place in _PLACES for path in place.rglob("bandwidth*.txt"))
"""Bandwidths that were measured by the same program."""
