"""Idle time as text for flame-graph tools, and as a tree for a terminal."""

from collections.abc import Iterable, Sequence
from typing import Any

from traceanalyzer.cells import printable, shortened, width_of
from traceanalyzer.passes.answer import Answer
from traceanalyzer.units import Unit, format_value

LEAST_SHARE = 0.01
"""Branches of a tree with less of the whole than this are joined."""

_Node = dict[str, Any]


def as_folded(answer: Answer) -> str:
    """One line a stack: `frame;frame;[cause] ns`, outermost first, as flame-graph tools read it.

    Where several devices are told apart, the outermost frame names the device.
    """
    sums: dict[str, int] = {}
    for frames, ns in _stacks(answer):
        line = ";".join(_folded(frame) for frame in frames)
        sums[line] = sums.get(line, 0) + ns
    return "".join(f"{line} {ns}\n" for line, ns in sorted(sums.items()))


def _folded(frame: str) -> str:
    return printable(" ".join(frame.split())).replace(";", ":") or "?"


def _stacks(answer: Answer) -> Iterable[tuple[list[str], int]]:
    rows = list(answer.table("stacks").rows())
    several = len({(row["capture"], row["device"]) for row in rows}) > 1
    captures = len({row["capture"] for row in rows}) > len({row["rank"] for row in rows})
    for row in rows:
        device = [] if row["rank"] is None else [f"rank {row['rank']}"]
        device = ([f"capture {row['capture']}"] if captures else device) + [f"device {row['device']}"]
        cause = f"[{row['cause']}]" if not row["reason"] else f"[{row['cause']}: {row['reason']}]"
        yield [*([", ".join(device)] if several else []), *row["stack"], cause], row["idle_ns"]


def as_tree(answer: Answer, width: int) -> str:
    """Idle time by stacks as a tree: time and share of the whole, the largest branch first.

    Frames that call one frame only are joined to one line; small branches are summed up.
    """
    root: _Node = {"ns": 0, "children": {}}
    for frames, ns in _stacks(answer):
        node = root
        node["ns"] += ns
        for frame in frames:
            node = node["children"].setdefault(frame, {"ns": 0, "children": {}})
            node["ns"] += ns
    lines = [*(printable(note) for note in answer.notes), "", f"{_time(root['ns'])} idle"]
    lines += _branches(root, root["ns"], "", width)
    lines += ["", *(f"- {printable(finding.text)}" for finding in answer.findings)]
    return "\n".join(lines).rstrip() + "\n"


def _branches(node: _Node, whole: int, lead: str, width: int) -> list[str]:
    children = sorted(node["children"].items(), key=lambda item: (-item[1]["ns"], item[0]))
    large = [(text, child) for text, child in children if child["ns"] >= LEAST_SHARE * whole]
    small = sum(child["ns"] for _, child in children) - sum(child["ns"] for _, child in large)
    out = []
    for number, (text, child) in enumerate(large):
        last = number == len(large) - 1 and not small
        chain, inner = _chain(text, child)
        out.append(_line(lead + ("└─ " if last else "├─ "), child["ns"], whole, chain, width))
        out += _branches(inner, whole, lead + ("   " if last else "│  "), width)
    if small and large:
        count = len(children) - len(large)
        out.append(_line(f"{lead}└─ ", small, whole, [f"({count:,} smaller)"], width))
    return out


def _chain(text: str, node: _Node) -> tuple[list[str], _Node]:
    """Frames from here on that each call one frame only, and the last of them."""
    chain = [text]
    while len(node["children"]) == 1:
        ((text, node),) = node["children"].items()
        chain.append(text)
    return chain, node


def _line(lead: str, ns: int, whole: int, chain: Sequence[str], width: int) -> str:
    head = f"{lead}{_time(ns)} {100 * ns / whole:.1f} %  "
    room = max(width - width_of(head), 20)
    texts = [printable(text) for text in chain]
    if width_of(" > ".join(texts)) > room and len(texts) > 2:  # what calls and what is called tell most
        tail = texts[-2:] if texts[-1].startswith("[") else texts[-1:]
        texts = [texts[0], *(["…"] if len(texts) > len(tail) + 1 else []), *tail]
    return head + shortened(" > ".join(texts), room)


def _time(ns: int) -> str:
    return format_value(ns, Unit.NS)
