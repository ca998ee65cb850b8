"""What a step is made of, by verdict."""

from traceanalyzer.passes.answer import Answer
from traceanalyzer.report.blocks import Figure
from traceanalyzer.report.figures.common import listed, stacked_layout, stacked_rows
from traceanalyzer.report.scale import share_text, time_scale, time_text


def composition(answer: Answer) -> Figure | None:
    """A counted step of the typical devices as one bar, cut by verdict: the parts add up to the step."""
    rows = [row for row in answer.tables["costs"].rows() if row["typical"]]
    devices = {(row["capture"], row["device"]) for row in rows}
    if not rows:
        return None
    sums: dict[str, float] = {}
    for row in rows:
        sums[row["verdict"]] = sums.get(row["verdict"], 0.0) + row["per_step_ns"] / len(devices)
    parts = dict(sorted(sums.items(), key=lambda item: (item[0] != "compute", item[0] == "left_over", -item[1])))
    step = sum(parts.values())
    what = "step" if any(row["per_step_ns"] != row["ns"] for row in rows) else "span"
    scale = time_scale([step])
    mean = f", the mean of {len(devices)} devices" if len(devices) > 1 else ""
    return Figure(
        "composition",
        f"What a {what} of {time_text(step)} is made of{mean}",
        listed((part, f"{time_text(ns)} ({share_text(ns / step)})") for part, ns in parts.items()),
        stacked_rows([what], {part: [ns] for part, ns in parts.items()}, scale, [step]),
        stacked_layout(scale.unit),
        height=210,
    )
