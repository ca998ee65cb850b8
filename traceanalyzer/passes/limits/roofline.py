"""Where a profiled launch stands under the roofline: operations, bytes, intensity, ridge, and what it reaches.

Operations are those of the tensor cores where they did any, else of the add, mul and fma counters; bytes are those of
DRAM. Peaks are those that ncu states for the clocks of the launch: per cycle, times the cycles a second. The ridge is
the intensity from which on arithmetic is the lower roof: Williams, Waterman, Patterson, Roofline (CACM 52, 2009).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from traceanalyzer.passes.scope import Scope

_COUNTED = re.compile(
    r"sms?p?__sass_thread_inst_executed_op_([fdh])(?:add|mul|fma)_pred_on\.sum(?:\.per_cycle_elapsed)?"
)
_FMA_PEAK = "sm__sass_thread_inst_executed_op_{}fma_pred_on.sum.peak_sustained"
_FMA_FLOP = 2
_CYCLES = re.compile(r"sms?p?__cycles_elapsed\.avg\.per_second")
_TENSOR = re.compile(r"sm__ops_path_tensor_src_(\w+)\.sum")
_TENSOR_OP = re.compile(r"(sm__ops_path_tensor_op_\w+)\.sum")
_TENSOR_PEAK = "{}.sum.peak_sustained_elapsed.per_second"
_DRAM_PEAK = "dram__bytes.sum.peak_sustained"
_DRAM_CYCLES = "dram__cycles_elapsed.avg.per_second"
_WANTED = "|".join(
    [
        r"sms?p?__sass_thread_inst_executed_op_[fdh](?:add|mul|fma)_pred_on\.sum(?:\.per_cycle_elapsed|\.peak_sustained)?",
        r"sms?p?__cycles_elapsed\.avg\.per_second",
        r"sm__ops_path_tensor_src_\w+\.sum",
        r"sm__ops_path_tensor_op_\w+\.sum(?:\.peak_sustained_elapsed\.per_second)?",
        r"dram__bytes\.sum\.peak_sustained",
        r"dram__cycles_elapsed\.avg\.per_second",
        r"launch__occupancy_limit_(?:blocks|registers|shared_mem|warps|barriers)",
        r"Block Limit (?:SM|Registers|Shared Mem|Warps|Barriers)",
    ]
)

_NS = 1e9


@dataclass(frozen=True, slots=True)
class Roofline:
    """A launch under its roofline; None where the file lacks what is needed. `reached` is a share of its roof."""

    tensor_flop: float | None = None
    dram_bytes: int | None = None
    flop_per_s: float | None = None
    intensity: float | None = None
    ridge: float | None = None
    roof_flop_per_s: float | None = None
    reached: float | None = None


BLOCK_LIMITS = {
    "launch__occupancy_limit_blocks": "blocks",
    "launch__occupancy_limit_registers": "registers",
    "launch__occupancy_limit_shared_mem": "shared memory",
    "launch__occupancy_limit_warps": "warps",
    "launch__occupancy_limit_barriers": "barriers",
    "Block Limit SM": "blocks",
    "Block Limit Registers": "registers",
    "Block Limit Shared Mem": "shared memory",
    "Block Limit Warps": "warps",
    "Block Limit Barriers": "barriers",
}
"""What limits the blocks of a multiprocessor, by the name or the label of the metric that says how many it leaves."""


def metrics_of_limits(scope: Scope) -> dict[tuple[int, int], dict[str, float]]:
    """Metrics beside the typed ones that limits need, by (capture, launch), in base units, by their names."""
    names = scope.connection.execute(
        "SELECT name_id, regexp_extract(text, $1, 1) FROM stored.names WHERE regexp_matches(text, $1)",
        [rf"(?:^|\()({_WANTED})\)?$"],
    ).fetchall()
    of_id = dict(names)
    rows = scope.connection.execute(
        f"""SELECT capture, launch, metric::INTEGER, value FROM stored.kernel_metrics
        WHERE capture IN {scope.numbers()} AND value > 0 AND metric IN (SELECT unnest(?::INTEGER[]))""",
        [list(of_id)],
    ).fetchall()
    out: dict[tuple[int, int], dict[str, float]] = {}
    for capture, launch, metric, value in rows:
        out.setdefault((capture, launch), {})[of_id[metric]] = value
    return out


def roofline_of(profile: Mapping[str, Any], metrics: Mapping[str, float]) -> Roofline:
    """Where a launch stands, from its typed columns and the metrics that `metrics_of_limits` has of it."""
    tensor_flop = sum(value for name, value in metrics.items() if _TENSOR.fullmatch(name)) or None
    duration_ns, dram_bytes = profile["duration_ns"], _dram_bytes(profile)
    flop, peak = (tensor_flop, _tensor_peak(metrics)) if tensor_flop else (profile["flop"], _fma_peak(metrics))
    per_s = flop / duration_ns * _NS if flop and duration_ns else None
    intensity = flop / dram_bytes if flop and dram_bytes else None
    bandwidth = _product(metrics.get(_DRAM_PEAK), metrics.get(_DRAM_CYCLES))
    ridge = peak / bandwidth if peak and bandwidth else None
    roof = min(peak, intensity * bandwidth) if peak and bandwidth and intensity else None
    reached = per_s / roof if per_s and roof else None
    return Roofline(tensor_flop, dram_bytes, per_s, intensity, ridge, roof, reached)


def _dram_bytes(profile: Mapping[str, Any]) -> int | None:
    """Bytes of DRAM: as counted, else their rate over the duration."""
    if profile["dram_bytes"] is not None:
        return int(profile["dram_bytes"])
    rate, duration_ns = profile["dram_bytes_per_s"], profile["duration_ns"]
    return None if rate is None or not duration_ns else round(rate * duration_ns / _NS)


def _tensor_peak(metrics: Mapping[str, float]) -> float | None:
    """Peak of the kind of tensor instruction that did most of the operations."""
    done = {found[1]: value for name, value in metrics.items() if (found := _TENSOR_OP.fullmatch(name))}
    most = max(done, key=lambda name: done[name], default=None)
    return None if most is None else metrics.get(_TENSOR_PEAK.format(most))


def _fma_peak(metrics: Mapping[str, float]) -> float | None:
    """Peak of the precision in which most instructions were: a fused multiply-add is two operations."""
    counted = dict.fromkeys("fdh", 0.0)
    for name, value in metrics.items():
        if found := _COUNTED.fullmatch(name):
            counted[found[1]] += value
    precision = max(counted, key=lambda letter: counted[letter])
    cycles = next((value for name, value in metrics.items() if _CYCLES.fullmatch(name)), None)
    whole = _product(metrics.get(_FMA_PEAK.format(precision)), cycles)
    return None if whole is None else whole * _FMA_FLOP


def _product(one: float | None, two: float | None) -> float | None:
    return None if one is None or two is None else one * two
