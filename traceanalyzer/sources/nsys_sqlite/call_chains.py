"""Native call chains: rows of frames by chain id, innermost first, as nodes of the capture's stacks.

Three tables have this shape: CUDA_CALLCHAINS, OSRT_CALLCHAINS and SAMPLING_CALLCHAINS.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.sources.nsys_sqlite.capture import Capture
from traceanalyzer.sources.nsys_sqlite.database import NULL, Database, Integers

NO_NODE = -1


class CallChains:
    """Nodes of the innermost frames of the chains of one table."""

    def __init__(self, ids: Integers, nodes: Integers) -> None:
        self._ids = ids
        self._nodes = nodes

    def nodes(self, chain_ids: Integers) -> Integers:
        """Node of each chain; `NO_NODE` where the id is null or has no frames."""
        if not len(self._ids):
            return np.full(len(chain_ids), NO_NODE, np.int64)
        at = np.minimum(np.searchsorted(self._ids, chain_ids), len(self._ids) - 1)
        return np.where(self._ids[at] == chain_ids, self._nodes[at], NO_NODE)


def read_call_chains(capture: Capture, table: str) -> CallChains:
    """Put every chain of a table into the stacks of the capture."""
    ids: list[int] = []
    nodes: list[int] = []
    frames = _Frames(capture)
    current, node = NULL, NO_NODE
    for rows in _outermost_first(capture.database, table):
        frames.load(rows["symbol"], rows["module"])
        symbols, modules = rows["symbol"].tolist(), rows["module"].tolist()
        kernel, address = rows["kernelMode"].tolist(), rows["originalIP"].tolist()
        for row, chain in enumerate(rows["id"].tolist()):
            if chain != current:
                if current != NULL:
                    ids.append(current)
                    nodes.append(node)
                current, node = chain, NO_NODE
            # Each frame is a child of the one before it.
            node = frames.node(node, symbols[row], modules[row], kernel[row] == 1, address[row])
    if current != NULL:
        ids.append(current)
        nodes.append(node)
    return CallChains(_array(ids), _array(nodes))


def _outermost_first(database: Database, table: str) -> Iterator[dict[str, Integers]]:
    """Rows of a table by chain, the outermost frame of each first.

    nsys writes the rows of a chain together and the chains by id, so that only the frames need turning; a table in
    another order is left to SQLite to sort.
    """
    columns = ("id", "stackDepth", "symbol", "module", "kernelMode", "originalIP")
    ordered = _by_id(database, table)
    held: dict[str, Integers] = {name: np.empty(0, np.int64) for name in columns}
    for block in database.blocks(table, columns, order="" if ordered else '"id"'):
        rows = {name: np.concatenate([held[name], block[name]]) for name in columns}
        # The last chain may go on in the next block.
        whole = rows["id"] != rows["id"][-1]
        held = {name: values[~whole] for name, values in rows.items()}
        yield _turned({name: values[whole] for name, values in rows.items()})
    yield _turned(held)


def _turned(rows: dict[str, Integers]) -> dict[str, Integers]:
    order = np.lexsort((-rows["stackDepth"], rows["id"]))
    return {name: values[order] for name, values in rows.items()}


def _by_id(database: Database, table: str) -> bool:
    last = NULL
    for block in database.blocks(table, ("id",)):
        ids = block["id"]
        if ids[0] < last or (ids[1:] < ids[:-1]).any():
            return False
        last = int(ids[-1])
    return True


class _Frames:
    def __init__(self, capture: Capture) -> None:
        self._names = capture.names
        self._stacks = capture.sink.stacks
        self._texts: dict[int, str | None] = {}
        self._nodes: dict[tuple[int, int, int, bool, int], int] = {}

    def load(self, symbols: Integers, modules: Integers) -> None:
        fresh = {i for i in (*symbols.tolist(), *modules.tolist()) if i not in self._texts}
        self._texts.update(self._names.texts(fresh - {NULL}))
        self._texts[NULL] = None

    def node(self, parent: int, symbol: int, module: int, in_kernel: bool, address: int) -> int:
        text = self._texts[symbol]
        key = (parent, symbol, module, in_kernel, address if text is None else 0)
        found = self._nodes.get(key)
        if found is None:
            if text is None:
                text = "unknown" if address == NULL else hex(address & (2**64 - 1))
            frame = f"{text} [kernel]" if in_kernel else text
            found = self._nodes[key] = self._stacks.node(parent, frame, module=self._texts[module])
        return found


def _array(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)
