"""Canonical names of what telemetry measures, whatever a source calls it, and their units."""

import re
from enum import StrEnum
from typing import NamedTuple

from traceanalyzer.sources.dcgm.fields import Field, field_of


class Metric(StrEnum):
    """A canonical metric of a device. Its unit is in `UNITS`."""

    UTILIZATION = "utilization"
    MEMORY_ACTIVITY = "memory_activity"
    ENGINE_ACTIVE = "engine_active"
    SM_ACTIVE = "sm_active"
    SM_OCCUPANCY = "sm_occupancy"
    TENSOR_ACTIVE = "tensor_active"
    DRAM_ACTIVE = "dram_active"
    POWER = "power"
    POWER_LIMIT = "power_limit"
    SM_CLOCK = "sm_clock"
    SM_CLOCK_MAX = "sm_clock_max"
    MEMORY_CLOCK = "memory_clock"
    TEMPERATURE = "temperature"
    MEMORY_TEMPERATURE = "memory_temperature"
    MEMORY_USED = "memory_used"
    MEMORY_TOTAL = "memory_total"
    PCIE_RX = "pcie_rx"
    PCIE_TX = "pcie_tx"
    NVLINK_RX = "nvlink_rx"
    NVLINK_TX = "nvlink_tx"


_PERCENT = (
    Metric.UTILIZATION,
    Metric.MEMORY_ACTIVITY,
    Metric.ENGINE_ACTIVE,
    Metric.SM_ACTIVE,
    Metric.SM_OCCUPANCY,
    Metric.TENSOR_ACTIVE,
    Metric.DRAM_ACTIVE,
)
UNITS = {
    **dict.fromkeys(_PERCENT, "%"),
    **dict.fromkeys((Metric.POWER, Metric.POWER_LIMIT), "W"),
    **dict.fromkeys((Metric.SM_CLOCK, Metric.SM_CLOCK_MAX, Metric.MEMORY_CLOCK), "MHz"),
    **dict.fromkeys((Metric.TEMPERATURE, Metric.MEMORY_TEMPERATURE), "C"),
    **dict.fromkeys((Metric.MEMORY_USED, Metric.MEMORY_TOTAL), "MiB"),
    **dict.fromkeys((Metric.PCIE_RX, Metric.PCIE_TX, Metric.NVLINK_RX, Metric.NVLINK_TX), "MB/s"),
}

_FIELDS = {
    203: Metric.UTILIZATION,
    204: Metric.MEMORY_ACTIVITY,
    1001: Metric.ENGINE_ACTIVE,
    1002: Metric.SM_ACTIVE,
    1003: Metric.SM_OCCUPANCY,
    1004: Metric.TENSOR_ACTIVE,
    1005: Metric.DRAM_ACTIVE,
    155: Metric.POWER,
    157: Metric.POWER,
    164: Metric.POWER_LIMIT,
    160: Metric.POWER_LIMIT,
    100: Metric.SM_CLOCK,
    113: Metric.SM_CLOCK_MAX,
    101: Metric.MEMORY_CLOCK,
    150: Metric.TEMPERATURE,
    140: Metric.MEMORY_TEMPERATURE,
    252: Metric.MEMORY_USED,
    250: Metric.MEMORY_TOTAL,
    1010: Metric.PCIE_RX,
    1009: Metric.PCIE_TX,
    201: Metric.PCIE_RX,
    200: Metric.PCIE_TX,
    1012: Metric.NVLINK_RX,
    1011: Metric.NVLINK_TX,
}
"""Fields of DCGM by their numbers."""

