"""Why clocks are not higher: the bits and names of NVIDIA's clock event reasons, and the metrics that tell of them.

Source of bits and meanings: nvml.h, nvmlClocksEventReasons (until driver 535: nvmlClocksThrottleReasons); DCGM's field
112 has the same bits.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto

from traceanalyzer.passes.telemetry.names import dcgm_field, plain


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason: its bit, whether it costs speed that the device would have, what it means."""

    name: str
    bit: int
    harmful: bool
    meaning: str


REASONS = {
    reason.name: reason
    for reason in (
        Reason("gpu_idle", 0x1, False, "nothing runs, so clocks are low"),
        Reason("applications_clocks_setting", 0x2, False, "the clocks are those that were set for applications"),
        Reason("sw_power_cap", 0x4, True, "the power limit lowers the clocks"),
        Reason("hw_slowdown", 0x8, True, "the hardware halves the clocks or more: too hot, power brake, or power draw"),
        Reason("sync_boost", 0x10, False, "the clocks are those of the slowest GPU of a sync boost group"),
        Reason("sw_thermal_slowdown", 0x20, True, "the GPU or its memory is above its highest operating temperature"),
        Reason("hw_thermal_slowdown", 0x40, True, "too hot: the hardware halves the clocks or more"),
        Reason("hw_power_brake_slowdown", 0x80, True, "the power supply asks for less: the hardware halves the clocks"),
        Reason("display_clock_setting", 0x100, False, "the clocks are limited by a setting of the display"),
    )
}
LOW_CLOCK = "low_clock"
"""Well under the highest clock while busy, and the file states no reason."""

_WORDS = (
    ("hw_power_brake_slowdown", r"power_brak"),
    ("hw_thermal_slowdown", r"hw_therm"),
    ("sw_thermal_slowdown", r"sw_therm"),
    ("sw_power_cap", r"power_cap"),
    ("hw_slowdown", r"hw_slowdown"),
    ("sync_boost", r"sync_boost"),
    ("applications_clocks_setting", r"applications?_clocks?|(?<!display)_clocks_setting"),
    ("display_clock_setting", r"display_clocks?"),
    ("gpu_idle", r"(?:gpu_|reasons?_)idle$"),
)
_NAMED = tuple((name, re.compile(pattern)) for name, pattern in _WORDS)
_REASONS = re.compile(r"(?:clocks_)?(?:event|throttle)_reasons?(?:_|$)")
_MASK = re.compile(r"(?:current_)?clocks?_(?:event|throttle)_reasons?(?:_active)?")
_VIOLATIONS = {
    240: "sw_power_cap",
    241: "hw_thermal_slowdown",
    242: "sync_boost",
    243: "hw_slowdown",
    245: "hw_slowdown",
}
"""Counters of violations by the numbers of DCGM's fields. Low utilization (244) is no reason of a slow job."""
_TIMES_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


class Form(Enum):
    """How a metric tells of reasons."""

    MASK = auto()
    """Bits of all reasons that hold."""
    FLAG = auto()
    """Not zero where one reason holds."""
    COUNTER = auto()
    """Time in which it held, since the driver was loaded."""
    SHARE = auto()
    """Share in percent of the time since the sample before."""


@dataclass(frozen=True, slots=True)
class Telling:
    """What a metric tells: the reason (empty for a mask), how, and for counters the ns of one unit."""

    reason: str
    form: Form
    scale: float = 1.0


def telling(source: str, name: str, unit: str | None) -> Telling | None:
    """What a metric tells of reasons; None where it tells of none."""
    text = plain(name)
    field = dcgm_field(source, name)
    if field is not None:
        if field.number == 112:
            return Telling("", Form.MASK)
        reason = _VIOLATIONS.get(field.number)
        return None if reason is None else Telling(reason, Form.COUNTER, _TIMES_NS.get(unit or "ns", 1.0))
    if source == "dmon" and text in ("pviol", "tviol"):
        reason = "sw_power_cap" if text == "pviol" else "hw_thermal_slowdown"
        return Telling(reason, Form.SHARE if unit == "%" else Form.FLAG)
    if _MASK.fullmatch(text):
        return Telling("", Form.MASK)
    if not _REASONS.search(text) or text.endswith("_supported"):
        return None
    reason = next((name for name, pattern in _NAMED if pattern.search(text)), None)
    if reason is None:
        return None
    if "counters" in text:
        return Telling(reason, Form.COUNTER, _TIMES_NS.get(unit or "us", 1e3))
    return Telling(reason, Form.FLAG)


def decode(mask: int) -> list[str]:
    """Names of the reasons in a mask; bits without a name as `0x...`."""
    names = [reason.name for reason in REASONS.values() if mask & reason.bit]
    rest = mask & ~sum(reason.bit for reason in REASONS.values())
    return [*names, f"0x{rest:x}"] if rest else names
