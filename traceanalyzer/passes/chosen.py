"""The operations that a question about operations speaks of, as SQL: device, steps and window of the selection."""

from dataclasses import dataclass, field
from typing import Any

from traceanalyzer.passes.operations import load_operations, window_of
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import with_steps

_FARTHEST = 2**62


@dataclass(frozen=True, slots=True)
class Chosen:
    """A relation of operations: `sql` is a query with the columns of `gpu_ops` and `cut`, `parameters` go with it.

    `start_ns` and `end_ns` are cut at the window; `cut` tells which operations reach beyond it.
    """

    sql: str
    parameters: dict[str, Any] = field(default_factory=dict)


def chosen_operations(scope: Scope, device: DeviceOfCapture) -> Chosen:
    """The operations of a device that were launched in the selected steps and run inside the selected window.

    `--steps` goes by the step in which an operation was launched, wherever on the device it ran.
    """
    low, high = window_of(scope, device.capture) or (-_FARTHEST, _FARTHEST)
    parameters: dict[str, Any] = {"capture": device.capture, "device": device.device, "low": low, "high": high}
    in_steps = ""
    if scope.selection.steps is not None:
        first, last = scope.selection.steps
        if scope.selection.step_range is None:
            in_steps = "AND step BETWEEN $first AND $last"
            parameters |= {"first": first, "last": last}
        else:
            ops = with_steps(scope, load_operations(scope, device))
            in_steps = "AND op_id IN (SELECT unnest($op_ids::BIGINT[]))"
            parameters["op_ids"] = ops.op_id[(ops.step >= first) & (ops.step <= last)]
    sql = f"""SELECT * REPLACE (greatest(start_ns, $low) AS start_ns, least(end_ns, $high) AS end_ns),
            end_ns - start_ns AS whole_ns, start_ns < $low OR end_ns > $high AS cut
        FROM stored.gpu_ops
        WHERE capture = $capture AND device = $device AND start_ns < $high
            AND (end_ns > $low OR (start_ns = end_ns AND start_ns >= $low)) {in_steps}"""
    return Chosen(sql, parameters)


def warmup_warning(scope: Scope) -> list[str]:
    """What to say where `--warmup` was given to a question that tells totals only."""
    if scope.selection.warmup is None:
        return []
    return [
        "--warmup changes nothing here: warm-up is left out of rates, never out of totals; --steps leaves steps out"
    ]
