"""The time that a trace covers."""

import numpy as np
from numpy.typing import NDArray

_PROFILER = "PyTorch Profiler"


class Extent:
    """First and last instant of what was recorded, and the window that the profiler states."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._last: int | None = None
        self._span: tuple[int, int] | None = None

    def see(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> None:
        """Takes recorded intervals, at least one."""
        first, last = int(start.min()), int(end.max())
        self._first = first if self._first is None else min(first, self._first)
        self._last = last if self._last is None else max(last, self._last)

    def see_spans(self, names: list[str], start: NDArray[np.int64], end: NDArray[np.int64]) -> None:
        """Takes the windows that profilers state; the first of PyTorch's own counts."""
        for name, span in zip(names, zip(start.tolist(), end.tolist(), strict=True), strict=True):
            if self._span is None and name.startswith(_PROFILER):
                self._span = span

    def of_recording(self) -> tuple[int, int] | None:
        """The stated window, where something was recorded in it; else from the first event to the end of the last."""
        if self._first is None or self._last is None:
            return self._span
        if self._span is not None and self._first < self._span[1] and self._span[0] < self._last:
            return self._span
        return self._first, self._last
