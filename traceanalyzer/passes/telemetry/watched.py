"""What telemetry watched of a scope, read once for every question about it."""

from functools import cached_property

from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.telemetry.alignment import Alignment, align
from traceanalyzer.passes.telemetry.errors import Counter, DeviceError, device_errors, find_counters
from traceanalyzer.passes.telemetry.series import Telemetry
from traceanalyzer.passes.telemetry.throttling import Seen, Throttled, find_reasons, throttled
from traceanalyzer.passes.telemetry.traces import Traces


class Watched:
    """What telemetry says of a scope: each part is worked out when it is first asked for, and kept."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    @cached_property
    def telemetry(self) -> Telemetry:
        """What was measured, and its samples."""
        return Telemetry(self.scope)

    @cached_property
    def traces(self) -> Traces:
        """The traces that it is held against."""
        return Traces(self.scope)

    @cached_property
    def counters(self) -> list[Counter]:
        """Counters of errors that are not zero."""
        return find_counters(self.telemetry)

    @cached_property
    def reasons(self) -> list[Seen]:
        """Reasons for lower clocks that were seen."""
        return find_reasons(self.telemetry)

    @cached_property
    def alignments(self) -> list[Alignment]:
        """Devices of telemetry beside those of the traces."""
        return align(self.scope, self.telemetry, self.traces)

    @cached_property
    def errors(self) -> list[DeviceError]:
        """Errors that devices counted, those that matter most first."""
        return device_errors(self.counters)

    @cached_property
    def throttled(self) -> list[Throttled]:
        """Devices that were throttled for a reason that costs speed, most first."""
        return throttled(self.reasons)
