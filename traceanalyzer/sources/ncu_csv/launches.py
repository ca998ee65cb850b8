"""A profiled launch: what its row tells of it, and the typed columns that its metrics fill."""

import re
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache

from traceanalyzer.sources.ncu_csv.flop import FlopCounters
from traceanalyzer.sources.ncu_csv.numbers import is_id
from traceanalyzer.sources.ncu_csv.units import base_unit

_ELAPSED = "avg.pct_of_peak_sustained_elapsed"
_ACTIVE = "avg.pct_of_peak_sustained_active"

_METRICS = {
    "gpu__time_duration.sum": "duration_ns",
    f"sm__throughput.{_ELAPSED}": "compute_pct",
    f"gpu__compute_memory_throughput.{_ELAPSED}": "memory_pct",
    f"gpu__dram_throughput.{_ELAPSED}": "dram_pct",
    f"l1tex__throughput.{_ACTIVE}": "l1_pct",
    f"lts__throughput.{_ELAPSED}": "l2_pct",
    "l1tex__t_sector_hit_rate.pct": "l1_hit_pct",
    "lts__t_sector_hit_rate.pct": "l2_hit_pct",
    f"sm__warps_active.{_ACTIVE}": "occupancy_pct",
    "sm__maximum_warps_per_active_cycle_pct": "theoretical_occupancy_pct",
    "launch__waves_per_multiprocessor": "waves_per_multiprocessor",
    "launch__registers_per_thread": "registers_per_thread",
    "launch__shared_mem_per_block_static": "static_shared_bytes",
    "launch__shared_mem_per_block_dynamic": "dynamic_shared_bytes",
    "dram__bytes.sum": "dram_bytes",
    "dram__bytes.sum.per_second": "dram_bytes_per_s",
    "launch__grid_dim_x": "grid_x",
    "launch__grid_dim_y": "grid_y",
    "launch__grid_dim_z": "grid_z",
    "launch__block_dim_x": "block_x",
    "launch__block_dim_y": "block_y",
    "launch__block_dim_z": "block_z",
    "launch__context_id": "context",
    "launch__stream_id": "stream",
    "launch__device_id": "device",
}
_LABELS = {
    ("Duration", "ns"): "duration_ns",
    ("Compute (SM) Throughput", "%"): "compute_pct",
    ("Compute (SM) [%]", "%"): "compute_pct",
    ("SM [%]", "%"): "compute_pct",
    ("SOL SM", "%"): "compute_pct",
    ("Memory Throughput", "%"): "memory_pct",
    ("Memory [%]", "%"): "memory_pct",
    ("SOL Memory", "%"): "memory_pct",
    ("DRAM Throughput", "%"): "dram_pct",
    ("SOL DRAM", "%"): "dram_pct",
    ("L1/TEX Cache Throughput", "%"): "l1_pct",
    ("SOL L1/TEX Cache", "%"): "l1_pct",
    ("L2 Cache Throughput", "%"): "l2_pct",
    ("SOL L2 Cache", "%"): "l2_pct",
    ("L1/TEX Hit Rate", "%"): "l1_hit_pct",
    ("L2 Hit Rate", "%"): "l2_hit_pct",
    ("Achieved Occupancy", "%"): "occupancy_pct",
    ("Theoretical Occupancy", "%"): "theoretical_occupancy_pct",
    ("Waves Per SM", ""): "waves_per_multiprocessor",
    ("Registers Per Thread", "register/thread"): "registers_per_thread",
    ("Static Shared Memory Per Block", "byte/block"): "static_shared_bytes",
    ("Dynamic Shared Memory Per Block", "byte/block"): "dynamic_shared_bytes",
    # The same label with another unit, in another section, is another quantity.
    ("Memory Throughput", "byte/s"): "dram_bytes_per_s",
}
_UNITS = {
    "duration_ns": ("ns",),
    "static_shared_bytes": ("byte/block", "byte"),
    "dynamic_shared_bytes": ("byte/block", "byte"),
    "dram_bytes": ("byte",),
    "dram_bytes_per_s": ("byte/s",),
}
"""Units of the columns whose values are printed in several; what the others hold is known by the metric alone."""
_LABELS_WITH_UNIT = frozenset(label for label, unit in _LABELS if unit)
_TENSOR = (
    f"sm__pipe_tensor_cycles_active.{_ACTIVE}",
    f"sm__pipe_tensor_cycles_active.{_ELAPSED}",
    f"sm__inst_executed_pipe_tensor.{_ACTIVE}",
    f"sm__pipe_tensor_op_hmma_cycles_active.{_ACTIVE}",
    f"sm__inst_executed_pipe_tensor_op_hmma.{_ACTIVE}",
)
_TENSOR_LABELS = {
    ("Pipe Utilization (% of active cycles)", "Tensor (All)"): _TENSOR[0],
    ("Pipe Utilization (% of elapsed cycles)", "Tensor (All)"): _TENSOR[1],
    ("Compute Throughput Breakdown", "SM: Pipe Tensor Cycles Active"): _TENSOR[1],
}
"""Items and labels of details pages with all of their details; others do not have the tensor pipe."""
_DRAM_PARTS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
_IN_BRACKETS = re.compile(r"(.*) \(([^()\s]*__[^()\s]*)\)", re.DOTALL)
_TUPLE = re.compile(r"\(?([0-9]{1,18}), ?([0-9]{1,18}), ?([0-9]{1,18})\)?")
_WHOLE = frozenset(f"{size}_{axis}" for size in ("grid", "block") for axis in "xyz") | {
    "duration_ns",
    "registers_per_thread",
    "static_shared_bytes",
    "dynamic_shared_bytes",
    "dram_bytes",
    "context",
    "stream",
    "device",
}
_LARGEST = 2**63 - 1
VERDICT_RULE = "SOLBottleneck"
Number = int | float | None