_PLAIN = (
    (Metric.UTILIZATION, r"utilization_gpu(_util|_ratio)?|gpu_util(ization)?|sm|gpu_usage"),
    (Metric.MEMORY_ACTIVITY, r"utilization_memory(_util|_ratio)?|memory_utilization|mem"),
    (Metric.POWER, r"power_draw(_average|_instant)?(_watts)?|power_usage|pwr|pwr_usage|gpu_power|power"),
    (
        Metric.POWER,
        r"(gpu_)?power_readings_((average|current|instantaneous|instant)_)?power_draw",
    ),
    (
        Metric.POWER_LIMIT,
        r"(enforced_)?power_limit(_watts)?|pwr_cap|gpu_power_limit"
        r"|(gpu_)?power_readings_(current_|enforced_)?power_limit",
    ),
    (Metric.SM_CLOCK, r"clocks_(current_)?sm(_clock)?(_hz)?|clocks_sm|pclk|sm_clock"),
    (Metric.SM_CLOCK_MAX, r"clocks_max_sm(_clock)?(_hz)?|max_clocks_sm(_clock)?"),
    (Metric.MEMORY_CLOCK, r"clocks_(current_)?mem(ory)?(_clock)?(_hz)?|mclk"),
    (Metric.TEMPERATURE, r"temperature_gpu|gtemp|temp|gpu_temp(erature)?|temperature_gpu_(current_)?temp"),
    (Metric.MEMORY_TEMPERATURE, r"temperature_memory|mtemp|temperature_memory_(current_)?temp"),
    (Metric.MEMORY_USED, r"memory_used(_bytes)?|fb|fb_memory_usage_used|gpu_mem_used|memory_usage_used"),
    (Metric.MEMORY_TOTAL, r"memory_total(_bytes)?|fb_memory_usage_total|gpu_mem_total|memory_usage_total"),
    (Metric.PCIE_RX, r"rxpci|pci_rx_(util|throughput)"),
    (Metric.PCIE_TX, r"txpci|pci_tx_(util|throughput)"),
)
_NAMED = tuple((metric, re.compile(pattern)) for metric, pattern in _PLAIN)
_SCALES = {
    ("%", "%"): 1.0,
    ("0-1", "%"): 100.0,
    ("W", "W"): 1.0,
    ("mW", "W"): 1e-3,
    ("MHz", "MHz"): 1.0,
    ("Hz", "MHz"): 1e-6,
    ("C", "C"): 1.0,
    ("MiB", "MiB"): 1.0,
    ("MB", "MiB"): 1.0,  # nvidia-smi writes MB and means MiB
    ("KiB", "MiB"): 1 / 1024,
    ("GiB", "MiB"): 1024.0,
    ("bytes", "MiB"): 1 / 2**20,
    ("MB/s", "MB/s"): 1.0,
    ("KB/s", "MB/s"): 1e-3,
    ("bytes/s", "MB/s"): 1e-6,
}


OF_PROCESSES = frozenset({"pmon", "compute_apps"})
"""Sources that tell of processes only; their rows without a process say that there was none."""


class Known(NamedTuple):
    """What a metric of a source is: the canonical one, what its values are multiplied with, and how well it fits.

    Of several metrics of a source that are the same canonical one, the one with the lowest `order` stands for it.
    """

    metric: Metric
    scale: float
    order: int


def plain(name: str) -> str:
    """A name in small letters, with everything but letters and digits as one underscore, without known prefixes."""
    text = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return text.removeprefix("nvidia_smi_")


def dcgm_field(source: str, name: str) -> Field | None:
    """The field of DCGM that a metric is, where the source is DCGM."""
    return field_of(name) if source == "dcgm" else None


def known(source: str, name: str, unit: str | None) -> Known | None:
    """What a metric of a source is; None where it is none that has a canonical name, or has another unit."""
    if source in OF_PROCESSES:
        return None
    field = dcgm_field(source, name)
    if field is not None:
        metric = _FIELDS.get(field.number)
        order = 1 if field.number in (157, 160, 200, 201) else 0
    else:
        text = plain(name)
        metric = next((m for m, pattern in _NAMED if pattern.fullmatch(text)), None)
        order = 2 if "instant" in text else 1 if "average" in text else 0
    if metric is None:
        return None
    scale = _scale(UNITS[metric], unit, plain(name))
    return None if scale is None else Known(metric, scale, order)


def _scale(wanted: str, unit: str | None, text: str) -> float | None:
    if unit is None:
        # A share has its unit in its name; other numbers without a unit are taken for the usual one.
        return 100.0 if wanted == "%" and text.endswith("_ratio") else 1.0
    return _SCALES.get((unit, wanted))
