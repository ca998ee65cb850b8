"""How the GPUs of a job reach each other and the network cards, by `nvidia-smi topo -m`.

Kinds of links, best to worst, are those of its legend: NV# (bonded NVLinks), PIX (one PCIe switch), PXB (several), PHB
(a host bridge), NODE (several host bridges of one NUMA node), SYS (across NUMA nodes).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from traceanalyzer.checkup.host.hosts import captures_of_runs
from traceanalyzer.checkup.job import Job
from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.scope import Scope
from traceanalyzer.store.database import first_row
from traceanalyzer.units import counted

ACROSS_SOCKETS = ("SYS",)
ACROSS_BRIDGES = ("NODE", "PHB")
NEAR_CARD = ("PIX", "PXB", "PSB")
"""Ways to a network card on which GPUDirect RDMA does not pass the host bridge."""
MOST_SHOWN = 3
"""Network cards that are equally near and named."""
MOST_ROWS = 16
"""GPUs, or groups of them, that are told one by one."""
_ORDER = ("NV", "C2C", "PIX", "PSB", "PXB", "PHB", "NODE", "SYS")
_SEVERITY = (
    "CASE " + " ".join(f"WHEN starts_with(v.text, '{k}') THEN {i}" for i, k in enumerate(_ORDER)) + " ELSE 99 END"
)
_NUMBER = "try_cast(regexp_extract({}, '^GPU([0-9]+)$', 1) AS INTEGER)"
_Row = tuple[str, str, str]


@dataclass(frozen=True)
class Topology:
    """The newest matrix of connections of a run."""

    scope: Scope
    capture: int
    source: str

    def _named(
        self, attribute: str, columns: str, rest: str, parameters: Sequence[object] = ()
    ) -> list[tuple[Any, ...]]:
        return self.scope.connection.execute(
            f"""WITH told AS (
                SELECT p.text AS place, o.text AS other, v.text AS value, {_SEVERITY} AS severity,
                    {_NUMBER.format("p.text")} AS gpu, {_NUMBER.format("o.text")} AS other_gpu
                FROM stored.topology t JOIN stored.names a ON a.name_id = t.attribute
                JOIN stored.names v ON v.name_id = t.value JOIN stored.names p ON p.name_id = t.place
                LEFT JOIN stored.names o ON o.name_id = t.other
                WHERE t.capture = {self.capture} AND a.text = '{attribute}')
            SELECT {columns} FROM told {rest}""",
            parameters,
        ).fetchall()

    @cached_property
    def gpus(self) -> list[int]:
        """Numbers of the GPUs of the matrix."""
        rows = self._named("link", "DISTINCT gpu", "WHERE gpu IS NOT NULL ORDER BY gpu")
        rows = rows or self._named("cpu_affinity", "DISTINCT gpu", "WHERE gpu IS NOT NULL ORDER BY gpu")
        return [gpu for (gpu,) in rows]

    def pairs(self, gpus: Sequence[int]) -> list[tuple[str, int, int, int]]:
        """Kinds of links between GPUs, each with its number of pairs and the first of them; the best kind first."""
        return self._named(
            "link",
            "value, count(*), min(a), arg_min(b, (a, b))",
            """, LATERAL (SELECT least(gpu, other_gpu) AS a, greatest(gpu, other_gpu) AS b)
            WHERE gpu IN (SELECT unnest($1::INTEGER[])) AND other_gpu IN (SELECT unnest($1::INTEGER[]))
                AND (gpu < other_gpu OR NOT EXISTS (SELECT 1 FROM told back WHERE back.gpu = told.other_gpu
                    AND back.other_gpu = told.gpu))
            GROUP BY value, severity ORDER BY severity, value""",
            [list(gpus)],
        )

    def cards(self) -> dict[str, str | None]:
        """Network cards, with the names that a legend gives them."""
        rows = self._named("link", "DISTINCT other", "WHERE other NOT LIKE 'GPU%' ORDER BY length(other), other")
        names = dict(self._named("name", "place, value", ""))
        return {card: names.get(card) for (card,) in rows}

    def nearest(self, gpus: Sequence[int]) -> list[tuple[int, str, list[str]]]:
        """Of each GPU the kind of link to its nearest network cards, and the cards."""
        return self._named(
            "link",
            "gpu, value, list(other ORDER BY length(other), other)",
            """WHERE gpu IN (SELECT unnest($1::INTEGER[])) AND other NOT LIKE 'GPU%'
            GROUP BY gpu, value, severity QUALIFY severity = min(severity) OVER (PARTITION BY gpu)
                AND row_number() OVER (PARTITION BY gpu ORDER BY severity, value) = 1 ORDER BY gpu""",
            [list(gpus)],
        )

    def affinities(self) -> list[tuple[str, list[int]]]:
        """The cores next to GPUs, each with its GPUs."""
        return self._named(
            "cpu_affinity",
            "value, list(gpu ORDER BY gpu)",
            "WHERE gpu IS NOT NULL GROUP BY value ORDER BY min(gpu)",
        )


def topology_of(scope: Scope) -> Topology | None:
    """The newest matrix of connections that a file of the run holds."""
    row = first_row(
        scope.connection.execute(
            f"""SELECT capture, source FROM stored.captures c WHERE capture IN {captures_of_runs(scope)}
                AND EXISTS (SELECT 1 FROM stored.topology t WHERE t.capture = c.capture)
            ORDER BY capture DESC LIMIT 1"""
        )
    )
    return Topology(scope, int(row[0]), str(row[1])) if row else None


@dataclass(frozen=True, slots=True)
class InUse:
    """GPUs that a job uses on a host, and how that is known: a key of the messages `in_use`."""

    gpus: tuple[int, ...]
    known: str

    def text(self, job: Job) -> str:
        """The GPUs in words."""
        return job.messages.text(f"in_use.{self.known}", gpus=numbers(self.gpus), count=len(self.gpus))


def gpus_in_use(job: Job, topology: Topology) -> list[InUse]:
    """Of each host the GPUs that ran operations, by their numbers; all of the matrix where those do not tell."""
    every = tuple(topology.gpus)
    if not job.scope.devices:
        return [InUse(every, "all")]
    host_of = {capture: place for place, host in enumerate(job.hosts) for capture in host.captures}
    used: dict[int, dict[int, set[int | None]]] = {}
    for each in job.scope.devices:
        used.setdefault(host_of.get(each.capture, -1), {}).setdefault(each.device, set()).add(each.rank)
    doubtful = any(
        device not in every or len(ranks) > 1 for devices in used.values() for device, ranks in devices.items()
    )
    row = first_row(
        job.scope.connection.execute(
            f"SELECT count(*) FROM stored.devices WHERE capture IN {job.scope.numbers()} AND ambiguous AND n_ops > 0"
        )
    )
    if doubtful or (row and row[0]):
        return [InUse(every, "doubtful")]
    return [InUse(tuple(sorted(devices)), "told") for devices in used.values()]


def topology_findings(job: Job) -> Iterator[Finding]:
    """Findings `ranks_cross_numa`, `ranks_cross_pcie` and `nic_far`."""
    topology = topology_of(job.scope)
    if topology is None:
        return
    hosts = gpus_in_use(job, topology)
    for message, kinds in (("ranks_cross_numa.text", ACROSS_SOCKETS), ("ranks_cross_pcie.text", ACROSS_BRIDGES)):
        found = [text for host in hosts if (text := _crossing(job, topology, host, message, kinds))]
        if found:
            yield Finding(message.partition(".")[0], found[0])
    for host in hosts:
        if text := _far_cards(job, topology, host):
            yield Finding("nic_far", text)
            break


def _crossing(job: Job, topology: Topology, host: InUse, message: str, kinds: Sequence[str]) -> str | None:
    pairs = topology.pairs(host.gpus)
    mine = [pair for pair in pairs if pair[0] in kinds]
    if not mine:
        return None
    return job.messages.text(
        message,
        crossing=sum(pair[1] for pair in mine),
        pairs=sum(pair[1] for pair in pairs),
        in_use=host.text(job),
        links=", ".join(pair[0] for pair in mine),
        first=f"GPU{mine[0][2]}",
        second=f"GPU{mine[0][3]}",
        command=job.command("sql \"SELECT place, other, value FROM topology WHERE attribute = 'link'\""),
    )


def _far_cards(job: Job, topology: Topology, host: InUse) -> str | None:
    nearest = topology.nearest(host.gpus)
    far: dict[str, list[int]] = {}
    for gpu, link, _ in nearest:
        if link not in NEAR_CARD:
            far.setdefault(link, []).append(gpu)
    if not far:
        return None
    query = (
        "SELECT place, other, value FROM topology"
        " WHERE attribute = 'link' AND place LIKE 'GPU%' AND other NOT LIKE 'GPU%'"
    )
    return job.messages.text(
        "nic_far.text",
        far=sum(map(len, far.values())),
        count=len(nearest),
        in_use=host.text(job),
        links=", ".join(f"{link}: GPU {numbers(gpus)}" for link, gpus in far.items()),
        command=job.command(f'sql "{query}"'),
    )


def topology_facts(scope: Scope) -> Iterator[_Row]:
    """What the matrix tells, as facts of the environment: name, value, source."""
    topology = topology_of(scope)
    if topology is None:
        return
    pairs = topology.pairs(topology.gpus)
    if pairs:
        told = [f"{link} between {counted(count, 'pair')} of GPUs" for link, count, _, _ in pairs[:MOST_ROWS]]
        yield "links", ", ".join(told), topology.source
    cards = topology.cards()
    if cards:
        names = [name or card for card, name in cards.items()]
        rest = len(names) - MOST_ROWS
        more = f" and {rest} more" if rest > 0 else ""
        yield "network_cards", f"{', '.join(names[:MOST_ROWS])}{more}", topology.source
        yield "nearest_network_card", _nearest(topology, cards), topology.source
    affinities = topology.affinities()
    if affinities:
        told = [f"GPU {numbers(gpus)}: cores {cores}" for cores, gpus in affinities[:MOST_ROWS]]
        yield "cpu_affinity", "; ".join(told), topology.source


def _nearest(topology: Topology, cards: dict[str, str | None]) -> str:
    """Nearest network cards by the way to them; GPUs that have the same ones are told together."""
    ways: dict[str, dict[str, list[int]]] = {}
    for gpu, link, nearest in topology.nearest(topology.gpus[:MOST_ROWS]):
        names = [cards.get(card) or card for card in nearest]
        rest = len(names) - MOST_SHOWN
        text = "/".join(names[:MOST_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
        ways.setdefault(link, {}).setdefault(text, []).append(gpu)
    told = [
        f"{link}: GPU " + "; ".join(f"{numbers(gpus)} {text}" for text, gpus in alike.items())
        for link, alike in ways.items()
    ]
    return "; ".join(told)


def numbers(values: Sequence[int]) -> str:
    """Numbers in few words: `0-3, 6`."""
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in runs)
