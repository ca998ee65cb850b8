"""What limits kernels, estimated from the shapes that a trace recorded: work of operators against peaks of the device.

The work of a call is compared with the summed time of the kernels that it launched. Bytes are compulsory traffic only
and arithmetic is what the mathematics needs. Kernels mostly do more of both (less where Winograd saves operations or a
cache still holds the operands), and one that is near neither roof may be at the limit of something shapes do not tell.
"""

import json
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from traceanalyzer.numeric.grouping import Groups, groups
from traceanalyzer.passes.chosen import Chosen
from traceanalyzer.passes.limits.families import MATHEMATICS, Family
from traceanalyzer.passes.limits.kernel_families import family_of, tensor_cores
from traceanalyzer.passes.limits.launching_operators import NONE, LaunchedKernels, launched_kernels
from traceanalyzer.passes.limits.limit import COMMUNICATION_REASON, SHORT_NS, Limit, Limited
from traceanalyzer.passes.limits.peaks import DevicePeaks, Peak
from traceanalyzer.passes.operations import Ints, Operations
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.work.communication import collective_work
from traceanalyzer.passes.work.estimate import Work, work_of
from traceanalyzer.passes.work.kernel_types import element_of
from traceanalyzer.schema.kinds import OpKind

MEMORY_AT = 0.8
"""Share of the memory's peak from which on compulsory traffic alone makes a kernel memory-bound: copies reach 0.9."""
COMPUTE_AT = 0.6
"""The same of arithmetic. Data sheets state it at a clock that a GPU under full load does not hold: on an H200 matrix
products with the tensor pipe active 96 % of the time reach two thirds to four fifths of it."""
TOO_MUCH = 1.05
"""Share of a peak that cannot be: the estimate or the peak is not that of the kernel."""
LATENCY_UNDER = 0.3
"""A kernel that reaches less than this of both, and is short, waits."""


@dataclass(slots=True)
class Ideal:
    """Time of kernels, and how long their work would take at each peak of the device; None where one is unknown."""

    ns: int = 0
    n_kernels: int = 0
    compute_ns: float | None = 0.0
    memory_ns: float | None = 0.0

    def add(self, other: "Ideal") -> None:
        """More kernels."""
        self.ns += other.ns
        self.n_kernels += other.n_kernels
        self.compute_ns = _sum(self.compute_ns, other.compute_ns)
        self.memory_ns = _sum(self.memory_ns, other.memory_ns)

    @property
    def compute_share(self) -> float | None:
        """Share of the arithmetic peak that they reach."""
        return self.compute_ns / self.ns if self.compute_ns is not None and self.ns else None

    @property
    def memory_share(self) -> float | None:
        """Share of the memory's peak that their compulsory traffic is."""
        return self.memory_ns / self.ns if self.memory_ns is not None and self.ns else None


def _sum(one: float | None, two: float | None) -> float | None:
    return None if one is None or two is None else one + two


def limit_of_estimate(ideal: Ideal, family: Family | None = None) -> Limited:
    """What limits kernels by what their work would take at the peaks; nothing where shapes cannot tell it."""
    compute, memory = ideal.compute_share, ideal.memory_share
    if family is Family.COMMUNICATION:
        return Limited(None, COMMUNICATION_REASON)
    if compute is None and memory is None:
        return Limited(None, "no peaks of the device are known")
    shares = [(share, name) for share, name in ((compute, "arithmetic"), (memory, "memory")) if share is not None]
    words = ", ".join(f"{name} {100 * share:.0f} %" for share, name in sorted(shares, reverse=True))
    seen = f"estimated: {words} of peak"
    by_compute, by_memory = (compute or 0) / COMPUTE_AT, (memory or 0) / MEMORY_AT
    if (memory or 0) > TOO_MUCH:
        return Limited(None, f"{seen}: more than memory delivers, so caches do, or the peak is wrong")
    if (compute or 0) > TOO_MUCH:
        return Limited(None, f"{seen}: fewer operations than estimated, as Winograd does, or the peak is wrong")
    if max(by_compute, by_memory) >= 1:
        limit = Limit.MEMORY_BOUND if by_memory > by_compute else Limit.COMPUTE_BOUND
        at = MEMORY_AT if by_memory > by_compute else COMPUTE_AT
        return Limited(limit, f"{seen} ({100 * at:.0f} % is near enough)")
    mean_ns = ideal.ns / max(ideal.n_kernels, 1)
    known = compute is not None and memory is not None
    if known and max(compute or 0, memory or 0) < LATENCY_UNDER and mean_ns < SHORT_NS:
        return Limited(Limit.LATENCY_BOUND, f"{seen}, kernels of {mean_ns:,.0f} ns: too short to get there")
    return Limited(None, f"{seen}, near neither: instruction issue, caches or latency")


