"""Texts of the export: StringIds, read by id and only when an event that is kept refers to it.

StringIds holds more than names: the environments of all processes of the machine, and what the program printed.
Nothing of it may reach the store but what a stored event names, so texts are looked up one id at a time.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.sink import NO_TEXT, Texts
from traceanalyzer.sources.nsys_sqlite.database import NULL, Database, Integers

Codes = NDArray[np.int32]

_UNSEEN = -2
_DENSE = 1 << 22  # ids below this are looked up in an array, others (ids can be sparse) in a dictionary


class Names:
    """StringIds as codes of the capture's dictionary, and as texts."""

    def __init__(self, database: Database, texts: Texts) -> None:
        self._database = database
        self._texts = texts
        self._dense: Codes = np.full(1024, _UNSEEN, np.int32)
        self._known: dict[int, str | None] = {}
        self._whole: dict[int, str] | None = None
        if not database.is_key("StringIds", "id"):
            # Written by something else than nsys: without a key every look-up would read the whole table.
            self._whole = {i: v for i, v in database.rows("StringIds", "id", "value") if isinstance(v, str)}

    def text(self, string_id: Any) -> str | None:
        """Text of one id; None where it is null or unknown."""
        if not isinstance(string_id, int):
            return None
        if string_id not in self._known:
            self._load([string_id])
        return self._known[string_id]

    def texts(self, ids: set[int]) -> dict[int, str | None]:
        """Texts of many ids at once."""
        self._load([i for i in ids if i not in self._known])
        return {i: self._known[i] for i in ids}

    def _load(self, ids: list[int]) -> None:
        if self._whole is not None:
            self._known.update((i, self._whole.get(i)) for i in ids)
            return
        found = dict(self._database.find("StringIds", "id", ids, "id", "value"))
        for i in ids:
            value = found.get(i)
            self._known[i] = value if isinstance(value, str) else None

    def code(self, text: str | None) -> int:
        """Code of a text of our own; `NO_TEXT` for None."""
        return NO_TEXT if text is None else self._texts[text]

    def codes(self, ids: Integers) -> Codes:
        """Codes of an array of ids; `NO_TEXT` where the id is null or unknown."""
        if not ids.size:
            return np.empty(0, np.int32)
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= _DENSE:
            distinct, where = np.unique(ids, return_inverse=True)
            return self._of_distinct(distinct.tolist())[where]
        if high >= self._dense.size:
            grown = np.full(min(_DENSE, 2 * high + 2), _UNSEEN, np.int32)
            grown[: self._dense.size] = self._dense
            self._dense = grown
        codes = self._dense[ids]
        unseen = codes == _UNSEEN
        if unseen.any():
            fresh = np.unique(ids[unseen])
            self._dense[fresh] = self._of_distinct(fresh.tolist())
            codes = self._dense[ids]
        return codes

    def _of_distinct(self, ids: list[int]) -> Codes:
        found = self.texts({i for i in ids if i != NULL})
        return np.array([self.code(found.get(i)) for i in ids], np.int32)
