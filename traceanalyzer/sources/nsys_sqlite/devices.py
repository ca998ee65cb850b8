"""GPUs: which physical one an operation ran on, and what the file says of each.

`deviceId` counts the GPUs that its process can see (CUDA_VISIBLE_DEVICES renumbers them). TARGET_INFO_CUDA_DEVICE, from
schema 3.17 on, tells the physical GPU of each ordinal of each process. Before that the ordinal has to stand for the
GPU, which is wrong where several processes see different GPUs under one ordinal: such devices are marked ambiguous.
"""

from typing import Any

import numpy as np

from traceanalyzer.sources.nsys_sqlite.capture import Capture, distinct
from traceanalyzer.sources.nsys_sqlite.database import NULL, Integers

_ORDINALS = 1 << 16
_MACHINE_DEVICES = 1000  # devices of a second machine in one report are numbered from 1000, of a third from 2000 ...


class Devices:
    """Device numbers of operations: the GPU ids of the file, else the ordinals."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._listed = _gpus_of_file(capture)
        self._physical = self._read_ordinals()
        self._users: dict[int, set[int]] = {}  # device -> processes
        self._unresolved: set[int] = set()

    def _read_ordinals(self) -> dict[tuple[int, int], int]:
        """(pid, ordinal) -> GPU id. Where id and uuid disagree the uuid is believed: it cannot be renumbered."""
        by_uuid = {gpu["uuid"]: number for number, gpu in self._listed.items() if gpu.get("uuid")}
        out = {}
        rows = self._capture.database.rows("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId", "uuid")
        for pid, ordinal, gpu, uuid in rows:
            number = by_uuid.get(_uuid(uuid), gpu)
            if isinstance(pid, int) and isinstance(ordinal, int) and isinstance(number, int):
                out[pid & 0xFFFFFF, ordinal] = number
        return out

    def of(self, process: Integers, ordinal: Integers) -> Integers:
        """Device numbers of `deviceId` values in their processes; null ordinals stay `NULL`."""
        device = ordinal.copy()
        known = ordinal != NULL
        pairs = np.where(process == NULL, -1, process) * _ORDINALS + np.clip(ordinal, 0, _ORDINALS - 1)
        for one, number in (divmod(pair, _ORDINALS) for pair in distinct(pairs[known])):
            resolved = self._physical.get((one & 0xFFFFFF, number))
            real = number if resolved is None else resolved
            real += _MACHINE_DEVICES * (self._capture.machine_of(one) if one >= 0 else 0)
            self._users.setdefault(real, set()).add(one)
            if resolved is None:
                self._unresolved.add(real)
            if real != number:
                device[(process == one) & (ordinal == number)] = real
        return device

    def of_one(self, process: int, ordinal: int) -> int:
        """Device number of one ordinal, without counting the process as a user of the device."""
        return self._physical.get((process & 0xFFFFFF, ordinal), ordinal)

    @property
    def users(self) -> dict[int, set[int]]:
        """Processes of the operations on each device."""
        return self._users

    def write(self) -> None:
        """Write the table `devices` and say which numbers are ambiguous."""
        ambiguous = {d for d, users in self._users.items() if len(users) > 1 and d in self._unresolved}
        if ambiguous:
            numbers = ", ".join(map(str, sorted(ambiguous)))
            self._capture.note(
                "ambiguous_device",
                f"Several processes use device {numbers} and the file does not tell which physical GPU it is for each"
                " of them: different GPUs may hide behind one number.",
                len(ambiguous),
            )
        numbers_of_gpus = sorted(self._listed.keys() | self._users.keys())
        rows = [self._listed.get(number, {}) for number in numbers_of_gpus]
        self._capture.write(
            "devices",
            {
                "device": numbers_of_gpus,
                "name": [self._code(row.get("name")) for row in rows],
                "uuid": [self._code(row.get("uuid")) for row in rows],
                "memory_bytes": _column(rows, "memory_bytes"),
                "multiprocessors": _column(rows, "multiprocessors"),
                "compute_capability": [self._code(row.get("compute_capability")) for row in rows],
                "clock_rate_hz": _column(rows, "clock_rate_hz"),
                "memory_bandwidth_bytes_per_s": _column(rows, "memory_bandwidth_bytes_per_s"),
                "ambiguous": [number in ambiguous for number in numbers_of_gpus],
            },
        )

    def _code(self, text: Any) -> int:
        return self._capture.names.code(text)


def _column(rows: list[dict[str, Any]], name: str) -> Any:
    values = [row.get(name) for row in rows]
    return np.ma.masked_array(
        np.array([v if isinstance(v, int) else 0 for v in values], np.int64),
        # Old exports write 0 where they do not know.
        [not isinstance(v, int) or v == 0 for v in values],
    )


def _gpus_of_file(capture: Capture) -> dict[int, dict[str, Any]]:
    """What the file lists: TARGET_INFO_GPU (its first layout had deviceId for id), TARGET_INFO_CUDA_GPU before it."""
    out: dict[int, dict[str, Any]] = {}
    machines = sorted({row[0] for row in capture.database.rows("TARGET_INFO_GPU", "vmId") if isinstance(row[0], int)})
    columns = ["id", "deviceId", "vmId", "name", "uuid", "totalMemory", "smCount"]
    columns += ["computeMajor", "computeMinor", "clockRate", "memoryBandwidth"]
    for row in capture.database.rows("TARGET_INFO_GPU", *columns):
        values = dict(zip(columns, row, strict=True))
        number = values["id"] if isinstance(values["id"], int) else values["deviceId"]
        if isinstance(number, int):
            machine = machines.index(values["vmId"]) if values["vmId"] in machines else 0
            out[number + _MACHINE_DEVICES * machine] = {
                "name": _text(values["name"]),
                "uuid": _uuid(values["uuid"]),
                "memory_bytes": values["totalMemory"],
                "multiprocessors": values["smCount"],
                "compute_capability": _capability(values["computeMajor"], values["computeMinor"]),
                "clock_rate_hz": values["clockRate"],
                "memory_bandwidth_bytes_per_s": values["memoryBandwidth"],
            }
    columns = ["deviceId", "name", "globalMemorySize", "numMultiprocessors", "coreClockRate", "globalMemoryBandwidth"]
    columns += ["computeCapabilityMajor", "computeCapabilityMinor"]
    for row in capture.database.rows("TARGET_INFO_CUDA_GPU", *columns):
        number, name, memory, multiprocessors, clock, bandwidth, major, minor = row
        if isinstance(number, int):
            known = {
                "name": _text(name),
                # nsys 2020.3 states MiB, 2020.5 bytes; clock and bandwidth are in kHz and kB/s in both.
                "memory_bytes": memory << 20 if isinstance(memory, int) and memory < 1 << 30 else memory,
                "multiprocessors": multiprocessors,
                "compute_capability": _capability(major, minor),
                "clock_rate_hz": clock * 1000 if isinstance(clock, int) else None,
                "memory_bandwidth_bytes_per_s": bandwidth * 1000 if isinstance(bandwidth, int) else None,
            }
            gpu = out.setdefault(number, {})
            gpu.update((k, v) for k, v in known.items() if v is not None and gpu.get(k) in (None, 0))
    return out


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _uuid(value: Any) -> str | None:
    return value.removeprefix("GPU-") if isinstance(value, str) and value.strip("0-") else None


def _capability(major: Any, minor: Any) -> str | None:
    return f"{major}.{minor}" if isinstance(major, int) and isinstance(minor, int) and major else None
