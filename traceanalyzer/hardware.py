"""What GPUs can do at most: peaks by the name of the device, from `data/hardware.toml`."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peaks of one kind of GPU. `tflops` by precision, dense; `link_gbs` is of its links to other GPUs, both ways."""

    tflops: dict[str, float]
    memory_gbs: float
    link_gbs: float | None
    source: str

    @property
    def link_one_way_gbs(self) -> float | None:
        """What bus bandwidth of collectives can reach: one direction of its links, in 1e9 bytes per second."""
        return None if self.link_gbs is None else self.link_gbs / 2


def peaks_of(name: str | None) -> Peaks | None:
    """Peaks of the GPU of that name; None where they are not known."""
    if name is None:
        return None
    return next((peaks for pattern, peaks in _known() if pattern.fullmatch(name)), None)


@functools.cache
def _known() -> list[tuple[re.Pattern[str], Peaks]]:
    import tomllib  # not at the start of every question

    text = Path(__file__).with_name("data").joinpath("hardware.toml").read_text(encoding="utf-8")
    return [
        (
            re.compile(entry["names"], re.IGNORECASE),
            Peaks(entry["tflops"], entry["memory_gbs"], entry.get("link_gbs"), entry["source"]),
        )
        for entry in tomllib.loads(text)["gpu"]
    ]
