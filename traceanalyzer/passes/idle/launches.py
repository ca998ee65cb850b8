"""What the time inside the launch that ends a gap is: the call itself, a copy by the host, the loading of a module."""

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.idle.copies import PAGEABLE
from traceanalyzer.passes.idle.gaps import Gaps
from traceanalyzer.passes.operations import Operations
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import OpKind

FIRST_LAUNCH_NS = 200_000
"""A first launch of a kernel in its process that takes longer is loading its module."""


def causes_of_launches(scope: Scope, ops: Operations, gaps: Gaps) -> NDArray[np.int8]:
    """Cause of the time inside the launch of the operation that ends each gap."""
    cause = np.full(len(gaps), int(Cause.LAUNCH_CALL), np.int8)
    kind = ops.kind[gaps.next_op] if len(ops) else np.zeros(0, np.int64)
    copies = np.flatnonzero((kind == int(OpKind.MEMCPY)) & (gaps.thread >= 0))
    if len(copies):
        ids = ops.op_id[gaps.next_op[copies]]
        pageable = scope.connection.execute(
            f"""SELECT o.op_id FROM stored.gpu_ops o
            WHERE o.capture = ? AND o.kind = {int(OpKind.MEMCPY)} AND {PAGEABLE}""",
            [ops.device.capture],
        ).fetchnumpy()["op_id"]
        cause[copies[np.isin(ids, np.asarray(pageable))]] = int(Cause.HOST_COPY)
    for number, thread in enumerate(gaps.threads):
        mine = np.flatnonzero((gaps.thread == number) & (kind == int(OpKind.KERNEL)))
        long = mine[thread.events.length[gaps.launch[mine]] > FIRST_LAUNCH_NS]
        if len(long):
            op = gaps.next_op[long]
            first = _first_launches(scope, ops, thread.process, np.unique(ops.name[op]))
            began = thread.events.start[gaps.launch[long]].tolist()
            loads = [first.get(name) == at for name, at in zip(ops.name[op].tolist(), began, strict=True)]
            cause[long[np.array(loads, bool)]] = int(Cause.MODULE_LOAD)
    return cause


def _first_launches(scope: Scope, ops: Operations, process: int, names: NDArray[np.integer]) -> dict[int, int]:
    """When some kernels were first launched in a process; without those that ran before recording began."""
    return dict(
        scope.connection.execute(
            f"""SELECT o.name, min(e.start_ns) FROM stored.gpu_ops o
            LEFT JOIN stored.cpu_events e ON e.capture = o.capture AND e.event_id = o.launch_event_id
            WHERE o.capture = ? AND o.process = ? AND o.kind = {int(OpKind.KERNEL)}
                AND o.name IN (SELECT unnest(?::BIGINT[]))
            GROUP BY o.name HAVING coalesce(min(o.start_ns) FILTER (o.launch_event_id IS NULL)
                > min(o.start_ns) FILTER (o.launch_event_id IS NOT NULL), true)""",
            [ops.device.capture, process, names],
        ).fetchall()
    )
