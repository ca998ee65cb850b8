"""Steps that take longer than the others, and pauses that recur in them: checkpoints, evaluation, logging, collection.

An *outlier* is a counted device step longer than 1.5 x the median of the counted ones, or than the median by 6 standard
deviations (1.4826 x the median absolute deviation) and by 10 %. A *pause* is one outlier, or several in a row, whose
idle time exceeds the median idle time by 5 % of the median step, by 6 standard deviations of the idle time, and by
twice what it does in any step that is none. Pauses with the same blame, else the same cause, *recur* where every k-th
step has one from the first step to the last, k at least 3, or where there are three. Two are a period only if about as
long. A DataLoader that cannot keep up is no pause, although of k workers every k-th batch is late.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.idle.lanes import DeviceGaps
from traceanalyzer.passes.idle.pieces import Pieces
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.idle.totals import KeyedTotals
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import DeviceSteps, counted_steps, device_steps, run_on

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
OUTLIER_FACTOR = 1.5
"""An outlier is longer than this times the median."""
OUTLIER_NOISE = 6 * 1.4826
"""... or longer by this times the median absolute deviation (6 standard deviations) ..."""
OUTLIER_SHARE = 0.1
"""... and by this share of the median."""
LEAST_STEPS = 3
"""Of fewer counted steps none is an outlier."""
LEAST_IDLE = 0.05
"""The idle time of a pause exceeds the median by this share of the median step."""
BESIDE_OTHERS = 2
"""... and by this times what it does in any step that is no pause."""
ALIKE = 1.5
"""Two pauses are about as long where the longer one is so by no more than this factor."""
LEAST_PERIOD = 3
"""What comes in every second step is how the job works, and no pause in it."""
LEAST_IRREGULAR = 3
"""From so many on pauses recur although they are not regular, if they are in a third of the steps at most."""

UNKNOWN = "unknown"
"""Kind of a pause whose stack names none."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of a device that recurs.

    `steps` are the numbers of the longer steps, `first_steps` those in which a pause begins, one for each; every
    `period_steps`-th step has one, None where that is irregular. `excess_ns` is by how much the steps of a pause are
    longer than as many median steps, on average; `excess_ns_by_cause` the idle time among that, of all pauses together:
    by cause the time above the median of that cause in steps without pauses, in each step at most its excess.
    `n_counted` are the counted device steps, which costs per step are of.
    """

    device: DeviceOfCapture
    kind: str
    steps: tuple[int, ...]
    first_steps: tuple[int, ...]
    period_steps: int | None
    n_counted: int
    excess_ns: int
    excess_ns_by_cause: dict[Cause, int]
    blame: str | None
    stack: tuple[str, ...]

    @property
    def idle_ns(self) -> int:
        """Idle time that the pauses cost in all."""
        return sum(self.excess_ns_by_cause.values())

    @property
    def cost_ns(self) -> int:
        """Idle time that they cost a counted step on average."""
        return round(self.idle_ns / self.n_counted)


def outlying(lengths: Ints, counted: Flags) -> Flags:
    """Which of the device steps are outliers among the counted ones; `lengths` are of all steps."""
    mine = lengths[counted]
    if len(mine) < LEAST_STEPS:
        return np.zeros(len(lengths), np.bool_)
    middle = float(np.median(mine))
    noise = max(OUTLIER_NOISE * _deviation(mine), OUTLIER_SHARE * middle)
    longer: Flags = (lengths > OUTLIER_FACTOR * middle) | (lengths > middle + noise)
    return longer & counted


def paused(lengths: Ints, idle: Ints, counted: Flags) -> Flags:
    """Which of the device steps have a pause, by their lengths and idle times. Whether it recurs is not asked."""
    longer = outlying(lengths, counted)
    if not longer.any():
        return longer
    middle = float(np.median(idle[counted]))
    excess = idle - middle
    limit = max(LEAST_IDLE * float(np.median(lengths[counted])), OUTLIER_NOISE * _deviation(idle[counted]))
    found = longer & (excess > limit)
    # The longest pauses stand; a shorter one that other steps come close to is none, and then nor are those below it.
    while found.any():
        others = excess[counted & ~found].max(initial=0)
        close = found & (excess < BESIDE_OTHERS * others)
        if not close.any():
            break
        found &= ~(found & (excess <= excess[close].min()))
    return found


def _deviation(values: Ints) -> float:
    return float(np.median(np.abs(values - np.median(values))))


def recurring_pauses(scope: Scope, tree: StackTree, part: DeviceGaps) -> list[Pause]:
    """The recurring pauses of a device, the costliest first. `part` is of the device lane and of all steps.

    A pause that comes once is among them where the names in its stack say that it is of a kind that recurs. None where
    the work of neighbouring steps interleaves on the device: then a single device step says little.
    """
    steps = device_steps(part.ops)
    if len(steps) < LEAST_STEPS or run_on(part.ops, steps):
        return []
    found = _Found(scope, tree, part, steps)
    return found.recurring() if found.runs else []


class _Found:
    """The steps of a device with pauses, and what their idle time is made of."""

    def __init__(self, scope: Scope, tree: StackTree, part: DeviceGaps, steps: DeviceSteps) -> None:
        self._tree, self._part, self._number = tree, part, steps.step
        self._length = steps.end - steps.start
        self._counted = counted_steps(scope, part.ops, steps)
        order = np.argsort(steps.step)
        place = np.searchsorted(steps.step, part.step, sorter=order)
        self._place = order[np.minimum(place, len(steps) - 1)]
        self._stepped = steps.step[self._place] == part.step
        idle = np.zeros(len(steps), np.int64)
        np.add.at(idle, self._place[self._stepped], (part.end - part.start)[self._stepped])
        self._paused = paused(self._length, idle, self._counted)
        at = np.flatnonzero(self._paused)
        self.runs: list[Ints] = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1) if len(at) else []

    def recurring(self) -> list[Pause]:
        """Pauses with the same blame, or else cause, that recur."""
        self._sweep()
        groups: dict[str, list[Ints]] = {}
        for run in self.runs:
            groups.setdefault(self._key(self._subject(run)), []).append(run)
        first, last = self._number[np.flatnonzero(self._counted)[[0, -1]]].tolist()
        out = []
        for runs in groups.values():
            idle = [sum(sum(self._excess(k).values()) for k in run.tolist()) for run in runs]
            begins = [int(self._number[run[0]]) for run in runs]
            period = _period(begins, first, last)
            alike = len(runs) > 2 or max(idle) <= ALIKE * min(idle)
            often = len(runs) >= LEAST_IRREGULAR and len(runs) * LEAST_PERIOD <= self._counted.sum()
            if len(runs) > 1 and min(idle) > 0 and ((period is not None and alike) or often):
                out.append(self._pause(runs, begins, period))
            elif len(runs) == 1 and idle[0] > 0 and (once := self._pause(runs, begins, None)).kind != UNKNOWN:
                out.append(once)
        out = [pause for pause in out if not _is_of_loader(pause)]
        return sorted(out, key=lambda pause: (-pause.idle_ns, pause.steps))

    def _sweep(self) -> None:
        """Idle time of each step by cause and by subject, and of those with pauses by stack.

        Subjects are the frames that are blamed, and behind them the causes of what has no blame.
        """
        self._no_blame = len(self._tree.labels)
        n_steps = len(self._number)
        by_cause, by_subject, self._by_node = KeyedTotals(), KeyedTotals(), KeyedTotals()
        for chunk in self._part.pieces():
            pieces = chunk.take(self._stepped[chunk.gap])
            step, length = self._place[pieces.gap].astype(np.int64), pieces.length
            by_cause.add(pieces.cause.astype(np.int64) * n_steps + step, length)
            by_subject.add(self._subject_of(pieces) * n_steps + step, length)
            mine = np.flatnonzero(self._paused[step])
            self._by_node.add((pieces.node[mine].astype(np.int64) + 1) * n_steps + step[mine], length[mine])
        self._of_cause, self._of_subject = (_by_step(totals, self._paused) for totals in (by_cause, by_subject))
        self._rest = self._counted & ~self._paused

    def _subject_of(self, pieces: Pieces) -> Ints:
        blame = np.append(self._tree.blame_label(), -1)[pieces.node].astype(np.int64)
        subject: Ints = np.where(blame >= 0, blame, self._no_blame + pieces.cause.astype(np.int64))
        return subject

    def _above(self, idle: Ints, run: Ints) -> int:
        """By how much the idle time of steps exceeds the median of the steps without pauses."""
        return int(np.maximum(idle[run] - int(np.median(idle[self._rest])), 0).sum())

    def _subject(self, run: Ints) -> int:
        """What the idle time of a pause is charged to above all."""
        return max(self._of_subject, key=lambda subject: (self._above(self._of_subject[subject], run), -subject))

    def _key(self, subject: int) -> str:
        """What makes two pauses the same: samples of a function name whatever line of it ran."""
        if subject >= self._no_blame:
            return Cause(subject - self._no_blame).text
        return _LINE.sub("", self._tree.labels[subject].text)

    def _excess(self, step: int) -> dict[Cause, int]:
        """Idle time of a step by cause above the median of that cause, the largest first, in all its excess at most."""
        left = max(int(self._length[step]) - int(np.median(self._length[self._counted])), 0)
        above = {cause: self._above(idle, np.array([step])) for cause, idle in self._of_cause.items()}
        out = {}
        for cause, ns in sorted(above.items(), key=lambda item: (-item[1], item[0])):
            out[Cause(cause)] = min(ns, left)
            left -= out[Cause(cause)]
        return out

    def _pause(self, runs: Sequence[Ints], begins: list[int], period: int | None) -> Pause:
        steps = np.concatenate(runs)
        by_cause: dict[Cause, int] = {}
        for step in steps.tolist():
            for cause, ns in self._excess(step).items():
                by_cause[cause] = by_cause.get(cause, 0) + ns
        by_cause = {cause: ns for cause, ns in sorted(by_cause.items(), key=lambda item: (-item[1], item[0])) if ns}
        excess = int((self._length[steps] - int(np.median(self._length[self._counted]))).sum())
        node = self._stack(steps)
        stack = tuple(self._tree.frames(node))
        blame = self._tree.blame_text(node)
        return Pause(
            self._part.device,
            kind_of(max(by_cause, key=lambda cause: by_cause[cause]), blame, stack),
            tuple(self._number[steps].tolist()),
            tuple(begins),
            period,
            int(self._counted.sum()),
            round(excess / len(runs)),
            by_cause,
            blame,
            stack,
        )

    def _stack(self, steps: Ints) -> int:
        """The stack with most of the idle time of some steps, among those of their subject."""
        wanted, subject = set(steps.tolist()), self._subject(steps)
        label = np.append(self._tree.blame_label(), -1)
        sums: dict[int, int] = {}
        for key, idle, _ in self._by_node.rows():
            node, step = divmod(key, len(self._number))
            mine = int(label[node - 1]) == subject if subject < self._no_blame else int(label[node - 1]) < 0
            if step in wanted and mine:
                sums[node - 1] = sums.get(node - 1, 0) + idle
        return max(sums, key=lambda node: (sums[node], -node), default=-1)


def _is_of_loader(pause: Pause) -> bool:
    """Whether the pauses are those of a DataLoader that cannot keep up: of k workers every k-th batch is late."""
    return next(iter(pause.excess_ns_by_cause)) is Cause.INPUT_WAIT and pause.kind == UNKNOWN


_LINE = re.compile(r" \([^()]*:\d+\)$")


def _by_step(totals: KeyedTotals, among: Flags) -> dict[int, Ints]:
    """Totals that are keyed by a number and, inside of it, a step: of each number that occurs in some of the steps its
    time in all of them.
    """
    rows = np.array([row[:2] for row in totals.rows()], np.int64).reshape(-1, 2)
    number, step = np.divmod(rows[:, 0], len(among))
    out: dict[int, Ints] = {}
    for each in np.unique(number[among[step]]).tolist():
        mine = number == each
        out[each] = np.zeros(len(among), np.int64)
        out[each][step[mine]] = rows[mine, 1]
    return out


def _period(begins: Sequence[int], first: int, last: int) -> int | None:
    """Every how many steps a pause begins; None where that is not so from the first counted step to the last."""
    apart = set(np.diff(begins).tolist())
    if len(apart) != 1:
        return None
    period = int(apart.pop())
    whole = begins[0] - period < first and begins[-1] + period > last
    return period if whole and period >= LEAST_PERIOD else None


KINDS = (
    ("garbage_collection", re.compile(r"gc\.collect|garbage[ _]?collect|python gc\b", re.IGNORECASE)),
    ("checkpoint", re.compile(r"check_?point|ckpt|save_(?:state|model|pretrained|weights)|torch\.save", re.IGNORECASE)),
    ("evaluation", re.compile(r"(?<![a-z])(?:eval(?:uat\w+)?|validat\w+)(?![a-z])|(?<=[a-z])Eval(?:uat|\b)")),
    (
        "logging",
        re.compile(
            r"(?<![a-z])log(?:s|ger|ging)?(?:_(?:metrics?|steps?|loss|dict|scalars?|stats))?(?![a-z_])"
            r"|wandb|mlflow|add_scalar",
            re.IGNORECASE,
        ),
    ),
)
"""Kinds of pauses by names of functions and ranges."""
_RECOMPUTATION = re.compile(r"^(?:_?checkpoint(?:_without_reentrant\w*)?|forward|backward)? \(checkpoint\.py:")


def kind_of(cause: Cause, blame: str | None, stack: Sequence[str]) -> str:
    """What a pause is by its largest cause, else by the first name that tells: of the blame, then from the innermost
    frame of the stack on outwards. `unknown` where none does.
    """
    if cause is Cause.GARBAGE_COLLECTION:
        return "garbage_collection"
    for text in (*([blame] if blame else []), *reversed(stack)):
        name = _LINE.sub("", text)
        for kind, pattern in KINDS:
            # The recomputation of activations is called checkpointing as well, and is none.
            if pattern.search(name) and not _RECOMPUTATION.search(text):
                return kind
    return UNKNOWN
