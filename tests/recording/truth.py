"""`truth.json`: what was planted in a capture, and what its ranks measured."""

import json
import re
import statistics
from pathlib import Path


def write_truth(folder: Path, ranks: int, *, share_gpu: bool) -> None:
    """One file of what all ranks of a capture told, which each left in a file of its own."""
    told = [
        json.loads(path.read_text()) for rank in range(ranks) for path in sorted(folder.glob(f"rank{rank}.*.truth"))
    ]
    truth = {**told[0], "share_one_gpu": share_gpu, "measured": {}}
    for way in {way: None for one in told for way in one["measured"]}:
        each = [one["measured"][way] for one in told if way in one["measured"]]
        truth["measured"][way] = {
            "steps": each[0]["steps"],
            "first_step": each[0]["first_step"],
            "median_step_ms": statistics.median(rank["median_step_ms"] for rank in each),
            "host_step_ms": [rank["host_step_ms"] for rank in each],
            "late_ms": [rank["late_ms"] for rank in each],
        }
    (folder / "truth.json").write_text(with_short_lists(json.dumps(truth, indent=1)) + "\n")
    for path in folder.glob("rank*.truth"):
        path.unlink()


def with_short_lists(text: str) -> str:
    """Lists of numbers on one line."""
    return re.sub(r"\[\s+([-0-9.,\s]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
