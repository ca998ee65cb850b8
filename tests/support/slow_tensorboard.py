"""The split of TensorBoard's profiler plugin (0.4.3) of raw events in plain, slow Python, with or without its faults.

Nothing of the program is used. All times are integer nanoseconds; those of the plugin are floats of microseconds.
"""

import re
from collections import defaultdict
from typing import Any

from tests.support.slow_torch import OPERATIONS, ns

PARTS = ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CPU Exec")
FAULTS = frozenset({"calls", "repeated_marks", "collectives", "annotations"})
"""What the plugin does wrong: calls of lower-case categories are unknown to it; marks on the device's rows are
steps once more, as other annotations there are; only some names are collectives; those of the
DataLoader are left out."""
KNOWN = {f"nccl:{n}" for n in ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter")}
KNOWN |= {f"gloo:{n}" for n in ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter")}
COMMUNICATES = re.compile(r"nccl|rccl|nvshmem|msccl|::ep::", re.IGNORECASE)
LOADER = re.compile(r"enumerate\(DataLoader\)#.*\.__next__|enumerate\(DataPipe\)#.*")
Interval = tuple[int, int]


class SlowPlugin:
    """A trace as the plugin sees it: `split` is the time of all steps by part, `n_steps` how many there are."""

    def __init__(self, events: list[dict[str, Any]], faults: frozenset[str] = frozenset()) -> None:
        self._faults = faults
        self._on_host = {"cpu_op", "operator", "user_annotation"}
        self._on_host |= {"gpu_user_annotation"} if "repeated_marks" in faults else set()
        self._classes: dict[str, list[Interval]] = {name: [] for name in PARTS}
        self._marks: set[Interval] | list[Interval] = []
        self._calls: dict[object, Interval] = {}
        self._device: list[tuple[int, int, object]] = []
        self._around: list[Interval] = []
        whole = [e for e in events if e.get("ph") == "X" and e.get("cat")]
        self._collectives = {external(e) for e in whole if self._is_collective(e)} - {None}
        for event in whole:
            self._take(event, str(event["cat"]).lower())
        self._marks = sorted(self._marks if "repeated_marks" in faults else set(self._marks))
        steps = self._steps()
        self.n_steps = len(steps)
        self.split = self._split(steps)

    def _is_collective(self, event: dict[str, Any]) -> bool:
        if str(event["cat"]).lower() not in self._on_host:
            return False
        name = str(event["name"])
        return name in KNOWN if "collectives" in self._faults else name.lower().startswith(("nccl:", "gloo:"))

    def _take(self, event: dict[str, Any], category: str) -> None:
        start = ns(event["ts"])
        span = start, max(start, start + ns(event.get("dur", 0)))
        name, key = str(event["name"]), (event.get("args") or {}).get("correlation")
        calls = {"runtime"} | ({"cuda_runtime", "cuda_driver"} if "calls" not in self._faults else set())
        if category in OPERATIONS:
            self._device.append((*span, key))
            part = {"kernel": "Kernel", "memcpy": "Memcpy", "memset": "Memset"}[OPERATIONS[category]]
            by_name = "collectives" not in self._faults and COMMUNICATES.search(name)
            if part == "Kernel" and (external(event) in self._collectives or by_name):
                part = "Communication"
            self._classes[part].append(span)
        elif category in calls:
            self._calls[key] = span
            self._classes["Runtime"].append(span)
        elif category in self._on_host and name.startswith("ProfilerStep#"):
            self._marks.append(span)
            self._around.append(span)
        elif category in self._on_host:
            self._take_operator(event, category, name, span)

    def _take_operator(self, event: dict[str, Any], category: str, name: str, span: Interval) -> None:
        operator = "annotation" not in category
        if operator:
            self._around.append(span)
        if self._is_collective(event):
            self._classes["Communication"].append(span)
        elif LOADER.fullmatch(name) and (operator or "annotations" not in self._faults):
            self._classes["DataLoader"].append(span)
        elif operator:
            self._classes["CPU Exec"].append(span)

    def _steps(self) -> list[Interval]:
        """Marks, extended by the device work that calls wholly inside them launched, without cut trailing ones."""
        marks = list(self._marks) or [(min(a for a, _ in self._around), max(b for _, b in self._around))]
        work: dict[int, list[Interval]] = defaultdict(list)
        alone = []
        for start, end, key in self._device:
            call = self._calls.get(key)
            found = [k for k, (a, b) in enumerate(marks) if call and a <= call[0] and call[1] <= b]
            if found:
                work[found[-1]].append((start, end))
            else:
                alone.append((start, end))
        if not work:
            return marks
        before = marks[0][0]
        if 0 in work:
            first = min(start for start, _ in work[0])
            before = max([before, *(end for _, end in alone if end < first)])
        steps = []
        for k, (start, end) in enumerate(marks):
            begin = max(before, start)
            before = max([end, begin, *(until for _, until in work[k])])
            steps.append((begin, before))
        keep = max(k for k in work if work[k]) + 1
        if keep > 1 and 0.8 * len(work[keep - 2]) > len(work[keep - 1]):
            keep -= 1
        return steps[:keep]

    def _split(self, steps: list[Interval]) -> dict[str, int]:
        """Time of each part: at every instant of a step the first class that has something open."""
        edges: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for place, intervals in enumerate([*self._classes.values(), steps]):
            for start, end in intervals:
                if end > start:
                    edges[start].append((place, 1))
                    edges[end].append((place, -1))
        out = dict.fromkeys((*PARTS, "Other"), 0)
        open_ = [0] * (len(PARTS) + 1)
        last = 0
        for at in sorted(edges):
            if open_[-1]:
                first = next((name for name, count in zip(PARTS, open_, strict=False) if count), "Other")
                # Steps that overlap, as repeated marks do, count once each.
                out[first] += (at - last) * (open_[-1] if "repeated_marks" in self._faults else 1)
            for place, change in edges[at]:
                open_[place] += change
            last = at
        return out


def external(event: dict[str, Any]) -> object:
    """The external id of an event, in the spelling of its era."""
    arguments = event.get("args") or {}
    return arguments.get("external id", arguments.get("External id"))
