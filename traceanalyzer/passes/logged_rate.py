"""Throughput as the job itself counted it: samples per second of training logs."""

from dataclasses import dataclass

import numpy as np

from traceanalyzer.passes.scope import Scope

_SOURCE = "training_log"


@dataclass(frozen=True, slots=True)
class LoggedRate:
    """What the log of a run tells: the median over its steps, and the ranks of its world where it tells them.

    `own` says that the log tells samples itself; else it tells the time of steps, and their samples were given.
    """

    samples_per_second: float
    ranks: int | None
    n_steps: int
    own: bool = True


def logged_rate(scope: Scope, run: str, warnings: list[str], samples_per_step: int | None = None) -> LoggedRate | None:
    """Samples per second of all ranks together, by the training log of a run; None where there is none.

    A step counts with the rate that it has in the log, else with its samples by its time, and in a log that tells no
    samples at all with `samples_per_step`. Selected steps count, and with `warmup` the leading ones do not. Says in
    `warnings` where several logs of a run tell one: they may be of one rank each, or of one job in parts.
    """
    rows = scope.connection.execute(
        f"""WITH told AS (
            SELECT m.capture, m.tick, n.text AS metric, m.value
            FROM stored.metric_samples m JOIN stored.names n ON n.name_id = m.metric
            JOIN stored.captures c ON c.capture = m.capture
            WHERE m.capture IN {scope.numbers()} AND c.run = $run AND c.source = $source
                AND n.text IN ('samples_per_second', 'samples', 'step_time') AND m.value > 0 AND m.tick IS NOT NULL
        ), steps AS (
            SELECT capture, tick, coalesce(
                median(value) FILTER (WHERE metric = 'samples_per_second'),
                median(value) FILTER (WHERE metric = 'samples') / median(value) FILTER (WHERE metric = 'step_time')
            ) AS own, $samples / median(value) FILTER (WHERE metric = 'step_time') AS given FROM told GROUP BY ALL
        ), rates AS (
            SELECT capture, tick, CASE WHEN count(own) OVER (PARTITION BY capture) > 0 THEN own ELSE given END AS rate,
                count(own) OVER (PARTITION BY capture) > 0 AS is_own FROM steps
        )
        SELECT s.capture, s.tick, s.rate, c.world_size, s.is_own
        FROM rates s JOIN stored.captures c ON c.capture = s.capture
        WHERE s.rate IS NOT NULL AND isfinite(s.rate) ORDER BY s.capture, s.tick""",
        {"run": run, "source": _SOURCE, "samples": samples_per_step},
    ).fetchall()
    if any(row[4] for row in rows):
        rows = [row for row in rows if row[4]]  # what a log counted itself comes before what was given
    captures = sorted({row[0] for row in rows})
    if len(captures) > 1:
        warnings.append(
            f"run {run} has {len(captures):,} training logs that tell a throughput, so none of them counts; give the"
            " one of the whole job"
        )
        return None
    chosen = scope.selection
    if chosen.steps is not None:
        rows = [row for row in rows if chosen.steps[0] <= row[1] <= chosen.steps[1]]
    rates = [row[2] for row in rows[chosen.warmup or 0 :]]
    return LoggedRate(float(np.median(rates)), rows[0][3], len(rates), rows[0][4]) if rates else None
