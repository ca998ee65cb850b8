"""Operations that communicate, of all ranks, with what was recorded of the collective that each is part of."""

import json
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import groups
from traceanalyzer.passes.communication.kinds import BYTES_OF_DTYPE, NOT_CALLS, Kind, kind_of, total_bytes
from traceanalyzer.passes.operations import NULL
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import EventKind, Lane

Ints = NDArray[np.int64]
UNKNOWN = -1
_MOST_BYTES = np.iinfo(np.int64).max
_LARGEST_RANK = 2**31 - 1
_NOT_BLOCKING = "^P?MPI_I[a-z]"
"""Calls of MPI that return at once: how long they take says nothing of the transfer."""


@dataclass(frozen=True, slots=True)
class Group:
    """A process group or communicator. `ranks` are its members where the source lists them; `label` tells it apart."""

    name: str
    description: str
    ranks: tuple[int, ...] | None
    size: int | None
    label: str


@dataclass(frozen=True, slots=True)
class Communication:
    """Operations that communicate, in the order of captures, devices and time. Times are on each capture's own clock.

    Calls on the host have `device` and `op_id` -1. `rank` and `group` are -1 where they are not known; `group` is a
    place in `groups`. `kind` is `Kind`; `elements`, `bytes`, `sequence`, `peer`, `root` and `step` are `NULL` where
    they are not known. `told` says where the collective was recorded, rather than only guessed from a name; `launched`
    where the launch is in the file.
    """

    capture: Ints
    device: Ints
    rank: Ints
    op_id: Ints
    start: Ints
    end: Ints
    step: Ints
    kind: NDArray[np.int8]
    group: Ints
    dtype: list[str | None]
    elements: Ints
    bytes: Ints
    sequence: Ints
    peer: Ints
    root: Ints
    told: NDArray[np.bool_]
    launched: NDArray[np.bool_]
    groups: list[Group]

    def __len__(self) -> int:
        return len(self.op_id)

    @property
    def duration(self) -> Ints:
        """Length of each in ns."""
        return self.end - self.start


_OF_GROUP = ("group_name", "group_description", "group_ranks", "group_size")
_ALIKE = ("kind", "dtype", "sequence", "peer", "root")
_ADDED = ("elements_in", "elements_out", "bytes")
_WHAT = """m.group_name, m.group_description, m.group_ranks, m.group_size, m.kind, m.dtype, m.elements_in,
    m.elements_out, m.bytes, m.sequence, m.peer, m.root"""
_NUMBERS = ("elements_in", "elements_out", "bytes", "sequence", "peer", "root", "group_size")
_NAMES = ("group_name", "group_description", "group_ranks", "kind", "dtype")


def load_communication(scope: Scope) -> Communication:
    """The communication of the devices of a scope.

    What a kernel does not say itself is taken from the call that was open when it was launched: an NCCL range of nsys,
    or an operator of PyTorch. Calls that were grouped launch one kernel when the group ends: it has all the calls since
    the launch before it. Where that is not recorded either, the kernel's name tells the kind, and no more.
    """
    got = scope.connection.execute(
        f"""WITH ops AS (
            SELECT o.capture, o.device, o.op_id, o.start_ns, o.end_ns, o.launch_event_id, o.step, o.name
            FROM stored.gpu_ops o WHERE o.capture IN {scope.numbers()} AND o.lane = {int(Lane.COMMUNICATION)}
        ), own AS (
            SELECT m.capture, m.op_id, {_WHAT} FROM stored.collectives m
            WHERE m.capture IN {scope.numbers()} AND m.op_id IS NOT NULL
            QUALIFY row_number() OVER (PARTITION BY m.capture, m.op_id ORDER BY m.kind) = 1
        ), calls AS (
            SELECT m.capture, h.process, h.thread, h.start_ns, h.end_ns, {_WHAT} FROM stored.collectives m
            JOIN stored.cpu_events h ON h.capture = m.capture AND h.event_id = m.event_id
            LEFT JOIN stored.names n ON n.name_id = m.kind
            WHERE m.capture IN {scope.numbers()} AND m.op_id IS NULL AND n.text NOT IN {NOT_CALLS}
        ), bare AS (
            SELECT o.capture, o.op_id, e.process, e.thread, e.start_ns FROM ops o
            JOIN stored.cpu_events e ON e.capture = o.capture AND e.event_id = o.launch_event_id
            WHERE NOT EXISTS (SELECT 1 FROM own WHERE own.capture = o.capture AND own.op_id = o.op_id)
        ), each_call AS (
            SELECT b.capture, b.op_id, b.start_ns < m.end_ns AS holds, {_WHAT}
            FROM calls m ASOF JOIN bare b ON m.capture = b.capture AND m.process = b.process AND m.thread = b.thread
                AND m.start_ns <= b.start_ns
            QUALIFY holds OR NOT bool_or(holds) OVER (PARTITION BY b.capture, b.op_id)
        ), called AS (
            SELECT capture, op_id, {", ".join(f"any_value({name}) AS {name}" for name in _OF_GROUP)},
                {", ".join(f"CASE WHEN min({name}) = max({name}) THEN min({name}) END AS {name}" for name in _ALIKE)},
                {", ".join(f"sum({name}) AS {name}" for name in _ADDED)}
            FROM each_call GROUP BY capture, op_id
        )
        SELECT o.capture, o.device, o.op_id, o.start_ns, o.end_ns, o.launch_event_id IS NOT NULL AS launched,
            coalesce(o.step, {NULL}) AS step, coalesce(o.name, -1) AS name, m.op_id IS NOT NULL AS told,
            {", ".join(f"coalesce(m.{name}, -1)::BIGINT AS {name}" for name in _NAMES)},
            {", ".join(f"coalesce(m.{name}, {NULL})::BIGINT AS {name}" for name in _NUMBERS)}
        FROM ops o LEFT JOIN (SELECT * FROM own UNION ALL BY NAME SELECT * FROM called) m
            ON m.capture = o.capture AND m.op_id = o.op_id
        ORDER BY o.capture, o.device, o.start_ns, o.op_id"""
    ).fetchnumpy()
    column = {name: np.asarray(values) for name, values in got.items()}
    return _Reader(scope, column).read() if len(column["op_id"]) else _host_calls(scope)


