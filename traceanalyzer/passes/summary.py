"""Summary: what the steps of each device consist of, in few parts that people know."""

from dataclasses import dataclass, field

from traceanalyzer.errors import UsageError
from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.columns import CAPTURE, DEVICE, RANK, RUN
from traceanalyzer.passes.communication.ranks import communication_of
from traceanalyzer.passes.gaps import nothing_selected
from traceanalyzer.passes.idle.lanes import DeviceGaps, devices_with_gaps
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.ledger import CategoryTimes, category_times
from traceanalyzer.passes.parts import REFILL, SYNC, blocking_calls, part_of, refill_is_of_sync
from traceanalyzer.passes.scope import PROFILERS, Scope, by_run
from traceanalyzer.passes.step_marks import counted_steps, device_steps
from traceanalyzer.passes.tensorboard import Split, tensorboard_splits
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit, counted, format_value

LEAST_SHARE = 0.02
"""Parts below this share are no part of a sentence."""
MOST_PARTS = 4
"""Parts that a sentence names."""
MOST_SENTENCES = 8
"""Devices of which a sentence is said each."""

SUMMARY = TableSpec(
    "summary",
    "Time of each device by part, the largest first; the parts of a device add up to its device steps, or without steps"
    " to its span.",
    (
        RUN,
        CAPTURE,
        RANK,
        DEVICE,
        Column(
            "part",
            Type.TEXT,
            "compute, communication_*, copy, or idle:<group of causes>; with --as tensorboard the plugin's.",
        ),
        Column("ns", Type.INT64, "Time in all device steps; without steps in the span.", Unit.NS),
        Column("share", Type.FLOAT64, "Share of all parts of the device.", Unit.SHARE),
        Column(
            "per_step_ns",
            Type.INT64,
            "Time per counted device step: without warm-up, and a first step that is incomplete. Null without steps.",
            Unit.NS,
        ),
        Column("n_steps", Type.INT64, "Device steps that count for the time per step.", Unit.COUNT),
        Column("categories", Type.TEXT, "Categories of the ledger that it is made of, the largest first."),
    ),
    cut=False,
)


@dataclass(slots=True)
class _Part:
    """A part of a device's time: over all steps, over the counted ones, and by category."""

    ns: int = 0
    counted_ns: int = 0
    categories: dict[str, int] = field(default_factory=dict)


def summary(scope: Scope) -> Answer:
    """Table `summary`: the ledger by device in few parts. Times in ns; the parts add up to the device steps exactly,
    without steps to the span. With `--as tensorboard` the parts are those of TensorBoard's profiler plugin.
    """
    if scope.selection.split == "tensorboard":
        return _of_tensorboard(scope)
    of_run = {one.runs[0]: communication_of(one) for one in by_run(scope)}
    rows: list[tuple[object, ...]] = []
    told: list[Finding] = []
    for part in devices_with_gaps(scope, StackTree(scope)):
        found = _Summed(scope, part, category_times(scope, part, of_run[part.device.run]))
        rows += found.rows()
        told += found.findings(scope)
    answer = Answer("summary", {"summary": Frame.of_rows(SUMMARY, rows)}, warnings=list(scope.warnings))
    answer.notes.append(f"{scope.note()}; time in device steps, of a device without steps in its span")
    answer.findings += _few(told)
    if not rows:
        answer.warnings.append(nothing_selected(scope))
    if "communication_unresolved" in answer.tables["summary"].columns["part"]:
        answer.warnings += [text for found in of_run.values() for text in found.notes]
    return answer


class _Summed:
    """The parts of one device."""

    def __init__(self, scope: Scope, part: DeviceGaps, times: CategoryTimes) -> None:
        self._device, (low, high) = part.device, part.ops.span
        steps = device_steps(part.ops)
        counts = counted_steps(scope, part.ops, steps)
        self._counted = steps.step[counts]
        self._n_steps, self._stepped = len(self._counted), len(steps) > 0
        self._parts: dict[str, _Part] = {}
        of_sync = refill_is_of_sync(blocking_calls(part, self._counted))
        numbers = set(self._counted.tolist())
        for key, ns in times.by_step.items():
            again = times.refill.get(key, 0) if of_sync else 0
            self._add(key, numbers, part_of(key[1]), key[1].removeprefix("idle:"), ns - again)
            self._add(key, numbers, SYNC, REFILL, again)
        self._whole = sum(each.ns for each in self._parts.values())
        self._outside = high - low - self._whole
        if self._whole + self._outside != sum(times.by_step.values()):
            raise AssertionError("the parts do not add up to the device steps")
        lengths = steps.end - steps.start
        if self._stepped and self._whole != int(lengths.sum()):
            raise AssertionError("the parts do not add up to the device steps")
        self._step_ns = int(lengths[counts].sum()) // max(self._n_steps, 1)

    def _add(self, key: tuple[int | None, str], counted_steps: set[int], part: str, category: str, ns: int) -> None:
        step = key[0]
        if not ns or (self._stepped and step is None):
            return
        known = self._parts.setdefault(part, _Part())
        known.ns += ns
        known.categories[category] = known.categories.get(category, 0) + ns
        if step in counted_steps:
            known.counted_ns += ns

    def _largest(self) -> list[tuple[str, _Part]]:
        return sorted(self._parts.items(), key=lambda item: (-item[1].ns, item[0]))

    def rows(self) -> list[tuple[object, ...]]:
        """Rows of the table."""
        device = self._device
        place = (device.run, device.capture, device.rank, device.device)
        return [
            (
                *place,
                name,
                each.ns,
                each.ns / self._whole,
                round(each.counted_ns / self._n_steps) if self._n_steps else None,
                self._n_steps or None,
                ", ".join(sorted(each.categories, key=lambda c: (-each.categories[c], c))),
            )
            for name, each in self._largest()
        ]

    def findings(self, scope: Scope) -> list[Finding]:
        """The largest parts in a sentence, and what lies outside of the steps."""
        if not self._whole:
            return []
        where, rank = scope.whose(self._device), self._device.rank
        idle = sum(each.ns for name, each in self._parts.items() if name.startswith("idle:"))
        what = f"its span of {format_value(self._whole, Unit.NS)}"
        cost = idle
        if self._n_steps:
            what = f"a step of {format_value(self._step_ns, Unit.NS)} ({counted(self._n_steps, 'counted step')})"
        text = f"{where}: {what} is {_listed(self._costs(), self._n_steps)}"
        if self._n_steps:
            cost = sum(p.counted_ns for name, p in self._parts.items() if name.startswith("idle:")) // self._n_steps
        found = [Finding("summary", text, rank, cost)]
        if self._outside > LEAST_SHARE * (self._whole + self._outside):
            text = (
                f"{where}: {format_value(self._outside, Unit.NS)} of the span lie outside of all device steps, and in"
                " no part; `traceanalyzer ledger` has them without a step"
            )
            found.append(Finding("outside_steps", text, rank, self._outside))
        return found

    def _costs(self) -> dict[str, int]:
        """Time of each part: in counted steps where there are some, else in all."""
        return {name: each.counted_ns if self._n_steps else each.ns for name, each in self._parts.items()}


