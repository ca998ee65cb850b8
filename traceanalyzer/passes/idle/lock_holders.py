"""Who holds the interpreter lock while the launching thread waits for it, where that was recorded."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.answer import TableSpec
from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.columns import CAPTURE, DEVICE, RANK
from traceanalyzer.passes.idle.interpreter_lock import load_lock
from traceanalyzer.passes.idle.pieces import Pieces
from traceanalyzer.passes.idle.samples import load_samples
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.idle.step_functions import StepFunction
from traceanalyzer.passes.idle.threads import ThreadEvents
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.units import Unit

LOCK = TableSpec(
    "lock",
    "Who holds the interpreter lock while launching threads wait for it (cause gil_wait), where that was recorded.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("process", Type.INT64, "Process."),
        Column("thread", Type.INT64, "Thread that holds the lock."),
        Column("name", Type.TEXT, "Name of the thread."),
        Column("blame", Type.TEXT, "The user's own code that it runs, where its Python stack was sampled."),
        Column("idle_ns", Type.INT64, "Idle time of the device in which it holds the lock.", Unit.NS),
        Column("share", Type.FLOAT64, "Share of the device's idle time of the cause gil_wait.", Unit.SHARE),
    ),
)


@dataclass(frozen=True, slots=True)
class _Holder:
    process: int
    thread: int
    lock: StepFunction
    samples: StepFunction


class LockHolders:
    """Sums of idle time in which threads hold the lock that a launching thread waits for."""

    def __init__(self, scope: Scope, tree: StackTree, capture: int) -> None:
        self._tree = tree
        self.waited_ns = 0
        self._sums: dict[tuple[int, int], int] = {}
        self._holders = [
            _Holder(
                process,
                thread,
                load_lock(scope, capture, process, thread),
                load_samples(scope, capture, process, thread, ThreadEvents(scope, tree, capture, process, thread)),
            )
            for process, thread in scope.connection.execute(
                f"""SELECT DISTINCT process, thread FROM stored.cpu_events WHERE capture = ?
                    AND kind = {int(EventKind.GIL_HOLD)} AND process IS NOT NULL AND thread IS NOT NULL ORDER BY ALL""",
                [capture],
            ).fetchall()
        ]

    def add(self, pieces: Pieces, process: NDArray[np.int64], thread: NDArray[np.int64]) -> None:
        """Takes pieces with the launching thread of each."""
        waits = np.flatnonzero(pieces.cause == int(Cause.GIL_WAIT)) if self._holders else ()
        if not len(waits):
            return
        self.waited_ns += int(pieces.length[waits].sum())
        for number, holder in enumerate(self._holders):
            mine = waits[(process[waits] == holder.process) & (thread[waits] != holder.thread)]
            _, start, end, held = holder.lock.cut(pieces.start[mine], pieces.end[mine])
            start, end = start[held >= 0], end[held >= 0]
            _, start, end, node = holder.samples.cut(start, end)
            label = np.append(self._tree.blame_label(), -1)[node]
            for key in np.unique(label).tolist():
                ns = int((end - start)[label == key].sum())
                if ns:
                    self._sums[number, key] = self._sums.get((number, key), 0) + ns

    def rows(self) -> list[tuple[int, int, str | None, int]]:
        """(process, thread, blame, idle), the largest first."""
        found = [
            (self._holders[n].process, self._holders[n].thread, None if k < 0 else self._tree.labels[k].text, ns)
            for (n, k), ns in self._sums.items()
        ]
        return sorted(found, key=lambda row: (-row[3], row[1], row[2] or ""))
