"""Peaks of the devices of a capture, each with where it comes from; what is not known is not guessed."""

from dataclasses import dataclass, field
from pathlib import Path

from traceanalyzer.hardware import Entry, fp32_lanes, own_peaks_of, peaks_of, precision_of_peak, read_peaks
from traceanalyzer.passes.answer import TableSpec
from traceanalyzer.passes.columns import CAPTURE, DEVICE, RANK
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit

MEMORY = "memory"
_LANE_FLOP = 2
"""A lane does one multiply-add a clock, which is two operations."""

PEAKS = TableSpec(
    "peaks",
    "What each device can do at most, and where that is known from.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("name", Type.TEXT, "Product name of the device."),
        Column("peak", Type.TEXT, "memory: traffic of its own memory; else the precision of dense arithmetic."),
        Column("value", Type.FLOAT64, "The peak, a second: bytes of memory, operations of arithmetic."),
        Column("unit", Type.TEXT, "GB/s or TFLOP/s (1e9 and 1e12).", Unit.NONE),
        Column("source", Type.TEXT, "Where it is known from."),
    ),
    cut=False,
)


@dataclass(frozen=True, slots=True)
class Peak:
    """A peak a second, in bytes or operations, and where it is known from."""

    per_s: float
    source: str


@dataclass(frozen=True, slots=True)
class DevicePeaks:
    """Peaks of a device: of its memory in bytes a second, and of arithmetic by precision in operations a second."""

    name: str | None
    memory: Peak | None
    arithmetic: dict[str, Peak] = field(default_factory=dict)

    def of(self, precision: str | None) -> Peak | None:
        """The peak of arithmetic in a precision."""
        return self.arithmetic.get(precision_of_peak(precision or ""))


class KnownPeaks:
    """Peaks of devices: of a file that the user gives; else as the profiler states them; else of a data sheet.

    Raises `UsageError` where that file cannot be read.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        given = scope.selection.peaks
        self._own: list[Entry] = [] if given is None else read_peaks(Path(given))
        self._known: dict[tuple[int, int], DevicePeaks] = {}

    def of(self, capture: int, device: int) -> DevicePeaks:
        """Peaks of a device of a capture."""
        if (capture, device) not in self._known:
            self._known[capture, device] = self._look(capture, device)
        return self._known[capture, device]

    def _look(self, capture: int, device: int) -> DevicePeaks:
        row = self._scope.connection.execute(
            """SELECT n.text, c.text, d.multiprocessors, d.clock_rate_hz, d.memory_bandwidth_bytes_per_s, s.source
            FROM stored.devices d JOIN stored.captures s ON s.capture = d.capture
            LEFT JOIN stored.names n ON n.name_id = d.name LEFT JOIN stored.names c ON c.name_id = d.compute_capability
            WHERE d.capture = ? AND d.device = ?""",
            [capture, device],
        ).fetchone()
        name, capability, multiprocessors, clock_hz, bandwidth, source = row or (None,) * 6
        memory: Peak | None = None
        arithmetic: dict[str, Peak] = {}
        if (sheet := peaks_of(name)) is not None:
            part, how = sheet.part_of_gpu(multiprocessors)
            arithmetic |= {k: Peak(v * 1e12 * part, sheet.source + how) for k, v in sheet.tflops.items()}
            memory = None if sheet.memory_gbs is None else Peak(sheet.memory_gbs * 1e9, sheet.source)
        lanes = fp32_lanes(capability)
        if lanes and multiprocessors and clock_hz:
            how = f"{source}: {multiprocessors} multiprocessors x {lanes} FP32 lanes x 2 x {clock_hz / 1e9:.3f} GHz"
            arithmetic["fp32"] = Peak(float(multiprocessors) * lanes * _LANE_FLOP * clock_hz, how)
        if bandwidth:
            memory = Peak(float(bandwidth), f"{source}: memory bandwidth of the device")
        if (own := own_peaks_of(name, self._own)) is not None:
            arithmetic |= {k: Peak(v * 1e12, f"--peaks: {own.source}") for k, v in own.tflops.items()}
            memory = memory if own.memory_gbs is None else Peak(own.memory_gbs * 1e9, f"--peaks: {own.source}")
        return DevicePeaks(name, memory, arithmetic)

    def rows(self) -> list[tuple[object, ...]]:
        """Rows of `PEAKS`, of the devices that were asked about."""
        out: list[tuple[object, ...]] = []
        for (capture, device), peaks in sorted(self._known.items()):
            rank = next((d.rank for d in self._scope.devices if (d.capture, d.device) == (capture, device)), None)
            place = (capture, rank, device, peaks.name)
            if peaks.memory is not None:
                out.append((*place, MEMORY, peaks.memory.per_s / 1e9, "GB/s", peaks.memory.source))
            out += [
                (*place, precision, peak.per_s / 1e12, "TFLOP/s", peak.source)
                for precision, peak in peaks.arithmetic.items()
            ]
        return out

    def unknown(self) -> list[str]:
        """Says of which devices that were asked about no peak is known, and where a file of the user's fits none."""
        given = self._scope.selection.peaks
        if given and self._known and not any(own_peaks_of(p.name, self._own) for p in self._known.values()):
            devices = ", ".join(sorted({p.name or "without a name" for p in self._known.values()}))
            return [f"--peaks {given}: its names fit no device here: {devices}; names is matched with the whole name"]
        names = sorted({p.name or "a device without a name" for p in self._known.values() if not p.arithmetic})
        return [
            f"no peaks of {name} are known, so what its kernels reach of them is not told; --peaks FILE gives them"
            " (traceanalyzer howto peaks)"
            for name in names
        ]
