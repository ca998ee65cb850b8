"""The idle time charged to a DataLoader, against a hand computation, with and without Python frames.

A gap is input wait before its launch while the launching thread is inside `__next__` of a DataLoader: an annotation
`enumerate(DataLoader)#...`, a frame of `torch/utils/data/dataloader.py`, or an operator whose recorded call stack has
such a frame. API calls and the profiler's own work
decide by themselves. No public trace with a DataLoader has events of Python frames, so some are put into them.
"""

import functools
import gzip
import json
import re
from itertools import pairwise

import pytest

from tests.support.real_traces import MISSING, PUBLIC, TRACES, opened, rows, title
from tests.support.slow_idle import CALLS, SlowTorch
from tests.support.slow_torch import events_of, read

ANNOTATION = "enumerate(DataLoader)#"
FRAME = re.compile(r"(?s).*\btorch/utils/data/dataloader\.py\b.*\b__next__")
PUBLIC_FILES = [
    PUBLIC / "torch" / name
    for name in (
        "kineto_2020_bare_array_resnet50.json.gz",
        "kineto_2021_computeprops.json.gz",
        "kineto_2021_resnet50_stack_mem.json.gz",
    )
]
"""Every public trace with a DataLoader and CUDA operations; one more is of other devices."""
OWN_FILES = [
    TRACES / workload / name
    for workload in ("dataloader_starved", "dataloader_workers2")
    for name in ("torch.json.gz", "torch.stack.json.gz")
]

pytestmark = pytest.mark.skipif(not all(path.exists() for path in PUBLIC_FILES + OWN_FILES), reason=MISSING)


def annotates(event):
    return event["kind"] in {"user_annotation", "cpu_op", "operator"} and ANNOTATION in event["name"]


def is_frame(event):
    return event["kind"] == "python_function" and FRAME.match(event["name"]) is not None


def was_called_inside(event):
    """An operator whose recorded call stack has such a frame."""
    called = str((event.get("args") or {}).get("Call stack", ""))
    return any(FRAME.match(frame) for frame in called.split(";"))


def by_hand(trace):
    """Input wait of the device, instant by instant between neighbouring edges."""
    total = 0
    over = trace.everywhere
    chosen = {}
    for thread, events in trace.threads.items():
        loads = [(e["start"], e["end"]) for e in events if annotates(e) or is_frame(e) or was_called_inside(e)]
        calls = [(e["start"], e["end"]) for e in events if e["kind"] in CALLS]
        chosen[thread] = loads, calls
    for gap in trace.gaps:
        part = trace.before_launch(gap)
        if part is None:
            continue
        loads, calls = ([x for x in some if x[0] < part[1] and x[1] > part[0]] for some in chosen[gap.launch.thread])
        if not loads:
            continue
        hides = calls + [x for x in over if x[0] < part[1] and x[1] > part[0]]
        edges = sorted({*part, *(x for each in loads + hides for x in each if part[0] < x < part[1])})
        for low, high in pairwise(edges):
            inside = any(a <= low < b for a, b in loads)
            if inside and not any(a <= low < b for a, b in hides):
                total += high - low
    return total


@functools.cache
def expected_of(path):
    """What a file should be charged with; several tests compare with it, and it takes longer than the program."""
    return by_hand(SlowTorch(read(path)))


def charged(path):
    with opened(path) as traces:
        answer = traces.gaps()
    return sum(row["idle_ns"] for row in rows(answer, "causes", cause="input_wait"))


def test_these_are_all_public_traces_with_a_dataloader():
    found = {
        path
        for path in (PUBLIC / "torch").glob("*.json.gz")
        if re.search(rb"enumerate\(DataLoader\)|dataloader\.py\(\d+\): __next__", gzip.decompress(path.read_bytes()))
    }
    assert found == {*PUBLIC_FILES, PUBLIC / "torch" / "ascend_npu.json.gz"}


@pytest.mark.parametrize("path", PUBLIC_FILES + OWN_FILES, ids=title)
def test_input_wait_is_what_a_hand_computation_gives(path):
    found = charged(path)
    assert found == expected_of(path)
    assert found > 0 or "computeprops" in path.name  # its loader runs before the first operation


def without_frames(event):
    return [] if event.get("cat") == "python_function" else [event]


def frame_instead(event):
    """A frame where the annotation was."""
    loads = ANNOTATION in str(event.get("name"))
    return [event | {"cat": "python_function", "name": LOADER}] if loads else [event]


def frame_inside(event):
    """The annotation around a frame, as where Python frames are recorded."""
    return [event, *(frame_instead(event) if ANNOTATION in str(event.get("name")) else [])]


LOADER = "/opt/env/lib/python3.12/site-packages/torch/utils/data/dataloader.py(733): __next__"


def changed(path, change, folder):
    """The trace with some events changed; its numbers stay as they are written."""
    text = gzip.decompress(path.read_bytes()).decode()
    data = json.loads(text, parse_float=lambda number: f"number {number}", strict=False)
    events = data if isinstance(data, list) else data["traceEvents"]
    events[:] = [new for event in events for new in change(event)]
    new = folder / "trace.json"
    new.write_text(re.sub(r'"number ([-+0-9.eE]+)"', r"\1", json.dumps(data)))
    return new


ARRAY, SMALL, STACKS = PUBLIC_FILES


@pytest.mark.parametrize(
    ("path", "change"),
    [(SMALL, frame_instead), (SMALL, frame_inside), (ARRAY, frame_instead), (STACKS, frame_inside)],
)
def test_frames_of_the_loader_say_the_same_as_its_annotation(path, change, tmp_path):
    assert charged(changed(path, change, tmp_path)) == expected_of(path)


@pytest.mark.parametrize("path", [p for p in OWN_FILES if "stack" in p.name], ids=title)
def test_the_annotation_alone_says_the_same_as_with_frames(path, tmp_path):
    plain = changed(path, without_frames, tmp_path)
    assert charged(plain) == by_hand(SlowTorch(events_of(plain.read_text())))
    # The frames of `__next__` stand around the annotation, and so are a little longer.
    assert 0 <= charged(path) - charged(plain) < 0.01 * charged(path)
