"""What the idle time of a device adds up to: by cause and stack, by step, by thread, by blame.

Rates are of the counted device steps: without warm-up, and without a first step whose beginning was not recorded.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.idle.lanes import DeviceGaps
from traceanalyzer.passes.idle.lock_holders import LockHolders
from traceanalyzer.passes.idle.pieces import Pieces
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.idle.totals import IdleTotals, KeyedTotals, LargestPieces
from traceanalyzer.passes.operations import NULL
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import counted_steps, device_steps

Ints = NDArray[np.int64]
NO_BLAME = -1
_THREAD_NAME = re.compile(r"thread \d+ \(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class Blamed:
    """Idle time that one frame of the user's code owns (None: no such frame), on one device.

    `causes` and `threads` are its parts by cause and by launching thread (-1: none), `steps` its idle time in each
    counted step in which it has any.
    """

    blame: str | None
    idle_ns: int
    gain_ns: int | None
    n_pieces: int
    causes: dict[int, int]
    threads: dict[int, int]
    steps: Ints


@dataclass(frozen=True, slots=True)
class Refilled:
    """Refill of a device, per counted step where there are steps: its time, and the blocking calls that drained it.

    `call` is the stack of the call that costs most.
    """

    cost_ns: float
    calls: float
    call: int


class DeviceAccount:
    """Sums over the pieces of a device; those of stacks that `--under` leaves out are not counted."""

    def __init__(self, scope: Scope, tree: StackTree, part: DeviceGaps) -> None:
        self._tree, self._under = tree, scope.selection.under
        self.device, self.part = part.device, part
        # Subjects are the frames that are blamed, and behind them the causes of what has no blame.
        self._no_blame = len(tree.labels)
        self._n_subjects = self._no_blame + len(Cause)
        self.threads = part.attribution.gaps.threads
        self.steps, self._step_of_gap = np.unique(part.step, return_inverse=True)
        self._thread_of_gap = part.thread_numbers()
        steps = device_steps(part.ops)
        lengths = steps.end - steps.start
        counted = counted_steps(scope, part.ops, steps)
        self.counted = np.isin(self.steps, steps.step[counted]) & (self.steps != NULL)
        self.n_steps = int(counted.sum())
        self.step_ns = int(lengths[counted].sum()) // self.n_steps if self.n_steps > 0 else None
        self.largest = LargestPieces(len(part.start))
        self._touched = np.full(len(part.start), self._under is None)
        self.all, self._rates = IdleTotals(), IdleTotals()
        self._by_step, self._by_thread, self._by_subject_step = KeyedTotals(), KeyedTotals(), KeyedTotals()
        self._by_subject_thread, self._by_waiting, self._by_call = KeyedTotals(), KeyedTotals(), KeyedTotals()
        self.lock = LockHolders(scope, tree, part.device.capture)
        owners = [(owner.process, owner.thread) for owner in self.threads] + [(-1, -1)]
        self._owner_process, self._owner_thread = (np.array([owner[k] for owner in owners], np.int64) for k in (0, 1))
        for pieces in part.pieces():
            self._add(pieces)

    def touched_gaps(self) -> Ints:
        """Numbers of the gaps that hold something which is counted."""
        return np.flatnonzero(self._touched)

    def _add(self, pieces: Pieces) -> None:
        self.largest.add(pieces)
        if self._under is not None:
            pieces = pieces.take(np.append(self._tree.under(self._under), False)[pieces.node])
            self._touched[pieces.gap] = True
        step, thread = self._step_of_gap[pieces.gap], self._thread_of_gap[pieces.gap].astype(np.int64) + 1
        counted = self.counted[step] if len(self.counted) else np.zeros(len(pieces), bool)
        self.all.add(pieces)
        self._rates.add(pieces if counted.all() else pieces.take(counted))
        blame = np.append(self._tree.blame_label(), NO_BLAME)[pieces.node].astype(np.int64)
        subject = np.where(blame >= 0, blame, self._no_blame + pieces.cause.astype(np.int64))
        length = pieces.length
        self._by_step.add(step, length)
        self._by_thread.add(thread, length)
        self._by_subject_thread.add(subject * (len(self.threads) + 1) + thread, length)
        self._by_subject_step.add(step * self._n_subjects + subject, length)
        self._add_waiting(pieces, thread - 1, blame < 0)
        refill = np.flatnonzero(pieces.refill & (counted | (self.n_steps <= 0)))
        if len(refill) and self.part.of_device:
            call = self.part.attribution.refill.call[pieces.gap[refill]]
            self._by_call.add(call.astype(np.int64) + 1, length[refill])
        self.lock.add(pieces, self._owner_process[thread - 1], self._owner_thread[thread - 1])

    def _add_waiting(self, pieces: Pieces, thread: Ints, blameless: NDArray[np.bool_]) -> None:
        """Of what no code of the user owns: for whom it was done."""
        label = np.append(self._tree.blame_label(), NO_BLAME)
        for number, owner in enumerate(self.part.attribution.threads):
            mine = np.flatnonzero(blameless & (thread == number)) if owner.waiting else ()
            if len(mine):
                waiting = owner.waiting.node.at_instants(pieces.start[mine])
                self._by_waiting.add(label[waiting].astype(np.int64) + 1, pieces.length[mine])

    @property
    def idle_ns(self) -> int:
        """Idle time that was counted."""
        return sum(idle for *_, idle, _ in self.all.groups())

    @property
    def place(self) -> tuple[int, int | None, int]:
        """Capture, rank and device."""
        return self.device.capture, self.device.rank, self.device.device

    def gain(self, counted_ns: int) -> int | None:
        """Idle time in counted steps as time a step; None without steps."""
        return round(counted_ns / self.n_steps) if self.n_steps > 0 else None

    def gains(self) -> dict[tuple[int, int, int], int]:
        """Idle time in counted steps by cause, reason and stack."""
        return {(cause, reason, node): idle for cause, reason, node, idle, _ in self._rates.groups()}

    @property
    def span_ns(self) -> int:
        """From the first operation to the last one's end."""
        low, high = self.part.ops.span
        return high - low

    def text(self, node: int) -> str | None:
        """The innermost frame of a stack."""
        return self._tree.text(node)

    def blame_text(self, node: int) -> str | None:
        """The frame of the user's own code on a stack."""
        return self._tree.blame_text(node)

    def refilled(self) -> Refilled | None:
        """What synchronisations cost after they returned; None where that is nothing, or not looked at."""
        by_call = {key - 1: idle for key, idle, _ in self._by_call.rows()}
        if not by_call:
            return None
        among = self.counted[self._step_of_gap] if self.n_steps > 0 else None
        n_calls = self.part.attribution.refill.n_calls(among)
        each = max(self.n_steps, 1)
        call = max(by_call, key=lambda node: (by_call[node], -node))
        return Refilled(sum(by_call.values()) / each, n_calls / each, call)

    def mostly_in(self, cause: int) -> str | None:
        """The range that holds most of what has a cause and no blame, if it holds half of it: its innermost one."""
        tree, label = self._tree, np.append(self._tree.blame_label(), NO_BLAME)
        sums: dict[int, int] = {}
        total = 0
        for of_cause, _reason, node, idle, _count in self.all.groups():
            if of_cause != cause or label[node] >= 0:
                continue
            total += idle
            inner = int(tree.innermost_range[node]) if node >= 0 else -1
            name = int(tree.label[inner]) if inner >= 0 else -1
            sums[name] = sums.get(name, 0) + idle
        most = max(sums, key=lambda name: (sums[name], -name), default=-1)
        return tree.labels[most].text if most >= 0 and 2 * sums[most] >= total else None

    def waiting_blame(self, least_ns: float) -> str | None:
        """The blame of the thread that waits inside `backward` for most of what no code of the user owns.

        None where that is less than `least_ns`.
        """
        found = {key: idle for key, idle, _ in self._by_waiting.rows() if key > 0 and idle >= least_ns}
        return self._tree.labels[max(found, key=lambda k: (found[k], -k)) - 1].text if found else None

    def by_step(self) -> list[tuple[int | None, int, int]]:
        """(step, idle, pieces); None outside of all steps."""
        return [(_or_none(int(self.steps[k])), idle, count) for k, idle, count in self._by_step.rows()]

    def by_thread(self) -> list[tuple[int, int, int]]:
        """(number of the launching thread, -1 for none; idle; pieces)."""
        return [(k - 1, idle, count) for k, idle, count in self._by_thread.rows()]

    def blamed(self) -> list[Blamed]:
        """Idle time by blame, the largest first; all that has none together."""
        return self._charged(lambda subject: min(subject, self._no_blame))

    def charged(self) -> list[Blamed]:
        """The same, but what has no blame apart by cause."""
        return self._charged(lambda subject: subject)

    def _charged(self, key_of: Callable[[int], int]) -> list[Blamed]:
        label = np.append(self._tree.blame_label(), NO_BLAME)

        def key(cause: int, node: int) -> int:
            own = int(label[node])
            return key_of(own if own >= 0 else self._no_blame + cause)

        sums: dict[int, list[int]] = {}
        causes: dict[int, dict[int, int]] = {}
        for cause, _reason, node, idle, count in self.all.groups():
            known = sums.setdefault(key(cause, node), [0, 0, 0])
            known[0] += idle
            known[1] += count
            of_cause = causes.setdefault(key(cause, node), {})
            of_cause[cause] = of_cause.get(cause, 0) + idle
        for cause, _reason, node, idle, _count in self._rates.groups():
            sums[key(cause, node)][2] += idle
        threads: dict[int, dict[int, int]] = {}
        for each, idle, _ in self._by_subject_thread.rows():
            subject, thread = divmod(each, len(self.threads) + 1)
            of_thread = threads.setdefault(key_of(subject), {})
            of_thread[thread - 1] = of_thread.get(thread - 1, 0) + idle
        steps: dict[int, dict[int, int]] = {}
        for each, idle, _ in self._by_subject_step.rows():
            step, subject = divmod(each, self._n_subjects)
            if self.counted[step]:
                of_step = steps.setdefault(key_of(subject), {})
                of_step[step] = of_step.get(step, 0) + idle
        out = [
            Blamed(
                None if each >= self._no_blame else self._tree.labels[each].text,
                idle,
                self.gain(counted),
                count,
                causes[each],
                threads.get(each, {}),
                np.array(list(steps.get(each, {}).values()), np.int64),
            )
            for each, (idle, count, counted) in sums.items()
        ]
        return sorted(out, key=lambda b: (-b.idle_ns, b.blame or "", min(b.causes)))


def _or_none(step: int) -> int | None:
    return None if step == NULL else step


def thread_text(account: DeviceAccount, number: int, names: dict[tuple[int, int], str]) -> str:
    """A launching thread in words."""
    if number < 0:
        return "no thread: the launch is not in the file"
    owner = account.threads[number]
    if owner.thread == owner.process:
        return "the main thread"
    name = _THREAD_NAME.sub(r"\1", names.get((owner.process, owner.thread), ""))
    return f"thread {owner.thread}" + (f" ({name})" if name else "")


def thread_names(scope: Scope, device: DeviceOfCapture) -> dict[tuple[int, int], str]:
    """Names of the threads of a capture, where they have some."""
    rows = scope.connection.execute(
        """SELECT t.process, t.thread, n.text FROM stored.threads t JOIN stored.names n ON n.name_id = t.name
        WHERE t.capture = ?""",
        [device.capture],
    ).fetchall()
    return {(process, thread): text for process, thread, text in rows}
