"""The check-up as people read it: a table of verdicts, and beneath it what is behind each."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from traceanalyzer.cells import printable, width_of
from traceanalyzer.checkup.evidence import evidence_value
from traceanalyzer.checkup.messages import Messages
from traceanalyzer.cli.render.layout import wrapped
from traceanalyzer.passes.answer import Answer

INDENT = 3


def card(answer: Answer, width: int) -> str:
    """What is behind each verdict, for a terminal of that width."""
    messages = Messages(answer.language)
    blocks = [_block(row, messages, width) for row in answer.table("verdicts").rows()]
    if any(row["advice"] for row in answer.table("verdicts").rows()):
        blocks.append(messages.text("card.one_at_a_time"))
    return "\n\n".join(blocks)


def _block(row: dict[str, Any], messages: Messages, width: int) -> str:
    lines = _paragraph(f"{row['order']}. ", row["title"], width)
    labels = {name: messages.text(f"card.{name}") for name in ("evidence", "experiment", "advice", "remarks")}
    room = max(width_of(label) for label in labels.values()) + 2
    pad = " " * INDENT

    def part(name: str, texts: list[str]) -> Iterator[str]:
        label = labels[name] + " " * (room - width_of(labels[name]))
        for place, text in enumerate(texts):
            lead = pad + (label if place == 0 else " " * room)
            yield from _paragraph(lead, text, width)

    lines += part("evidence", list(_evidence(row["evidence"], messages)))
    lines += part("experiment", [row["experiment"]])
    numbered = [f"{place}. {text}" for place, text in enumerate(row["advice"], 1)]
    lines += part("advice", numbered if len(numbered) > 1 else row["advice"])
    lines += part("remarks", row["remarks"])
    return "\n".join(lines)


def _evidence(rows: list[dict[str, Any]], messages: Messages) -> Iterator[str]:
    """One line a figure, and the command that shows those before it."""
    figures = [evidence_value(each["value"], each["unit"]) for each in rows if not isinstance(each["value"], str)]
    widest = max(map(width_of, figures), default=0)
    for command, shown in groupby(rows, key=lambda each: str(each["command"])):
        for each in shown:
            if isinstance(each["value"], str):
                yield f"{each['source']}: {each['value']}"
                continue
            figure = evidence_value(each["value"], each["unit"])
            text = f"{' ' * (widest - width_of(figure))}{figure}  {each['source']}"
            if each["threshold"] is not None:
                limit = messages.text("card.threshold", value=evidence_value(each["threshold"], each["unit"]))
                text += f" ({limit})"
            yield text
        yield f"  {command}"


def _paragraph(lead: str, text: str, width: int) -> list[str]:
    """A text behind a lead, its further lines below its first word."""
    safe = printable(text)
    room = max(width - width_of(lead), 20)
    lines = wrapped(safe, room) if width_of(safe) > room else [safe]
    return [lead + lines[0], *(" " * width_of(lead) + line for line in lines[1:])]
