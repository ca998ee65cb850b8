"""Growth of memory from step to step: how much, whether it is a leak, and when the card would be full."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.allocations.curve import Levels, MemoryEvents, allocated, freed_at, reserved
from traceanalyzer.passes.operations import NULL, load_operations
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import Mark, device_steps, load_marks, warmup_count, with_steps

Ints = NDArray[np.int64]

LEAST_CHANGES = 3
"""Steps that memory has to grow in, one after the other: fewer may be chance."""
MOST_STEPS_TO_FULL = 100_000
"""Growth that would take more steps than this to fill the card is no finding: a list of losses grows as well."""


@dataclass(frozen=True, slots=True)
class DeviceSteps:
    """Steps of a device's process in the order of time, cut to those selected. `warmup` leads, and does not count."""

    step: Ints
    start: Ints
    end: Ints
    warmup: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, slots=True)
class StepLevels:
    """Memory at the end of each step, and the change since the end of the step before, the first since its start.

    `of_allocator` says whether memory in use was recorded, or only what processes took from the driver.
    """

    steps: DeviceSteps
    level: Ints
    change: Ints
    of_allocator: bool

    @property
    def counted(self) -> Ints:
        """Changes of the steps that are no warm-up, but for the first of all, before which nothing was recorded."""
        rest = ~self.steps.warmup
        rest[:1] = False
        return self.change[rest]

    @property
    def bytes_per_step(self) -> int | None:
        """Mean change of the counted steps, rounded; None without."""
        return round(int(self.counted.sum()) / len(self.counted)) if len(self.counted) else None

    @property
    def grows(self) -> bool:
        """Whether memory grows from step to step: in use always; taken from the driver, in pieces, it never shrinks."""
        counted = self.counted
        if len(counted) < LEAST_CHANGES:
            return False
        if self.of_allocator:
            return bool((counted > 0).all())
        return bool((counted >= 0).all()) and 2 * int((counted > 0).sum()) >= len(counted) - 1 and counted.sum() > 0


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """What was recorded of the memory of a device: `level` is what is in use, or, where not `of_allocator`, what
    processes took from the driver, which `reserved` is then as well. `freed` is from `freed_at`.
    """

    device: DeviceOfCapture
    events: MemoryEvents
    level: Levels
    of_allocator: bool
    reserved: Levels | None
    freed: Ints
    card_bytes: int | None
    by_step: StepLevels | None

    @property
    def steps_to_full(self) -> int | None:
        """Whole steps until the rest of the card is full, if memory grows on like that; None if it does not grow.

        Where the memory of the card is not known, until as much again is in use as at the peak.
        """
        if self.by_step is None or not self.by_step.grows:
            return None
        last = int(self.by_step.level[-1])
        room = self.card_bytes - last if self.card_bytes else int(self.level.after.max())
        return max(room, 0) // max(self.by_step.bytes_per_step or 1, 1)

    @property
    def is_leak(self) -> bool:
        """Whether memory grows from step to step so fast that it matters."""
        return self.steps_to_full is not None and self.steps_to_full <= MOST_STEPS_TO_FULL


def devices_with_memory(scope: Scope) -> list[DeviceOfCapture]:
    """The selected devices of which allocations were recorded, also those that no operation ran on."""
    rows = scope.connection.execute(
        f"""SELECT DISTINCT c.run, m.capture, c.source, coalesce(d.rank, p.rank, c.rank), m.device
        FROM stored.memory_events m JOIN stored.captures c ON c.capture = m.capture
        LEFT JOIN stored.devices d ON d.capture = m.capture AND d.device = m.device
        LEFT JOIN stored.processes p ON p.capture = m.capture AND p.process = m.process
        WHERE m.device IS NOT NULL AND m.capture IN {scope.numbers()} ORDER BY 2, 5, 4"""
    ).fetchall()
    known = {(d.capture, d.device): d for d in scope.devices}
    out: dict[tuple[int, int], DeviceOfCapture] = {}
    for row in rows:
        device = DeviceOfCapture(*row)
        key = device.capture, device.device
        if scope.selection.device not in (None, device.device):
            continue
        if scope.selection.ranks is not None and device.rank is not None and device.rank not in scope.selection.ranks:
            continue
        out.setdefault(key, known.get(key, device))
    return list(out.values())


def load_memory(scope: Scope, device: DeviceOfCapture, events: MemoryEvents) -> DeviceMemory:
    """The memory of a device: `events` are all of its allocations and frees, at least one."""
    of_allocator = device.source != "nsys"
    level = allocated(events)
    held = reserved(events) if of_allocator else level
    by_step = step_levels(scope, device, events, level, of_allocator=of_allocator)
    card = scope.connection.execute(
        "SELECT memory_bytes FROM stored.devices WHERE capture = ? AND device = ?", [device.capture, device.device]
    ).fetchone()
    whole = int(card[0]) if card and card[0] else None
    return DeviceMemory(device, events, level, of_allocator, held, freed_at(events), whole, by_step)


def step_levels(
    scope: Scope, device: DeviceOfCapture, events: MemoryEvents, levels: Levels, *, of_allocator: bool
) -> StepLevels | None:
    """Memory at the ends of the selected steps; None without steps, or where steps of several processes mix."""
    users = set(np.unique(events.process).tolist())
    marks = [mark for mark in load_marks(scope, device.capture) if mark.process in users]
    if not marks or len({mark.process for mark in marks}) > 1:
        return None
    steps = _selected(scope, device, marks)
    if not len(steps):
        return None
    after = np.append(levels.base, levels.after)
    ends = after[np.searchsorted(events.t, steps.end, side="right")]
    before = int(after[np.searchsorted(events.t, steps.start[0], side="left")])
    return StepLevels(steps, ends, np.diff(ends, prepend=before), of_allocator)


def _selected(scope: Scope, device: DeviceOfCapture, marks: list[Mark]) -> DeviceSteps:
    """The selected steps; which are warm-up is told from all of them, by their lengths on the device if known."""
    marks = sorted(marks, key=lambda mark: mark.start)
    step, start, end = (np.array([getattr(m, name) for m in marks], np.int64) for name in ("step", "start", "end"))
    warm = _warmup_steps(scope, device, end - start, step)
    low, high = scope.selection.steps or (NULL, np.iinfo(np.int64).max)
    mine = (step >= low) & (step <= high)
    return DeviceSteps(step[mine], start[mine], end[mine], np.isin(step[mine], list(warm)))


def _warmup_steps(scope: Scope, device: DeviceOfCapture, on_host: Ints, step: Ints) -> set[int]:
    ops = with_steps(scope, load_operations(scope, device, whole=True, launched=scope.selection.step_range is not None))
    found = device_steps(ops)
    if len(found):
        return set(found.step[: warmup_count(found.end - found.start, scope.selection.warmup)].tolist())
    return set(step[: warmup_count(on_host, scope.selection.warmup)].tolist())
