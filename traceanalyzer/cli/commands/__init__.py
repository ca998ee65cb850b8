"""The commands, one module each. A new command is a module with `command` in it and one line here.

This list is all that `traceanalyzer --help` needs, so that help imports no engine.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: its name, the group of `--help` that it stands in, and its line there.

    The module of a command has its name, with `-` as `_`.
    """

    name: str
    group: str
    help: str

    @property
    def module(self) -> str:
        """The module that holds the command, as its attribute `command`."""
        return f"{__name__}.{self.name.replace('-', '_')}"


GROUPS = ("Start", "Where time goes", "GPU", "Ranks", "Compare", "Data")
"""Groups of `--help` in their order; those without a command are not shown."""

COMMANDS = (
    Entry("checkup", "Start", "What limits the job, what it costs a step, what to change first."),
    Entry("ingest", "Start", "Read trace files into the store."),
    Entry("report", "Start", "Everything about a run in one HTML file to pass around."),
    Entry("demo", "Start", "Read the bundled sample traces and show what can be asked."),
    Entry("howto", "Start", "How to capture what questions need: nsys, torch, ncu, DCGM."),
    Entry("summary", "Where time goes", "What a step consists of, in few parts."),
    Entry("gaps", "Where time goes", "Why the GPUs were idle, down to the line of Python."),
    Entry("ledger", "Where time goes", "Every nanosecond of every device in exactly one category."),
    Entry("steps", "Where time goes", "Duration, busy and idle time of each step, and pauses that recur."),
    Entry("ranges", "Where time goes", "Host, busy and idle time of annotations and NVTX ranges."),
    Entry("ops", "Where time goes", "Operators by name, shape, module: self and total time."),
    Entry("memory", "Where time goes", "Memory of the GPUs: peak, what holds it, and what grows."),
    Entry("kernels", "GPU", "Which kernels take the time, and how fast the copies are."),
    Entry("streams", "GPU", "How busy the streams are, and what runs at the same time."),
    Entry("launches", "GPU", "How long launches take to start, and how many wait in the queue."),
    Entry("throughput", "GPU", "What limits kernels: compute, memory or latency."),
    Entry("metrics", "GPU", "Sampled metrics of GPUs: while busy, in gaps, by step and range."),
    Entry("collectives", "Ranks", "Who waits for whom, and how fast the transfers are."),
    Entry("imbalance", "Ranks", "Which rank is late, why, and what that costs."),
    Entry("scaling", "Ranks", "How well throughput grows with the ranks, and what is lost."),
    Entry("info", "Data", "What was captured, and which questions it can answer."),
    Entry("sql", "Data", "Ask the store in SQL; nothing is changed."),
    Entry("export", "Data", "Write tables as Parquet or Arrow files, or a timeline for Perfetto."),
)
