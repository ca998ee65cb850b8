"""What a pass is: the answer to one question, and the tables that it is made of."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from traceanalyzer.passes.answer import Answer, TableSpec
from traceanalyzer.passes.scope import PROFILERS, TELEMETRY, Scope

DEVICE_LANE = "device"


@dataclass(frozen=True, slots=True)
class Pass:
    """A question: how it is answered, and the tables of its answer, which `sql` and `export` find by name.

    `of_profiles` and `of_telemetry` say that it rests on profiles of single kernels, or on telemetry, as well as on
    timelines; `of_every_run` that it speaks of all runs of the store, not of the newest, where none is named;
    `has_lanes` that it can be asked of the compute lane too: others are of the device lane, whatever is selected.
    """

    compute: Callable[[Scope], Answer]
    tables: tuple[TableSpec, ...]
    of_profiles: bool = False
    of_telemetry: bool = False
    of_every_run: bool = False
    has_lanes: bool = False

    def __call__(self, scope: Scope) -> Answer:
        """The answer for a scope."""
        if not self.has_lanes and scope.selection.lane != DEVICE_LANE:
            scope = replace(scope, selection=replace(scope.selection, lane=DEVICE_LANE))
        return self.compute(scope)

    def captures(self, scope: Scope) -> list[int]:
        """The selected captures that an answer may rest on."""
        unused = (*(() if self.of_profiles else PROFILERS), *(() if self.of_telemetry else TELEMETRY))
        left_out = scope.of_source(unused)
        return [c for c in scope.captures if c not in left_out]
