"""Tables of nvidia-smi that are written at random read back equal; torn files say so, and never something wrong."""

import contextlib
import itertools
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.sources.test_nvidia_smi import DMON, QUERY, TOPOLOGY, XML
from tests.support.smi_reading import FIRST, read_text, samples
from traceanalyzer.errors import SourceError

MONITOR = {"pwr": "W", "sm": "%", "mem": "%", "fb": "MB", "rxpci": "MB/s", "novel": "widgets"}
FIELDS = {
    "utilization.gpu": "%",
    "memory.used": "MiB",
    "power.draw": "W",
    "clocks.current.sm": "MHz",
    "temperature.gpu": None,
    "ecc.errors.corrected.volatile.total": None,
    "clocks_event_reasons.hw_slowdown": None,
}
NONE = st.sampled_from(["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[GPU is lost]", "-"])
VALUE = st.one_of(st.none(), st.integers(0, 100), st.decimals(0, 100, places=2).map(float))
FAST = settings(max_examples=60, deadline=None, derandomize=True, database=None)


@FAST
@given(st.data())
def test_dmon_reads_back(data):
    draw = data.draw
    names = draw(st.lists(st.sampled_from(sorted(MONITOR)), min_size=1, max_size=6, unique=True))
    gpus = sorted(draw(st.sets(st.integers(0, 7), min_size=1, max_size=3)))
    rounds = draw(st.integers(1, 5))
    stamped, commas = draw(st.booleans()), draw(st.booleans())
    keys = ["Date", "Time", "gpu"] if stamped else ["gpu"]

    def line(cells):
        return ", ".join(cells) if commas else "".join(f"{c:>9} " for c in cells)

    head = [
        "#" + line([*keys, *names]),
        "#" + line([*(["d", "t"] if stamped else []), "Idx", *(MONITOR[n] for n in names)]),
    ]
    text, want = list(head), {name: [] for name in names}
    for k in range(rounds):
        for gpu in gpus:
            if draw(st.booleans()):
                text += head
            cells = [draw(VALUE) for _ in names]
            for name, cell in zip(names, cells, strict=True):
                want[name].append((gpu, k, cell))
            stamp = ["20261129", f"16:10:{k:02}"] if stamped else []
            text.append(" " + line([*stamp, str(gpu), *("-" if c is None else str(c) for c in cells)]))
    sink = read_text("\n".join(text) + "\n")
    for name in names:
        when = [None if t is None else (t - FIRST) // 10**9 for t in samples(sink, name, "t_ns")]
        when = when if stamped else samples(sink, name, "tick")
        assert list(zip(samples(sink, name, "device"), when, samples(sink, name), strict=True)) == want[name]
        assert set(samples(sink, name, "metric_unit")) == {MONITOR[name]}


@FAST
@given(st.data())
def test_query_reads_back(data):
    draw = data.draw
    names = draw(st.permutations(sorted(FIELDS)))[: draw(st.integers(1, len(FIELDS)))]
    columns = draw(st.permutations(["timestamp", "index", *names]))
    gpus, rounds, units = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.booleans())
    head = ", ".join(f"{c} [{FIELDS[c]}]" if FIELDS.get(c) else c for c in columns)
    text, want = [head], {name: [] for name in names}
    for k, gpu in itertools.product(range(rounds), range(gpus)):
        cells = {"timestamp": f"2026/11/29 16:10:{k:02}.{gpu:03}", "index": str(gpu)}
        for name in names:
            value = draw(VALUE)
            want[name].append((gpu, FIRST + k * 10**9 + gpu * 10**6, value))
            unit = f" {FIELDS[name]}" if units and FIELDS[name] else ""
            cells[name] = draw(NONE) if value is None else f"{value}{unit}"
        if draw(st.booleans()):
            text.append(head)
        text.append(", ".join(cells[c] for c in columns))
    sink = read_text("\n".join(text) + "\n")
    for name in names:
        got = list(zip(samples(sink, name, "device"), samples(sink, name, "t_ns"), samples(sink, name), strict=True))
        assert got == want[name]


APPS = (
    "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-a, 31, /opt/a, b/python3, 4382 MiB\n"
    "GPU-a, 32, ./x, 12 MiB\n"
)
TEXTS = {
    "dmon": DMON + DMON,
    "query": QUERY,
    "nounits": "index, memory.used [MiB], temperature.gpu\n0, 1234, 56\n1, 2345, 67\n",
    "apps": APPS,
    "topology": TOPOLOGY,
    "xml": XML,
}


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_torn_anywhere_never_reads_something_else(name):
    text = TEXTS[name].encode()
    whole = _everything(read_text(text))
    for end in range(1, len(text)):
        try:
            got = _everything(read_text(text[:end]))
        except (SourceError, AssertionError) as error:
            assert isinstance(error, SourceError) or end < 200, error  # a head that nothing can be known by
            continue
        assert len(got) <= len(whole)
        for row in got:
            assert row in whole or (row[-1] is None and any(other[:-1] == row[:-1] for other in whole)), (end, row)


def _everything(sink):
    """Rows of samples and topology without what depends on the rest of the file: times, and units that are assumed."""
    rows = [
        (r["source"], r.get("device"), r.get("process"), r["metric"], r["value"]) for r in sink.rows("metric_samples")
    ]
    return rows + [(r["place"], r.get("other"), r["attribute"], r["value"]) for r in sink.rows("topology")]


@pytest.mark.parametrize(
    "long", ["9" * 20_000, " " * 20_000 + "x", "0x" + "f" * 20_000, "a " * 10_000, "²" * 400, "| " * 9000]
)
@pytest.mark.parametrize(
    "text", [DMON, QUERY, TOPOLOGY, APPS, "==============NVSMI LOG==============\nGPU 00000000:18:00.0\n"]
)
def test_long_cells_are_read_in_linear_time(text, long):
    """Each takes milliseconds; a pattern that tries all ways to split the cell takes minutes."""
    begun = time.process_time()
    for place in ("\n", ", ", ":"):
        torn = text.replace(place, f"{place}{long}", 3) + long
        with contextlib.suppress(SourceError, AssertionError):
            read_text(torn)
    assert time.process_time() - begun < 5


@FAST
@example(b"# gpu sm\n# Idx %\n 99999999999999999999 5\n")
@example(b"9999/12/31 23:59:59.9, 0, H, 1 %, 1 MiB, 1e999 W, 1, P0\n")
@example(b"timestamp, index, power.draw [W]\n9999/99/99 99:99:99.9, -1, 1e999 W\n")
@example(b'index, power.draw [W]\n0, "1 W\n0, 2 W\n')
@given(st.binary(max_size=300))
def test_anything_behind_a_header_is_read_or_refused(tail):
    for head in ("# gpu    pid   sm\n# Idx  #   %\n", QUERY, "<?xml version='1.0'?>\n<nvidia_smi_log>\n<gpu id='x'>"):
        try:
            read_text(head.encode() + tail)
        except SourceError as error:
            assert len(str(error).splitlines()) == 1
