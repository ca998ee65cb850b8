"""Which part of a store a question is about."""

from collections.abc import Iterable
from dataclasses import dataclass

from traceanalyzer.errors import UsageError

GROUPINGS = ("cause", "stack", "function", "range", "thread", "step", "rank")
"""What idle time can be grouped by."""
OPERATOR_GROUPINGS = ("shape", "module")
"""What operators can be grouped by, in place of their names alone."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Run, ranks, device, source, steps, window and lane of a question, as the common options give them.

    `run` None is the newest run, "all" every run. `ranks`, `steps` None are all. `window_ns` counts from the first
    operation of each file, half open. `warmup` None finds the warm-up steps itself. `top` 0 lists all rows. Of idle
    time `under` keeps what has a matching frame on its stack, and `by` says what it, or operators, are grouped
    by. `align` says what puts the clocks of ranks on one. `metric` keeps the metrics with a matching name, `peaks`
    names a file of peaks. `split` says whose parts a summary has.
    `captures` keeps some captures of the run, by their numbers; None are all.
    `samples_per_step` is how many samples all ranks together work on in a step.
    """

    run: str | None = None
    ranks: frozenset[int] | None = None
    device: int | None = None
    source: str | None = None
    steps: tuple[int, int] | None = None
    window_ns: tuple[int, int] | None = None
    lane: str = "device"
    warmup: int | None = None
    step_range: str | None = None
    input_range: str | None = None
    user_code: str | None = None
    under: str | None = None
    by: str | None = None
    align: str = "collectives"
    metric: str | None = None
    peaks: str | None = None
    split: str | None = None
    samples_per_step: int | None = None
    top: int = 20
    captures: frozenset[int] | None = None


ALIGNMENTS = ("collectives", "utc", "none")
"""What puts the clocks of ranks on one: the ends of collectives, the time of day of the files, or nothing."""

SPLITS = ("ledger", "tensorboard")
"""What a summary is made of: groups of the ledger's categories, or the parts of TensorBoard's profiler plugin."""

MOST_DIGITS = 18
"""Digits of a number that surely fits into 64 bits."""
_MOST_RANKS = 1 << 20
_MOST_SECONDS = 1 << 32


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


def parse_ranks(text: str | int | None, option: str = "rank") -> frozenset[int] | None:
    """`all`, or numbers and ranges such as `0,2,4-7`; None for all. Raises `UsageError`, which names the option."""
    if text is None or text == "all":
        return None
    out: set[int] = set()
    for part in str(text).split(","):
        low, dash, high = part.strip().partition("-")
        if not _is_number(low) or (dash and (not _is_number(high) or int(high) < int(low))):
            raise UsageError(f"--{option} {_short(text)}: give all, or numbers and ranges such as 0,2,4-7")
        if dash and int(high) - int(low) >= _MOST_RANKS:
            raise UsageError(f"--{option} {_short(text)}: a range of more than {_MOST_RANKS:,} numbers; give all")
        out.update(range(int(low), int(high if dash else low) + 1))
    return frozenset(out)


def spelled(numbers: Iterable[int]) -> str:
    """Numbers as `parse_ranks` reads them: `0,2,4-7`."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def parse_steps(text: str | None) -> tuple[int, int] | None:
    """`3-7` or `5`: first and last step. Raises `UsageError`."""
    if text is None:
        return None
    low, dash, high = text.strip().partition("-")
    if not _is_number(low) or (dash and not _is_number(high)) or (dash and int(high) < int(low)):
        raise UsageError(f"--steps {_short(text)}: give a step or a range such as 3-7")
    return int(low), int(high if dash else low)


def parse_window(text: str | None) -> tuple[int, int] | None:
    """`A:B` in seconds, each a decimal and A empty for the start: integer nanoseconds. Raises `UsageError`."""
    if text is None:
        return None
    from decimal import Decimal, InvalidOperation

    low, colon, high = text.partition(":")
    try:
        bounds = Decimal(low or "0"), Decimal(high or _MOST_SECONDS)
        # Later than anything that a store holds, and still far from the end of 64 bits.
        ends = tuple(int(min(bound, Decimal(_MOST_SECONDS)) * 10**9) for bound in bounds)
    except (InvalidOperation, OverflowError, ValueError):
        ends = (0, 0)
    if not colon or ends[0] < 0 or ends[1] <= ends[0]:
        raise UsageError(f"--window {_short(text)}: give two seconds after the first operation, such as 0.5:2")
    return ends[0], ends[1]


def _short(text: object) -> str:
    return str(text)[:80]
