"""A heat map of ranks by steps: which rank is late, and when."""

from collections.abc import Sequence

from traceanalyzer.passes.answer import Frame

SHADES = " ░▒▓█"
_MOST_RANKS = 64


def heat_map(frame: Frame, value: str, width: int, *, unit_ns: int = 1_000_000) -> str:
    """Values of a table with columns `rank`, `step` and `value` (ns): a line a rank, a character a step or more.

    The darkest is the largest value, nothing is less than an eighth of it. Where there are more steps than columns, a
    character is the largest of its steps; of more than 64 ranks those with the largest values are shown.
    """
    if len(set(frame.columns.get("run", ()))) > 1:
        return ""
    ranks = sorted(set(frame.columns["rank"]))
    steps = sorted(set(frame.columns["step"]))
    largest = max((int(v) for v in frame.columns[value]), default=0)
    if len(ranks) < 2 or not steps or largest <= 0:
        return ""
    at = {step: k for k, step in enumerate(steps)}
    rows: dict[int, list[int]] = {rank: [0] * len(steps) for rank in ranks}
    for rank, step, found in zip(frame.columns["rank"], frame.columns["step"], frame.columns[value], strict=True):
        rows[rank][at[step]] = int(found)
    shown = sorted(sorted(ranks, key=lambda rank: -max(rows[rank]))[:_MOST_RANKS])
    label = len(str(shown[-1]))
    room = max(width - label - 8, 1)
    each = -(-len(steps) // room)
    lines = [
        f"{value.removesuffix('_ns')}: ranks by steps {steps[0]} to {steps[-1]}; {SHADES[-1]} is"
        f" {largest / unit_ns:,.3f} ms" + (f"; a character is {each} steps" if each > 1 else "")
    ]
    for rank in shown:
        cells = [max(rows[rank][k : k + each]) for k in range(0, len(steps), each)]
        lines.append(f"rank {rank:>{label}} |{_shaded(cells, largest)}|")
    if len(shown) < len(ranks):
        lines.append(f"{len(ranks) - len(shown)} more ranks; --table excess lists all")
    return "\n".join(lines)


def _shaded(cells: Sequence[int], largest: int) -> str:
    top = len(SHADES) - 1
    return "".join(SHADES[max(round(cell * top / largest), 0)] for cell in cells)
