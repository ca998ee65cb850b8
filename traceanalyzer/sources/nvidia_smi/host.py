"""What the views of a file share: its devices, its clock, and what it says of the host."""

import re

from traceanalyzer.schema.kinds import Severity
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.nvidia_smi.clock import Clock
from traceanalyzer.sources.nvidia_smi.onward import Onward
from traceanalyzer.sources.telemetry import Samples

MOST_DEVICES = 4096
LONGEST_LINE = 4096
"""Characters of a line of what nvidia-smi prints for people; longer ones are none of it."""
LAST_VALUE_CUT = "The last row has no end: its last value is left out."
_BUS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])", re.IGNORECASE)
_MIB = 1 << 20
_COUNT = re.compile(r"[0-9]{1,5}")


class _Device:
    """What a file says of a device."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.uuid: str | None = None
        self.memory: int | None = None


class Host:
    """Collects what is read of a file, and writes its facts with `finish`."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.samples = Samples(sink)
        self.clock = Clock()
        self.onward = Onward()
        self.said = 0
        self.ticks = 0
        self._said: set[str] = set()
        self._devices: dict[int, _Device] = {}
        self._numbers: dict[str, int] = {}
        self._environment: dict[str, str | int] = {}

    def say_once(self, code: str, text: str, severity: Severity = Severity.INFO) -> None:
        """A note that holds for the file, however often it is found."""
        if code not in self._said:
            self._said.add(code)
            self.sink.note(code, text, severity=severity)

    def next_tick(self) -> int:
        """The number of a new round of readings."""
        self.ticks += 1
        return self.ticks - 1

    def device(self, number: int | None = None, uuid: str | None = None, bus: str | None = None) -> int | None:
        """Number of a device: the one that the file states, else its place among those that were named so far.

        None where the number is none that a device can have.
        """
        ids = [key for key in (_bus_key(bus), _uuid_key(uuid)) if key]
        if number is None:
            number = next((self._numbers[key] for key in ids if key in self._numbers), len(self._devices))
        if not 0 <= number < MOST_DEVICES:
            return None
        for key in ids:
            self._numbers.setdefault(key, number)
        found = self._devices.setdefault(number, _Device())
        found.uuid = found.uuid or (uuid if _uuid_key(uuid) else None)
        return number

    def describe(self, number: int | None, name: str | None = None, memory_mib: float | None = None) -> None:
        """What the file says of a device."""
        if number is None or (device := self._devices.get(number)) is None:
            return
        device.name = device.name or name
        if device.memory is None and memory_mib is not None and 0 < memory_mib < 1 << 40:
            device.memory = int(memory_mib * _MIB)

    def fact(self, name: str, value: str | int) -> None:
        """A fact of the host, such as its driver; the first one said holds."""
        self.said += 1
        counts = name == "gpu_count" and isinstance(value, str)
        self._environment.setdefault(name, int(value) if counts and _COUNT.fullmatch(str(value)) else value)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was read."""
        return not (self.samples.count or self._devices or self.said)

    def finish(self) -> None:
        """Write the devices, the facts and what is left of the samples."""
        for number, device in sorted(self._devices.items()):
            self.samples.device(number, device.name, device.uuid, device.memory)
        environment: dict[str, object] = dict(self._environment)
        if names := [device.name for _number, device in sorted(self._devices.items()) if device.name]:
            environment["gpu_name"] = names
        if environment:
            self.sink.facts.metadata["environment"] = environment
        version = self._environment.get("driver_version")
        self.sink.facts.tool_version = self.sink.facts.tool_version or (None if version is None else str(version))
        self.clock.finish(self.sink)
        self.onward.finish(self.sink)
        self.samples.finish()


def _bus_key(bus: str | None) -> str | None:
    m = _BUS.fullmatch(bus.strip()) if bus else None
    return None if m is None else f"{int(m[1] or '0', 16):x}:{m[2]}:{m[3]}.{m[4]}".lower()


def _uuid_key(uuid: str | None) -> str | None:
    """A unique id that tells devices apart: not one of zeros, as those who hide theirs write it."""
    text = (uuid or "").strip()
    bare = text.removeprefix("GPU-")
    return text if bare and bare.strip("0-") else None
