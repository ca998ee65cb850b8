"""Kinds of collectives: their names in the sources, whom each waits for, and how many bytes each moves."""

import re
from enum import IntEnum

BYTES_OF_DTYPE = {
    "byte": 1,
    "char": 1,
    "bool": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "short": 2,
    "half": 2,
    "bfloat16": 2,
    "int": 4,
    "float": 4,
    "long": 8,
    "double": 8,
    "complexfloat": 8,
    "complexdouble": 16,
}
"""Bytes of an element by the name that PyTorch gives its type, in lower case."""


class Kind(IntEnum):
    """What a collective does. `text` is its name in answers."""

    UNKNOWN = 0
    ALL_REDUCE = 1
    ALL_GATHER = 2
    REDUCE_SCATTER = 3
    ALL_TO_ALL = 4
    BARRIER = 5
    BROADCAST = 6
    SCATTER = 7
    REDUCE = 8
    GATHER = 9
    SEND = 10
    RECV = 11
    SEND_RECV = 12

    @property
    def text(self) -> str:
        """Name in answers."""
        return self.name.lower()


ALL_WAIT = (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL, Kind.BARRIER)
"""No rank can finish before the last has begun."""
WAIT_FOR_ROOT = (Kind.BROADCAST, Kind.SCATTER)
"""Everybody waits for the root: late broadcast (Scalasca's wait states)."""
ROOT_WAITS = (Kind.REDUCE, Kind.GATHER)
"""The root waits for the last: early reduce."""
POINT_TO_POINT = (Kind.SEND, Kind.RECV)
"""Late sender, late receiver."""
OF_ONE_SIZE = frozenset({Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.BROADCAST, Kind.REDUCE})
"""Kinds whose size is the same on every rank, so that it tells operations apart."""
_COUNTED_BY_RANK = frozenset({Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL, Kind.GATHER, Kind.SCATTER})
"""Kinds whose NCCL message size is that of one rank's part."""

# The order matters: the first word that occurs decides.
_WORDS = (
    ("allreduce", Kind.ALL_REDUCE),
    ("allgather", Kind.ALL_GATHER),
    ("reducescatter", Kind.REDUCE_SCATTER),
    ("alltoall", Kind.ALL_TO_ALL),
    ("broadcast", Kind.BROADCAST),
    ("bcast", Kind.BROADCAST),
    ("barrier", Kind.BARRIER),
    ("gather", Kind.GATHER),
    ("scatter", Kind.SCATTER),
    ("reduce", Kind.REDUCE),
    ("sendrecv", Kind.SEND_RECV),
    ("send", Kind.SEND),
    ("recv", Kind.RECV),
)
NOT_CALLS = ("wait", "init", "")
"""Names under which PyTorch records what does not communicate, such as waiting for what was issued before."""
_LETTERS = re.compile(r"[^a-z]+")


def kind_of(name: str) -> Kind:
    """Kind by the name of a collective, an NCCL call or a kernel: `_allgather_base`, `ncclAllReduce`, `all_to_allv`."""
    text = _LETTERS.sub("", name.lower())
    return next((kind for word, kind in _WORDS if word in text), Kind.UNKNOWN)


def total_bytes(kind: Kind, message_bytes: int, ranks: int | None) -> int | None:
    """Size of a collective as nccl-tests counts it, the whole array, from the message size of an NCCL call."""
    if kind not in _COUNTED_BY_RANK:
        return message_bytes
    return None if ranks is None else message_bytes * ranks


def bus_factor(kind: Kind, ranks: int) -> float:
    """What bus bandwidth is of algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md)."""
    if kind is Kind.ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    if kind in (Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL):
        return (ranks - 1) / ranks
    return 1.0
