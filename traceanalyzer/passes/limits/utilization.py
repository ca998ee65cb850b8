"""Estimates as rows: operators with what they reach of the device, and the model FLOP utilisation of its steps.

Model FLOP utilisation is the arithmetic of the model a second, over the peak of the device: PaLM (Chowdhery and others,
2022), appendix B. Here the operations are those of the operators that ran, so what a backward pass computes again
counts, as it does for hardware FLOP utilisation.
"""

import json
from typing import Any

from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.limits.estimates import Estimates, OperatorWork, limit_of_estimate
from traceanalyzer.passes.limits.families import MATHEMATICS
from traceanalyzer.passes.operations import load_operations
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import counted_steps, device_steps, selected, with_steps
from traceanalyzer.units import Unit, counted, format_value

WHOLE = 0.999
"""Share of the time from which on nothing is said of what has no estimate."""
LARGE_FLOP = 1e11
LEAST_REST = 0.02
"""Share of the kernel time without operators from which on it is said."""
_LONGEST = 200
"""Characters of shapes that are listed."""


def operator_rows(device: DeviceOfCapture, estimates: Estimates) -> list[tuple[Any, ...]]:
    """Rows of `operators`, in no order."""
    whole = estimates.kernel_ns
    return [_row(device, found, estimates, whole) for found in estimates.operators]


def _row(device: DeviceOfCapture, found: OperatorWork, estimates: Estimates, whole: int) -> tuple[Any, ...]:
    ideal, work = found.ideal, found.work
    place = (device.capture, device.rank, device.device, found.op, shapes_of(found.args))
    share = ideal.ns / whole if whole else None
    if work is None:
        why = "the operator is not known, or the trace has not its shapes"
        counts = (found.n_calls, ideal.n_kernels, ideal.ns, share)
        return (*place, None, None, *counts, *(None,) * 8, None, why, None, None)
    moved = work.bytes_read + work.bytes_written
    per_ns = found.n_calls / ideal.ns if ideal.ns else None
    peak, memory = estimates.peaks.of(found.peak_precision), estimates.peaks.memory
    limited = limit_of_estimate(ideal, work.family)
    return (
        *(*place, work.dtype, work.family.value, found.n_calls, ideal.n_kernels, ideal.ns, share),
        *(work.flop, moved),
        None if per_ns is None else work.flop * per_ns / 1e3,
        None if per_ns is None else moved * per_ns,
        work.flop / moved if moved else None,
        peak.per_s / memory.per_s if peak is not None and memory is not None else None,
        *(ideal.compute_share, ideal.memory_share, limited.limit and limited.limit.value, limited.reason),
        *(found.peak_precision, work.note),
    )


def shapes_of(args: str | None, longest: int = _LONGEST) -> str | None:
    """The shapes of an operator's inputs, as text of at most so many characters: `8192x4096, 4096x4096`."""
    try:
        recorded = json.loads(args or "{}")
        dims = recorded.get("Input Dims", recorded.get("Input dims"))  # the latter in 2020
    except (ValueError, AttributeError, RecursionError):
        return None
    if not isinstance(dims, list):
        return None
    texts = [_shape(one) for one in dims if one]
    whole = ", ".join(texts) or "scalars"
    return whole if len(whole) <= longest else f"{whole[:longest]}..."


def _shape(dims: object) -> str:
    """A shape, or in brackets those of a list of tensors."""
    if not isinstance(dims, list):
        return str(dims)
    if any(isinstance(one, list) for one in dims):
        return f"[{', '.join(_shape(one) for one in dims)}]"
    return "x".join(map(str, dims)) or "scalar"


def utilization_row(scope: Scope, device: DeviceOfCapture, estimates: Estimates) -> tuple[Any, ...] | None:
    """The row of `utilization` of a device; None without device steps that count, or without such operators."""
    known = [found for found in estimates.operators if found.work is not None and found.work.family in MATHEMATICS]
    if not known:
        return None
    ops = with_steps(scope, load_operations(scope, device, launched=scope.selection.step_range is not None))
    steps = device_steps(ops)
    counted_ones = counted_steps(scope, ops, steps) & selected(scope, steps)
    if not counted_ones.any():
        return None
    in_steps = estimates.of_steps(ops, steps.step[counted_ones])
    n_steps, ns = int(counted_ones.sum()), int((steps.end - steps.start)[counted_ones].sum())
    flop = sum(flop for flop, _ in in_steps.values())
    at_peak = [None if peak is None else flop / peak.per_s for flop, peak in in_steps.values()]
    mfu = None if None in at_peak or not ns else sum(s for s in at_peak if s is not None) * 1e9 / ns
    precisions = ", ".join(sorted(precision or "unknown" for precision in in_steps))
    return (
        *(device.capture, device.rank, device.device, n_steps, ns / n_steps, flop / n_steps),
        *(flop / ns / 1e3 if ns else None, mfu, precisions, estimates.estimated_share(ops, steps.step[counted_ones])),
    )


def utilization_findings(scope: Scope, device: DeviceOfCapture, row: tuple[Any, ...] | None) -> list[Finding]:
    """What a device reaches of its peak."""
    if row is None or not row[5]:
        return []
    steps, step_ns, flop, tflops, mfu, precisions, known = row[3:]
    reached = "" if mfu is None else f", {format_value(mfu, Unit.SHARE)} of the peak (MFU)"
    wrong = ": more than can be, so the peak is wrong" if mfu is not None and mfu > 1 else ""
    least = known < WHOLE
    rest = (
        f"; {format_value(1 - known, Unit.SHARE)} of such kernels' time has no estimate and counts as none"
        if least
        else ""
    )
    work, rate = f"{flop / 1e9:,.3g} GFLOP", f"{tflops * 1e3:,.3g} GFLOP/s"
    if flop >= LARGE_FLOP:
        work, rate = f"{flop / 1e12:,.2f} TFLOP", f"{tflops:,.0f} TFLOP/s"
    text = (
        f"{scope.whose(device)}: {'at least ' if least else ''}{work} a step of {format_value(step_ns, Unit.NS)} in"
        f" {counted(steps, 'step')}, {rate}{reached}{wrong}; estimated from shapes, {precisions}{rest}"
    )
    return [Finding("utilization", text, device.rank, None)]


def operator_coverage(scope: Scope, device: DeviceOfCapture, estimates: Estimates) -> list[Finding]:
    """How much of the kernel time of a device is not that of operators, where that is a part worth telling."""
    rest = estimates.kernel_ns - estimates.with_operator_ns
    if not estimates.with_operator_ns or rest < LEAST_REST * estimates.kernel_ns:
        return []
    share = format_value(rest / estimates.kernel_ns, Unit.SHARE)
    text = (
        f"{share} of the kernel time of {scope.whose(device)} is not that of operators: communication, graphs, kernels"
        " that were launched before recording began, or outside of any operator"
    )
    return [Finding("without_operator", text, device.rank, rest)]
