"""The hosts that a job ran on, each with its ranks, its cores and its loader workers."""

import json
from dataclasses import dataclass

from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.store.database import first_row

WORKER = "pt_data_worker"
"""What PyTorch names the processes of a DataLoader."""
_SEVERAL = "%MultiProcessingDataLoaderIter%"
_MOST_CORES = 1 << 20
_FOREVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Given:
    """What is said of the host beside the files: loader workers of each rank, and cores that the job may use."""

    workers: int | None = None
    cpus: int | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """One host. What the files do not tell, and nobody said, is None.

    `ranks` are those that run on it; `recorded` are those of them that were recorded. `workers` are the loader workers
    of all of them, `source` says who tells: a key of the messages `source`, or "given". `captures` are its files.
    """

    captures: tuple[int, ...]
    ranks: int
    recorded: int
    cores: int | None
    workers: int | None
    source: str

    @property
    def workers_per_rank(self) -> int | None:
        """Loader workers of a rank, where all have as many."""
        if self.workers is None or self.workers % self.ranks:
            return None
        return self.workers // self.ranks


def captures_of_runs(scope: Scope) -> str:
    """Every capture of the selected runs as a list for SQL, those of other tools too: they tell of the same host."""
    rows = scope.connection.execute(
        "SELECT capture FROM stored.captures WHERE run IN (SELECT unnest(?::VARCHAR[]))", [list(scope.runs)]
    ).fetchall()
    return "(" + ", ".join(str(capture) for (capture,) in rows or [(-1,)]) + ")"


def hosts_of(scope: Scope, given: Given) -> list[Host]:
    """The hosts of the selected run. Files that name no host are of the one that others name, if that is one."""
    rows = scope.connection.execute(
        f"""SELECT capture, host, world_size, metadata FROM stored.captures
        WHERE capture IN {captures_of_runs(scope)} ORDER BY capture"""
    ).fetchall()
    named = sorted({row[1] for row in rows if row[1]})
    only = named[0] if len(named) == 1 else None
    groups: dict[str | None, list[tuple[int, str | None]]] = {}
    for capture, name, _world, metadata in rows:
        groups.setdefault(name or only, []).append((capture, metadata))
    world = max((row[2] or 0 for row in rows), default=0)
    found = []
    for files in groups.values():
        captures = tuple(capture for capture, _ in files)
        recorded = _ranks(scope, captures)
        if recorded:
            ranks = max(recorded, min(world, _gpus(scope, captures))) if len(groups) == 1 else recorded
            cores = given.cpus or max((_cores(metadata) for _, metadata in files), default=0) or None
            found.append(Host(captures, ranks, recorded, cores, *_workers(scope, captures, ranks, recorded, given)))
    return found


def _list(captures: tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, captures)) + ")"


def _ranks(scope: Scope, captures: tuple[int, ...]) -> int:
    """Ranks that ran operations on a host; where no file tells ranks, processes that did."""
    mine = _list(captures)
    row = first_row(
        scope.connection.execute(
            f"""SELECT count(DISTINCT rank) FROM (
                SELECT c.rank FROM stored.captures c WHERE c.capture IN {mine}
                    AND EXISTS (SELECT 1 FROM stored.devices d WHERE d.capture = c.capture AND d.n_ops > 0)
                UNION ALL SELECT rank FROM stored.processes WHERE capture IN {mine}
                UNION ALL SELECT rank FROM stored.devices WHERE capture IN {mine} AND n_ops > 0)"""
        )
    )
    if row and row[0]:
        return int(row[0])
    row = first_row(
        scope.connection.execute(
            f"""SELECT max(n) FROM (SELECT count(DISTINCT process) AS n FROM stored.gpu_ops
            WHERE capture IN {mine} GROUP BY capture)"""
        )
    )
    return int(row[0]) if row and row[0] else 0


def _gpus(scope: Scope, captures: tuple[int, ...]) -> int:
    """GPUs of a host, by the file that lists most."""
    row = first_row(
        scope.connection.execute(
            f"""SELECT max(n) FROM (SELECT count(*) AS n FROM stored.devices WHERE capture IN {_list(captures)}
            GROUP BY capture)"""
        )
    )
    return int(row[0]) if row and row[0] else 0


