"""Every pass by the name of its question."""

from traceanalyzer.passes import collectives as _collectives
from traceanalyzer.passes import gaps as _gaps
from traceanalyzer.passes import imbalance as _imbalance
from traceanalyzer.passes import info as _info
from traceanalyzer.passes import kernels as _kernels
from traceanalyzer.passes import launches as _launches
from traceanalyzer.passes import ledger as _ledger
from traceanalyzer.passes import memory as _memory
from traceanalyzer.passes import metrics as _metrics
from traceanalyzer.passes import ops as _ops
from traceanalyzer.passes import pause_tables as _pause_tables
from traceanalyzer.passes import ranges as _ranges
from traceanalyzer.passes import scaling as _scaling
from traceanalyzer.passes import steps as _steps
from traceanalyzer.passes import streams as _streams
from traceanalyzer.passes import summary as _summary
from traceanalyzer.passes import throughput as _throughput
from traceanalyzer.passes.base import Pass
from traceanalyzer.passes.fitness import FITNESS

PASSES: dict[str, Pass] = {
    "info": Pass(_info.info, (_info.CAPTURE_TABLE, _info.DEVICE_TABLE, _info.ANSWERS, FITNESS, _info.QUALITY_TABLE)),
    "summary": Pass(_summary.summary, (_summary.SUMMARY,)),
    "gaps": Pass(_gaps.gaps, _gaps.TABLES, has_lanes=True),
    "ledger": Pass(_ledger.ledger, (_ledger.LEDGER, _ledger.TOTALS)),
    "steps": Pass(_steps.steps, (_steps.STEPS, _pause_tables.PAUSES, _pause_tables.PAUSE_CAUSES)),
    "ranges": Pass(_ranges.ranges, (_ranges.RANGES,)),
    "ops": Pass(_ops.ops, _ops.TABLES),
    "memory": Pass(_memory.memory, _memory.TABLES),
    "kernels": Pass(_kernels.kernels, _kernels.TABLES, of_profiles=True),
    "streams": Pass(_streams.streams, (_streams.STREAMS, _streams.OVERLAP, _streams.CONCURRENCY)),
    "launches": Pass(_launches.launches, (_launches.DELAYS, _launches.QUEUES, _launches.DEPTH)),
    "collectives": Pass(_collectives.collectives, _collectives.TABLES),
    "imbalance": Pass(_imbalance.imbalance, _imbalance.TABLES),
    "metrics": Pass(_metrics.metrics, _metrics.TABLES, of_telemetry=True),
    "throughput": Pass(_throughput.throughput, _throughput.TABLES, of_profiles=True),
    "scaling": Pass(_scaling.scaling, (_scaling.SCALING, _scaling.LOST), of_every_run=True),
}
"""A new pass is one module and one line here."""
