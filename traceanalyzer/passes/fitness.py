"""Fitness: what a capture cannot tell, or tells wrong, and which questions that spoils.

Every check ends in one of three states: fine, problem, or could not look. "Could not look" is no sign of either.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from traceanalyzer.numeric.intervals import measure
from traceanalyzer.passes.answer import Frame, TableSpec
from traceanalyzer.passes.columns import CAPTURE
from traceanalyzer.passes.idle.samples import python_period_ns
from traceanalyzer.passes.scope import PROFILERS, TELEMETRY, Scope
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import EventKind, OpKind, SampleKind
from traceanalyzer.store.database import first_row
from traceanalyzer.units import Unit, format_value

FINE, PROBLEM, UNKNOWN = "fine", "problem", "could not look"

FITNESS = TableSpec(
    "fitness",
    "What a capture cannot tell, or tells wrong, and which questions that spoils.",
    (
        CAPTURE,
        Column("check", Type.TEXT, "What was looked at."),
        Column("state", Type.TEXT, f"{FINE}, {PROBLEM}, or {UNKNOWN}."),
        Column("text", Type.TEXT, "What was found."),
        Column("spoils", Type.TEXT, "Questions that it spoils, or would."),
    ),
    cut=False,
)

LOST_SHARE = 0.02
"""Share of launches without a device record from which on records count as lost."""
BUSY_SHARE = 0.05
"""Share of the span from which on operations in flight, or overhead of the profiler, are a problem."""
STREAM_SHARE = 0.01
"""Share of operations on streams without launches from which on they are a problem."""
OBSERVER_RATIO = 1.1
"""Steps this many times as long as in another recording of the same rank are a problem."""
CHECK_UP = "checkup"
"""The check-up rests on several questions: what spoils these spoils it."""
MOST_FILES = 4
"""Files that a warning names."""
SAMPLES_A_STEP = 10
"""With fewer samples a step than this, samples say little of a step."""
TELEMETRY_A_STEP = 2
"""With fewer samples of telemetry a step than this, it says nothing of what goes on inside of one."""

_LAUNCH_NAMES = (
    "SELECT name_id FROM stored.names"
    " WHERE regexp_matches(text, '^(cuda|cu|hip)\\w*(LaunchKernel|LaunchCooperative|GraphLaunch)', 'i')"
)


@dataclass(frozen=True, slots=True)
class _Capture:
    """A capture that is looked at: its row of the catalogue, and how long its operations span."""

    connection: duckdb.DuckDBPyConnection
    number: int
    run: str
    source: str
    file: str
    ops: int
    span_ns: int

    def one(self, query: str, **more: object) -> tuple[object, ...]:
        """The one row of a query about the capture."""
        own = {"capture": self.number} if "$capture" in query else {}
        return first_row(self.connection.execute(query, own | more)) or ()


_Result = tuple[str, str] | None
"""State and text; None where the question does not arise."""


@dataclass(frozen=True, slots=True)
class _Check:
    name: str
    spoils: tuple[str, ...]
    look: Callable[[_Capture], _Result]
    of_run: bool = False
    """Whether it is the same for all captures of a run by one tool: then it is looked at once."""

    @property
    def spoils_costs(self) -> bool:
        """Whether it spoils what the check-up rests on."""
        return not {"gaps", "ledger", "imbalance"}.isdisjoint(self.spoils)


def _device_records(capture: _Capture) -> _Result:
    launches, launched = (
        int(str(x or 0))
        for x in capture.one(
            f"""SELECT (SELECT count(*) FROM stored.cpu_events WHERE capture = $capture
                    AND kind = {int(EventKind.API_CALL)} AND name IN ({_LAUNCH_NAMES})),
                (SELECT count(*) FROM stored.gpu_ops WHERE capture = $capture AND launch_event_id IS NOT NULL)"""
        )
    )
    if not launches:
        return UNKNOWN, "no launch was recorded, so it is not known how many operations there should be"
    if not capture.ops:
        return PROBLEM, f"{launches:,} launches but no device operation: the records of the device are lost"
    if launches - launched <= LOST_SHARE * launches:
        return FINE, f"{launches:,} launches, {launched:,} operations with a launch"
    # A driver call inside of a runtime call is the same launch: only now, since this is more work, count them once.
    launches, lost = (
        int(str(x or 0))
        for x in capture.one(
            f"""SELECT count(*), count(*) FILTER (o.correlation_id IS NULL) FROM (
                SELECT DISTINCT process, correlation_id FROM stored.cpu_events WHERE capture = $capture
                    AND kind = {int(EventKind.API_CALL)} AND name IN ({_LAUNCH_NAMES}) AND correlation_id IS NOT NULL
            ) e LEFT JOIN (
                SELECT DISTINCT process, correlation_id FROM stored.gpu_ops WHERE capture = $capture
            ) o ON o.process = e.process AND o.correlation_id = e.correlation_id"""
        )
    )
    if lost > LOST_SHARE * launches:
        return PROBLEM, f"{lost:,} of {launches:,} launches have no device record: lost, or made after recording ended"
    return FINE, f"{launches:,} launches, {launched:,} operations with a launch"


def _in_flight(capture: _Capture) -> _Result:
    if not capture.ops:
        return None
    count, busy = (
        int(str(x or 0))
        for x in capture.one(
            """WITH first AS (
                SELECT process, stream, min(start_ns) AS start_ns FROM stored.gpu_ops
                WHERE capture = $capture AND launch_event_id IS NOT NULL GROUP BY process, stream
            )
            SELECT count(*), sum(o.end_ns - o.start_ns) FROM stored.gpu_ops o JOIN first f
                ON f.process IS NOT DISTINCT FROM o.process AND f.stream IS NOT DISTINCT FROM o.stream
            WHERE o.capture = $capture AND o.launch_event_id IS NULL AND o.start_ns <= f.start_ns"""
        )
    )
    if not count:
        return FINE, "no operation was in flight when recording began"
    text = f"{count:,} operations ({_time(busy)}) were launched before recording began"
    return (PROBLEM if busy > BUSY_SHARE * capture.span_ns else FINE), text


def _graphs(capture: _Capture) -> _Result:
    if not capture.ops:
        return None
    (count,) = capture.one(
        f"SELECT count(*) FROM stored.gpu_ops WHERE capture = $capture AND kind = {int(OpKind.GRAPH)}"
    )
    if not count:
        return FINE, "no graph was recorded without its nodes"
    return PROBLEM, (
        f"{count:,} graph launches were recorded without their nodes: each counts as one"
        " operation of the compute lane, and idle time inside of it is not seen"
    )


def _streams(capture: _Capture) -> _Result:
    if not capture.ops:
        return None
    streams, count = (
        int(str(x or 0))
        for x in capture.one(
            """SELECT count(*), sum(n) FROM (
                SELECT count(*) AS n FROM stored.gpu_ops WHERE capture = $capture
                GROUP BY process, device, stream HAVING count(launch_event_id) = 0
            )"""
        )
    )
    if not streams:
        return FINE, "every stream has launches in the file"
    text = f"{streams:,} streams with {count:,} operations have no launch in the file"
    return (PROBLEM if count > STREAM_SHARE * capture.ops else FINE), text


def _steps(capture: _Capture) -> _Result:
    steps, empty = (
        int(str(x or 0))
        for x in capture.one(
            """SELECT count(*), count(*) FILTER (o.step IS NULL)
            FROM stored.steps s LEFT JOIN (SELECT DISTINCT step FROM stored.gpu_ops WHERE capture = $capture) o
                ON o.step = s.step WHERE s.capture = $capture"""
        )
    )
    if not steps:
        return UNKNOWN, "no step is marked"
    if empty:
        return PROBLEM, f"in {empty:,} of {steps:,} steps nothing was launched"
    return FINE, f"{steps:,} steps, operations were launched in each"


def _overhead(capture: _Capture) -> _Result:
    if not capture.span_ns:
        return None
    got = capture.connection.execute(
        f"""WITH span AS (
            SELECT min(start_ns) AS low, max(end_ns) AS high FROM stored.gpu_ops WHERE capture = $capture
        )
        SELECT greatest(e.start_ns, low) AS start_ns, least(e.end_ns, high) AS end_ns FROM stored.cpu_events e, span
        WHERE e.capture = $capture AND e.kind = {int(EventKind.OVERHEAD)}""",
        {"capture": capture.number},
    ).fetchnumpy()
    start, end = (np.asarray(got[name], np.int64) for name in ("start_ns", "end_ns"))
    total = measure(start, np.maximum(start, end))
    if not len(start):
        return UNKNOWN, "the profiler recorded no overhead of its own, which does not mean that it had none"
    share = total / capture.span_ns
    text = f"the profiler was at its own work for {_time(total)}, {100 * share:.1f} % of the span"
    return (PROBLEM, f"{text}: host and steps were slower than without it") if share > BUSY_SHARE else (FINE, text)


def _slower_steps(capture: _Capture) -> _Result:
    """Whether steps last longer than in another recording of the same ranks: then recording itself slows them."""
    rows = capture.connection.execute(
        """WITH medians AS (
            SELECT s.capture, coalesce(p.rank, c.rank) AS rank, median(s.end_ns - s.start_ns) AS step_ns,
            FROM stored.steps s JOIN stored.captures c ON c.capture = s.capture
                LEFT JOIN stored.processes p ON p.capture = s.capture AND p.process = s.process
            WHERE c.run = $run GROUP BY ALL
        )
        SELECT own.step_ns, other.step_ns, o.source, regexp_extract(o.path, '[^/\\\\]*$')
        FROM medians own JOIN medians other ON other.rank = own.rank AND other.capture <> own.capture
            JOIN stored.captures o ON o.capture = other.capture
        WHERE own.capture = $capture AND other.step_ns > 0
        ORDER BY own.step_ns / other.step_ns DESC, other.capture LIMIT 1""",
        {"run": capture.run, "capture": capture.number},
    ).fetchall()
    if not rows:
        return None
    own, least, source, file = rows[0]
    text = f"steps take {_time(round(own))} here and {_time(round(least))} in {file} ({source}) of the same rank"
    if own <= OBSERVER_RATIO * least:
        return FINE, text
    return PROBLEM, f"{text}: recording may slow the host and its steps by {100 * (own / least - 1):.0f} %"


def _sampling(capture: _Capture) -> _Result:
    count, step = capture.one(
        f"""SELECT
            (SELECT count(*) FROM stored.samples WHERE capture = $capture AND kind = {int(SampleKind.PYTHON)}),
            (SELECT median(end_ns - start_ns)::BIGINT FROM stored.steps WHERE capture = $capture)"""
    )
    if not count:
        return None
    interval = python_period_ns(capture.connection, capture.number)
    if interval is None or step is None:
        return UNKNOWN, "no two samples of a thread, or no steps to compare their distance with"
    every, length = _time(interval), _time(int(str(step)))
    text = f"a sample of a Python stack every {every}, a step takes {length} on the host"
    if SAMPLES_A_STEP * interval > int(str(step)):
        return PROBLEM, f"{text}: what is short beside that is charged to its neighbours"
    return FINE, text


def _ranks(capture: _Capture) -> _Result:
    world, ranks = capture.one(
        """SELECT max(c.world_size), count(DISTINCT r.rank) FROM stored.captures c LEFT JOIN (
            SELECT capture, rank FROM stored.captures UNION SELECT capture, rank FROM stored.processes
            UNION SELECT capture, rank FROM stored.devices) r ON r.capture = c.capture
        WHERE c.run = $run""",
        run=capture.run,
    )
    if world is None:
        return None
    missing = int(str(world)) - int(str(ranks))
    if missing > 0:
        return PROBLEM, f"{ranks} of {world} ranks are in the run: who waits for the others is not seen"
    return FINE, f"all {world} ranks are in the run"


def _start_skew(capture: _Capture) -> _Result:
    count, known, skew = capture.one(
        """SELECT count(*), count(utc_offset_ns), max(start_ns + utc_offset_ns) - min(start_ns + utc_offset_ns)
        FROM stored.captures WHERE run = $run AND source = $source AND rank IS NOT NULL""",
        run=capture.run,
        source=capture.source,
    )
    if int(str(count or 0)) < 2:
        return None
    if known != count:
        return UNKNOWN, "not every file of the run tells the time of day"
    text = f"recording began within {_time(int(str(skew)))} on the ranks of the run"
    return (PROBLEM if int(str(skew)) > capture.span_ns / 2 else FINE), text


def _telemetry(capture: _Capture) -> _Result:
    """Whether telemetry of the run is sampled often enough to look into steps."""
    watched, interval, step = capture.one(
        f"""WITH mine AS (SELECT capture FROM stored.captures WHERE run = $run AND source IN {TELEMETRY}),
        series AS (
            SELECT max(t_ns) - min(t_ns) AS span, count(DISTINCT t_ns) AS n FROM stored.metric_samples
            WHERE capture IN (SELECT capture FROM mine) AND device IS NOT NULL AND process IS NULL
            GROUP BY capture, device, metric
        )
        SELECT (SELECT count(*) FROM series), (SELECT min(span / (n - 1))::BIGINT FROM series WHERE n > 1),
            (SELECT median(end_ns - start_ns)::BIGINT FROM stored.steps WHERE capture = $capture)""",
        run=capture.run,
    )
    if not watched:
        return None
    if interval is None or step is None:
        return UNKNOWN, "telemetry states no times, or there are no steps to compare its distance of samples with"
    text = f"telemetry has a sample every {_time(int(str(interval)))}, a step takes {_time(int(str(step)))} on the host"
    if TELEMETRY_A_STEP * int(str(interval)) > int(str(step)):
        return UNKNOWN, f"{text}: it could not look into steps"
    return FINE, text


_TIMELINE = ("gaps", "ledger", "steps", "scaling")
CHECKS = (
    _Check("device_records", (*_TIMELINE, "ranges", "ops", "kernels", "streams", "launches"), _device_records),
    _Check("in_flight", ("launches", "collectives"), _in_flight),
    _Check("graphs", (*_TIMELINE, "ranges", "launches"), _graphs),
    _Check("streams", ("gaps", "ranges", "launches"), _streams),
    _Check("steps", ("steps", "scaling"), _steps),
    _Check("profiler_overhead", (*_TIMELINE, "ranges", "ops", "launches"), _overhead),
    _Check("slower_steps", (*_TIMELINE, "ranges", "ops", "launches"), _slower_steps),
    _Check("sampling", ("gaps", "ranges"), _sampling),
    _Check("telemetry", ("metrics",), _telemetry),
    _Check("ranks", ("collectives", "imbalance"), _ranks, of_run=True),
    _Check("start_skew", ("collectives", "imbalance"), _start_skew),
)
"""A new check is one function and one line here."""


def fitness(scope: Scope) -> Frame:
    """Table `fitness` of the selected captures: a row for every check whose question arises."""
    rows = [
        (capture.number, check.name, *found, ", ".join(check.spoils))
        for capture in _captures(scope)
        for check in CHECKS
        if (found := _look(scope, check, capture)) is not None
    ]
    return Frame.of_rows(FITNESS, rows)


def spoiled(scope: Scope, question: str) -> list[str]:
    """What spoils a question, in sentences; the same of several captures once."""
    found: dict[str, list[str]] = {}
    for capture in _captures(scope):
        for check in CHECKS:
            if question in check.spoils or (question == CHECK_UP and check.spoils_costs):
                looked = _look(scope, check, capture)
                if looked is not None and looked[0] == PROBLEM:
                    found.setdefault(looked[1], []).append(capture.file)
    return [f"{_files(files)}: {text} (`traceanalyzer info` has more)" for text, files in found.items()]


def _files(names: list[str]) -> str:
    more = len(names) - MOST_FILES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:MOST_FILES])} and {more} more"


def _look(scope: Scope, check: _Check, capture: _Capture) -> _Result:
    """What a check finds in a capture: looked at once, however many questions it spoils."""
    whose = (capture.run, capture.source) if check.of_run else (capture.number,)
    return scope.once(("fitness", check.name, *whose), lambda: check.look(capture))


def _captures(scope: Scope) -> list[_Capture]:
    return scope.once(("captures of fitness", scope.captures), lambda: list(_read_captures(scope)))


def _read_captures(scope: Scope) -> Iterator[_Capture]:
    rows = scope.connection.execute(
        f"""SELECT c.capture, c.run, c.source, regexp_extract(c.path, '[^/\\\\]*$'), count(o.op_id),
            coalesce(max(o.end_ns) - min(o.start_ns), 0)::BIGINT
        FROM stored.captures c LEFT JOIN stored.gpu_ops o ON o.capture = c.capture
        WHERE c.capture IN {scope.numbers()} AND c.source NOT IN {(*PROFILERS, *TELEMETRY)}
        GROUP BY ALL ORDER BY c.capture"""
    ).fetchall()
    for row in rows:
        yield _Capture(scope.connection, *row)


def _time(ns: int) -> str:
    return format_value(ns, Unit.NS)
