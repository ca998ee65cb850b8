"""Figures behind verdicts, as people read them."""

from typing import Any

from traceanalyzer.checkup.messages import Messages
from traceanalyzer.units import Unit, format_value

_UNITS = {"ns": Unit.NS, "bytes": Unit.BYTES, "share": Unit.SHARE, "%": Unit.PERCENT}


def evidence_value(value: Any, unit: str) -> str:
    """A value of evidence with its unit."""
    if unit == "s":
        return format_value(round(value * 1e9), Unit.NS)
    return format_value(value, _UNITS[unit]) if unit in _UNITS else f"{value} {unit}".strip()


def figure_of_evidence(each: dict[str, Any], messages: Messages) -> str:
    """A figure, what it is, and its threshold, in a line."""
    if isinstance(each["value"], str):
        return f"{each['source']}: {each['value']}"
    text = f"{evidence_value(each['value'], each['unit'])}  {each['source']}"
    if each["threshold"] is not None:
        text += f" ({messages.text('card.threshold', value=evidence_value(each['threshold'], each['unit']))})"
    return text


def question_of(command: str) -> str:
    """The question that a command line of this program asks."""
    words = command.split()
    return words[1] if len(words) > 1 else ""
