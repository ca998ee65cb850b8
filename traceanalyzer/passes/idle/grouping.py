"""Idle time grouped as `--by` says."""

from collections.abc import Callable

from traceanalyzer.passes.answer import TableSpec
from traceanalyzer.passes.causes import Cause, Reason
from traceanalyzer.passes.columns import IDLE, PIECES, RANK
from traceanalyzer.passes.idle.accounts import DeviceAccount, thread_text
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.selection import GROUPINGS
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.units import Unit

BY = TableSpec(
    "by",
    "Idle time grouped as --by says; all rows of a device add up to its idle time.",
    (
        Column("capture", Type.INT32, "Capture: `captures.capture`; null where a row covers several."),
        RANK,
        Column("device", Type.INT32, "Device of the capture; null where a row covers several."),
        Column("by", Type.TEXT, "What the key is: " + ", ".join(GROUPINGS) + "."),
        Column("key", Type.TEXT, "The cause, stack, function, range, thread, step or rank."),
        IDLE,
        Column("share", Type.FLOAT64, "Share of the idle time of the device, or of all of them.", Unit.SHARE),
        PIECES,
    ),
)
NONE = "(none)"
GroupRow = tuple[int, int | None, int, str, int, int]
"""Capture, rank, device, key, idle, pieces."""


def group_rows(
    scope: Scope, tree: StackTree, account: DeviceAccount, names: dict[tuple[int, int], str]
) -> list[GroupRow]:
    """The groups of a device; none where nothing is to be grouped."""
    by = scope.selection.by
    if by is None:
        return []
    if by == "step":
        found = [(NONE if step is None else str(step), idle, count) for step, idle, count in account.by_step()]
    elif by == "thread":
        rows = account.by_thread()
        found = [(thread_text(account, number, names), idle, count) for number, idle, count in rows]
    elif by == "cause":
        found = [(_cause(cause, reason), idle, count) for cause, reason, _, idle, count in account.all.groups()]
    elif by == "rank":
        rank = NONE if account.device.rank is None else str(account.device.rank)
        found = [(rank, idle, count) for *_, idle, count in account.all.groups()]
    else:
        text_of = _texts(tree, by)
        found = [(text_of(node), idle, count) for _, _, node, idle, count in account.all.groups()]
    sums: dict[str, tuple[int, int]] = {}
    for text, idle, count in found:
        known = sums.get(text, (0, 0))
        sums[text] = known[0] + idle, known[1] + count
    return [(*account.place, text, idle, count) for text, (idle, count) in sums.items()]


def _cause(cause: int, reason: int) -> str:
    why = Reason(reason).text
    return Cause(cause).text + (f" ({why})" if why else "")


def _texts(tree: StackTree, by: str) -> Callable[[int], str]:
    """The key of a stack: all of it; its innermost Python function, else frame; or its innermost range."""
    if by == "stack":
        return lambda node: " > ".join(tree.frames(node)) or NONE
    kind = EventKind.PYTHON_FRAME if by == "function" else EventKind.RANGE
    inner = tree.nearest(tree.matching(lambda label: label.kind == kind))

    def text_of(node: int) -> str:
        found = int(inner[node]) if node >= 0 else node
        return tree.text(node if found < 0 and by == "function" else found) or NONE

    return text_of


def joined_groups(scope: Scope, rows: list[GroupRow], whole: dict[tuple[int, int], int]) -> list[tuple[object, ...]]:
    """Rows of the table, the largest first; those of a rank join its devices.

    `whole` is the idle time of each device (capture, device), which shares are of.
    """
    by = scope.selection.by
    if by == "rank":
        sums: dict[str, tuple[int | None, int, int]] = {}
        for _, rank, _, key, idle, count in rows:
            known = sums.get(key, (rank, 0, 0))
            sums[key] = rank, known[1] + idle, known[2] + count
        total = sum(whole.values())
        found: list[tuple[object, ...]] = [
            (None, rank, None, by, key, idle, idle / total if total else None, count)
            for key, (rank, idle, count) in sums.items()
        ]
    else:
        found = [
            (capture, rank, device, by, key, idle, idle / whole[capture, device], count)
            for capture, rank, device, key, idle, count in rows
        ]
    found.sort(key=lambda r: (-int(str(r[5])), str(r[0]), str(r[2]), str(r[4])))
    return found
