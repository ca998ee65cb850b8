"""Which time of each capture and device is in the timeline."""

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.operations import load_operations, window_of
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.step_marks import load_marks, step_window, with_steps
from traceanalyzer.store.database import first_row
from traceanalyzer.units import Unit, counted, format_value

Ints = NDArray[np.int64]
Window = tuple[int, int]
EVERYTHING: Window = (-(2**62), 2**62)


class Windows:
    """Windows [low, high) on each capture's own clock: that of `--window`, or of the device steps of `--steps`.

    The host runs ahead of its devices: with `--steps` its window has the marks of the steps as well.
    """

    def __init__(self, scope: Scope, captures: list[int]) -> None:
        self._of_device: dict[tuple[int, int], Window] = {}
        self._idle_before: list[int] = []
        self._of_host = {capture: window_of(scope, capture) or EVERYTHING for capture in captures}
        if scope.selection.steps is not None:
            for capture in captures:
                self._select_steps(scope, capture)

    def _select_steps(self, scope: Scope, capture: int) -> None:
        first, last = scope.selection.steps or (0, 0)
        hull = [(m.start, m.end) for m in load_marks(scope, capture) if first <= m.step <= last]
        for device in scope.devices:
            if device.capture == capture:
                marked_anew = scope.selection.step_range is not None
                ops = step_window(scope, with_steps(scope, load_operations(scope, device, launched=marked_anew)))
                self._of_device[capture, device.device] = ops.span
                if len(ops):
                    hull.append(ops.span)
                    self._idle_before.append(int(ops.start.min()) - ops.span[0])
        low, high = self._of_host[capture]
        self._of_host[capture] = (
            (max(low, min(a for a, _ in hull)), min(high, max(b for _, b in hull))) if hull else (low, low)
        )

    def notes(self) -> list[str]:
        """What of the selected steps is no record, so that who reads the file back does not find it."""
        if not self._idle_before:
            return []
        idle, devices = format_value(sum(self._idle_before), Unit.NS), counted(len(self._idle_before), "device")
        return [
            f"read back, the file begins with the first operation of each device: the idle time before that, {idle} of"
            f" {devices}, is a slice of the gaps alone; steps beside the selected ones may be in it in part"
        ]

    def of_host(self, capture: int) -> Window:
        """The window of what threads of a capture did."""
        return self._of_host[capture]

    def of_device(self, capture: int, device: int) -> Window:
        """The window of the operations of a device."""
        return self._of_device.get((capture, device), self._of_host[capture])

    def hull(self, capture: int) -> Window:
        """The window that holds all of a capture."""
        windows = [
            self._of_host[capture],
            *(w for (c, _), w in self._of_device.items() if c == capture and w[0] < w[1]),
        ]
        return min(w[0] for w in windows), max(w[1] for w in windows)


def inside(window: Window) -> str:
    """SQL: the events of a table that are in a window, whole or in part."""
    low, high = window
    return f"start_ns < {high} AND (end_ns > {low} OR (start_ns = end_ns AND start_ns >= {low}))"


def clipped(start: Ints, end: Ints, window: Window) -> tuple[Ints, Ints]:
    """Starts and ends cut at the edges of a window that they are inside of."""
    return np.maximum(start, window[0]), np.minimum(end, window[1])


def first_instant(scope: Scope, capture: int, window: Window) -> int | None:
    """When the first event or operation in a window begins; None where there is none."""
    found = _extreme(scope, capture, window, "min(start_ns)", "min")
    return None if found is None else max(found, window[0])


def last_instant(scope: Scope, capture: int, window: Window) -> int | None:
    """When the last event or operation in a window ends; None where there is none."""
    found = _extreme(scope, capture, window, "max(end_ns)", "max")
    return None if found is None else min(found, window[1])


def _extreme(scope: Scope, capture: int, window: Window, of_table: str, of_both: str) -> int | None:
    parts = " UNION ALL ".join(
        f"SELECT {of_table} AS t FROM stored.{table} WHERE capture = {capture} AND {inside(window)}"
        for table in ("cpu_events", "gpu_ops")
    )
    row = first_row(scope.connection.execute(f"SELECT {of_both}(t) FROM ({parts})"))
    return None if row is None or row[0] is None else int(row[0])
