"""Real traces: what was read against their published counts and against the slow reader."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.memory_sink import MemorySink
from tests.support.slow_torch import operations, read
from tests.support.torch_reading import read_file
from traceanalyzer.sources.torch_trace.categories import EVENT_KINDS

_DATA = Path(__file__).parents[2].parent / "shared"
_PUBLIC = _DATA / "public" / "torch"
_TRACES = sorted(p for p in (_DATA / "traces").glob("**/*.json.gz") if p.stat().st_size < 150_000)
_MANIFEST: list[dict[str, Any]] = (
    json.loads((_PUBLIC / "MANIFEST.json").read_text())["files"] if (_PUBLIC / "MANIFEST.json").exists() else []
)

pytestmark = pytest.mark.skipif(not _MANIFEST, reason="the real traces are not beside the repository")


def _by_device(sink: MemorySink) -> dict[str, tuple[int, int, int, int]]:
    out: dict[str, list[dict[str, Any]]] = {}
    for op in sink.rows("gpu_ops"):
        out.setdefault(str(op["device"]), []).append(op)
    return {
        device: (
            len(ops),
            min(o["start_ns"] for o in ops),
            max(o["end_ns"] for o in ops),
            sum(o["end_ns"] - o["start_ns"] for o in ops),
        )
        for device, ops in out.items()
    }


@pytest.mark.parametrize("facts", _MANIFEST, ids=lambda facts: facts["file"])
def test_public_traces_against_their_counts(facts: dict[str, Any]) -> None:
    sink = read_file(_PUBLIC / facts["file"])
    expected = {d: (v["ops"], v["first_ns"], v["last_ns"], v["sum_dur_ns"]) for d, v in facts["devices_ns"].items()}
    assert _by_device(sink) == expected
    categories = Counter(str(e["domain"]) for e in sink.rows("cpu_events") if e["kind"] not in ("mark",))
    counted = facts["counts"]["by_category_and_phase"].items()
    threads = {k[:-2]: n for k, n in counted if k.endswith("/X") and k[:-2].lower() in EVENT_KINDS}
    assert {c: n for c, n in categories.items() if c.lower() in EVENT_KINDS} == threads
    assert len(sink.rows("memory_events")) == facts["counts"]["memory_events"]
    assert sink.facts.whole


@pytest.mark.parametrize("path", _TRACES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_traces_against_the_slow_reader(path: Path) -> None:
    sink = read_file(path)
    events = read(path)
    columns = ("start_ns", "end_ns", "device", "stream", "kind", "name")
    assert Counter(tuple(op[c] for c in columns) for op in sink.rows("gpu_ops")) == Counter(operations(events))
    expected = Counter(e["cat"] for e in events if e["ph"] == "X" and str(e.get("cat")).lower() in EVENT_KINDS)
    assert Counter(e["domain"] for e in sink.rows("cpu_events") if e["domain"] in EVENT_KINDS) == expected