def _cores(metadata: str | None) -> int:
    """Cores of the machine that a file tells of; 0 for none."""
    try:
        found = json.loads(metadata or "{}")
    except ValueError:
        return 0
    machine = found.get("machine") if isinstance(found, dict) else None
    text = str(machine.get("cpu_cores", "")) if isinstance(machine, dict) else ""
    cores = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    return cores if cores <= _MOST_CORES else 0


def _workers(
    scope: Scope, captures: tuple[int, ...], ranks: int, recorded: int, given: Given
) -> tuple[int | None, str]:
    """Loader workers of all ranks of a host, and who tells; ranks that were not recorded have as many as the others."""
    if given.workers is not None:
        return given.workers * ranks, "given"
    seen, source = _at_once(scope, captures, WORKER_PROCESSES), "processes"
    if not seen:
        seen, source = _at_once(scope, captures, _unnamed_workers(captures)), "children"
    if not seen:
        return None, ""
    return (seen // recorded * ranks if seen % recorded == 0 else seen), source


WORKER_PROCESSES = f"""SELECT p.capture, p.process FROM stored.processes p
    JOIN stored.names n ON n.name_id = p.name WHERE contains(n.text, '{WORKER}')
    UNION SELECT t.capture, t.process FROM stored.threads t
    JOIN stored.names n ON n.name_id = t.name WHERE contains(n.text, '{WORKER}')"""
"""Loader workers by their names, or the names of their threads."""


def _at_once(scope: Scope, captures: tuple[int, ...], processes: str) -> int:
    """How many of some processes were there at once: a loader may start new workers in each epoch.

    Those that files of several ranks show are counted once; of several files of a rank the one that shows most counts.
    """
    row = first_row(
        scope.connection.execute(
            f"""WITH worker AS (SELECT * FROM ({processes}) WHERE capture IN {_list(captures)}),
            seen AS (
                SELECT capture, process, start_ns AS low, end_ns AS high FROM stored.sched_slices
                UNION ALL SELECT capture, process, t_ns, t_ns FROM stored.samples
                UNION ALL SELECT capture, process, start_ns, end_ns FROM stored.cpu_events),
            life AS (
                SELECT capture, process, coalesce(min(low), -{_FOREVER}) AS low, coalesce(max(high), {_FOREVER}) AS high
                FROM worker LEFT JOIN seen USING (capture, process) GROUP BY ALL),
            change AS (
                SELECT capture, low AS instant, 1 AS more FROM life UNION ALL SELECT capture, high, -1 FROM life),
            alive AS (
                SELECT capture, sum(more) OVER (
                    PARTITION BY capture ORDER BY instant, more DESC ROWS UNBOUNDED PRECEDING) AS n
                FROM change),
            of_rank AS (SELECT c.rank, max(n) AS n FROM alive JOIN stored.captures c USING (capture) GROUP BY c.rank)
            SELECT least((SELECT sum(n) FROM of_rank), (SELECT count(DISTINCT process) FROM worker))"""
        )
    )
    return int(row[0]) if row and row[0] else 0


def _unnamed_workers(captures: tuple[int, ...]) -> str:
    """Where a loader has processes but none goes by their name: Python without any call of CUDA or rank."""
    mine = _list(captures)
    return f"""SELECT p.capture, p.process FROM stored.processes p JOIN stored.names n ON n.name_id = p.name
        WHERE p.capture IN {mine} AND p.rank IS NULL AND n.text LIKE 'python%'
            AND EXISTS (SELECT 1 FROM stored.names l WHERE l.text LIKE '{_SEVERAL}' AND l.name_id IN (
                SELECT name FROM stored.cpu_events WHERE capture IN {mine} UNION SELECT frame FROM stored.stack_nodes))
            AND NOT EXISTS (SELECT 1 FROM stored.cpu_events e WHERE e.capture = p.capture
                AND e.process = p.process AND e.kind = {int(EventKind.API_CALL)})
            AND NOT EXISTS (SELECT 1 FROM stored.gpu_ops o WHERE o.capture = p.capture AND o.process = p.process)"""
