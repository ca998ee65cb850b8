"""What GPUs can do at most: peaks by the name of the device, from `data/hardware.toml` or from a file of the user's."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traceanalyzer.errors import UsageError


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peaks of one kind of GPU. `tflops` by precision, dense; `link_gbs` is of its links to other GPUs, both ways.

    `multiprocessors` are those of the whole GPU, which the peaks of arithmetic are of; None where that is not said.
    """

    tflops: dict[str, float]
    memory_gbs: float | None
    link_gbs: float | None
    source: str
    multiprocessors: int | None = None

    def part_of_gpu(self, multiprocessors: int | None) -> tuple[float, str]:
        """The part of its arithmetic that so many multiprocessors are, and that in words; nothing to say of the whole.

        A process has fewer than all under MIG, and under MPS with a limit of active threads.
        """
        if not multiprocessors or not self.multiprocessors or multiprocessors >= self.multiprocessors:
            return 1.0, ""
        return multiprocessors / self.multiprocessors, f", {multiprocessors} of {self.multiprocessors} multiprocessors"

    @property
    def link_one_way_gbs(self) -> float | None:
        """What bus bandwidth of collectives can reach: one direction of its links, in 1e9 bytes per second."""
        return None if self.link_gbs is None else self.link_gbs / 2


@dataclass(frozen=True, slots=True)
class Entry:
    """Peaks, and the names of the devices that they are of."""

    names: re.Pattern[str]
    peaks: Peaks


PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp8", "int8")
"""Precisions that a peak can be of; BF16 and FP16 have the same one."""
_SAME_PEAK = {"fp16": "bf16"}
MOST_BYTES = 1 << 14
"""No file of peaks is larger."""
_KEYS = {"names", "memory_gbs", "tflops", "link_gbs", "source"}
"""What an entry may say."""
MOST = 1e9
"""No peak in TFLOP/s or GB/s is larger."""


def precision_of_peak(precision: str) -> str:
    """The precision that a peak is listed under: that of FP16 is that of BF16."""
    return _SAME_PEAK.get(precision, precision)


def peaks_of(name: str | None) -> Peaks | None:
    """Peaks of the GPU of that name by its data sheet; None where they are not known."""
    return None if name is None else own_peaks_of(name, _known())


def own_peaks_of(name: str | None, entries: Sequence[Entry]) -> Peaks | None:
    """The first of some entries that fits the name of a GPU; None where none does."""
    return next((entry.peaks for entry in entries if entry.names.fullmatch(name or "")), None)


def fp32_lanes(compute_capability: str | None) -> int | None:
    """FP32 lanes of a multiprocessor of a compute capability, such as 9.0; None where that is not known."""
    lanes = _tables()["fp32_lanes"].get(compute_capability or "")
    return None if lanes is None else int(lanes)


def read_peaks(path: Path) -> list[Entry]:
    """Peaks from a file in the form of `data/hardware.toml`: `[[gpu]]` with `memory_gbs`, `tflops`, or both.

    Without `names` an entry is of every GPU. Raises `UsageError`, which says what is wrong.
    """
    import tomllib

    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise UsageError(f"--peaks {path}: more than {MOST_BYTES:,} bytes, which no file of peaks has")
        entries = tomllib.loads(text.decode("utf-8-sig")).get("gpu")
    except OSError as error:
        raise UsageError(f"--peaks {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--peaks {path}: not TOML ({error})") from error
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"--peaks {path}: has no [[gpu]] with memory_gbs = ... and tflops = {{ bf16 = ... }}")
    return [_own(path, entry) for entry in entries]


def _own(path: Path, entry: dict[str, Any]) -> Entry:
    if strange := set(entry) - _KEYS:
        raise UsageError(f"--peaks {path}: [[gpu]] takes {', '.join(sorted(_KEYS))}, not {min(strange)}")
    tflops = entry.get("tflops", {})
    unknown = set(tflops) - {*PRECISIONS, *_SAME_PEAK} if isinstance(tflops, dict) else {"a single number"}
    if unknown:
        takes = ", ".join((*PRECISIONS, *_SAME_PEAK))
        raise UsageError(f"--peaks {path}: tflops = {{ ... }} takes {takes}, not {min(unknown)}")
    tflops = {precision_of_peak(k): v for k, v in tflops.items()}
    numbers = {**tflops, "memory_gbs": entry.get("memory_gbs"), "link_gbs": entry.get("link_gbs")}
    for name, value in numbers.items():
        known = value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < MOST)
        if not known:
            raise UsageError(f"--peaks {path}: {name} = {value!r} is no peak in TFLOP/s or GB/s")
    if not tflops and entry.get("memory_gbs") is None:
        raise UsageError(f"--peaks {path}: a [[gpu]] has neither memory_gbs nor tflops")
    if not isinstance(entry.get("names", ""), str):
        raise UsageError(f"--peaks {path}: names = {entry['names']!r} is no text")
    try:
        names = re.compile(entry.get("names", ".*"), re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"--peaks {path}: names = {entry['names']!r} is no regular expression ({error})") from error
    source = str(entry.get("source", path.name))
    peaks = Peaks({k: float(v) for k, v in tflops.items()}, numbers["memory_gbs"], numbers["link_gbs"], source)
    return Entry(names, peaks)


@functools.cache
def _tables() -> dict[str, Any]:
    import tomllib  # not at the start of every question

    text = Path(__file__).with_name("data").joinpath("hardware.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@functools.cache
def _known() -> list[Entry]:
    return [
        Entry(
            re.compile(entry["names"], re.IGNORECASE),
            Peaks(
                entry["tflops"], entry["memory_gbs"], entry.get("link_gbs"), entry["source"], entry["multiprocessors"]
            ),
        )
        for entry in _tables()["gpu"]
    ]
