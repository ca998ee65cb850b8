"""Which part of a store a question is about."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from traceanalyzer.errors import UsageError
from traceanalyzer.schema.text import storable

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


_KEYWORDS = (
    *("run", "rank", "device", "source", "capture", "steps", "window", "lane", "warmup", "step_range", "input_range"),
    *("user_code", "under", "by", "align", "metric", "peaks", "split", "samples_per_step", "top"),
)


def make_selection(**given: object) -> Selection:
    """A selection of the keywords that every question takes. Raises `UsageError` for unknown ones or bad values."""
    if unknown := set(given) - set(_KEYWORDS):
        raise UsageError(f"unknown selection {', '.join(sorted(unknown))}; known are {', '.join(_KEYWORDS)}")
    text = {k: (None if given.get(k) is None else storable(str(given[k]))) for k in _KEYWORDS}
    number = {k: _number(k, given.get(k)) for k in ("device", "warmup", "samples_per_step", "top")}
    if number["samples_per_step"] == 0:
        raise UsageError("--samples-per-step 0: give 1 or more")
    for name in ("step_range", "input_range", "user_code", "under", "metric"):
        _check_pattern(name, text[name])
    lane = text["lane"] or "device"
    if lane not in ("device", "compute"):
        raise UsageError(f"--lane {lane}: give device or compute")
    if text["by"] is not None and text["by"] not in GROUPINGS + OPERATOR_GROUPINGS:
        raise UsageError(f"--by {text['by']}: give {', '.join(GROUPINGS)}; of ops {', '.join(OPERATOR_GROUPINGS)}")
    align = text["align"] or ALIGNMENTS[0]
    if align not in ALIGNMENTS:
        raise UsageError(f"--align {align}: give {', '.join(ALIGNMENTS)}")
    if text["split"] is not None and text["split"] not in SPLITS:
        raise UsageError(f"--as {text['split']}: give {', '.join(SPLITS)}")
    return Selection(
        run=text["run"],
        ranks=parse_ranks(text["rank"]),
        device=number["device"],
        source=text["source"],
        steps=parse_steps(text["steps"]),
        window_ns=parse_window(text["window"]),
        lane=lane,
        warmup=number["warmup"],
        step_range=text["step_range"],
        input_range=text["input_range"],
        user_code=text["user_code"],
        under=text["under"],
        by=text["by"],
        align=align,
        metric=text["metric"],
        peaks=text["peaks"],
        split=text["split"],
        samples_per_step=number["samples_per_step"],
        top=number["top"] or 0,
        captures=parse_ranks(text["capture"], "capture"),
    )


def _number(name: str, value: object) -> int | None:
    if value is None:
        return None
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        option = name.replace("_", "-")
        raise UsageError(f"--{option} {text[:40]}: give a number, 0 or more, of at most {MOST_DIGITS} digits")
    return int(text)


def _check_pattern(name: str, pattern: str | None) -> None:
    try:
        re.compile(pattern or "")
    except (re.error, OverflowError, RecursionError) as error:
        option = name.replace("_", "-")
        raise UsageError(f"--{option} {pattern}: not a regular expression ({error})") from error