@dataclass(slots=True)
class OperatorWork:
    """Calls of an operator with the same arguments, and the kernels that they launched."""

    op: str
    args: str | None
    work: Work | None
    n_calls: int
    peak_precision: str | None
    ideal: Ideal = field(default_factory=Ideal)


class Estimates:
    """Estimates of a device's kernels, from the operators that launched them.

    `operators` has the calls by operator and arguments; `of_kernel` the kernels, by the number of their name, whose
    operators launch no kernel of another name, so that the work of a call is theirs, and `family_of_kernel` their
    families; `kernel_ns` is the time of all kernels, `with_operator_ns` that of those that operators launched.
    """

    def __init__(self, scope: Scope, device: DeviceOfCapture, chosen: Chosen, peaks: DevicePeaks) -> None:
        self.peaks = peaks
        self.operators = _collectives(scope, device, chosen, peaks)
        self.of_kernel: dict[int, Ideal] = defaultdict(Ideal)
        self.family_of_kernel: dict[int, Family] = {}
        launched = launched_kernels(scope, device.capture, chosen)
        self.kernel_ns = launched.kernel_ns
        self.with_operator_ns = int(launched.ns.sum())
        every = (launched.op_name, launched.args, launched.kernel)
        self._texts = scope.texts(np.unique(np.concatenate(every)).tolist())
        self._scope = scope
        self._op_id = launched.op_id
        self._of_op = np.zeros(len(launched.op_id), np.intp)
        self._call_flop = np.zeros(len(launched.op_id))
        if len(launched.op_id):
            self._collect(launched)

    def _collect(self, launched: LaunchedKernels) -> None:
        """Calls by operator and arguments, and what of them is the work of one kernel."""
        kinds, calls = groups(launched.op_name, launched.args), groups(launched.event)
        first = len(self.operators)
        n_calls = np.bincount(kinds.of_row[calls.row], minlength=len(kinds))
        n_kernels, ns = kinds.counts(), kinds.sums(launched.ns)
        by_time = np.lexsort((launched.ns, kinds.of_row))
        longest = by_time[np.cumsum(n_kernels) - 1]
        for k, row in enumerate(kinds.row.tolist()):
            kernel = self._texts.get(int(launched.kernel[longest[k]]), "")
            found = self._operator(int(launched.op_name[row]), int(launched.args[row]), kernel, int(n_calls[k]))
            found.ideal = self._ideal(found, int(n_calls[k]), int(n_kernels[k]), int(ns[k]))
            self.operators.append(found)
        self._of_op = first + kinds.of_row
        # The operations of a call are shared out among its kernels, so that those of some kernels can be summed.
        flop = np.array([0.0 if f.work is None else f.work.flop for f in self.operators])
        self._call_flop = flop[self._of_op] / calls.counts()[calls.of_row]
        self._by_kernel(launched, calls)

    def _by_kernel(self, launched: LaunchedKernels, calls: Groups) -> None:
        """The work of calls that launch kernels of one name only; of others it cannot be told apart."""
        least, most = (np.full(len(calls), start, np.int64) for start in (np.iinfo(np.int64).max, NONE))
        np.minimum.at(least, calls.of_row, launched.kernel)
        np.maximum.at(most, calls.of_row, launched.kernel)
        pure = np.flatnonzero((least == most)[calls.of_row])
        if not len(pure):
            return
        pairs = groups(self._of_op[pure], launched.kernel[pure])
        first_of_call = np.isin(pure, calls.row)
        n_calls = np.bincount(pairs.of_row[first_of_call], minlength=len(pairs))
        n_kernels, ns = pairs.counts(), pairs.sums(launched.ns[pure])
        for k, row in enumerate(pure[pairs.row].tolist()):
            found, kernel = self.operators[self._of_op[row]], int(launched.kernel[row])
            if found.work is not None:
                self.of_kernel[kernel].add(self._ideal(found, int(n_calls[k]), int(n_kernels[k]), int(ns[k])))
                self.family_of_kernel.setdefault(kernel, found.work.family)

    def estimated_share(self, ops: Operations, steps: Ints) -> float:
        """Share of the time of kernels of the model's arithmetic, by their names, launched in some steps, that an
        estimate is known of; 1 without any.
        """
        in_steps = (ops.kind == int(OpKind.KERNEL)) & np.isin(ops.step, steps)
        names, row = np.unique(ops.name[in_steps], return_inverse=True)
        texts = self._scope.texts(names.tolist())
        by_name = np.array([family_of(texts.get(name, "")) in MATHEMATICS for name in names.tolist()], np.bool_)
        known = [f.work is not None and f.work.family in MATHEMATICS for f in self.operators]
        estimated = self._op_id[np.array(known, np.bool_)[self._of_op]] if len(self._of_op) else self._op_id
        is_known = np.isin(ops.op_id[in_steps], estimated)
        wanted = is_known | (by_name[row.reshape(-1)] if len(names) else False)
        ns = (ops.end - ops.start)[in_steps]
        return float(ns[is_known].sum() / ns[wanted].sum()) if ns[wanted].sum() else 1.0

    def of_steps(self, ops: Operations, steps: Ints) -> dict[str | None, tuple[float, Peak | None]]:
        """Operations of the model's arithmetic that were launched in some steps, by precision, with its peak."""
        inside = np.isin(self._op_id, ops.op_id[np.isin(ops.step, steps)])
        flop = np.bincount(self._of_op[inside], self._call_flop[inside], len(self.operators))
        out: dict[str | None, tuple[float, Peak | None]] = {}
        for found, mine in zip(self.operators, flop.tolist(), strict=True):
            if found.work is not None and found.work.family in MATHEMATICS and mine:
                before = out.get(found.peak_precision, (0.0, None))[0]
                out[found.peak_precision] = (before + mine, self.peaks.of(found.peak_precision))
        return out

    def _operator(self, name: int, args: int, kernel: str, n_calls: int) -> OperatorWork:
        """Calls of one operator with the same arguments; `kernel` is the longest that they launched."""
        op, text = self._texts.get(name, ""), self._texts.get(args)
        work = work_of(op, text)
        if work is not None and work.dtype is None and (element := element_of(kernel)) is not None:
            work = work_of(op, text, element)
        return OperatorWork(op, text, work, n_calls, None if work is None else self._precision(work, kernel))

    def _precision(self, work: Work, kernel: str) -> str | None:
        """The precision whose peak the arithmetic of a call has: elementwise work is done in single precision.

        Matrix products of single precision may use tensor cores, as TF32: the name of the kernel tells.
        """
        if work.family not in MATHEMATICS:
            return "fp64" if work.dtype == "fp64" else "fp32"
        if work.dtype == "fp32" and tensor_cores(kernel, work.family)[0] and self.peaks.of("tf32") is not None:
            return "tf32"
        return work.dtype

    def _ideal(self, found: OperatorWork, n_calls: int, n_kernels: int, ns: int) -> Ideal:
        """Time of some kernels of an operator, and what the work of their calls would take at the peaks."""
        work = found.work
        if work is None:
            return Ideal(ns, n_kernels, None, None)
        peak, memory = self.peaks.of(found.peak_precision), self.peaks.memory
        compute_ns = None if peak is None else work.flop * n_calls / peak.per_s * 1e9
        moved = (work.bytes_read + work.bytes_written) * n_calls
        return Ideal(ns, n_kernels, compute_ns, None if memory is None else moved / memory.per_s * 1e9)


