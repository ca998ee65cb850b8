"""Whether a file is a valid Chrome trace for viewers, asked slowly and without the code that wrote it."""

import gzip
import json
import re
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

KINDS = {"X", "M", "C", "s", "f", "i"}
_TIME = re.compile(r'"(?:ts|dur)":([^,}]+)')
_EXACT = re.compile(r"\d+\.\d{3}|0")


class Timeline:
    """A timeline read with the standard library; times of `events` are ns. Raises `AssertionError` if not valid."""

    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        self.text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
        whole = json.loads(self.text, parse_float=Decimal, parse_constant=_refuse)
        self.events: list[dict[str, Any]] = whole.pop("traceEvents")
        self.about: dict[str, Any] = whole
        events_text = self.text[self.text.index('"traceEvents"') :]
        assert all(_EXACT.fullmatch(t) for line in events_text.split("\n") for t in _TIME.findall(line)[:2])
        for event in self.events:
            assert event["ph"] in KINDS and isinstance(event["pid"], int) and isinstance(event["tid"], int)
            for key in ("ts", "dur"):
                if key in event:
                    event[key] = int(event[key] * 1000)
                    assert event[key] >= 0
        self.slices = [e for e in self.events if e["ph"] == "X"]
        self.rows: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
        for event in self.slices:
            self.rows[event["pid"], event["tid"]].append(event)
        self._check_nesting()
        self.arrows = self._check_arrows()
        self._check_counters()

    def _check_nesting(self) -> None:
        for row in self.rows.values():
            open_: list[dict[str, Any]] = []
            row.sort(key=lambda e: e["ts"])  # of one instant as they stand in the file, as viewers take them
            for event in row:
                while open_ and _end(open_[-1]) <= event["ts"]:
                    open_.pop()
                assert not open_ or _end(event) <= _end(open_[-1]), (event, open_[-1])
                open_.append(event)

    def _check_arrows(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """The slices at both ends of each arrow."""
        ends: dict[tuple[str, int], dict[str, Any]] = {}
        arrows = []
        for event in self.events:
            if event["ph"] == "s":
                assert (event["cat"], event["id"]) not in ends
                ends[event["cat"], event["id"]] = event
            elif event["ph"] == "f":
                begin = ends.pop((event["cat"], event["id"]))
                assert begin["ts"] <= event["ts"] and event["bp"] == "e"
                arrows.append((begin, event))
        assert not ends
        starts = {place: [e["ts"] for e in row] for place, row in self.rows.items()}
        return [(self._slice_at(a, starts), self._slice_at(b, starts)) for a, b in arrows]

    def _slice_at(self, end: dict[str, Any], starts: dict[tuple[int, int], list[int]]) -> dict[str, Any]:
        from bisect import bisect_right

        row = self.rows[end["pid"], end["tid"]]
        at = bisect_right(starts[end["pid"], end["tid"]], end["ts"]) - 1
        while at >= 0 and not row[at]["ts"] <= end["ts"] < _end(row[at]):
            at -= 1
        assert at >= 0, end
        return row[at]

    def _check_counters(self) -> None:
        for event in self.events:
            if event["ph"] == "C":
                assert event["args"] and all(type(v) in (int, Decimal) for v in event["args"].values())

    def of(self, category: str) -> list[dict[str, Any]]:
        """Slices of a category, in the order of time."""
        return sorted((e for e in self.slices if e["cat"] == category), key=lambda e: (e["ts"], -e["dur"]))


def _end(event: dict[str, Any]) -> int:
    return int(event["ts"] + event["dur"])


def _refuse(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")
