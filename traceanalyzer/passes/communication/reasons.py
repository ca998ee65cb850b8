"""Why a rank is late: what it does more of than another rank that is not, in the steps in which it is late."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import groups
from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.communication.lateness import Straggler
from traceanalyzer.passes.communication.rank_steps import RankSteps
from traceanalyzer.passes.idle.findings import WORDS
from traceanalyzer.passes.idle.lanes import devices_with_gaps
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.operations import load_operations
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import with_steps
from traceanalyzer.schema.kinds import Lane
from traceanalyzer.units import Unit, format_value

Ints = NDArray[np.int64]
ONE_THING = 0.5
"""Idle time is told by one cause and frame if these explain this share of the excess."""


@dataclass(frozen=True, slots=True)
class Reason:
    """What a late rank does more of: a sentence, and where it is idle time the stack that holds most of it.

    `part` is what it does more of: idle, compute or copy, by `more_ns` in a step in which it is late; `cause` and
    `blame` are those of most of that, where it is idle time. `covers` is the share of the excess that this explains.
    """

    text: str
    part: str
    more_ns: int
    stack: list[str] | None = None
    covers: float = 1.0
    cause: Cause | None = None
    blame: str | None = None


def reason_of(scope: Scope, tree: StackTree, found: RankSteps, late: Straggler) -> Reason:
    """The part of the step in which the rank exceeds the others most, and what it consists of."""
    others = found.others(late.row)
    more = {
        name: float(
            (
                found.part[name][late.row, late.columns]
                - np.median(found.part[name][np.ix_(others, late.columns)], axis=0)
            ).mean()
        )
        for name in ("compute", "copy", "idle")
    }
    part = max(more, key=lambda name: more[name])
    # The rank that is most like the others is what the late one is compared with.
    own = found.own[:, late.columns].mean(axis=1)
    usual = int(others[np.argmin(np.abs(own[others] - np.median(own[others])))])
    devices = found.devices[late.row], found.devices[usual]
    steps = found.steps[late.columns]
    if part == "idle":
        return _idle(scope, tree, devices, steps, more[part], late.excess_ns)
    if part == "compute":
        return _compute(scope, devices, steps, more[part])
    text = f"copies that no kernel hides take {_time(more[part])} more than on other ranks"
    return Reason(text, part, round(more[part]))


def _idle(
    scope: Scope,
    tree: StackTree,
    devices: tuple[DeviceOfCapture, DeviceOfCapture],
    steps: Ints,
    more_ns: float,
    excess_ns: int,
) -> Reason:
    own, usual = (_idle_by_subject(scope, tree, device, steps) for device in devices)
    gain = {key: ns - usual.get(key, (0, -1))[0] for key, (ns, _) in own.items()}
    if not gain:
        text = f"its device is idle for {_time(more_ns)} more than those of other ranks"
        return Reason(text, "idle", round(more_ns))
    cause, label = max(gain, key=lambda key: (gain[key], key))
    blame = tree.labels[label].text if label >= 0 else None
    words = WORDS[Cause(cause)]
    where = f"{words} in {blame}" if blame else words
    text = f"idle, {where}: {_time(gain[cause, label] / len(steps))} more than on rank {devices[1].rank}"
    covers = gain[cause, label] / len(steps) / max(excess_ns, 1)
    if covers < ONE_THING:
        text = f"idle for {_time(more_ns)} more than other ranks, in many small pieces; most of all {where}"
    stack = tree.frames(own[cause, label][1])
    return Reason(text, "idle", round(more_ns), stack, covers, Cause(cause), blame)


def _idle_by_subject(
    scope: Scope, tree: StackTree, device: DeviceOfCapture, steps: Ints
) -> dict[tuple[int, int], tuple[int, int]]:
    """Idle time in some steps by cause and blamed frame (-1: none), with the stack that holds most of it."""
    sums: dict[tuple[int, int, int], int] = {}
    selection = replace(scope.selection, lane="device", steps=None, under=None)
    for part in devices_with_gaps(replace(scope, devices=(device,), selection=selection), tree):
        inside = np.isin(part.step, steps)
        for pieces in part.pieces():
            mine = pieces.take(inside[pieces.gap])
            label = np.append(tree.blame_label(), -1)[mine.node]
            each = groups(mine.cause, label, mine.node)
            keys = zip(*(column[each.row].tolist() for column in (mine.cause, label, mine.node)), strict=True)
            for key, ns in zip(keys, each.sums(mine.length).tolist(), strict=True):
                sums[key] = sums.get(key, 0) + ns
    out: dict[tuple[int, int], tuple[int, int]] = {}
    largest: dict[tuple[int, int], int] = {}
    for (cause, blame, node), ns in sorted(sums.items()):
        before = out.get((cause, blame), (0, node))
        best = node if ns > largest.get((cause, blame), 0) else before[1]
        largest[cause, blame] = max(ns, largest.get((cause, blame), 0))
        out[cause, blame] = before[0] + ns, best
    return out


def _compute(scope: Scope, devices: tuple[DeviceOfCapture, DeviceOfCapture], steps: Ints, more_ns: float) -> Reason:
    own, usual = (_kernels(scope, device, steps) for device in devices)
    calls, others = (sum(count for count, _ in kernels.values()) for kernels in (own, usual))
    if not own:
        return Reason(f"compute takes {_time(more_ns)} more than on other ranks", "compute", round(more_ns))
    more = {name: ns - usual.get(name, (0, 0))[1] for name, (_, ns) in own.items()}
    name = max(more, key=lambda key: (more[key], key))
    count, ns = own[name]
    before, usual_ns = usual.get(name, (0, 0))
    text = f"compute takes {_time(more_ns)} more than on rank {devices[1].rank}: "
    if calls > others:
        extra = (calls - others) / len(steps)
        text += f"more work, {extra:,.0f} more kernels a step; most of the time is of {name}"
    elif before and count == before:
        times = ns / max(usual_ns, 1)
        text += f"the same kernels take longer; most of all {name}, {times:.2f} times as long"
    else:
        text += f"as many kernels, but others, as for other sizes; most of the time is of {name}"
    return Reason(text, "compute", round(more_ns))


def _kernels(scope: Scope, device: DeviceOfCapture, steps: Ints) -> dict[str, tuple[int, int]]:
    """Number and time of compute kernels in some steps, by name."""
    ops = with_steps(scope, load_operations(scope, device, launched=scope.selection.step_range is not None))
    mine = np.flatnonzero((ops.lane == int(Lane.COMPUTE)) & np.isin(ops.step, steps))
    found = groups(ops.name[mine])
    names = ops.name[mine[found.row]].tolist()
    texts = scope.texts(names)
    times = zip(found.counts().tolist(), found.sums(ops.end[mine] - ops.start[mine]).tolist(), strict=True)
    return {texts.get(name, ""): each for name, each in zip(names, times, strict=True)}


def _time(ns: float) -> str:
    return format_value(ns, Unit.NS)
