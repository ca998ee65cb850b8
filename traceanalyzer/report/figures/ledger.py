"""Where the time of each device went."""

from traceanalyzer.passes.answer import Answer
from traceanalyzer.report.blocks import Figure
from traceanalyzer.report.figures.common import (
    MOST_ROWS,
    Place,
    height_of,
    in_order,
    left_out,
    listed,
    place_names,
    places_of,
    stacked_layout,
    stacked_rows,
)
from traceanalyzer.report.scale import share_text, time_scale

BUSY_FIRST = ("compute", "communication_transfer", "communication_wait", "communication_unresolved", "copy")


def by_rank(answer: Answer) -> Figure | None:
    """Time of each device by category of the ledger: a bar a device, whose parts add up to its span."""
    frame = answer.tables["totals"]
    names = place_names(places_of(frame))
    times: dict[Place, dict[str, int]] = {}
    for row in frame.rows():
        times.setdefault((row["capture"], row["rank"], row["device"]), {})[row["category"]] = row["ns"]
    if not times:
        return None
    idle = {place: sum(ns for c, ns in each.items() if c.startswith("idle:")) for place, each in times.items()}
    most = sorted(times, key=lambda place: (-idle[place], place))[:MOST_ROWS]
    shown = sorted(most, key=in_order)
    sums: dict[str, int] = {}
    for place in shown:
        for category, ns in times[place].items():
            sums[category] = sums.get(category, 0) + ns
    order = sorted(sums, key=lambda c: (BUSY_FIRST.index(c) if c in BUSY_FIRST else len(BUSY_FIRST), -sums[c]))
    wholes = [sum(times[place].values()) for place in shown]
    scale = time_scale(wholes)
    parts = {c: [times[place].get(c, 0) for place in shown] for c in order}
    total = sum(wholes)
    return Figure(
        "ledger",
        "Where the time of each device went",
        "Shares of all devices drawn: "
        + listed((c, share_text(ns / total)) for c, ns in sorted(sums.items(), key=lambda item: -item[1])),
        stacked_rows([names[place] for place in shown], parts, scale, wholes),
        stacked_layout(scale.unit),
        height=height_of(len(shown), 40),
        note=left_out(len(shown), len(times), "devices", "those that idle most"),
    )
