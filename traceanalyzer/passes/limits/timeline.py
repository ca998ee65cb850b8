"""Kernels of a timeline: what limits each, from ncu, sampled metrics or estimates, and the gap before it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.chosen import Chosen
from traceanalyzer.passes.limits.activity import used
from traceanalyzer.passes.limits.estimates import Estimates, Ideal, limit_of_estimate
from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.limits.kernel_families import family_of, tensor_cores
from traceanalyzer.passes.limits.limit import LEAST_TENSOR_PCT, Limit, Limited, LimitSource, by_use
from traceanalyzer.passes.limits.matching import MatchedBy, Profiles
from traceanalyzer.passes.limits.profiled import ProfiledLaunch
from traceanalyzer.passes.limits.sampled import activity_of, alone, is_activity, load_series
from traceanalyzer.passes.operations import NULL, Ints, Operations, load_operations
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import device_steps, selected, with_steps
from traceanalyzer.schema.kinds import Lane, OpKind
from traceanalyzer.units import counted


@dataclass(slots=True)
class Use:
    """How much of compute and of memory kernels use, in percent, and what limits them, by one source.

    `ns` is the time of the kernels that it speaks of, and `in_limit_ns` the part of it that is limited so, where that
    is not all of it. `tensor_pct` is null where the source does not measure it.
    """

    source: LimitSource
    ns: int
    limited: Limited
    compute_pct: float | None = None
    memory_pct: float | None = None
    tensor_pct: float | None = None
    compute: str = "compute"
    ideal: Ideal | None = None
    note: str = ""
    in_limit_ns: float | None = None

    @property
    def limit_ns(self) -> float:
        """Time of the kernels that the limit is of."""
        return self.ns if self.in_limit_ns is None else self.in_limit_ns


@dataclass(slots=True)
class KernelOnTimeline:
    """A kernel of a device by its name: its time, what limits it, and how long the device was idle before it."""

    name: str
    calls: int
    ns: int
    family: Family
    uses: list[Use]
    gap_before_ns: int
    step_share: float | None
    is_communication: bool

    @property
    def use(self) -> Use | None:
        """What the best source says that knows a limit; else the best one that says why there is none."""
        return next((u for u in self.uses if u.limited.limit is not None), self.uses[0] if self.uses else None)

    @property
    def tensor_cores(self) -> tuple[bool | None, str]:
        """Whether tensor cores are used, and what tells it: a measurement, else the name."""
        measured = next((u for u in self.uses if u.tensor_pct is not None), None)
        if measured is not None and measured.tensor_pct is not None:
            active = measured.tensor_pct >= LEAST_TENSOR_PCT and tensor_cores(self.name, self.family)[0] is not False
            return active, f"{measured.source.value}: tensor pipe {measured.tensor_pct:.0f} %"
        return tensor_cores(self.name, self.family)


class TimelineKernels:
    """The kernels of a device with what limits them; `profiles` are launches that ncu profiled of the same run.

    `ops` are all operations in the window, `chosen` tells which of them are kernels of the selected steps, and
    `gaps_before` how long the device was idle directly before each.
    """

    def __init__(
        self, scope: Scope, device: DeviceOfCapture, chosen: Chosen, profiles: Profiles, estimates: Estimates
    ) -> None:
        ops = with_steps(scope, load_operations(scope, device, launched=scope.selection.step_range is not None))
        kernel = (ops.kind == int(OpKind.KERNEL)) & _in_steps(scope, ops)
        self.ops, self.chosen, self.gaps_before = ops, kernel, _gaps_before(ops)
        names = np.unique(ops.name[kernel])
        texts = scope.texts(names.tolist())
        row = np.searchsorted(names, ops.name[kernel])
        lengths = ops.end - ops.start
        calls_of, ns_of, gap_of = (
            np.bincount(row, values, len(names)).astype(np.int64)
            for values in (np.ones(len(row)), lengths[kernel], self.gaps_before[kernel])
        )
        communication = set(np.unique(ops.name[kernel & (ops.lane == int(Lane.COMMUNICATION))]).tolist())
        steps = device_steps(ops)
        mine = selected(scope, steps)
        self.n_steps = int(mine.sum())
        in_steps = self._step_shares(ops, kernel, names, int((steps.end - steps.start)[mine].sum()))
        uses: dict[int, list[Use]] = defaultdict(list)
        for source in (
            _profiled(scope, chosen, texts, profiles),
            _sampled(scope, ops, kernel),
            {k: _estimated(ideal) for k, ideal in estimates.of_kernel.items()},
        ):
            for name, use in source.items():
                uses[name].append(use)
        self.kernels: dict[int, KernelOnTimeline] = {}
        for k, name in enumerate(names.tolist()):
            text = texts.get(name, "")
            calls, ns, gap = int(calls_of[k]), int(ns_of[k]), int(gap_of[k])
            family = Family.COMMUNICATION if name in communication else family_of(text)
            if family is Family.OTHER:
                family = estimates.family_of_kernel.get(name, family)
            self.kernels[name] = KernelOnTimeline(
                text, calls, ns, family, uses[name], gap, in_steps.get(name), name in communication
            )

    @staticmethod
    def _step_shares(ops: Operations, kernel: NDArray[np.bool_], names: Ints, whole: int) -> dict[int, float]:
        """Of each kernel the share of the selected device steps, `whole` ns, that those launched in them take."""
        if not whole:
            return {}
        mine = kernel & (ops.step != NULL)
        ns = np.bincount(np.searchsorted(names, ops.name[mine]), (ops.end - ops.start)[mine], len(names))
        return dict(zip(names.tolist(), (ns / whole).tolist(), strict=True))

    def known_by(self, source: LimitSource) -> int:
        """Time of kernels that a source speaks of."""
        uses = ((kernel, use) for kernel in self.kernels.values() for use in kernel.uses)
        return sum(min(use.ns, kernel.ns) for kernel, use in uses if use.source is source)

    @property
    def whole_ns(self) -> int:
        """Summed time of all kernels."""
        return sum(kernel.ns for kernel in self.kernels.values())


def _in_steps(scope: Scope, ops: Operations) -> NDArray[np.bool_]:
    if scope.selection.steps is None:
        return np.ones(len(ops), np.bool_)
    first, last = scope.selection.steps
    inside: NDArray[np.bool_] = (ops.step >= first) & (ops.step <= last)
    return inside


def _gaps_before(ops: Operations) -> Ints:
    """Of each operation how long the device was idle directly before it."""
    start, end = ops.gaps()
    out = np.zeros(len(ops), np.int64)
    # Of several operations that start together the first one ends the gap, as it does where gaps are charged.
    out[np.searchsorted(ops.start, end, side="left")] = end - start
    return out


def _profiled(scope: Scope, chosen: Chosen, texts: dict[int, str], profiles: Profiles) -> dict[int, Use]:
    """What ncu says of kernels, each geometry with its time."""
    if not profiles:
        return {}
    size = "CASE WHEN {0}_x IS NULL THEN NULL ELSE '(' || {0}_x || ', ' || {0}_y || ', ' || {0}_z || ')' END"
    rows = scope.connection.execute(
        f"""SELECT name::INTEGER, {size.format("grid")} AS grid, {size.format("block")} AS block,
            sum(end_ns - start_ns)::BIGINT
        FROM ({chosen.sql}) WHERE kind = {int(OpKind.KERNEL)} AND name IS NOT NULL GROUP BY ALL ORDER BY 1, 4 DESC""",
        chosen.parameters,
    ).fetchall()
    found: dict[int, list[tuple[int, list[ProfiledLaunch], MatchedBy]]] = defaultdict(list)
    for name, grid, block, ns in rows:
        if (match := profiles.of(texts.get(name, ""), (grid, block))) is not None:
            found[name].append((ns, match.launches, match.by))
    return {name: _of_launches(parts) for name, parts in found.items()}


def _of_launches(parts: Sequence[tuple[int, list[ProfiledLaunch], MatchedBy]]) -> Use:
    """One kernel by its profiled launches: the limit that most of its time has, and means weighted by that time."""
    times: dict[str | None, float] = defaultdict(float)
    example: dict[str | None, ProfiledLaunch] = {}
    for ns, launches, _ in parts:
        profiled = sum(launch["duration_ns"] or 1 for launch in launches)
        for launch in sorted(launches, key=lambda each: -(each["duration_ns"] or 0)):
            times[launch["class"]] += ns * (launch["duration_ns"] or 1) / profiled
            example.setdefault(launch["class"], launch)
    most = max(times, key=lambda kind: (times[kind], kind or ""))
    whole = sum(ns for ns, _, _ in parts)
    reason = str(example[most]["reason"])
    if len(times) > 1:
        reason += f" ({100 * times[most] / whole:.0f} % of its profiled time)"
    by = {matched for _, _, matched in parts}
    loose = [] if by == {MatchedBy.GEOMETRY} else ["matched by " + ", ".join(sorted(b.value for b in by))]
    compute, memory, tensor = (_mean(parts, name) for name in ("compute_pct", "memory_pct", "tensor_pct"))
    limit = None if most is None else Limit(most)
    return Use(
        LimitSource.NCU,
        whole,
        Limited(limit, reason),
        compute,
        memory,
        tensor,
        note="; ".join(loose),
        in_limit_ns=times[most],
    )


def _mean(parts: Sequence[tuple[int, list[ProfiledLaunch], MatchedBy]], column: str) -> float | None:
    known = [
        (ns, sum(values) / len(values))
        for ns, launches, _ in parts
        if (values := [launch[column] for launch in launches if launch[column] is not None])
    ]
    weight = sum(ns for ns, _ in known)
    return sum(ns * value for ns, value in known) / weight if weight else None


def _sampled(scope: Scope, ops: Operations, kernel: NDArray[np.bool_]) -> dict[int, Use]:
    """What samples say of kernels: those during which one kernel ran, and nothing else."""
    means: dict[int, dict[str, float | None]] = defaultdict(dict)
    counts: dict[int, int] = defaultdict(int)
    seen: dict[int, set[int]] = defaultdict(set)
    for series in load_series(scope, ops.device.capture, ops.device.device, is_activity):
        if series.unit != "%":
            continue
        samples, op = alone(series.times, ops.start, ops.end)
        good = kernel[op] & ~np.isnan(series.value[samples])
        samples, op = samples[good], op[good]
        name = ops.name[op]
        for one in np.unique(name).tolist():
            mine = samples[name == one]
            means[one][series.metric] = float(series.value[mine].mean())
            counts[one] = max(counts[one], len(mine))
            seen[one].update(op[name == one].tolist())
    out = {}
    for one, found in means.items():
        activity = activity_of(found)
        calls = np.array(sorted(seen[one]), np.intp)
        ns = int((ops.end - ops.start)[calls].sum())
        if (both := used(activity)) is not None:
            compute_pct, memory_pct, compute = both
            limited = by_use(compute_pct, memory_pct, compute, "DRAM read and write")
            out[one] = Use(
                *(LimitSource.GPU_METRICS, ns, limited, compute_pct, memory_pct, activity.tensor_pct),
                compute=compute,
                note=counted(counts[one], "sample"),
            )
    return out


def _estimated(ideal: Ideal) -> Use:
    compute, memory = ideal.compute_share, ideal.memory_share
    return Use(
        LimitSource.ESTIMATED,
        ideal.ns,
        limit_of_estimate(ideal),
        None if compute is None else 100 * compute,
        None if memory is None else 100 * memory,
        ideal=ideal,
    )


def together(kernels: Sequence[KernelOnTimeline]) -> Use | None:
    """What limits several kernels as one: by the source that knows most of their time, each with its time."""
    by_source: dict[LimitSource, list[tuple[int, Use]]] = defaultdict(list)
    kernels = [kernel for kernel in kernels if not kernel.is_communication]
    for kernel in kernels:
        for use in kernel.uses:
            if use.compute_pct is not None and use.memory_pct is not None:
                by_source[use.source].append((kernel.ns, use))
    if not by_source:
        return None
    best = list(LimitSource)
    source = max(by_source, key=lambda s: (sum(ns for ns, _ in by_source[s]), -best.index(s)))
    parts = by_source[source]
    found = _together(source, parts)
    every, known = sum(kernel.ns for kernel in kernels), sum(ns for ns, _ in parts)
    if 2 * known < every:
        found.limited = Limited(None, f"{found.limited.reason}; known of {100 * known / every:.0f} % of its time only")
    elif known < every:
        reason = f"{found.limited.reason}; known of {100 * known / every:.0f} % of its time"
        found.limited = Limited(found.limited.limit, reason)
    return found


def _together(source: LimitSource, parts: list[tuple[int, Use]]) -> Use:
    if source is LimitSource.ESTIMATED:
        ideal = Ideal()
        for _, use in parts:
            ideal.add(use.ideal or Ideal())
        return _estimated(ideal)
    whole = sum(ns for ns, _ in parts)
    compute, memory = (
        sum(ns * (getattr(use, name) or 0.0) for ns, use in parts) / max(whole, 1)
        for name in ("compute_pct", "memory_pct")
    )
    if source is LimitSource.NCU:
        return Use(source, whole, _most_of(parts, whole, compute, memory), compute, memory)
    units = {use.compute for _, use in parts}
    unit = units.pop() if len(units) == 1 else "compute"
    return Use(source, whole, by_use(compute, memory, unit, "DRAM read and write"), compute, memory)


def _most_of(parts: Sequence[tuple[int, Use]], whole: int, compute: float, memory: float) -> Limited:
    """The limit of most of the time: ncu knows more of each kernel than its use of compute and memory."""
    times: dict[Limit | None, int] = defaultdict(int)
    for ns, use in parts:
        times[use.limited.limit] += ns
    mean = f"in the mean compute {compute:.0f} % and memory {memory:.0f} %"
    most = max(times, key=lambda limit: (times[limit], limit or ""))
    if 2 * times[most] > whole:
        share = "all" if times[most] == whole else f"{100 * times[most] / whole:.0f} %"
        return Limited(most, f"{share} of its time; {mean}")
    parted = sorted(times.items(), key=lambda item: (-item[1], item[0] or ""))
    words = ", ".join(f"{100 * ns / max(whole, 1):.0f} % {_words(limit)}" for limit, ns in parted)
    return Limited(None, f"mixed: {words}; {mean}")


def _words(limit: Limit | None) -> str:
    return "unknown" if limit is None else limit.words
