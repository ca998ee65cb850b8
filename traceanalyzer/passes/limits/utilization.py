"""Estimates as rows: operators with what they reach of the device, and the model FLOP utilisation of its steps.

Model FLOP utilisation is the arithmetic of the model a second, over the peak of the device: PaLM (Chowdhery and others,
2022), appendix B. Here the operations are those of the operators that ran, so what a backward pass computes again
counts, as it does for hardware FLOP utilisation.
"""

import json
from typing import Any

from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.limits.estimates import MATHEMATICS, Estimates, OperatorWork, limit_of_estimate
from traceanalyzer.passes.operations import load_operations
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import counted_steps, device_steps, with_steps
from traceanalyzer.units import Unit, counted, format_value

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


def shapes_of(args: str | None) -> str | None:
    """The shapes of an operator's inputs, as text: `8192x4096, 4096x4096`."""
    try:
        dims = json.loads(args or "{}").get("Input Dims")
    except (ValueError, AttributeError, RecursionError):
        return None
    if not isinstance(dims, list):
        return None
    texts = [_shape(one) for one in dims if one]
    whole = ", ".join(texts) or "scalars"
    return whole if len(whole) <= _LONGEST else f"{whole[:_LONGEST]}..."


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
    counted_ones = counted_steps(scope, ops, steps)
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
        *(flop / ns / 1e3 if ns else None, mfu, precisions, estimates.estimated_share()),
    )


def utilization_findings(scope: Scope, device: DeviceOfCapture, row: tuple[Any, ...] | None) -> list[Finding]:
    """What a device reaches of its peak."""
    if row is None or not row[5]:
        return []
    steps, step_ns, flop, tflops, mfu, precisions, known = row[3:]
    reached = "" if mfu is None else f", {format_value(mfu, Unit.SHARE)} of the peak (MFU)"
    text = (
        f"{scope.whose(device)}: {flop / 1e12:.2f} TFLOP a step of {format_value(step_ns, Unit.NS)} in"
        f" {counted(steps, 'step')}, {tflops:.0f} TFLOP/s{reached}; estimated from shapes, {precisions},"
        f" known of {format_value(known, Unit.SHARE)} of such kernels"
    )
    return [Finding("utilization", text, device.rank, None)]
