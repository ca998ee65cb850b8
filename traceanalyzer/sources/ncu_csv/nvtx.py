"""The NVTX ranges around a launch, as the columns of ncu hold them."""

import re

_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
DEFAULT_DOMAIN = "<default domain>"
_MESSAGE = re.compile(r"(?P<name>.*?)(?::[^:]*){5}:(?:none|(?P=name))", re.DOTALL)
BETWEEN = " > "


def range_names(cell: str, column: str, domain: str | None = None) -> list[str]:
    """Names of the ranges in a cell, outermost first; with the domain where it is not the default one.

    `column` is the name of the column: it tells how many fields of payload, colour and message follow a name. Where the
    domain has a column of its own, it is given.
    """
    tail = len(column.partition("Range")[2].split(":")) - 1
    numbered, alone = column.startswith("Id:"), domain is None
    out = []
    for quoted in _QUOTED.findall(cell):
        rest = quoted.partition(":")[2] if numbered else quoted
        if alone:
            domain, _, rest = rest.partition(":")
        name = _without_tail(rest, tail)
        if name:
            out.append(name if domain == DEFAULT_DOMAIN or not domain else f"{domain}:{name}")
    return out


def joined(names: list[str]) -> str | None:
    """Ranges as one text, outermost first; None where there are none."""
    return BETWEEN.join(names) or None


def _without_tail(text: str, tail: int) -> str:
    if tail == 6 and (found := _MESSAGE.fullmatch(text)):
        return found["name"]  # the message repeats the name, colons and all
    parts = text.rsplit(":", tail) if tail else [text]
    return parts[0]
