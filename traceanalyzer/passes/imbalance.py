"""Imbalance: how evenly the ranks of a job work, which rank is late, why, and what the job would gain without it."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.columns import RUN
from traceanalyzer.passes.communication.lateness import LEAST_STEPS, Lateness, Straggler, excess, stragglers
from traceanalyzer.passes.communication.matching import NONE
from traceanalyzer.passes.communication.rank_steps import RankSteps, load_rank_steps
from traceanalyzer.passes.communication.ranks import RankCommunication, communication_of, each_run, in_run, named_ranks
from traceanalyzer.passes.communication.reasons import ONE_THING, Reason, reason_of
from traceanalyzer.passes.communication.second_opinion import second_opinion
from traceanalyzer.passes.communication.what_if import WhatIf, what_if_of
from traceanalyzer.passes.gaps import no_timeline
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.scope import Scope, resolve
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
GOOD = 0.8
"""Efficiencies below this deserve a look (POP)."""

_RANK = Column("rank", Type.INT64, "Rank.")
RANKS = TableSpec(
    "ranks",
    "Each rank, per counted device step that all ranks have.",
    (
        RUN,
        _RANK,
        Column("steps", Type.INT64, "Steps that count; 0 where there are none: then times are of the whole span."),
        Column("step_ns", Type.INT64, "Length of a step on the device.", Unit.NS),
        Column("useful_ns", Type.INT64, "Compute operations run.", Unit.NS),
        Column(
            "wait_ns",
            Type.INT64,
            "It waits for other ranks, and no compute hides it; null where no clock tells.",
            Unit.NS,
        ),
        Column(
            "transfer_ns",
            Type.INT64,
            "Other communication that no compute hides, also what cannot be told apart; null where no clock tells.",
            Unit.NS,
        ),
        Column("exposed_communication_ns", Type.INT64, "Both together.", Unit.NS),
        Column("idle_ns", Type.INT64, "Nothing runs on the device.", Unit.NS),
        Column(
            "excess_ns",
            Type.INT64,
            "Its own time, without exposed communication, less the median of the others' (median of the steps).",
            Unit.NS,
        ),
    ),
    cut=False,
)
STRAGGLERS = TableSpec(
    "stragglers",
    "Ranks that the others wait for, the costliest first.",
    (
        RUN,
        _RANK,
        Column("kind", Type.TEXT, "systematic (in all steps), periodic (every k-th), or occasional (in some)."),
        Column("excess_ns", Type.INT64, "By how much it is late in a step in which it is late.", Unit.NS),
        Column("late_steps", Type.INT64, "Steps in which it is late.", Unit.COUNT),
        Column("period", Type.INT64, "Every how many steps; null where it is not periodic."),
        Column(
            "others_wait_ns",
            Type.INT64,
            "What all other ranks wait in such a step, together, of each no more than the excess; null where no clock"
            " tells.",
            Unit.NS,
        ),
        Column("reason", Type.TEXT, "What it does more of than the others."),
        Column("stack", Type.TEXT, "Where that is idle time: its stack, outermost first (a list)."),
        Column("part", Type.TEXT, "What it does more of: idle, compute or copy."),
        Column("more_ns", Type.INT64, "By how much more, in a step in which it is late.", Unit.NS),
        Column("cause", Type.TEXT, "Where that is idle time: the cause of most of it."),
        Column("blame", Type.TEXT, "Where that is idle time: the frame that is blamed for most of it."),
    ),
    cut=False,
)
EFFICIENCY = TableSpec(
    "efficiency",
    "Efficiencies of the job (POP): parallel = load balance x communication efficiency.",
    (
        RUN,
        Column("load_balance", Type.FLOAT64, "Mean by largest useful time of the ranks.", Unit.SHARE),
        Column("communication_efficiency", Type.FLOAT64, "Largest useful time by the length of a step.", Unit.SHARE),
        Column("parallel_efficiency", Type.FLOAT64, "Their product.", Unit.SHARE),
        Column("step_ns", Type.INT64, "Length of a step: the longest of the ranks' means.", Unit.NS),
        Column(
            "what_if_step_ns",
            Type.INT64,
            "Length of a step without the excess of the stragglers, if nothing else takes its place.",
            Unit.NS,
        ),
        Column(
            "balanced_step_ns",
            Type.INT64,
            "Length of a step if all ranks took the same by themselves; null without a replay that can be trusted.",
            Unit.NS,
        ),
        Column("replay_error", Type.FLOAT64, "By how much a replay of what was measured is off.", Unit.SHARE),
    ),
    cut=False,
)
EXCESS = TableSpec(
    "excess",
    "Excess of every rank in every step that counts.",
    (
        RUN,
        _RANK,
        Column("step", Type.INT64, "Step."),
        Column("excess_ns", Type.INT64, "Own time less the median of the others'.", Unit.NS),
        Column(
            "wait_ns",
            Type.INT64,
            "It waits for other ranks, and no compute hides it; null where no clock tells.",
            Unit.NS,
        ),
    ),
    cut=False,
)
TABLES = (RANKS, STRAGGLERS, EFFICIENCY, EXCESS)
"""Tables of every answer."""


def imbalance(scope: Scope) -> Answer:
    """Tables `ranks`, `stragglers`, `efficiency`, `excess`. Times in ns, per counted device step.

    Load balance = mean / largest useful time, communication efficiency = largest useful time / step, parallel
    efficiency = their product (POP). Ranks are always compared with all others of the run; those selected are listed.
    """
    chosen = scope.selection.ranks
    if chosen is not None or scope.selection.device is not None:
        scope = resolve(scope.connection, replace(scope.selection, ranks=None, device=None))
    answer = each_run(scope, _of_run)
    if chosen is not None:
        for spec in (RANKS, STRAGGLERS, EXCESS):
            rows = [tuple(row.values()) for row in answer.tables[spec.name].rows() if row["rank"] in chosen]
            answer.tables[spec.name] = Frame.of_rows(spec, rows)
    return answer


def _of_run(scope: Scope) -> Answer:
    communication = communication_of(scope)
    found = load_rank_steps(scope, communication)
    by_rank = excess(found)
    able = stragglers(found, by_rank)
    tree = StackTree(scope)
    explained = [(each, reason_of(scope, tree, found, each)) for each in able]
    jitter = [each for each, reason in explained if _is_jitter(each, reason, len(found.steps))]
    explained = [(each, reason) for each, reason in explained if not _is_jitter(each, reason, len(found.steps))]
    late, reasons = [each for each, _ in explained], [reason for _, reason in explained]
    what_if = what_if_of(communication, found, by_rank, late)
    told = _waits_told(communication, found)
    answer = Answer(
        "imbalance",
        {
            "ranks": Frame.of_rows(RANKS, in_run(scope, _rank_rows(found, by_rank, told))),
            "stragglers": Frame.of_rows(
                STRAGGLERS, in_run(scope, _straggler_rows(found, by_rank, told, late, reasons))
            ),
            "efficiency": Frame.of_rows(EFFICIENCY, in_run(scope, _efficiency_rows(found, what_if))),
            "excess": Frame.of_rows(EXCESS, in_run(scope, _excess_rows(found, by_rank, told))),
        },
        warnings=[*scope.warnings, *communication.notes],
        default_table="ranks",
        notes=[scope.note()],
    )
    answer.findings += _findings(communication, found, by_rank, told, late, reasons, jitter, what_if)
    if not len(found.ranks):
        answer.warnings.append(no_timeline(scope) or "no rank is known of what is selected, so none can be compared")
    elif len(found.ranks) == 1:
        answer.warnings.append("only one rank was recorded: there are no others to compare it with")
    elif not found.stepped:
        answer.warnings.append("the ranks have no steps in common that count, so it is not known which one is late")
    return answer


def _waits_told(communication: RankCommunication, found: RankSteps) -> NDArray[np.bool_]:
    """Of each rank, whether it is known of any of its operations who came last, or none of them are exposed."""
    of, waits = communication.matches.communication, communication.waits
    compared = np.isin(found.ranks, of.rank[waits.last != NONE])
    out: NDArray[np.bool_] = compared | ~(found.part["wait"] + found.part["transfer"]).any(axis=1)
    return out


def _rank_rows(found: RankSteps, late: Floats, told: NDArray[np.bool_]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    mean = {name: [round(x) for x in found.mean(name).tolist()] for name in found.part}
    for k, rank in enumerate(found.ranks.tolist()):
        wait, transfer = mean["wait"][k], mean["transfer"][k]
        own = round(float(np.median(late[k]))) if len(found.ranks) > 1 else None
        rows.append(
            (
                rank,
                len(found.steps),
                mean["duration"][k],
                mean["compute"][k],
                wait if told[k] else None,
                transfer if told[k] else None,
                wait + transfer,
                mean["idle"][k],
                own,
            )
        )
    return rows


def _others_wait(found: RankSteps, late: Floats, told: NDArray[np.bool_], each: Straggler) -> int | None:
    """What all other ranks that it is compared with wait in a step in which a rank is late, together.

    None of them can wait longer for it than it is late; what they wait beyond that, they wait for something else.
    """
    others = found.others(each.row)
    if not told[others].all():
        return None
    waits = np.minimum(found.part["wait"][np.ix_(others, each.columns)], np.maximum(late[each.row, each.columns], 0))
    return round(float(waits.sum(axis=0).mean()))


def _straggler_rows(
    found: RankSteps, by_rank: Floats, told: NDArray[np.bool_], late: list[Straggler], reasons: list[Reason]
) -> list[tuple[object, ...]]:
    return [
        (
            each.rank,
            each.kind.value,
            each.excess_ns,
            len(each.columns),
            each.period,
            _others_wait(found, by_rank, told, each),
            reason.text,
            reason.stack,
            reason.part,
            reason.more_ns,
            None if reason.cause is None else reason.cause.text,
            reason.blame,
        )
        for each, reason in zip(late, reasons, strict=True)
    ]


def _efficiency_rows(found: RankSteps, what_if: WhatIf) -> list[tuple[object, ...]]:
    useful, step = found.mean("compute"), found.longest_step_ns()
    if not len(useful) or not useful.max() or not step:
        return []
    # Of what is printed, so that people can check it.
    rounded = np.array([round(x) for x in useful.tolist()])
    balance = float(rounded.mean() / rounded.max())
    communication = float(rounded.max() / round(step))
    ideal = (what_if.step_ns, what_if.balanced_ns, what_if.error)
    return [(balance, communication, balance * communication, round(step), *ideal)]


def _excess_rows(found: RankSteps, late: Floats, told: NDArray[np.bool_]) -> list[tuple[object, ...]]:
    if not found.stepped or len(found.ranks) < 2:
        return []
    return [
        (rank, step, round(float(late[k, c])), int(found.part["wait"][k, c]) if told[k] else None)
        for k, rank in enumerate(found.ranks.tolist())
        for c, step in enumerate(found.steps.tolist())
    ]


def _findings(
    communication: RankCommunication,
    found: RankSteps,
    by_rank: Floats,
    told: NDArray[np.bool_],
    late: list[Straggler],
    reasons: list[Reason],
    jitter: list[Straggler],
    what_if: WhatIf,
) -> list[Finding]:
    out = []
    step = found.longest_step_ns()
    for each, reason in zip(late, reasons, strict=True):
        wait = _others_wait(found, by_rank, told, each)
        others = len(found.others(each.row))
        text = f"rank {each.rank} is late by {_ms(each.excess_ns)} {_when(found, each)}: {reason.text}"
        if wait is not None:
            who = "the other rank waits" if others == 1 else f"{others} ranks wait"
            often = "a step" if each.kind is Lateness.SYSTEMATIC else "then"
            text += f"; {who} {_ms(wait)} of GPU time {often} for it"
        out.append(Finding(f"straggler_{each.kind.value}", text, each.rank, each.excess_ns))
    if late and what_if.step_ns is not None:
        without = "without this" if len(late) == 1 else "if none of them were late"
        text = f"{without} a step takes {_ms(what_if.step_ns)} instead of {_ms(step)}"
        if what_if.replayed:
            text += f" (replayed; a replay of what was measured is off by {100 * (what_if.error or 0):.1f} %)"
        elif what_if.error is not None:
            text += f" (its excess taken away; a replay is off by {100 * what_if.error:.0f} %, and not to be trusted)"
        else:
            text += ", if nothing else takes its place"
        out.append(Finding("what_if", text, None, round(step) - what_if.step_ns))
    out += _jitter(found, jitter)
    if len(found.ranks) > 1 and found.stepped:
        out += _none_late(found) if not late and not jitter else []
        out += second_opinion(communication, late)
        out += _inefficiency(found)
    return out


def _is_jitter(each: Straggler, reason: Reason, steps: int) -> bool:
    """Whether a rank is late now and then by many small things, and no one thing explains it."""
    return each.kind is not Lateness.SYSTEMATIC and 2 * len(each.columns) <= steps and reason.covers < ONE_THING


def _jitter(found: RankSteps, jitter: list[Straggler]) -> list[Finding]:
    out = []
    for each in jitter:
        text = (
            f"rank {each.rank} is late by {_ms(each.excess_ns)} {_when(found, each)}, but by many small things, as"
            " where the host is busy with something else: no one cause explains half of it"
        )
        out.append(Finding("jitter", text, each.rank, each.excess_ns))
    return out


def _when(found: RankSteps, each: Straggler) -> str:
    if each.kind is Lateness.SYSTEMATIC:
        return f"in every step ({len(each.columns)} counted)"
    if each.kind is Lateness.PERIODIC:
        return f"in every {_nth(each.period or 0)} step ({len(each.columns)} of {len(found.steps)})"
    return f"in {len(each.columns)} of {len(found.steps)} steps"


def _none_late(found: RankSteps) -> list[Finding]:
    """Says that no rank is late, or of which ranks that cannot be told."""
    if len(found.steps) < LEAST_STEPS:
        text = "only one step counts, which is too few to tell who is late"
        return [Finding("not_compared", text, None, None)]
    alone = [rank for k, rank in enumerate(found.ranks.tolist()) if not len(found.others(k))]
    if len(alone) == len(found.ranks):
        text = "no two ranks take part in the same collective, so that none can be compared with another"
        return [Finding("not_compared", text, None, None)]
    text = "no rank is late in a way that stands out from the noise"
    if alone:
        text += f"; {named_ranks(alone)} cannot be compared with others, for want of a collective that they share"
    return [Finding("balanced", text, None, None)]


def _inefficiency(found: RankSteps) -> list[Finding]:
    rows = _efficiency_rows(found, WhatIf())
    if not rows:
        return []
    balance, communication, parallel = (float(str(x)) for x in rows[0][:3])
    if parallel >= GOOD:
        return []
    text = (
        f"parallel efficiency is {100 * parallel:.0f} %: load balance {100 * balance:.0f} %, communication efficiency"
        f" {100 * communication:.0f} % (compute runs for that share of a step on the rank that computes most)"
    )
    return [Finding("parallel_efficiency", text, None, None)]


def _nth(number: int) -> str:
    """Second, third, 4th."""
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def _ms(ns: float) -> str:
    return f"{ns / 1e6:,.1f} ms"
