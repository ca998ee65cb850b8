"""Launches, metrics and results of rules as rows of the common schema."""

from decimal import Decimal

from traceanalyzer.sources.ncu_csv.launches import Launch
from traceanalyzer.sources.row_batches import Batches


def write_launch(batches: Batches, launch: Launch) -> None:
    """The row of a launch, once all of its metrics are known."""
    launch.finish()
    batches.add(
        "kernel_profiles",
        {
            "launch": launch.number,
            "table_number": launch.table,
            "id": launch.id,
            "process": launch.process,
            "kernel": launch.kernel,
            "compute_capability": launch.compute_capability,
            "nvtx_ranges": launch.nvtx,
            "nvidia_verdict": launch.verdict,
            "nvidia_verdict_type": launch.verdict_type,
            **launch.typed,
        },
    )


def write_metric(
    batches: Batches,
    launch: Launch,
    place: tuple[str | None, str | None],
    metric: str,
    unit: tuple[str, str],
    value: Decimal | None,
    text: str | None,
) -> None:
    """A metric of a launch. `place` is its section and item, `unit` the base unit and the printed one."""
    batches.add(
        "kernel_metrics",
        {
            "launch": launch.number,
            "id": launch.id,
            "section": place[0],
            "item": place[1],
            "metric": metric,
            "metric_unit": unit[0],
            "printed_unit": unit[1],
            "value": None if value is None else float(value),
            "text": text,
        },
    )


def write_rule(
    batches: Batches,
    launch: Launch,
    rule: tuple[str | None, str, str | None],
    kind: str | None,
    text: str,
    speedup: tuple[str | None, float | None],
) -> None:
    """A result of a rule. `rule` is its section, name and title; `speedup` the kind and percentage of the estimate."""
    batches.add(
        "kernel_rules",
        {
            "launch": launch.number,
            "id": launch.id,
            "section": rule[0],
            "rule": rule[1],
            "title": rule[2],
            "type": kind,
            "text": text,
            "speedup_type": speedup[0],
            "speedup_pct": speedup[1],
        },
    )
