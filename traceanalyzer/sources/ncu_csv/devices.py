"""The GPUs of a file, by the attributes that its raw page or its session page repeats."""

from decimal import Decimal
from typing import Any

from traceanalyzer.sources.row_batches import Batches

_PREFIX = "device__attribute_"
_NUMBERS = {
    "multiprocessor_count": ("multiprocessors", 1),
    "total_memory": ("memory_bytes", 1),
    "max_gpu_frequency_khz": ("clock_rate_hz", 1000),
}
_OF_SEVERAL = ("compute_capability_major", "compute_capability_minor", "memory_clock_rate", "global_memory_bus_width")
"""Attributes that say something together."""
_TRANSFERS = 2
"""Transfers a clock of memory: with it the bandwidth is the one that nsys states for the same device."""
_LARGEST = 2**63 - 1
_LARGEST_DEVICE = 2**31 - 1


class Devices:
    """Collects what is told of each device."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[str, Any]] = {}

    def see(self, device: int | None, compute_capability: str | None) -> None:
        """A device that a launch ran on."""
        if device is not None and device <= _LARGEST_DEVICE:
            row = self._rows.setdefault(device, {"device": device})
            if compute_capability:
                row.setdefault("compute_capability", compute_capability)

    def take(self, device: int | None, attribute: str, value: Decimal | None, text: str | None) -> None:
        """An attribute of a device; `value` where it is a number, else `text`."""
        if device is None or device > _LARGEST_DEVICE:
            return
        row = self._rows.setdefault(device, {"device": device})
        name = attribute.removeprefix(_PREFIX)
        if name == "display_name" and text:
            row.setdefault("name", text)
        elif name in _NUMBERS and value is not None:
            column, factor = _NUMBERS[name]
            number = int(value) * factor
            if 0 <= number <= _LARGEST:
                row.setdefault(column, number)
        elif name in _OF_SEVERAL and value is not None:
            row.setdefault(name, int(value))

    def write(self, batches: Batches) -> None:
        """The rows of `devices`."""
        for row in self._rows.values():
            major, minor, clock_khz, bus_bits = (row.pop(name, None) for name in _OF_SEVERAL)
            if major is not None and minor is not None:
                row.setdefault("compute_capability", f"{major}.{minor}")
            if clock_khz and bus_bits and 0 < (peak := clock_khz * 1000 * _TRANSFERS * bus_bits // 8) <= _LARGEST:
                row["memory_bandwidth_bytes_per_s"] = peak
            batches.add("devices", row)
