"""What a series of labels is about: which GPU, which part of it, which host."""

from collections.abc import Mapping
from dataclasses import dataclass

from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.telemetry import Samples

_UUID = ("UUID", "uuid", "gpu_uuid")
_HOST = ("Hostname", "hostname", "node", "exported_instance")
_PARTS = (
    ("GPU_I_ID", "MIG"),
    ("nvlink", "NVLink"),
    ("link", "NVLink"),
    ("nvswitch", "NVSwitch"),
    ("vgpu", "vGPU"),
    ("cpu", "CPU"),
    ("cpucore", "core"),
    ("xid", "XID"),
    ("err_code", "error"),
    ("clock_event", "event"),
)
_PODS = ("pod", "exported_pod", "pod_name")
_MOST_DEVICES = 1 << 16


@dataclass(frozen=True, slots=True)
class Place:
    """What a sample is told of."""

    device: int | None = None
    instance: str | None = None
    process: int | None = None


class Places:
    """Turns labels into places, and remembers GPUs and hosts. `finish` writes them.

    GPUs of several hosts have the same numbers: those of all but the first host are told apart by their instance.
    """

    def __init__(self, sink: Sink, numbers: Mapping[str, int] | None = None) -> None:
        self._sink = sink
        self._number_of_uuid = dict(numbers or {})
        self._hosts: list[str] = []
        self._devices: dict[int, tuple[str | None, str | None]] = {}
        self._pods: set[str] = set()

    def place(self, labels: Mapping[str, str], host_label: str | None = None) -> Place:
        """The place of a series. `host_label` is one more label that tells the host where no other does."""
        uuid = next((labels[name] for name in _UUID if labels.get(name)), None)
        device = self._device(labels, uuid)
        host = next((labels[name] for name in (*_HOST, host_label) if name and labels.get(name)), None)
        parts = [] if host is None else self._host(host)
        first_host = not parts
        parts += [f"{title} {labels[name]}" for name, title in _PARTS if labels.get(name)]
        if device is None and uuid is not None:
            parts.append(f"GPU {uuid}")
        if device is not None and first_host and len(self._devices) < _MOST_DEVICES:
            name, known = self._devices.get(device, (None, None))
            self._devices[device] = (name or labels.get("modelName") or None, known or uuid)
        if self._sink.keep_environment:
            self._pods.update(labels[name] for name in _PODS if labels.get(name))
        driver = labels.get("DCGM_FI_DRIVER_VERSION") or labels.get("driver_version")
        if driver:
            self._sink.facts.metadata["driver_version"] = driver
        return Place(device, ", ".join(parts) or None, _whole(labels.get("pid")))

    def name(self, device: int, name: str | None, uuid: str | None) -> None:
        """What a file says of a GPU apart from its samples."""
        known = self._devices.get(device, (None, None))
        self._devices[device] = (known[0] or name, known[1] or uuid)

    def finish(self, samples: Samples) -> None:
        """Write the devices, and the host where it is one."""
        for device, (name, uuid) in sorted(self._devices.items()):
            samples.device(device, name, uuid)
        facts = self._sink.facts
        if len(self._hosts) == 1:
            facts.host = self._hosts[0]
        elif self._hosts:
            facts.metadata["hosts"] = len(self._hosts)
            self._sink.note(
                "several_hosts",
                f"Samples of {len(self._hosts):,} hosts: instances tell their GPUs apart, the first host's have none.",
            )
        if self._pods:
            facts.metadata["pods"] = sorted(self._pods)

    def _device(self, labels: Mapping[str, str], uuid: str | None) -> int | None:
        number = _whole(labels.get("gpu"))
        if number is None:
            number = _whole(labels.get("device", "").removeprefix("nvidia") or labels.get("minor_number"))
        return self._number_of_uuid.get(uuid or "") if number is None else number

    def _host(self, host: str) -> list[str]:
        if host not in self._hosts:
            self._hosts.append(host)
        number = self._hosts.index(host)
        if not number:
            return []
        return [f"host {host}" if self._sink.keep_environment else f"host {number + 1}"]


def _whole(text: str | None) -> int | None:
    """A number of at most nine digits; anything else is no number of a GPU or process."""
    return int(text) if text and len(text) <= 9 and text.isascii() and text.isdigit() else None
