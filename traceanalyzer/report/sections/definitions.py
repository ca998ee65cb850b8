"""How each number is defined."""

from collections.abc import Iterator

from traceanalyzer.checkup.charges import VERDICT_OF_PART
from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.parts import part_of
from traceanalyzer.report.blocks import Block, Definitions
from traceanalyzer.report.material import Material
from traceanalyzer.report.sections.section import Section

TERMS = (
    ("busy, idle", "Busy is the union of the intervals in which operations run on a device, idle the rest of the span"
     " from its first operation's start to its last one's end. Integer nanoseconds; busy + idle = span."),
    ("gap", "A stretch of idle time. It is cut into pieces by what the thread was doing that launched the operation"
     " which ends it, and each piece has one cause and one stack: causes and stacks add up to idle."),
    ("blame", "The innermost frame of your own code in the stack of a piece: not the standard library, not an installed"
     " package. Without one, the innermost range that you named."),
    ("gain", "Idle time per counted device step: what a step gains at most if all of it goes away."),
    ("device step", "Step n begins where the gap before its first operation begins and ends where step n + 1 begins."
     " Warm-up and a first step whose beginning was not recorded do not count for rates."),
    ("ledger", "Every nanosecond of a device in one category, by this priority: compute, communication (transfer,"
     " unresolved, wait), copy, idle by cause. The categories add up to the span."),
    ("verdict", "A cut of the ledger of the counted steps, the mean of typical devices; it is told from 3 % of the step"
     " on. Costs of verdicts do not overlap."),
    ("wait, transfer", "Of a collective in which all wait for all: wait = min(own duration, last start - own start) on"
     " aligned clocks, transfer = duration - wait. A wait shorter than clocks may be off is unresolved."),
    ("clocks", "Offsets of ranks from the ends of their collectives, which all leave together; the residual (p50, p95)"
     " says how far they may be off."),
    ("bandwidth", "algbw = bytes / transfer time of the last arriver, in 1e9 bytes a second; busbw = algbw x"
     " nccl-tests' factor, 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all."),
    ("excess", "A rank's own time since the previous common point, less its waits, minus the median of the other ranks."
     " A straggler is late by more than 1 % of the step and 4 x 1.4826 x MAD."),
    ("efficiency", "POP: load balance = mean / max of compute time, communication efficiency = max compute time /"
     " runtime, parallel efficiency = their product."),
    ("class of a kernel", "compute_bound, memory_bound, latency_bound or balanced, from a profile of the kernel where"
     " there is one, else from sampled metrics, else estimated from shapes; class_source says which."),
    ("MFU", "Operations of matrix products, convolutions and attention a device step, worked out from shapes, over the"
     " peak of the device in that precision."),
)  # fmt: skip
"""Terms of the page, as `../docs/reference` defines them."""


def blocks(material: Material) -> Iterator[Block]:  # noqa: ARG001 - every section is asked in the same way
    """Terms, causes of idle time and verdicts, and what they mean."""
    yield Definitions(TERMS)
    yield Definitions(
        [(cause.text, cause.meaning) for cause in Cause], "Causes of idle time: the thread that launches next ..."
    )
    yield Definitions(list(_verdicts()), "Verdicts: what of the ledger they are charged with")


def _verdicts() -> Iterator[tuple[str, str]]:
    parts: dict[str, list[str]] = {}
    for part, verdict in VERDICT_OF_PART.items():
        causes = [f"idle:{cause.text}" for cause in Cause if part_of(f"idle:{cause.text}") == part]
        parts.setdefault(verdict, []).extend(causes or [part])
    for verdict, categories in parts.items():
        yield verdict, ", ".join(categories)
    yield "periodic_pause", "the excess of steps that recur over the median step, taken before the others"
    yield (
        "compute_bound, memory_bandwidth_bound",
        "nothing: they say what limits the kernels, and cost nothing by themselves",
    )
    yield "memory_growth, clock_throttled, device_errors", "nothing: they are risks"


SECTION = Section("definitions", "How each number is defined", "Definitions", blocks, "")
