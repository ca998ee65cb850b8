"""Times that the job itself wrote down: of its steps, and of a loader that ran alone."""

from dataclasses import dataclass

from traceanalyzer.passes.scope import Scope
from traceanalyzer.store.database import first_row

LOADER_TIME, STEP_TIME = "loader_time", "step_time"
_SOURCE = "training_log"


@dataclass(frozen=True, slots=True)
class LoggedTime:
    """Mean and median of a metric of a training log, in seconds, over all of its `count` steps or batches."""

    capture: int
    mean_s: float
    median_s: float
    count: int


def logged_time(scope: Scope, metric: str) -> LoggedTime | None:
    """What the selected training logs tell of a time, `LOADER_TIME` or `STEP_TIME`; of several logs the longest one.

    None where none tells it, or not in seconds.
    """
    row = first_row(
        scope.connection.execute(
            f"""SELECT m.capture, avg(m.value), median(m.value), count(*)
            FROM stored.metric_samples m JOIN stored.names n ON n.name_id = m.metric
            JOIN stored.names u ON u.name_id = m.metric_unit JOIN stored.captures c ON c.capture = m.capture
            WHERE m.capture IN {scope.numbers()} AND c.source = $source AND n.text = $metric AND u.text = 's'
                AND m.value IS NOT NULL AND isfinite(m.value) AND m.value >= 0
            GROUP BY m.capture ORDER BY count(*) DESC, m.capture LIMIT 1""",
            {"source": _SOURCE, "metric": metric},
        )
    )
    return LoggedTime(*row) if row else None