def _host_calls(scope: Scope) -> Communication:
    """Where no device communicates: calls of MPI or Gloo on the host that return once they are done.

    Their names tell the kind, and no more. They have no device, and no operation.
    """
    got = scope.connection.execute(
        f"""SELECT e.capture, coalesce(p.rank, c.rank, {UNKNOWN})::BIGINT AS rank, e.start_ns, e.end_ns, n.text AS name,
            coalesce(s.step, {NULL})::BIGINT AS step
        FROM stored.cpu_events e JOIN stored.names n ON n.name_id = e.name
        JOIN stored.captures c ON c.capture = e.capture
        LEFT JOIN stored.processes p ON p.capture = e.capture AND p.process = e.process
        LEFT JOIN stored.steps s ON s.capture = e.capture AND s.process = e.process
            AND e.start_ns >= s.start_ns AND e.start_ns < s.end_ns
        WHERE e.capture IN {scope.numbers()} AND e.kind = {int(EventKind.HOST_COMMUNICATION)}
            AND NOT regexp_matches(n.text, '{_NOT_BLOCKING}')
        ORDER BY e.capture, rank, e.start_ns, e.event_id"""
    ).fetchnumpy()
    names = np.asarray(got["name"]).tolist()
    kinds = {name: int(kind_of(name)) for name in set(names)}
    kind = np.array([kinds[name] for name in names], np.int8)
    able = kind != int(Kind.UNKNOWN)
    column = {name: np.asarray(got[name])[able].astype(np.int64) for name in ("capture", "rank", "start_ns", "end_ns")}
    count = int(able.sum())
    nothing = np.full(count, NULL, np.int64)
    return Communication(
        capture=column["capture"],
        device=np.full(count, UNKNOWN, np.int64),
        rank=column["rank"],
        op_id=np.full(count, UNKNOWN, np.int64),
        start=column["start_ns"],
        end=column["end_ns"],
        step=np.asarray(got["step"])[able].astype(np.int64),
        kind=kind[able],
        group=np.full(count, UNKNOWN, np.int64),
        dtype=[None] * count,
        elements=nothing,
        bytes=nothing,
        sequence=nothing,
        peer=nothing,
        root=nothing,
        told=np.zeros(count, np.bool_),
        launched=np.ones(count, np.bool_),
        groups=[],
    )


