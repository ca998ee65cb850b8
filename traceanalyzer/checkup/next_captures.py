"""Which capture would answer what is still unknown, with the command that makes it."""

from collections.abc import Sequence

from traceanalyzer.checkup.job import Job
from traceanalyzer.checkup.verdict import Verdict
from traceanalyzer.passes.answer import Frame, TableSpec
from traceanalyzer.schema.column import Column, Type

NEXT = TableSpec(
    "next",
    "What is still unknown, and the capture that would tell.",
    (
        Column("question", Type.TEXT, "What is not known."),
        Column("capture_command", Type.TEXT, "The command, or the line of code, that records what would tell."),
    ),
    cut=False,
)


def next_captures(job: Job, verdicts: Sequence[Verdict]) -> Frame:
    """Table `next`: one row a question that the files leave open and that matters for these verdicts."""
    return Frame.of_rows(NEXT, [])