def _collectives(scope: Scope, device: DeviceOfCapture, chosen: Chosen, peaks: DevicePeaks) -> list[OperatorWork]:
    """Collectives of a device by kind, type and size: what each reads and writes of its own memory, and adds up."""
    if not scope.holds("collectives", device.capture):
        return []
    rows = scope.connection.execute(
        f"""SELECT k.text, d.text, c.elements_in, c.elements_out, c.group_size, count(*),
            sum(o.whole_ns)::BIGINT
        FROM stored.collectives c JOIN ({chosen.sql}) o ON o.op_id = c.op_id
        JOIN stored.names k ON k.name_id = c.kind LEFT JOIN stored.names d ON d.name_id = c.dtype
        WHERE c.capture = $capture GROUP BY ALL ORDER BY ALL""",
        chosen.parameters,
    ).fetchall()
    out = []
    for kind, dtype, elements_in, elements_out, group_size, count, ns in rows:
        sizes = (elements_in, elements_out)
        work = None if None in sizes else collective_work(kind, *sizes, dtype or "", group_size)
        ideal = Ideal(ns, count, None, None)
        if work is not None and peaks.memory is not None:
            ideal.memory_ns = (work.bytes_read + work.bytes_written) * count / peaks.memory.per_s * 1e9
        shapes = json.dumps({"Input Dims": [[size] for size in sizes if size is not None]})
        out.append(OperatorWork(kind, shapes, work, count, None, ideal))
    return out