class _Reader:
    """Makes what was fetched into kinds, groups and sizes; texts are looked at once each."""

    def __init__(self, scope: Scope, column: dict[str, NDArray[np.generic]]) -> None:
        self._scope, self._column = scope, column
        names = np.unique(np.concatenate([self._ints(name) for name in (*_NAMES, "name")]))
        self._texts = scope.texts(names[names >= 0].tolist())

    def _ints(self, name: str) -> Ints:
        return self._column[name].astype(np.int64, copy=False)

    def read(self) -> Communication:
        """The communication."""
        rank = self._ranks()
        kind = self._kinds()
        group, found = self._groups(rank)
        told = self._column["told"].astype(bool) & (kind != int(Kind.UNKNOWN))
        elements, size = self._sizes(kind, group, found)
        dtype = [self._texts.get(code) for code in self._ints("dtype").tolist()]
        return Communication(
            capture=self._ints("capture"),
            device=self._ints("device"),
            rank=rank,
            op_id=self._ints("op_id"),
            start=self._ints("start_ns"),
            end=self._ints("end_ns"),
            step=self._ints("step"),
            kind=kind,
            group=group,
            dtype=dtype,
            elements=elements,
            bytes=size,
            sequence=self._ints("sequence"),
            peer=self._ints("peer"),
            root=self._ints("root"),
            told=told,
            launched=self._column["launched"].astype(bool),
            groups=found,
        )

    def _ranks(self) -> Ints:
        known = {(d.capture, d.device): UNKNOWN if d.rank is None else d.rank for d in self._scope.devices}
        places = groups(self._ints("capture"), self._ints("device"))
        capture, device = self._ints("capture")[places.row].tolist(), self._ints("device")[places.row].tolist()
        ranks = [known.get(place, UNKNOWN) for place in zip(capture, device, strict=True)]
        return np.array(ranks, np.int64)[places.of_row]

    def _kinds(self) -> NDArray[np.int8]:
        """Of what was told, else of the kernel's name."""
        by_code = {code: kind_of(text) for code, text in self._texts.items()}
        codes = self._ints("kind")
        codes = np.where(codes >= 0, codes, self._ints("name"))
        distinct, inverse = np.unique(codes, return_inverse=True)
        kinds = np.array([int(by_code.get(code, Kind.UNKNOWN)) for code in distinct.tolist()], np.int8)
        return kinds[inverse.reshape(-1)] if len(codes) else np.zeros(0, np.int8)

    def _groups(self, rank: Ints) -> tuple[Ints, list[Group]]:
        columns = ("group_name", "group_description", "group_ranks", "group_size")
        keys = np.stack([self._ints(name) for name in columns], 1)
        if not len(keys):
            return np.zeros(0, np.int64), []
        distinct, inverse = np.unique(keys, axis=0, return_inverse=True)
        found: dict[_Identity, tuple[str, int]] = {}
        place = np.full(len(distinct), UNKNOWN, np.int64)
        seen = self._ranks_seen(rank)
        for k, (name, description, ranks, size) in enumerate(distinct.tolist()):
            if name < 0 and ranks < 0:
                continue
            members = _members(self._texts.get(ranks))
            count = len(members) if members else seen.get(name) if size == NULL else size
            key = (self._texts.get(name, ""), members, count)
            place[k] = found.setdefault(key, (self._texts.get(description, ""), len(found)))[1]
        return place[inverse.reshape(-1)], _labelled(found)

    def _ranks_seen(self, rank: Ints) -> dict[int, int]:
        """How many ranks were recorded in each group, by its name: its size, where nothing else tells it."""
        pairs = groups(self._ints("group_name"), rank)
        names, counts = np.unique(self._ints("group_name")[pairs.row], return_counts=True)
        return dict(zip(names.tolist(), counts.tolist(), strict=True))

    def _sizes(self, kind: NDArray[np.int8], group: Ints, groups: list[Group]) -> tuple[Ints, Ints]:
        """Elements and bytes of the whole array."""
        elements = np.maximum(self._ints("elements_in"), self._ints("elements_out"))
        codes = self._ints("dtype")
        wide = {code: BYTES_OF_DTYPE.get(text.lower().removeprefix("c10::")) for code, text in self._texts.items()}
        distinct, inverse = np.unique(codes, return_inverse=True)
        width = np.array([wide.get(code) or 0 for code in distinct.tolist()], np.int64)[inverse.reshape(-1)]
        fits = (elements != NULL) & (width > 0) & (elements <= _MOST_BYTES // np.maximum(width, 1))
        size = np.where(fits, np.where(fits, elements, 0) * width, NULL)
        message = self._ints("bytes")
        stated = np.flatnonzero(message != NULL)
        if len(stated):
            rows = np.stack((kind[stated].astype(np.int64), group[stated], message[stated]), 1)
            distinct_rows, place = np.unique(rows, axis=0, return_inverse=True)
            totals = [total_bytes(Kind(k), m, groups[g].size if g >= 0 else None) for k, g, m in distinct_rows.tolist()]
            size[stated] = np.array([NULL if t is None else t for t in totals], np.int64)[place.reshape(-1)]
        return elements, size


_Identity = tuple[str, tuple[int, ...] | None, int | None]
"""Name, ranks and size of a group: the same on all its ranks."""


def _members(text: str | None) -> tuple[int, ...] | None:
    """The ranks of a group as PyTorch writes them: a list, in a text."""
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not found:
        return None
    if not all(type(rank) is int and 0 <= rank <= _LARGEST_RANK for rank in found):
        return None
    return tuple(found)


def _labelled(found: dict[_Identity, tuple[str, int]]) -> list[Group]:
    """Groups with what people call them: the description or the name, and the ranks where several are called so."""
    called = Counter(description or name for (name, _, _), (description, _) in found.items())
    out = []
    for (name, members, size), (description, _) in found.items():
        label = description or name
        if called[label] > 1:
            label = f"{label} {list(members)}" if members is not None else f"{label} {name}" if description else label
        out.append(Group(name, description, members, size, label))
    labels = Counter(group.label for group in out)
    return [
        group if labels[group.label] == 1 else replace(group, label=f"{group.label} #{k}")
        for k, group in enumerate(out)
    ]
