"""Readers of profiler output, one module a format. The order is the order in which they are asked."""

from traceanalyzer.sources import (
    dcgm,
    nccl_log,
    nccl_tests,
    ncu_csv,
    nsys_sqlite,
    nvidia_smi,
    torch_trace,
    training_log,
)
from traceanalyzer.sources.base import Source

SOURCES: tuple[Source, ...] = (
    nsys_sqlite.SOURCE,
    ncu_csv.SOURCE,
    nvidia_smi.SOURCE,
    dcgm.SOURCE,  # before torch, which takes any object of JSON for the start of a trace
    nccl_tests.SOURCE,
    torch_trace.SOURCE,
    training_log.SOURCE,
    nccl_log.SOURCE,  # last: logs of jobs hold such lines too
)
