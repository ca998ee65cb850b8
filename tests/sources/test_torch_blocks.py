"""Cutting the text of a trace: proven cuts, truncation, damage, files that are no traces."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.slow_torch import events_of, operations, whole_events
from tests.support.torch_reading import kernel, notes, read_text
from traceanalyzer.errors import SourceError, UnknownFormatError
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.torch_trace.blocks import TraceText

_SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
_NASTY = st.sampled_from(
    ["}, {", '}],"a":1}', '"', "\\", '\\"}, {"', "\u2028 ü \U0001f600", "]", '{"ph":"X"}', "a\nb", ""]
)
_NAMES = st.lists(_NASTY | st.text(max_size=5), min_size=1, max_size=3).map("".join)
_NESTED = st.fixed_dictionaries(
    {"list": st.lists(st.fixed_dictionaries({"x": _NAMES}), max_size=3)}, optional={"y": st.integers()}
)
_LAYOUTS = st.sampled_from(
    [
        {"separators": (",", ":")},
        {},
        {"indent": 1},
        {"indent": 2, "separators": (" , ", " : ")},
        {"ensure_ascii": False},
    ]
)


def _event(number: int, name: str, nested: dict[str, Any]) -> dict[str, Any]:
    return kernel(f"{number} {name}", ts=number, dur=1, device=0, stream=7, correlation=number + 1, nested=nested)


_EVENTS = st.lists(st.tuples(_NAMES, _NESTED), min_size=1, max_size=8).map(
    lambda rows: [_event(i, name, nested) for i, (name, nested) in enumerate(rows)]
)
_BEFORE = st.dictionaries(
    st.sampled_from(["schemaVersion", "deviceProperties", "a"]), _NAMES | st.just([{"id": 0}, {"id": 1}])
)
_AFTER = st.dictionaries(
    st.sampled_from(["traceName", "distributedInfo", "b"]), _NAMES | st.just([{"id": 0}, {"id": 1}])
)


def _text(events: list[dict[str, Any]], before: dict[str, Any], after: dict[str, Any], layout: dict[str, Any]) -> bytes:
    return json.dumps(before | {"traceEvents": events} | after, **layout).encode("utf-8", "surrogatepass")


def _read(folder: Path, text: bytes, block_bytes: int) -> tuple[list[tuple[str | None, bytes]], TraceText]:
    path = folder / "t.json"
    path.write_bytes(text)
    blocks = TraceText(TraceFile(path), block_bytes)
    return [(event.name, bytes(event.ts)) for rows in blocks for event in rows.events], blocks


@_SETTINGS
@given(_EVENTS, _BEFORE, _AFTER, _LAYOUTS, st.integers(1, 300))
def test_any_block_size_gives_the_same_events(
    tmp_path: Path,
    events: list[dict[str, Any]],
    before: dict[str, Any],
    after: dict[str, Any],
    layout: dict[str, Any],
    block_bytes: int,
) -> None:
    text = _text(events, before, after, layout)
    got, blocks = _read(tmp_path, text, block_bytes)
    assert got == [(e["name"], str(e["ts"]).encode()) for e in events]
    assert blocks.whole and not blocks.lost and not blocks.repaired and not blocks.metadata_damaged
    assert blocks.metadata == before | after


@_SETTINGS
@given(_EVENTS, _BEFORE, _LAYOUTS, st.integers(1, 300), st.data())
def test_a_cut_at_any_byte_keeps_exactly_the_whole_events(
    tmp_path: Path,
    events: list[dict[str, Any]],
    before: dict[str, Any],
    layout: dict[str, Any],
    block_bytes: int,
    data: st.DataObject,
) -> None:
    text = _text(events, before, {"z": [{"q": 1}, {"q": 2}]}, layout)
    cut = text[: data.draw(st.integers(1, len(text.rstrip()) - 1))]
    kept = [e["name"] for e in whole_events(cut.decode("utf-8", "replace"))]
    if b'"traceEvents"' not in cut or not cut.split(b'"traceEvents"', 1)[1].strip(b" \n:"):
        with pytest.raises(SourceError):
            _read(tmp_path, cut, block_bytes)
        return
    got, blocks = _read(tmp_path, cut, block_bytes)
    assert [name for name, _ts in got] == kept
    assert not blocks.whole and not blocks.lost


@pytest.mark.parametrize("layout", [None, 1, 4])
@pytest.mark.parametrize("bare", [False, True])
def test_layouts(tmp_path: Path, layout: int | None, bare: bool) -> None:
    events = [_event(i, "k", {}) for i in range(5)]
    for start in (b"", b"\xef\xbb\xbf", b" \n\t"):
        text = start + json.dumps(events if bare else {"traceEvents": events}, indent=layout).encode()
        sink = read_text(tmp_path, text, 64)
        assert [op["name"] for op in sink.rows("gpu_ops")] == [e["name"] for e in events]
        assert sink.facts.whole and notes(sink) == {}


def test_events_first_and_metadata_after(tmp_path: Path) -> None:
    text = json.dumps(
        {"traceEvents": [_event(0, "k", {})], "schemaVersion": 1, "distributedInfo": {"rank": 3, "world_size": 4}}
    )
    sink = read_text(tmp_path, text)
    assert (sink.facts.rank, sink.facts.world_size, sink.facts.format_version) == (3, 4, "1")


def _damaged(text: str, damage: bytes) -> bytes:
    """Eleven events of which the sixth has the damage in place of its name."""
    events = [_event(i, "k", {}) for i in range(11)]
    events[5]["name"] = "@@"
    return json.dumps({"traceEvents": events, "traceName": "x"}).encode().replace(b'"@@"', damage)


@pytest.mark.parametrize("block_bytes", [50, 500, 1 << 20])
@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (b'"a\\qb"', "a\\qb"),
        (b'"C:\\users"', None),
        (b'"a \xff b"', "a \ufffd b"),
        (b'"a \x01 b"', "a \x01 b"),
        (b'"say "hi" now"', 'say "hi" now'),
        (b'"\\ud800"', "?"),
        (b'"k" "y"', 'k" "y'),
        (b'"a, "x"', 'a, "x'),
        (b'"k", "x": NaN', "k"),
        (b'"k", "x": N/A', "k"),
        (b'"k", "x": -Infinity', "k"),
    ],
)
def test_damaged_text_of_an_event_is_repaired(
    tmp_path: Path, damage: bytes, name: str | None, block_bytes: int
) -> None:
    sink = read_text(tmp_path, _damaged("", damage), block_bytes)
    ops = sink.rows("gpu_ops")
    assert [op["start_ns"] for op in ops] == [1000 * i for i in range(11)]
    if name is not None:
        assert str(ops[5]["name"]).encode("utf-8", "replace") == name.encode("utf-8", "replace")
    assert sink.facts.whole and "events_lost" not in notes(sink)
    assert sink.facts.metadata["traceName"] == "x"


@pytest.mark.parametrize("block_bytes", [50, 500, 1 << 20])
@pytest.mark.parametrize("damage", [b'"k", "ts"', b'"k" 5 :', b'"k', b'"k", "list": [{"a": 1}, {"a": 2}, ] 3', b"@#"])
def test_an_event_beyond_repair_is_lost_alone(tmp_path: Path, damage: bytes, block_bytes: int) -> None:
    sink = read_text(tmp_path, _damaged("", damage), block_bytes)
    assert [op["start_ns"] for op in sink.rows("gpu_ops")] == [1000 * i for i in range(11) if i != 5]
    assert sink.facts.whole and notes(sink) == {"events_lost": 1}


def test_a_damaged_last_event_hides_no_end(tmp_path: Path) -> None:
    events = [_event(i, "k", {}) for i in range(4)]
    events[3]["name"] = "@@"
    text = json.dumps({"traceEvents": events, "deviceProperties": [{"id": 0}, {"id": 1}]}).replace('"@@"', '"a\\qb"')
    sink = read_text(tmp_path, text)
    assert len(sink.rows("gpu_ops")) == 4
    assert sink.facts.whole
    assert [d["device"] for d in sink.rows("devices")] == [0, 1]


def test_odd_types_of_one_event_cost_nothing(tmp_path: Path) -> None:
    odd: list[Any] = [
        kernel("a", device="0", stream="7", correlation=3.0),
        kernel("b", device=0, stream=[1], correlation="5", grid="x", block=[1, None, 1]),
        kernel("c", device=0, stream=7, correlation=1 << 70),
        kernel(3, device=0, stream=7),
        {"ph": "X", "cat": "kernel", "name": "e", "pid": 0.0, "tid": True, "ts": "6", "dur": 1, "args": [1]},
        {"ph": "X", "cat": "kernel", "name": "f", "pid": 0, "tid": 7, "ts": 7, "dur": 1, "args": None},
        "text",
        None,
        {"name": "no phase"},
    ]
    sink = read_text(tmp_path, json.dumps({"traceEvents": odd}))
    ops = sink.rows("gpu_ops")
    assert [op["name"] for op in ops] == ["a", "b", "c", "3", "e", "f"]
    assert [op["stream"] for op in ops] == [7, 7, 7, 7, None, 7]
    assert [op["correlation_id"] for op in ops] == [3, 5, None, None, None, None]
    assert notes(sink) == {"not_events": 3}


def test_extents_and_occupancy_beyond_all_bounds_are_null(tmp_path: Path) -> None:
    odd = [kernel("a", device=0, grid=[1, 2, 10**30]), kernel("b", device=0, **{"est. achieved occupancy %": 10**400})]
    sink = read_text(tmp_path, json.dumps({"traceEvents": [*odd, kernel("c", device=0, grid=[4, 5, 6])]}))
    ops = sink.rows("gpu_ops")
    assert [op["grid_z"] for op in ops] == [None, None, 6]
    assert all(op.get("occupancy_pct") is None for op in ops)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": 1',
        b"[1,2,3]",
        b'["traceEvents","kernel"]',
        b'{"name": "a package", "version": [1, 2]}',
        b"[]",
        b"text\n",
        b'{"traceEvents": 5}',
        b'[{"a": 1}]',
        b'{"traceEvents": [1, 2]}',
        b"{}",
        b"\x89PNG\r\n",
        b"{",
        b"[",
    ],
)
def test_json_that_is_no_trace_is_refused_in_one_line(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(UnknownFormatError) as caught:
        read_text(tmp_path, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"  \n", b'{"schemaVersion": 1, "traceEvents": [', b'{"schemaVersion": 1, "tra'])
def test_files_without_one_whole_event_are_refused_in_one_line(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(SourceError) as caught:
        read_text(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_an_empty_trace_is_a_trace(tmp_path: Path) -> None:
    sink = read_text(tmp_path, '{"schemaVersion": 1, "traceEvents": [], "traceName": "x"}')
    assert sink.facts.whole and sink.facts.metadata == {"schemaVersion": 1, "traceName": "x"}
    assert not sink.batches


def test_the_slow_reader_agrees_on_operations(tmp_path: Path) -> None:
    text = json.dumps([_event(i, "k", {}) for i in range(4)])
    sink = read_text(tmp_path, text)
    got = Counter(
        (o["start_ns"], o["end_ns"], o["device"], o["stream"], o["kind"], o["name"]) for o in sink.rows("gpu_ops")
    )
    assert got == Counter(operations(events_of(text)))