WORDS = {
    "compute": "compute",
    "communication_transfer": "communication that nothing hides",
    "communication_wait": "waiting for other ranks",
    "communication_unresolved": "communication, waits and transfers not told apart",
    "copy": "copies that nothing hides",
    "idle:input": "idle for input",
    "idle:host": "idle for the host program",
    "idle:launch": "idle between launches",
    "idle:sync": "idle for synchronisation",
    "idle:host_copy": "idle for copies of pageable memory",
    "idle:allocation": "idle for allocation",
    "idle:compile_or_load": "idle for compiling or loading code",
    "idle:dependency": "idle for other work of devices",
    "idle:host_communication": "idle for communication on the host",
    "idle:profiler": "idle for the profiler",
    "idle:unattributed": "idle for launches that are not in the file",
}
"""Parts as they stand in sentences."""


def _listed(costs: dict[str, int], n_steps: int) -> str:
    """The largest parts in words, with what they take of a step; the first one always."""
    whole = max(sum(costs.values()), 1)
    largest = sorted(costs.items(), key=lambda item: (-item[1], item[0]))
    told = [largest[0], *(each for each in largest[1:MOST_PARTS] if each[1] >= LEAST_SHARE * whole)]
    texts = [
        f"{100 * ns / whole:.1f} % {WORDS.get(name, name)} ({format_value(round(ns / max(n_steps, 1)), Unit.NS)})"
        for name, ns in told
    ]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _few(told: list[Finding]) -> list[Finding]:
    """Sentences of a few devices: of many, of those that idle most."""
    main = [each for each in told if each.code == "summary"]
    if len(main) <= MOST_SENTENCES:
        return told
    most = sorted(main, key=lambda each: -(each.cost_ns or 0))[:MOST_SENTENCES]
    return [each for each in main if each in most] + [each for each in told if each.code != "summary"][:1]


def _of_tensorboard(scope: Scope) -> Answer:
    """The plugin's split, rank by rank."""
    if scope.selection.window_ns is not None:
        raise UsageError("--as tensorboard speaks of whole steps: leave --window out; --steps picks some")
    run_of = dict(scope.connection.execute("SELECT capture, run FROM stored.captures").fetchall())
    profiled = scope.of_source(PROFILERS)
    others = sorted(set(scope.captures) - set(scope.of_source(("torch",))) - set(profiled))
    rows: list[tuple[object, ...]] = []
    findings = []
    for capture in scope.captures:
        for split in tensorboard_splits(scope, capture) if capture not in profiled else ():
            whole = sum(split.ns.values())
            place = (run_of[capture], capture, split.rank, split.device)
            rows += [
                (*place, name, ns, ns / whole if whole else None, round(ns / split.n_steps), split.n_steps, None)
                for name, ns in split.ns.items()
            ]
            findings += _told_of_split(split)
    answer = Answer("summary", {"summary": Frame.of_rows(SUMMARY, rows)}, findings, list(scope.warnings))
    answer.notes.append(f"{scope.note()}; parts as TensorBoard's profiler plugin defines them, of its steps")
    if others:
        answer.warnings.append(
            "TensorBoard's plugin reads traces of torch.profiler only; of nsys captures its parts are worked out in the"
            " same way, without operators where none were recorded"
        )
    if not rows:
        answer.warnings.append(nothing_selected(scope))
    return answer


def _told_of_split(split: Split) -> list[Finding]:
    """A step in the plugin's parts, in a sentence."""
    whole = sum(split.ns.values())
    if not whole:
        return []
    where = f"rank {split.rank}" if split.rank is not None else f"capture {split.capture}"
    step = format_value(whole // split.n_steps, Unit.NS)
    text = (
        f"{where}: a step of {step} ({counted(split.n_steps, 'step')} on average) is {_listed(split.ns, split.n_steps)}"
    )
    return [Finding("summary", text, split.rank, None)]
