"""Launches: operations and the call that launched them share (process, correlation id); ids repeat in processes."""

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.sources.nsys_sqlite.capture import Capture
from traceanalyzer.sources.nsys_sqlite.database import NULL, Integers

NO_LAUNCH = -1
_CORRELATION_BITS = 34  # CUPTI's correlation ids have 32 bits
_GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch")


def launch_keys(process: Integers, correlation: Integers) -> Integers:
    """One number for each (process, correlation id); `NO_LAUNCH` where there is none."""
    none = (correlation == NULL) | (correlation == 0) | (process == NULL)
    key = (process << _CORRELATION_BITS) + (correlation & ((1 << _CORRELATION_BITS) - 1))
    key[none] = NO_LAUNCH
    return key


class LaunchKeys:
    """Some launches, and which of them were seen since."""

    def __init__(self, keys: Integers | None = None) -> None:
        distinct = np.empty(0, np.int64) if keys is None else np.unique(keys)
        self._keys: Integers = distinct[distinct != NO_LAUNCH]
        self._seen: NDArray[np.bool_] = np.zeros(len(self._keys), np.bool_)

    @property
    def keys(self) -> Integers:
        """All of them, in order."""
        return self._keys

    def see(self, keys: Integers) -> None:
        """Remember which of the launches are among these."""
        if len(self._keys):
            at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            self._seen[at[self._keys[at] == keys]] = True

    def seen_keys(self) -> Integers:
        """Those that were seen, in order."""
        return self._keys[self._seen]


def graph_launches(capture: Capture) -> Integers:
    """Launches of CUDA graphs among the API calls, in order."""
    database = capture.database
    ids = [
        row[0]
        for name in _GRAPH_LAUNCHES
        for row in database.rows("StringIds", "id", where=f"value GLOB '{name}*'")
        if isinstance(row[0], int)
    ]
    if not ids or not database.has("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId", "globalTid", "correlationId"):
        return np.empty(0, np.int64)
    where = f"nameId IN ({', '.join(map(str, ids))})"
    parts = [
        launch_keys(capture.process(block["globalTid"]), block["correlationId"])
        for block in database.blocks("CUPTI_ACTIVITY_KIND_RUNTIME", ("globalTid", "correlationId"), where=where)
    ]
    return LaunchKeys(np.concatenate(parts) if parts else None).keys
