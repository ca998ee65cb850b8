"""Tables of many devices as one: how much of each part they have on average, least and most, and where most."""

from collections.abc import Sequence
from typing import Any

from traceanalyzer.passes.answer import Answer, Frame, TableSpec
from traceanalyzer.report.figures.common import place_names, places_of
from traceanalyzer.report.material import Material
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit

SUFFIX = "_over_devices"
OVER_DEVICES: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {
    ("summary", "summary"): (("part",), "per_step_ns"),
    ("ledger", "totals"): (("category",), "ns"),
    ("gaps", "causes"): (("cause",), "idle_ns"),
    ("gaps", "blames"): (("blame",), "idle_ns"),
    ("kernels", "families"): (("family", "class"), "total_ns"),
    ("kernels", "limits"): (("class",), "total_ns"),
    ("kernels", "kernels"): (("kernel",), "total_ns"),
}
"""Tables that can be told like that, by question and table: what names a part, and what is summed up."""


def together(material: Material, answer: Answer, name: str) -> Answer | None:
    """A table of an answer told over all devices; None where it cannot be, or not all of its rows are there."""
    wanted = OVER_DEVICES.get((answer.command, name))
    if wanted is None or material.is_cut(answer, name):
        return None
    return over_devices(answer, name, *wanted)


def over_devices(answer: Answer, name: str, keys: Sequence[str], value: str) -> Answer:
    """A table with a row for each device and part as one with a row for each part, the largest mean first.

    `keys` are the columns that name a part, `value` the column that is summed up: a device without the part has none
    of it. The answer has the one table `<name>_over_devices`.
    """
    frame = answer.tables[name]
    places = places_of(frame)
    names = place_names(places)
    sums: dict[tuple[Any, ...], dict[Any, int]] = {}
    for row in frame.rows():
        of_part = sums.setdefault(tuple(row[key] for key in keys), {})
        place = (row["capture"], row["rank"], row["device"])
        of_part[place] = of_part.get(place, 0) + (row[value] or 0)
    rows = []
    whole = sum(sum(of_part.values()) for of_part in sums.values())
    for part, of_part in sums.items():
        values = [of_part.get(place, 0) for place in places]
        most = max(places, key=lambda place: of_part.get(place, 0))
        share = sum(values) / whole if whole else None
        rows.append((*part, round(sum(values) / len(values)), min(values), max(values), names[most], share))
    rows.sort(key=lambda row: (-row[len(keys)], str(row)))
    return Answer(answer.command, {name + SUFFIX: Frame.of_rows(_spec(frame.spec, keys, value, len(places)), rows)})


def _spec(spec: TableSpec, keys: Sequence[str], value: str, count: int) -> TableSpec:
    by_name = {column.name: column for column in spec.columns}
    unit = by_name[value].unit
    what = by_name[value].meaning
    return TableSpec(
        spec.name + SUFFIX,
        f"{spec.meaning.split(';')[0].split(':')[0].rstrip('.')}, over {count:,} devices; {what}",
        (
            *(by_name[key] for key in keys),
            Column(f"mean_{value}", Type.INT64, "Mean of the devices; one without the part counts as 0.", unit),
            Column(f"min_{value}", Type.INT64, "The least of a device.", unit),
            Column(f"max_{value}", Type.INT64, "The most of a device.", unit),
            Column("max_on", Type.TEXT, "The device that has most."),
            Column("share", Type.FLOAT64, "Share of all devices' sum.", Unit.SHARE),
        ),
        cut=False,
    )
