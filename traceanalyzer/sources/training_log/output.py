"""Samples of training logs on their way to the sink."""

from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.telemetry import Sample, Samples
from traceanalyzer.sources.training_log.columns import UNITS, Role

SOURCE_NAME = "training_log"


class StepSamples:
    """Writes what a log tells of steps: `tick` is the step's own number. Call `finish` at the end."""

    def __init__(self, sink: Sink) -> None:
        self._samples = Samples(sink)
        self._sink = sink
        self._epoch = False
        self.steps = 0

    def known(self, role: Role, step: int, value: float | None, t_ns: int | None = None) -> None:
        """A value of a known role, in the unit of its metric."""
        self._add(role.value, UNITS.get(role), step, value, t_ns)

    def other(self, name: str, unit: str | None, step: int, value: float | None, t_ns: int | None = None) -> None:
        """A value of anything else, by the name that it has in the log."""
        self._add(name, unit, step, value, t_ns)

    def _add(self, metric: str, unit: str | None, step: int, value: float | None, t_ns: int | None) -> None:
        self._samples.add(Sample(SOURCE_NAME, metric, value, unit, t_ns=t_ns, tick=step))

    def finish(self, *, utc: bool = False) -> None:
        """Write what is left. `utc` says that the times are those of the world's clock."""
        self._samples.finish()
        if utc and self._sink.facts.start_ns is not None:
            self._sink.facts.utc_offset_ns = 0


class Growing:
    """What a value that grows from step to step, such as elapsed time, grows by in one step."""

    def __init__(self) -> None:
        self._step: int | None = None
        self._value = 0.0
        self.resets = 0

    def per_step(self, step: int, value: float) -> float | None:
        """Growth per step since the last call; None at first, where no step went by, and where it began anew."""
        before, last = self._step, self._value
        if before is not None and step == before:
            return None
        self._step, self._value = step, value
        if before is None:
            return None
        if step < before or value < last:
            self.resets += 1
            return None
        return (value - last) / (step - before)
