"""What single lines of a full report (`nvidia-smi -q`, as text or XML) are: samples, facts of the host, or neither."""

import re
from dataclasses import dataclass

from traceanalyzer.sources.nvidia_smi.cells import with_unit
from traceanalyzer.sources.nvidia_smi.host import Host
from traceanalyzer.sources.telemetry import Sample, is_missing, number

SOURCE = "smi_report"
_IDENTITY = re.compile(
    r"(?:^|[._ ])(?:id|ids|serial|number|version|object|uuid|guid|pdi|classcode|index|bus|device|domain|minor|module)"
    r"(?:$|[._ (])|serial|clique|part.?number|inforom|vbios|pci_(?:bus|device|domain|sub|base)|attached|buffer"
    r"|platform|vgpu",
    re.IGNORECASE,
)
_MEASURED = re.compile(
    r"utilization|temp|power.?(?:draw|limit)|power.?readings|clock|memory.?usage|ecc|fan.?speed|throughput|[rt]x_util"
    r"|link|performance.?state|remapped|retired",
    re.IGNORECASE,
)
_NO_METRIC = re.compile(r"supported.?clocks|clock_policy|clock policy|ecc.?mode|virtualization", re.IGNORECASE)
_WIDTH = re.compile(r"(\d+)x")
_FACTS = {
    "driver version": "driver_version",
    "cuda version": "cuda_version",
    "attached gpus": "gpu_count",
    "mig mode.current": "mig_mode",
    "mig mode.current mig": "mig_mode",
    "compute mode": "compute_mode",
    "persistence mode": "persistence_mode",
    "ecc mode.current": "ecc_mode",
    "ecc mode.current ecc": "ecc_mode",
}


@dataclass(slots=True)
class Place:
    """Where a value of a report belongs."""

    device: int | None = None
    t_ns: int | None = None
    tick: int | None = None
    instance: str | None = None
    process: int | None = None


def take_value(host: Host, place: Place, path: str, text: str) -> None:
    """One value of a report, `path` being the names of its sections and its own, with points between."""
    words = path.replace("_", " ").lower()
    if name := _FACTS.get(words):
        if not is_missing(text):
            host.fact(name, text)
        return
    if words in ("product name", "gpu uuid", "uuid"):
        if not is_missing(text):
            host.describe(place.device, text if words == "product name" else None)
            if words != "product name" and place.device is not None:
                host.device(place.device, text)
        return
    found = _number(text)
    if _NO_METRIC.search(path) or _IDENTITY.search(path.rpartition(".")[2]) or _IDENTITY.search(path.partition(".")[0]):
        return
    if found is None:
        if is_missing(text) and _MEASURED.search(path):
            add(host, place, path, None, None)
        return
    if words in ("fb memory usage.total",) and found[1] == "MiB" and place.instance is None:
        host.describe(place.device, memory_mib=found[0])
    add(host, place, path, *found)


def add(host: Host, place: Place, metric: str, value: float | None, unit: str | None) -> None:
    """A sample of a report."""
    host.samples.add(
        Sample(SOURCE, metric, value, unit, place.device, place.instance, place.process, place.t_ns, place.tick)
    )


def _number(text: str) -> tuple[float, str | None] | None:
    text = text.strip()
    if m := _WIDTH.fullmatch(text):
        width = number(m[1])
        return None if width is None else (width, "lanes")
    return with_unit(text)
