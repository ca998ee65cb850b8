"""What a pass is: the answer to one question, and the tables that it is made of."""

from collections.abc import Callable
from dataclasses import dataclass

from traceanalyzer.passes.answer import Answer, TableSpec
from traceanalyzer.passes.scope import Scope


@dataclass(frozen=True, slots=True)
class Pass:
    """A question: how it is answered, and the tables of its answer, which `sql` and `export` find by name."""

    compute: Callable[[Scope], Answer]
    tables: tuple[TableSpec, ...]

    def __call__(self, scope: Scope) -> Answer:
        """The answer for a scope."""
        return self.compute(scope)
