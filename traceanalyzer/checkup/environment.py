"""Where the job ran: what is needed to repeat a result, from whatever file tells it."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.checkup.host.hosts import captures_of_runs
from traceanalyzer.hardware import peaks_of
from traceanalyzer.passes.answer import Frame, TableSpec
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import EventKind

ENVIRONMENT = TableSpec(
    "environment",
    "Where the job ran, as far as the files tell.",
    (
        Column("fact", Type.TEXT, "What is told: gpu, driver_version, cuda_version, nccl_version, cpu_cores ..."),
        Column("value", Type.TEXT, "What it is; several where files differ."),
        Column("source", Type.TEXT, "Kinds of files that tell it."),
    ),
    cut=False,
)
ORDER = (
    *("gpu", "driver_version", "cuda_version", "cuda_driver_version", "rocm_version", "framework", "backend"),
    *(
        "nccl_version",
        "nccl_network",
        "nccl_transports",
        "world_size",
        "hosts",
        "cpu",
        "cpu_cores",
        "cpus_allowed",
        "loader_workers",
    ),
    *("os", "links", "network_cards", "nearest_network_card", "cpu_affinity", "mig_mode"),
)
"""Facts in the order in which they are told; others come after these, environment variables last."""

_TORCH = {
    "cuda_runtime_version": "cuda_version",
    "cuda_driver_version": "cuda_driver_version",
    "hip_runtime_version": "rocm_version",
}
_NAMES = {"network": "nccl_network", "pytorch_version": "framework"}
"""Facts that readers name otherwise."""
_OWN_FACTS = frozenset({"gpu_name", "gpu_count"})
"""Facts of telemetry that the list of devices tells as well."""


@dataclass(frozen=True, slots=True)
class Told:
    """A fact, what it is, and the kind of file that tells it."""

    source: str
    fact: str
    value: object


def environment(scope: Scope, more: Sequence[Told] = ()) -> Frame:
    """Table `environment` of the selected run, from all of its files: also from those that others tell more than.

    A fact that files tell differently has all its values. `more` are facts that were worked out.
    """
    facts = _Facts()
    for each in (*told_by_files(scope), *more):
        facts.add(each.fact, each.value, each.source)
    _devices(scope, facts)
    _framework(scope, facts)
    return Frame.of_rows(ENVIRONMENT, facts.rows())


def told_by_files(scope: Scope) -> list[Told]:
    """Facts that readers kept of the files of the selected run."""
    rows = scope.connection.execute(
        f"""SELECT source, tool_version, host, world_size, metadata FROM stored.captures
        WHERE capture IN {captures_of_runs(scope)} ORDER BY capture"""
    ).fetchall()
    out: list[Told] = []
    hosts: dict[str, str] = {}
    for source, version, host, world_size, metadata in rows:
        out.append(Told(source, "profiler", f"{source} {version}" if version else source))
        out.append(Told(source, "world_size", world_size))
        out += [Told(source, fact, value) for fact, value in _of_metadata(metadata)]
        if host:
            hosts.setdefault(host, source)
    out += [Told(source, "hosts", len(hosts)) for source in hosts.values()]
    return out


class _Facts:
    """Values of facts with the sources that tell them, each value once."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, set[str]]] = {}

    def add(self, fact: str, value: object, source: str) -> None:
        """Take a value, unless there is none."""
        if value is not None and str(value).strip():
            self._values.setdefault(fact, {}).setdefault(str(value).strip(), set()).add(source)

    def holds(self, fact: str) -> bool:
        """Whether a fact is told."""
        return fact in self._values

    def rows(self) -> list[tuple[str, str, str]]:
        """One row a fact."""
        out = []
        for fact in sorted(self._values, key=_place):
            values = self._values[fact]
            sources = sorted(set().union(*values.values()))
            out.append((fact, "; ".join(values), ", ".join(sources)))
        return out


def _place(fact: str) -> tuple[int, bool, str]:
    return (ORDER.index(fact) if fact in ORDER else len(ORDER)), fact.isupper(), fact


def _of_metadata(text: str | None) -> list[tuple[str, object]]:
    """Facts that a reader kept of its file."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return []
    if not isinstance(found, dict):
        return []
    out: list[tuple[str, object]] = []
    for name, fact in _TORCH.items():
        if isinstance(found.get(name), int):
            out.append((fact, _version(found[name]) if "cuda" in name else found[name]))
    for group in ("machine", "environment"):
        each = found.get(group)
        if isinstance(each, dict):
            for name, value in each.items():
                if name not in _OWN_FACTS and isinstance(value, (str, int, float)):
                    cuda = name == "cuda_driver_version" and str(value).isdigit()
                    known: object = f"PyTorch {value}" if name == "pytorch_version" else value
                    out.append((_NAMES.get(name) or name, _version(int(value)) if cuda else known))
    # Readers of DCGM keep these beside.
    out += [(name, found[name]) for name in ("driver_version", "hosts") if isinstance(found.get(name), (str, int))]
    distributed = found.get("distributedInfo")
    if isinstance(distributed, dict):
        out += [(name, distributed[name]) for name in ("backend", "nccl_version") if name in distributed]
    return out


def _version(number: int) -> str:
    """A version of CUDA as people write it: 13000 is 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _devices(scope: Scope, facts: _Facts) -> None:
    rows = scope.connection.execute(
        # The same device of several files is one: by its uuid, else by its number on its host.
        f"""SELECT c.source, n.text,
            count(DISTINCT coalesce(d.uuid::VARCHAR, c.host || ' ' || d.device, d.device::VARCHAR)),
            any_value(d.memory_bytes), max(d.multiprocessors)
        FROM stored.devices d JOIN stored.captures c USING (capture) JOIN stored.names n ON n.name_id = d.name
        WHERE d.capture IN {captures_of_runs(scope)} AND (d.n_ops > 0 OR c.source NOT IN ('torch', 'nsys'))
        GROUP BY c.source, n.text, d.uuid IS NULL ORDER BY ALL"""
    ).fetchall()
    most: Counter[str] = Counter()
    sources: dict[str, set[str]] = {}
    memory: dict[str, int] = {}
    parts: dict[str, str] = {}
    for source, name, count, size, multiprocessors in rows:
        most[name] = max(most[name], count)
        sources.setdefault(name, set()).add(source)
        if size:
            memory[name] = size
        if (peaks := peaks_of(name)) is not None:
            parts[name] = peaks.part_of_gpu(multiprocessors)[1]
    for name, count in most.items():
        text = f"{count} x {name}" if count > 1 else name
        if name in memory:
            text += f" ({memory[name] / 2**30:.0f} GiB)"
        text += parts.get(name, "")
        for source in sources[name]:
            facts.add("gpu", text, source)


def _framework(scope: Scope, facts: _Facts) -> None:
    """PyTorch, by the operators that it records; profilers do not tell its version."""
    if facts.holds("framework"):
        return
    for capture in scope.captures:
        if scope.holds("cpu_events", capture, f"kind = {int(EventKind.OPERATOR)}"):
            facts.add("framework", "PyTorch (version not recorded)", "torch")
            return
