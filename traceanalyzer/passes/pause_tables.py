"""Recurring pauses as tables, and in sentences."""

from collections.abc import Sequence

from traceanalyzer.passes.answer import Finding, Frame, TableSpec
from traceanalyzer.passes.columns import CAPTURE, DEVICE, RANK
from traceanalyzer.passes.idle.findings import WORDS
from traceanalyzer.passes.pauses import UNKNOWN, Pause
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit, counted, format_value

ALL_OF = 0.9
"""From this share on the largest cause of a pause stands for all of it."""
PAUSE_WORDS = {
    "checkpoint": "a checkpoint",
    "evaluation": "an evaluation",
    "garbage_collection": "garbage collection",
    "logging": "logging",
}
"""Kinds of pauses as they stand in sentences."""

PAUSES = TableSpec(
    "pauses",
    "Idle pauses that recur, the costliest first: checkpoints, evaluation, logging, garbage collection.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("pause", Type.INT64, "Number of the pause on its device."),
        Column(
            "kind",
            Type.TEXT,
            "By the names in its stack: checkpoint, evaluation, garbage_collection, logging, else unknown.",
        ),
        Column("period_steps", Type.INT64, "Every how many steps it comes; null where that is irregular.", Unit.COUNT),
        Column("first_step", Type.INT64, "The first step that has it."),
        Column("n_pauses", Type.INT64, "How often it comes in the steps that count.", Unit.COUNT),
        Column("n_steps", Type.INT64, "Steps that it makes longer: a pause may reach into the next one.", Unit.COUNT),
        Column(
            "excess_ns",
            Type.INT64,
            "By how much the steps of a pause are longer than median steps, on average.",
            Unit.NS,
        ),
        Column(
            "idle_ns", Type.INT64, "Idle time among that, by which causes exceed their median, on average.", Unit.NS
        ),
        Column("cost_ns", Type.INT64, "The idle time of all pauses per counted device step.", Unit.NS),
        Column("cause", Type.TEXT, "Cause of the largest part of that idle time."),
        Column("blame", Type.TEXT, "Innermost frame of your own code, else innermost range of yours, in that time."),
        Column("steps", Type.TEXT, "Numbers of the longer steps."),
        Column("stack", Type.TEXT, "The stack with most of the idle time, outermost first (a list)."),
    ),
)
PAUSE_CAUSES = TableSpec(
    "pause_causes",
    "Idle time of recurring pauses by cause; the causes of a pause add up to its cost, but for rounding.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("pause", Type.INT64, "Number of the pause on its device."),
        Column("cause", Type.TEXT, "Cause of the idle time."),
        Column("idle_ns", Type.INT64, "Idle time in all pauses, by which the cause exceeds its median.", Unit.NS),
        Column("cost_ns", Type.INT64, "The same per counted device step.", Unit.NS),
    ),
)


def pause_tables(pauses: Sequence[Pause]) -> dict[str, Frame]:
    """Tables `pauses` and `pause_causes`; the pauses of a device come the costliest first."""
    rows: list[tuple[object, ...]] = []
    causes: list[tuple[object, ...]] = []
    numbers: dict[tuple[int, int], int] = {}
    for each in pauses:
        device = each.device
        number = numbers[device.capture, device.device] = numbers.get((device.capture, device.device), 0) + 1
        place = (device.capture, device.rank, device.device, number)
        often = len(each.first_steps)
        cause = next(iter(each.excess_ns_by_cause)).text
        times = (each.excess_ns, each.idle_ns // often, each.cost_ns)
        named = (cause, each.blame, numbers_text(each.steps), list(each.stack))
        rows.append((*place, each.kind, each.period_steps, each.steps[0], often, len(each.steps), *times, *named))
        causes += [
            (*place, cause.text, ns, round(ns / each.n_counted)) for cause, ns in each.excess_ns_by_cause.items()
        ]
    return {"pauses": Frame.of_rows(PAUSES, rows), "pause_causes": Frame.of_rows(PAUSE_CAUSES, causes)}


def numbers_text(numbers: Sequence[int]) -> str:
    """Ascending numbers as people write them: `4-5, 9, 14`."""
    out: list[list[int]] = []
    for number in numbers:
        if out and number == out[-1][1] + 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in out)


def told_of_pauses(scope: Scope, pauses: list[Pause]) -> list[Finding]:
    """Recurring pauses in sentences."""
    out = []
    for each in pauses:
        often = len(each.first_steps)
        every = f"every {each.period_steps} steps" if each.period_steps is not None else "now and then"
        if often == 1:
            every = "which comes back, though how often these steps do not tell,"
        what = "a pause" if each.kind == UNKNOWN else f"a pause for {PAUSE_WORDS[each.kind]}"
        cause, ns = next(iter(each.excess_ns_by_cause.items()))
        who = f"{each.blame}, {WORDS[cause]}" if each.blame else WORDS[cause]
        rest = "" if ns >= ALL_OF * each.idle_ns else f" ({100 * ns / each.idle_ns:.0f} %)"
        text = (
            f"{scope.whose(each.device)}: {what} {every} ({counted(often, 'time')}, from step {each.steps[0]} on) makes"
            f" steps {format_value(each.excess_ns, Unit.NS)} longer, {format_value(each.idle_ns // often, Unit.NS)} of"
            f" it idle: {who}{rest}; {format_value(each.cost_ns, Unit.NS)} a step on average"
        )
        out.append(Finding("recurring_pause", text, each.device.rank, each.cost_ns))
    return out
