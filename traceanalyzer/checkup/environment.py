"""Where the job ran: what is needed to repeat a result."""

from traceanalyzer.passes.answer import Frame, TableSpec
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.column import Column, Type

ENVIRONMENT = TableSpec(
    "environment",
    "Where the job ran, as far as the files tell.",
    (
        Column("fact", Type.TEXT, "What is told: gpu, driver, cuda, framework, nccl ..."),
        Column("value", Type.TEXT, "What it is."),
        Column("source", Type.TEXT, "Files that tell it."),
    ),
    cut=False,
)


def environment(scope: Scope) -> Frame:
    """Table `environment` of the selected captures."""
    return Frame.of_rows(ENVIRONMENT, [])
