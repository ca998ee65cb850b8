"""What a reader writes to. Readers know this protocol and the tables, never the store behind it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.kinds import EventKind, RankSource, Severity

Values = NDArray[Any]
"""A column of a batch: a numpy array, or a masked array where values are null."""

_HOME = re.compile(r"/(?:home|Users)/[^/\s:'\"]+(?=/)")

NodeKey = tuple[int, int, int, int, int, int]
"""(parent, code of frame, code of file, line, code of module, kind) of a stack node; -1 where there is none."""

NO_TEXT = -1
"""Code of a text that is null, in columns of the type NAME."""


class Texts(dict[str, int]):
    """Dictionary of a capture: text -> code, in the order of first sight.

    A text that was not seen yet gets the next code on look-up, so that `map(texts.__getitem__, names)` codes a list
    at the speed of a dictionary. NUL characters and lone surrogates are replaced, since neither can be stored. Home
    folders become `~` unless they are to be kept: they carry the names of users.
    """

    def __missing__(self, text: str) -> int:
        clean = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
        if not self._keep_homes:
            clean = _HOME.sub("~", clean)
        code = self[clean] if clean != text else len(self._all)
        if clean == text:
            self._all.append(text)
        self[text] = code
        return code

    def __init__(self, keep_homes: bool = False) -> None:
        super().__init__()
        self._all: list[str] = []
        self._keep_homes = keep_homes

    @property
    def all(self) -> list[str]:
        """Distinct texts; the position is the code."""
        return self._all

    def codes(self, texts: Iterable[str | None], count: int = -1) -> NDArray[np.int32]:
        """Codes of many texts; `NO_TEXT` for None."""
        look = self.__getitem__
        return np.fromiter((NO_TEXT if t is None else look(t) for t in texts), np.int32, count)


class Stacks:
    """Prefix tree of a capture: frames below frames, numbered in the order of first sight, parents before children."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._ids: dict[NodeKey, int] = {}

    def node(
        self,
        parent: int,
        frame: str,
        file: str | None = None,
        line: int | None = None,
        module: str | None = None,
        kind: EventKind | None = None,
    ) -> int:
        """Number of the node `frame` below `parent` (-1: a root). Equal frames below one parent are one node.

        `kind` says what the frame is; None is native code of a sample or call chain.
        """
        look = self._texts.__getitem__
        key = (
            parent,
            look(frame),
            NO_TEXT if file is None else look(file),
            -1 if line is None else line,
            NO_TEXT if module is None else look(module),
            -1 if kind is None else int(kind),
        )
        return self._ids.setdefault(key, len(self._ids))

    @property
    def nodes(self) -> Iterable[NodeKey]:
        """Every node, in the order of the numbers."""
        return self._ids.keys()

    def __len__(self) -> int:
        return len(self._ids)


@dataclass(slots=True)
class CaptureFacts:
    """What a reader learned of the file as a whole. Unset facts are stored as null."""

    tool_version: str | None = None
    format_version: str | None = None
    host: str | None = None
    rank: int | None = None
    rank_source: RankSource | None = None
    world_size: int | None = None
    utc_offset_ns: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    whole: bool = True
    several_ranks: bool = False
    """The file holds several ranks (or processes that may be ranks): no rank is given to it by name or order."""
    ranks: frozenset[int] = frozenset()
    """Those of a file of several that it states."""
    ranges_mark_steps: bool = True
    """Whether ranges that are named like steps mark steps where the file has no other marks."""
    metadata: dict[str, Any] = field(default_factory=dict)


class Sink(Protocol):
    """Where a reader puts what it reads, in any order, in batches of up to some hundred thousand rows."""

    texts: Texts
    stacks: Stacks
    facts: CaptureFacts
    keep_environment: bool

    def write(self, table: str, columns: Mapping[str, Values]) -> None:
        """Append rows to a table of the schema.

        Columns have equal length; those that are left out are null. NAME columns hold codes of `texts`, CHOICE columns
        numbers of their kind, `node_id` columns numbers of `stacks` (negative: null). `capture` and derived columns are
        not given. `gpu_ops.op_id` and `cpu_events.event_id` count from 0 in the order of writing and may be left out.
        """

    def note(self, code: str, text: str, count: int = 1, severity: Severity = Severity.WARNING) -> None:
        """Say what was odd; counts of the same code and text are added up."""
