"""Values as DCGM and Prometheus write them."""

from traceanalyzer.sources.telemetry import is_missing, number

_BLANKS = (2**31 - 16, 2**47, 2**63 - 16)
"""DCGM's blank values: of 32 bits, of doubles, of 64 bits. Those above tell why there is none: +1 not found, +2 not
supported, +3 no permission (dcgm_structs.h)."""
_BLANK_KINDS = 16
_LARGEST_BLANK = float(2**63)  # what a blank of 64 bits reads as once it was a float
_INFINITE = frozenset({"inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"})


class NotAValueError(ValueError):
    """The text is neither a number nor a word for a missing one."""


def value_of(text: str) -> float | None:
    """The number; None for blank values, NaN, infinities and words for a missing one. Raises `NotAValueError`."""
    found = number(text)
    if found is None:
        bare = text.strip()
        if not bare or not (is_missing(bare) or bare.lower() in _INFINITE):
            raise NotAValueError(text)
        return None
    return None if is_blank(found) else found


def is_blank(value: float) -> bool:
    """Whether a number is one of DCGM's blank values."""
    if value >= _BLANKS[0] and value == int(value):
        return any(blank <= value < blank + _BLANK_KINDS for blank in _BLANKS) or value >= _LARGEST_BLANK
    return False
