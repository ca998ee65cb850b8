"""What is told of the memory of one device: rows of the tables, findings, warnings."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.allocations.curve import MemoryEvents
from traceanalyzer.passes.allocations.growth import DeviceMemory, load_memory
from traceanalyzer.passes.allocations.held import Held, growing, held_at
from traceanalyzer.passes.allocations.stacks import Origins
from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.operations import window_of
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.units import Unit, counted, format_value

Ints = NDArray[np.int64]
Row = tuple[Any, ...]

FULL_SHARE = 0.9
"""Share of the card from which on its memory is nearly full."""


@dataclass(frozen=True, slots=True)
class MemoryGrowth:
    """Whether the memory of a device grows from step to step, and what does.

    `is_leak`: it grows in every counted step (what the driver gives: in every other, and never shrinks), so fast that
    the card would be full within 100,000 steps. `bytes_per_step` is the mean change, `grown` of the `counted` steps had
    one. `op`, `stack`, `blame` and `next_call` are of what grows most, where allocations tell. `peak_bytes` is the most
    that is reserved, else in use; `text` says it all.
    """

    device: DeviceOfCapture
    is_leak: bool
    bytes_per_step: int
    grown: int
    counted: int
    op: str | None
    stack: list[str]
    blame: str | None
    next_call: str | None
    steps_to_full: int | None
    ns_to_full: int | None
    peak_bytes: int
    card_bytes: int | None
    text: str


class DeviceReport:
    """What is told of one device."""

    def __init__(self, scope: Scope, tree: StackTree, device: DeviceOfCapture, events: MemoryEvents) -> None:
        self._scope = scope
        self._memory: DeviceMemory = load_memory(scope, device, events)
        self._origins = Origins(scope, tree, device.capture, events)
        self._place = (device.capture, device.rank, device.device)
        self._low, self._high = self._range(scope)
        # Levels before the first selected event and after each; the first instant stands for both.
        self._t = np.append(events.t[self._low : self._low + 1], events.t[self._low : self._high])
        self._level = self._points(self._memory.level.base, self._memory.level.after)
        held = self._memory.reserved
        self._reserved = None if held is None else self._points(held.base, held.after)
        self._peak = int(self._level.argmax()) if len(self._level) else 0

    @property
    def selected(self) -> bool:
        """Whether anything of the device is selected."""
        return self._high > self._low

    def _range(self, scope: Scope) -> tuple[int, int]:
        """Places of the events inside the window or the steps that are selected."""
        events, window = self._memory.events, window_of(scope, self._memory.device.capture)
        low, high = (0, len(events)) if window is None else np.searchsorted(events.t, window).tolist()
        if scope.selection.steps is not None:
            by_step = self._memory.by_step
            if by_step is None:
                return 0, 0
            first, last = np.searchsorted(events.t, (by_step.steps.start[0], by_step.steps.end[-1])).tolist()
            low, high = max(low, first), min(high, last)
        return low, max(low, high)

    def _points(self, base: int, after: Ints) -> Ints:
        before = base if self._low == 0 else int(after[self._low - 1])
        return np.append(before, after[self._low : self._high])

    def curve(self, top: int) -> list[Row]:
        """Rows of `curve`: all of them, or fewer than `top`, among them the peaks, the first and the last."""
        chosen = np.arange(len(self._t))
        if top and len(chosen) >= top:
            chosen = self._thinned(max(top - 1, 1))
        nothing = [None] * len(chosen)
        level, held = self._level[chosen].tolist(), nothing
        if self._reserved is not None:
            held = self._reserved[chosen].tolist()
        in_use = level if self._memory.of_allocator else nothing
        return [
            (*self._place, t, used, taken)
            for t, used, taken in zip(self._t[chosen].tolist(), in_use, held, strict=True)
        ]

    def _thinned(self, count: int) -> Ints:
        """So many points: the peaks, the last and the first, and the highest of each of equal parts of the time."""
        level, t = self._level, self._t
        keep = [self._peak]
        if self._reserved is not None:
            keep.append(int(self._reserved.argmax()))
        keep = list(dict.fromkeys([*keep, len(t) - 1, 0]))[:count]
        parts = count - len(keep)
        if parts < 1:
            return np.array(sorted(keep))
        part = np.minimum(((t - t[0]) / max(int(t[-1] - t[0]), 1) * parts).astype(np.int64), parts - 1)
        order = np.lexsort((-level, part))
        first = order[np.append(True, np.diff(part[order]) != 0)]
        return np.unique(np.append(first, keep))

    def peak(self) -> list[Row]:
        """Rows of `peak`."""
        memory, whole = self._memory, int(self._level[self._peak])
        place = self._low + self._peak - 1
        node = int(self._origins.nodes(np.array([place]))[0]) if self._peak else -1
        rows = [self._peak_row("peak", whole, whole, None, node)]
        parts: list[Held] = []
        if memory.events.has_address.all():
            parts = held_at(memory, self._origins, place)
        rows += [self._peak_row("allocations", held.bytes, whole, held.count, held.node) for held in parts]
        rest = whole - sum(held.bytes for held in parts)
        if rest > 0:
            part = "before_recording" if memory.events.has_address.all() else "unknown"
            rows.append(self._peak_row(part, rest, whole, None, -1))
        return rows

    def _peak_row(self, part: str, size: int, whole: int, count: int | None, node: int) -> Row:
        origin = self._origins.origin(node)
        share = size / whole if whole else None
        return (*self._place, part, origin.op, size, share, count, origin.blame, origin.stack or None)

    def steps(self) -> list[Row]:
        """Rows of `growth`."""
        found = self._memory.by_step
        if found is None:
            return []
        steps = found.steps
        columns = (steps.step, steps.warmup, steps.end, found.level, found.change)
        return [(*self._place, *row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def growing(self) -> list[Held]:
        """What most steps leave."""
        return growing(self._memory, self._origins)

    def growing_row(self, held: Held) -> Row:
        """A row of `growing`."""
        origin = self._origins.origin(held.node)
        numbers = (held.bytes / self._n_counted, held.bytes, held.steps, held.count)
        return (*self._place, *numbers, origin.op, origin.blame, held.next_call, origin.stack or None)

    @property
    def _n_counted(self) -> int:
        """Steps that are no warm-up."""
        found = self._memory.by_step
        return 0 if found is None else int((~found.steps.warmup).sum())

    def summary(self) -> Row:
        """The row of `memory`."""
        memory, changes = self._memory, self._changes
        peak = int(self._level[self._peak])
        held = None if self._reserved is None else int(self._reserved.max())
        apart = None
        if self._reserved is not None and memory.of_allocator:
            apart = int(self._reserved[self._peak]) - peak
        grows = memory.by_step.bytes_per_step if memory.by_step is not None else None
        return (
            *(*self._place, peak if memory.of_allocator else None, held, apart, memory.card_bytes, self._card_share),
            *(int(self._t[self._peak]), grows, int((changes > 0).sum()), len(changes), memory.steps_to_full),
            int((memory.events.bytes[self._low : self._high] > 0).sum()),
        )

    @property
    def _changes(self) -> Ints:
        found = self._memory.by_step
        return np.zeros(0, np.int64) if found is None else found.counted

    @property
    def _most(self) -> int:
        """The most that is reserved, else in use."""
        return int((self._level if self._reserved is None else self._reserved).max())

    @property
    def _card_share(self) -> float | None:
        card = self._memory.card_bytes
        return self._most / card if card else None

    def growth(self, left: list[Held]) -> MemoryGrowth | None:
        """What is told of growth; None without a counted step."""
        memory, changes, by_step = self._memory, self._changes, self._memory.by_step
        if by_step is None or by_step.bytes_per_step is None:
            return None
        origin = self._origins.origin(left[0].node if left else -1)
        to_full = memory.steps_to_full
        length = float(np.median(by_step.steps.end - by_step.steps.start))
        return MemoryGrowth(
            device=memory.device,
            is_leak=memory.is_leak,
            bytes_per_step=by_step.bytes_per_step,
            grown=int((changes > 0).sum()),
            counted=len(changes),
            op=origin.op,
            stack=origin.stack,
            blame=origin.blame,
            next_call=left[0].next_call if left else None,
            steps_to_full=to_full,
            ns_to_full=None if to_full is None else round(to_full * length),
            peak_bytes=self._most,
            card_bytes=memory.card_bytes,
            text=self._sentence(left, by_step.bytes_per_step, length),
        )

    def _sentence(self, left: list[Held], per_step: int, length: float) -> str:
        memory, changes, to_full = self._memory, self._changes, self._memory.steps_to_full
        size = format_value(per_step, Unit.BYTES)
        what = "memory in use" if memory.of_allocator else "memory taken from the driver"
        text = f"{self._scope.whose(memory.device)}: {what} grows by {size} a step, in {int((changes > 0).sum()):,} of"
        text += f" {counted(len(changes), 'step')}"
        if left:
            origin = self._origins.origin(left[0].node)
            where = f" in {origin.blame}" if origin.blame else ""
            each = format_value(left[0].bytes / self._n_counted, Unit.BYTES)
            text += f"; most of it is allocated by {origin.op or 'no known operator'}{where}, {each} a step"
            if left[0].next_call:
                text += f", before it calls {left[0].next_call}, which may keep it"
        if to_full is not None and memory.card_bytes:
            when = format_value(round(to_full * length), Unit.NS)
            text += (
                f"; the {format_value(memory.card_bytes, Unit.BYTES)} of the device are full after"
                f" {counted(to_full, 'more step')} ({when})"
            )
        return text

    def findings(self, left: list[Held]) -> list[Finding]:
        """Growth that is a leak; else that memory is nearly full, which is none."""
        memory, share = self._memory, self._card_share
        growth = self.growth(left)
        rank = memory.device.rank
        if growth is not None and growth.is_leak:
            return [Finding("memory_growth", growth.text, rank)]
        if share is None or share < FULL_SHARE:
            return []
        does = "it is not known whether it grows" if growth is None else "it does not grow from step to step: no leak"
        text = (
            f"{self._scope.whose(memory.device)}: {format_value(share, Unit.SHARE)} of its"
            f" {format_value(memory.card_bytes, Unit.BYTES)} are taken at most; {does}"
        )
        return [Finding("memory_nearly_full", text, rank)]

    def warnings(self) -> list[str]:
        """What the recording does not tell."""
        memory, whose = self._memory, self._scope.whose(self._memory.device)
        out = []
        if odd := memory.events.n_odd:
            out.append(f"{whose}: {counted(odd, 'record')} of memory with an impossible size left out")
        if memory.of_allocator and not memory.level.exact:
            out.append(
                f"{whose}: the trace has no totals of allocated memory, only differences: what was allocated before"
                " recording is not known, so that more may be in use than is told"
            )
        if not memory.events.has_address.all():
            out.append(
                f"{whose}: the trace lacks addresses of allocations, so that it is not known what holds the memory at"
                " the peak, and what grows"
            )
        elif self._known_too_much():
            out.append(f"{whose}: more is known to be alive at the peak than is in use: frees were not recorded")
        if memory.by_step is None:
            out.append(f"{whose}: no steps of one process are marked, so that growth is not known; give --step-range")
        return out

    def _known_too_much(self) -> bool:
        rows = self.peak()
        return bool(sum(row[5] for row in rows[1:]) > rows[0][5])

    def notes(self, top: int) -> list[str]:
        """What the numbers are."""
        out = []
        if not self._memory.of_allocator:
            out.append("nsys records what processes take from the driver: reserved, not what is in use inside of it")
        if top and len(self._t) >= top:
            out.append(f"the curve is thinned from {len(self._t):,} points, peaks kept; --top 0 lists all")
        return out
