"""Readers of profiler output, one module a format. The order is the order in which they are asked."""

from traceanalyzer.sources import ncu_csv, nsys_sqlite, nvidia_smi, torch_trace
from traceanalyzer.sources.base import Source

SOURCES: tuple[Source, ...] = (nsys_sqlite.SOURCE, ncu_csv.SOURCE, nvidia_smi.SOURCE, torch_trace.SOURCE)