@dataclass
class Launch:
    """One launch. `number` counts those of the file; `id` is ncu's own. `typed` holds columns of the common schema.

    `exact` says that values have all of their digits, as those of reports do. `torn` says that rows of it may be lost,
    `lacks_units` that a quantity of it is not known because its unit is not.
    """

    number: int
    table: int
    id: int
    process: int | None
    kernel: str
    exact: bool = False
    compute_capability: str | None = None
    nvtx: str | None = None
    typed: dict[str, Number] = field(default_factory=dict)
    verdict: str | None = None
    verdict_type: str | None = None
    torn: bool = False
    lacks_units: bool = False
    _tensor: dict[str, float] = field(default_factory=dict)
    _flop: FlopCounters = field(default_factory=FlopCounters)
    _dram: dict[str, Decimal] = field(default_factory=dict)

    @property
    def device(self) -> int | None:
        """Number of the device that it ran on."""
        number = self.typed.get("device")
        return None if number is None else int(number)

    def place(self, grid: str, block: str, **numbers: str) -> None:
        """What the identifying columns say of the launch; empty texts say nothing."""
        for name, text in (("grid", grid), ("block", block)):
            if sizes := sizes_of(text):
                for axis, size in zip("xyz", sizes, strict=True):
                    self.typed[f"{name}_{axis}"] = size
        for name, text in numbers.items():
            if is_id(text):
                self.typed[name] = int(text)

    def take(self, metric: str, unit: str, value: Decimal, item: str | None = None) -> None:
        """A metric with a value in base units, and the item it stands in; the first one of a quantity counts."""
        column, name = _meaning(metric, unit)
        if column is not None:
            if self.typed.get(column) is None:
                self.typed[column] = _whole(value) if column in _WHOLE else float(value)
        elif "__" not in name:
            if item is not None and (tensor := _TENSOR_LABELS.get((item, name))):
                self._tensor.setdefault(tensor, float(value))
        elif name in _TENSOR:
            self._tensor.setdefault(name, float(value))
        elif name in _DRAM_PARTS and unit == "byte":
            self._dram.setdefault(name, value)
        else:
            self._flop.take(name, value)

    def lack(self, metric: str) -> None:
        """A metric whose cell holds no number."""
        self._flop.lack(names_of(metric)[1])

    def judge(self, rule: str, kind: str | None, text: str) -> None:
        """A rule's result, as NVIDIA worded it."""
        if rule == VERDICT_RULE and self.verdict is None:
            self.verdict, self.verdict_type = text, kind

    def finish(self) -> None:
        """Work out what several metrics tell together."""
        self.typed["tensor_pct"] = next((self._tensor[name] for name in _TENSOR if name in self._tensor), None)
        if self.typed.get("dram_bytes") is None and len(self._dram) == len(_DRAM_PARTS):
            self.typed["dram_bytes"] = _whole(sum(self._dram.values(), Decimal(0)))
        self.typed["flop"] = None if self.torn else self._flop.total(self.exact)  # a sum needs all of its parts


@lru_cache(1 << 16)
def _meaning(metric: str, unit: str) -> tuple[str | None, str]:
    """(typed column, name) of a printed metric with its unit. A size or time without its unit has no column."""
    label, name = names_of(metric)
    column = _METRICS.get(name) or _LABELS.get((label, unit))
    if column in _UNITS and unit not in _UNITS[column]:
        column = None
    return column, name


@lru_cache(1 << 16)
def lacks_unit(metric: str, unit: str) -> bool:
    """Whether a metric fills a column only together with a unit, and has none."""
    label, name = names_of(metric)
    return not unit and (_METRICS[name] in _UNITS if name in _METRICS else label in _LABELS_WITH_UNIT)


def names_of(metric: str) -> tuple[str, str]:
    """(label, name) of a printed metric, which may be either, or both as `label (name)`."""
    found = _IN_BRACKETS.fullmatch(metric)
    return (found[1], found[2]) if found else (metric, metric)


def sizes_of(text: str) -> tuple[int, int, int] | None:
    """The three sizes of a grid or block such as `(256, 1, 1)`."""
    found = _TUPLE.fullmatch(text.strip())
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def in_base_units(value: Decimal, printed_unit: str) -> tuple[Decimal, str]:
    """A printed value in base units, and the name of that unit."""
    unit = base_unit(printed_unit)
    return value * unit.factor, unit.name


def _whole(value: Decimal) -> int | None:
    rounded = int(value.to_integral_value(ROUND_HALF_UP))
    return rounded if -_LARGEST <= rounded <= _LARGEST else None
