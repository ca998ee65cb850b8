"""One module a question: relations of the store in, tables with declared columns out. Nothing here prints."""

from collections.abc import Callable

from traceanalyzer.passes.answer import Answer
from traceanalyzer.passes.gaps import gaps
from traceanalyzer.passes.info import info
from traceanalyzer.passes.ledger import ledger
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.steps import steps
from traceanalyzer.passes.throughput import throughput

PASSES: dict[str, Callable[[Scope], Answer]] = {
    "info": info,
    "gaps": gaps,
    "ledger": ledger,
    "steps": steps,
    "throughput": throughput,
}
"""Every pass by the name of its question. A new pass is one module and one line here."""
