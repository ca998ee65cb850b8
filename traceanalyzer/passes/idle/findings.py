"""What is worth saying of idle time, in sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.idle.accounts import Blamed, DeviceAccount, thread_text
from traceanalyzer.passes.idle.backward import records_frames, records_stacks
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import Lane

BUSY_SHARE = 0.02
"""Idle time up to this share of the span is nothing to speak of."""
HIDDEN_SHARE = 0.5
"""A device on which compute kernels run for less than this share of the span is not kept busy by copies."""
CALLS_A_STEP = 2
"""A step may synchronise this often before it is worth saying that it does."""
MOST_SENTENCES = 3
"""Sentences about what idle time is charged to."""

WORDS = {
    Cause.INPUT_WAIT: "waiting for input",
    Cause.SYNC: "waiting for the device (synchronisation)",
    Cause.HOST_COPY: "copying pageable memory",
    Cause.MEMORY_MANAGEMENT: "allocating or freeing memory",
    Cause.MODULE_LOAD: "loading or compiling code",
    Cause.LAUNCH_CALL: "launching operations",
    Cause.API_CALL: "calls of the runtime or driver",
    Cause.FRAMEWORK: "operators of the framework",
    Cause.PYTHON: "Python",
    Cause.RANGE: "nothing deeper recorded",
    Cause.GIL_WAIT: "waiting for the interpreter lock",
    Cause.GARBAGE_COLLECTION: "garbage collection",
    Cause.OS_BLOCKED: "blocked in the operating system",
    Cause.HOST_COMMUNICATION: "communication on the host",
    Cause.PROFILER: "the profiler's own work",
    Cause.LAUNCH_LATENCY: "launches on their way to the device",
    Cause.DEVICE_GAP: "pauses of the device between queued operations",
    Cause.DEVICE_WAIT: "waits inside the device",
    Cause.OUTSIDE_EVENTS: "no events recorded",
    Cause.UNATTRIBUTED: "launches that are not in the file",
    Cause.COMMUNICATION_ONLY: "communication that nothing hides",
    Cause.COPY_ONLY: "copies that nothing hides",
}
"""Causes as they stand in sentences."""
_REST = {
    Cause.OUTSIDE_EVENTS: "no events recorded on the launching thread",
    Cause.UNATTRIBUTED: "launches that are not in the file",
}
"""Causes that are no answer, and what they are."""
_OBSERVED = frozenset({Cause.PYTHON, Cause.FRAMEWORK, Cause.LAUNCH_CALL, Cause.API_CALL})


@dataclass(frozen=True, slots=True)
class _Costly:
    """A sentence about what one frame, or where there is none one cause, costs on one device."""

    share: float
    subject: str
    device: int
    finding: Finding


class IdleFindings:
    """Gathers sentences device by device; the costliest come first, one a frame."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._costly: list[_Costly] = []
        self._others: list[Finding] = []
        self._refills: list[Finding] = []
        self._devices: list[str] = []
        self._per_step: set[bool] = set()
        self._without_stacks: list[str] = []
        self._sources: set[str] = set()
        self._costs: list[dict[str, int]] = []

    def sentences(self) -> list[Finding]:
        """What to say."""
        said: dict[str, Finding] = {}
        for costly in sorted(self._costly, key=lambda c: -c.share):
            if costly.subject not in said and len(said) < MOST_SENTENCES:
                said[costly.subject] = replace(costly.finding, text=costly.finding.text + self._elsewhere(costly))
        return [*said.values(), *self._refills, *self._no_stacks(), *self._others]

    def _no_stacks(self) -> list[Finding]:
        """Says that no code can be named, where that would help."""
        if not self._without_stacks:
            return []
        how = " or ".join(f"`traceanalyzer howto {source}`" for source in sorted(self._sources))
        text = (
            f"no Python stacks were recorded on {_listed(self._without_stacks)}, so that no line of code can be named,"
            f" only ranges and operators; {how} says how to record them"
        )
        return [Finding("no_stacks", text)]

    def _elsewhere(self, costly: _Costly) -> str:
        """What the same costs on the other devices."""
        others = [k for k in range(len(self._devices)) if k != costly.device]
        if not others or len(self._per_step) > 1:
            return ""
        costs = sorted(self._costs[k].get(costly.subject, 0) / 1e6 for k in others)
        where = self._devices[others[0]] if len(others) == 1 else f"the other {len(others)} {self._kind()}"
        if not costs[-1]:
            return f"; none on {where}"
        low, high = f"{costs[0]:,.1f}", f"{costs[-1]:,.1f}"
        return f"; {low} ms on {where}" if low == high else f"; {low} to {high} ms on {where}"

    def _kind(self) -> str:
        return (
            "ranks" if all(device.startswith("rank ") and "," not in device for device in self._devices) else "devices"
        )

    def add(self, account: DeviceAccount, names: dict[tuple[int, int], str]) -> None:
        """Looks at a device."""
        low, high = account.part.ops.span
        span, idle = high - low, account.part.idle_ns
        if not span:
            return
        where, rank = self._where(account), account.device.rank
        everything = account.charged()
        self._devices.append(where)
        self._per_step.add(account.n_steps > 0)
        self._costs.append(_costs(everything))
        if idle <= BUSY_SHARE * span:
            text = f"{where} is idle for {100 * idle / span:.2f} % of its span: it is kept busy"
            compute = account.part.ops.lane_ns(Lane.COMPUTE)
            if compute < HIDDEN_SHARE * span:
                text = (
                    f"on {where} something runs all the time but for {100 * idle / span:.2f} % of its span, yet compute"
                    f" kernels only for {100 * compute / span:.1f} % of it: --lane compute says what they wait for"
                )
            if self._scope.selection.lane == "compute":
                text = f"{where}: compute kernels run all the time but for {100 * idle / span:.2f} % of the span"
            self._others.append(Finding("device_busy", text, rank, idle))
            return
        for blamed in everything:
            share = _share(account, blamed)
            if share >= BUSY_SHARE:
                self._without(account, where)
                finding = Finding(self._code(blamed), self._sentence(account, blamed, names), rank, blamed.idle_ns)
                self._costly.append(_Costly(share, _subject(blamed), len(self._devices) - 1, finding))
        self._refills += self._refill(account, where)
        self._others += self._uncounted(account, where, span)
        self._others += self._lock(account, where, span)
        self._others += self._profiler(account, where, span)
        self._others += self._rest(account, where, idle)
        self._others += self._observer(account, where, idle)

    def _without(self, account: DeviceAccount, where: str) -> None:
        """Notes a device whose idle time has no line of code because no stacks were recorded."""
        device = account.device
        if where not in self._without_stacks and not records_stacks(self._scope, device.capture):
            self._without_stacks.append(where)
            self._sources.add(device.source)

    def _where(self, account: DeviceAccount) -> str:
        device, several = account.device, len(self._scope.devices) > len({d.rank for d in self._scope.devices})
        if device.rank is None:
            return f"device {device.device}"
        return f"rank {device.rank}, device {device.device}" if several else f"rank {device.rank}"

    def _code(self, blamed: Blamed) -> str:
        return f"idle_{Cause(_largest(blamed.causes)).text}"

    def _sentence(self, account: DeviceAccount, blamed: Blamed, names: dict[tuple[int, int], str]) -> str:
        where = self._where(account)
        cause = Cause(_largest(blamed.causes))
        share, whole = _share(account, blamed), "its span"
        if blamed.gain_ns is not None:
            whole = "the step"
            per_step = account.gain(sum(account.gains().values())) or 0
            amount = f"{blamed.gain_ns / 1e6:,.1f} ms of {per_step / 1e6:,.1f} ms idle per step on {where}"
            steps = blamed.steps
            spread = f"; in {len(steps)} of {account.n_steps} steps"
            if len(steps) > 1:
                spread += f" ({steps.min() / 1e6:,.1f} to {steps.max() / 1e6:,.1f} ms)"
        else:
            idle = account.idle_ns
            amount, spread = f"{blamed.idle_ns / 1e6:,.1f} ms of {idle / 1e6:,.1f} ms idle on {where}", ""
        thread = _largest(blamed.threads) if blamed.threads else -1
        who = f"{blamed.blame}, {WORDS[cause]}" if blamed.blame else self._blameless(account, blamed, cause)
        on = f" on {thread_text(account, thread, names)}" if thread >= 0 else ""
        rest = [f"{100 * ns / blamed.idle_ns:.0f} % {Cause(c).text}" for c, ns in _sorted(blamed.causes) if c != cause]
        also = f"; also {', '.join(rest[:2])}" if rest and blamed.causes[cause] < 0.9 * blamed.idle_ns else ""
        return f"{amount} ({100 * share:.1f} % of {whole}): {who}{on}{spread}{also}"

    def _blameless(self, account: DeviceAccount, blamed: Blamed, cause: Cause) -> str:
        """What idle time is that no code of the user owns."""
        if within := account.mostly_in(cause):
            who = f"{WORDS[cause]}, in {within}"
        elif cause in _REST or self._where(account) in self._without_stacks:
            who = WORDS[cause]
        else:
            who = f"{WORDS[cause]}, outside of code of yours"
        waiting = account.waiting_blame(0.5 * blamed.idle_ns)
        return f"{who} ({waiting} waits for it in a backward pass)" if waiting else who

    def _refill(self, account: DeviceAccount, where: str) -> list[Finding]:
        """What synchronising calls cost after they returned, where there are more than a step can do without."""
        found = account.refilled()
        whole, each = (account.step_ns, "per step ") if account.n_steps > 0 else (account.span_ns, "")
        if found is None or not whole or found.calls <= CALLS_A_STEP or found.cost_ns < BUSY_SHARE * whole:
            return []
        blame = account.blame_text(found.call)
        text = (
            f"{found.cost_ns / 1e6:,.1f} ms of this {each}on {where} ({100 * found.cost_ns / whole:.1f} %) is refill:"
            f" {found.calls:,.0f} calls{' a step' if each else ''} wait until the device is empty, and launches begin"
            f" anew after each; mostly {account.text(found.call)}{f' in {blame}' if blame else ''}"
        )
        return [Finding("refill", text, account.device.rank, round(found.cost_ns))]

    def _uncounted(self, account: DeviceAccount, where: str, span: int) -> list[Finding]:
        """Idle time that no cost of a step holds."""
        if account.n_steps <= 0:
            return []
        ns = account.idle_ns - sum(account.gains().values())
        if ns < BUSY_SHARE * span:
            return []
        text = (
            f"{ns / 1e6:,.1f} ms idle on {where} lie outside of the {account.n_steps} steps that count: in warm-up, in"
            " a first step whose beginning was not recorded, or outside of all steps"
        )
        return [Finding("idle_outside_steps", text, account.device.rank, ns)]

    def _of_causes(self, account: DeviceAccount) -> dict[int, int]:
        sums: dict[int, int] = {}
        for cause, _reason, _node, idle, _count in account.all.groups():
            sums[cause] = sums.get(cause, 0) + idle
        return sums

    def _lock(self, account: DeviceAccount, where: str, span: int) -> list[Finding]:
        """Who holds the interpreter lock that launches wait for."""
        rows = account.lock.rows()
        if account.lock.waited_ns < BUSY_SHARE * span or not rows:
            return []
        process, thread, _, _ = rows[0]
        own = [row for row in rows if row[:2] == (process, thread)]
        held = sum(row[3] for row in own)
        blame = next((row[2] for row in own if row[2]), None)
        text = (
            f"while launches for {where} wait for the interpreter lock ({account.lock.waited_ns / 1e6:,.1f} ms idle),"
            f" thread {thread} holds it for {100 * held / account.lock.waited_ns:.0f} % of the time"
        )
        text += f", in {blame}" if blame else "; samples of Python stacks would tell in which code"
        return [Finding("lock_holder", text, account.device.rank, held)]

    def _profiler(self, account: DeviceAccount, where: str, span: int) -> list[Finding]:
        own = self._of_causes(account).get(int(Cause.PROFILER), 0)
        if own < BUSY_SHARE * span:
            return []
        text = f"{own / 1e6:,.1f} ms idle on {where} are the profiler's own work: without it they are not there"
        return [Finding("idle_profiler", text, account.device.rank, own)]

    def _rest(self, account: DeviceAccount, where: str, idle: int) -> list[Finding]:
        out = []
        causes = self._of_causes(account)
        for cause, meaning in _REST.items():
            ns = causes.get(int(cause), 0)
            if ns >= 0.01 * idle:
                text = f"{100 * ns / idle:.0f} % of the idle time of {where} is {cause.text}: {meaning}"
                out.append(Finding(cause.text, text, account.device.rank, ns))
        return out

    def _observer(self, account: DeviceAccount, where: str, idle: int) -> list[Finding]:
        """Recording Python frames slows Python and what it calls down; how much, only a capture without them tells."""
        causes = self._of_causes(account)
        host = sum(ns for cause, ns in causes.items() if cause in _OBSERVED)
        if host < 0.5 * idle or not records_frames(self._scope, account.device.capture):
            return []
        text = (
            f"{100 * host / idle:.0f} % of the idle time of {where} is the host between launches, and Python frames"
            " were recorded, which slows the host: a capture without stacks tells how much of it is real"
        )
        return [Finding("observer_effect", text, account.device.rank, None)]


def _listed(places: Sequence[str]) -> str:
    return places[0] if len(places) == 1 else f"{', '.join(places[:-1])} and {places[-1]}"


def _subject(blamed: Blamed) -> str:
    return blamed.blame or Cause(_largest(blamed.causes)).text


def _costs(everything: Sequence[Blamed]) -> dict[str, int]:
    """Cost of each subject, per step where there are steps."""
    costs: dict[str, int] = {}
    for blamed in everything:
        cost = blamed.idle_ns if blamed.gain_ns is None else blamed.gain_ns
        costs[_subject(blamed)] = costs.get(_subject(blamed), 0) + cost
    return costs


def _share(account: DeviceAccount, blamed: Blamed) -> float:
    """What blamed idle time is of a counted step; of the span where there are no steps."""
    if blamed.gain_ns is not None and account.step_ns:
        return blamed.gain_ns / account.step_ns
    low, high = account.part.ops.span
    return blamed.idle_ns / (high - low)


def _largest(parts: dict[int, int]) -> int:
    return max(parts.items(), key=lambda item: (item[1], -item[0]))[0]


def _sorted(parts: dict[int, int]) -> list[tuple[int, int]]:
    return sorted(parts.items(), key=lambda item: (-item[1], item[0]))
