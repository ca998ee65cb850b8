"""The compiled scanner against the ordinary decoder: whatever the text, both write the same."""

import gzip
import json
import subprocess
import sys
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.fuzz.inputs import inputs
from tests.fuzz.mutations import MUTATIONS
from tests.support.scanning import assert_same
from tests.support.torch_reading import kernel, operator
from traceanalyzer.schema.sink import CaptureFacts, Stacks, Texts
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.torch_trace import scan_layout as at
from traceanalyzer.sources.torch_trace.reader import TorchReader
from traceanalyzer.sources.torch_trace.scanner import load_scanner

pytestmark = pytest.mark.skipif(load_scanner() is None, reason="numba is not installed")  # the extra fast

_ROOT = Path(__file__).parents[2]
_DATA = _ROOT.parent / "shared"
_SAMPLES = sorted(p for p in (_ROOT / "sample_traces").glob("**/*.json.gz"))
_BESIDE = [*sorted((_DATA / "traces").glob("**/*.json.gz")), *sorted((_DATA / "public" / "torch").glob("*.json.gz"))]
_MOST_BYTES = 3_000_000
_SETTINGS = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _id(path: Path) -> str:
    return f"{path.parent.name}-{path.name.removesuffix('.json.gz')}"


@pytest.mark.parametrize("path", _SAMPLES, ids=_id)
@pytest.mark.parametrize("block_bytes", [20_000, 100_000, 8 << 20])
def test_samples(path: Path, block_bytes: int) -> None:
    assert assert_same(path, block_bytes) > 0


@pytest.mark.skipif(not _BESIDE, reason="the real traces are not beside the repository")
def test_there_are_real_traces() -> None:
    assert len(_BESIDE) > 90


@pytest.mark.parametrize("path", [p for p in _BESIDE if p.stat().st_size < _MOST_BYTES], ids=_id)
def test_real_traces(path: Path) -> None:
    assert_same(path)
    if path.stat().st_size < 100_000:
        assert_same(path, 30_000)


# ---------------------------------------------------------------- made texts

_SPACE = st.sampled_from(["", " ", "\n  ", "\r\n\t"])
_TEXT_TOKENS = ['"a"', '""', '"X"', '"é ü \U0001f600"', r'"a\"b\\"', r'"\u0041\ud83d\ude00"', r'"\u0000"', r'"a\/b"']
_BAD_TEXT_TOKENS = [r'"\ud800"', r'"\udc00x"', r'"\ud800\u0041"', r'"\x"', r'"\u00g0"', '"a\x01"', '"open']
_NUMBER_TOKENS = [
    "0", "-0", "7", "-1", "123456789012345678", "1234567890123456789", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "18446744073709551615", "99999999999999999999999", "1099511627776", "-1099511627777",
    "1.0", "1.5", "0.001", "12.0005", "1e3", "1E-2", "-1.5e+2", "1712195495406752.797", "8999999999999999.999",
    "9000000000000000", "9999999999999999.999", '"7"', '"7.0"', '" 7 "', '"1_0"', '"stream 7"',
]  # fmt: skip
_BAD_NUMBER_TOKENS = ["01", "-", "1.", ".5", "+1", "1e", "1e+", "NaN", "Infinity", "0x10", "1 2", "--1"]
_OTHER_TOKENS = [
    "null", "true", "false", "[]", "{}", "[ ]", "{ }", "[1,2,3]", "[ 1 , 2 , 3 ]", "[1,2]", "[1,2,3,4]", '["1",2,3]',
    "[1.5,2,3]", "[1,2,99999999999999999999]", "[null,1,1]", '[{"a":[{}]},[[]]]', '{"a":{"b":[1,"]}"]}}', "[[2,3],[]]",
]  # fmt: skip
_BAD_TOKENS = [
    "nul",
    "tru",
    "[1,]",
    "[1 2]",
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    "{1:2}",
    "[",
    "{",
    "]",
    "[}",
    "",
    "[" * 70,
    "[" * 200 + "]" * 200,
]
_GOOD = st.sampled_from([*_TEXT_TOKENS, *_NUMBER_TOKENS, *_OTHER_TOKENS, "[" * 55 + "]" * 55])
_BAD = st.sampled_from([*_BAD_TEXT_TOKENS, *_BAD_NUMBER_TOKENS, *_BAD_TOKENS])
_ARGUMENT_KEYS = st.sampled_from([json.dumps(key.decode()) for key in at.KEYS[at.KEY_FIRST_ARGUMENT :]])
_OTHER_KEYS = st.sampled_from(['"x"', '"Ev Idx"', '"é"', r'"n\u0061me"', '""', '"' + "k" * 100 + '"'])
_CATEGORIES = [
    "kernel", "Kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cpu_op", "user_annotation", "python_function",
    "kernel", "cuda_runtime", "cpu_op",
    "gpu_user_annotation", "cuda_sync", "overhead", "ac2g", "Trace", "brand_new", "",
]  # fmt: skip
_NAMES = [
    "gemm",
    "[memory]",
    "nn.Module: Linear_0",
    "Memcpy HtoD (Pageable -> Device)",
    "ProfilerStep#1",
    "thread_name",
]


def _quoted(values: list[str]) -> st.SearchStrategy[str]:
    return st.sampled_from(values).map(json.dumps)


_TIMES = ["1", "2.5", "10.125", "4458676522690.655", "0.001"]
_USUAL = {
    "ph": _quoted([*"XXXXXXXXXX", "s", "f", "t", "i", "i", "M", "C", "XX", ""]),
    "cat": _quoted(_CATEGORIES),
    "name": _quoted(_NAMES) | st.sampled_from(_TEXT_TOKENS),
    "pid": st.sampled_from(["1"] * 9 + ["0", '"job"', '"stream 7"', "null"]),
    "tid": st.sampled_from(["2"] * 9 + ["3", '"worker"', "-5", "1099511627776"]),
    "ts": st.sampled_from([*_TIMES * 4, "12.3456", '"7"', "1712195495406752.797", "9000000000000000", "1e3"]),
    "dur": st.sampled_from([*_TIMES * 4, "0", "12.77012757357446", "-1", "8999999999999999.999", "1E-2"]),
}
_INTEGERS = st.sampled_from(["0", "1", "2", "7", "-1", "-0", "123456789012345678", "-123456789012345678", "null"])
_TEXTS = st.sampled_from(['"a"', '""', '"b;c(1): d;"', "null"])
_SHAPES = st.sampled_from(["[[2,3],[]]", "[ [2, 3], [] ]", "[]", '["float",""]', "null", '"a"', "1.50", "{}"])
_USUAL_ARGUMENTS = {
    **dict.fromkeys(at.INTEGER_KEYS, _INTEGERS),
    **dict.fromkeys(("grid", "block"), st.sampled_from(["[1,2,3]", "[ 4 , 5 , 6 ]", "[1,-1,1]", "null", '"grid(1)"'])),
    **dict.fromkeys((*at.SHAPE_KEYS, "Input dims", "kernel_file"), _SHAPES),
    **dict.fromkeys(("Call stack", "Collective name"), _TEXTS),
    "finished": st.sampled_from(["true", "false", "null"]),
}


def _object(pairs: list[tuple[str, str]], space: str) -> str:
    inner = f"{space},{space}".join(f"{key}{space}:{space}{value}" for key, value in pairs)
    return f"{{{space}{inner}{space}}}"


@st.composite
def _arguments(draw: st.DrawFn, space: str) -> str:
    keys = draw(st.lists(st.sampled_from(sorted(_USUAL_ARGUMENTS)), max_size=8, unique=True))
    pairs = [(f'"{key}"', draw(_USUAL_ARGUMENTS[key])) for key in keys]
    if not draw(st.integers(0, 4)):
        pairs.insert(draw(st.integers(0, len(pairs))), (draw(_ARGUMENT_KEYS | _OTHER_KEYS), draw(_GOOD)))
    return _object(pairs, space)


@st.composite
def _event(draw: st.DrawFn) -> str:
    """One event, most often a usual one, now and then with a value or a key that is odd."""
    space = draw(_SPACE)
    pairs = [(f'"{key}"', draw(value)) for key, value in _USUAL.items() if draw(st.integers(0, 30))]
    if draw(st.integers(0, 5)):
        pairs.append(('"args"', draw(_arguments(space))))
    keys = st.sampled_from([f'"{key}"' for key in at.EVENT_KEYS]) | _OTHER_KEYS
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 0, 0, 1, 2]))):
        pairs.insert(draw(st.integers(0, len(pairs))), (draw(keys), draw(_GOOD)))
    return _object(draw(st.permutations(pairs)), space)


_EVENTS = st.lists(_event(), min_size=1, max_size=12)


def _write(folder: Path, events: list[str], space: str = " ", end: str = "]") -> Path:
    path = folder / "t.json"
    text = f'{{"schemaVersion": 1, "traceEvents": [{space}' + f"{space},{space}".join(events) + f"{space}{end}"
    path.write_bytes((text + (', "traceName": "x"}' if end == "]" else "")).encode("utf-8", "surrogatepass"))
    return path


@_SETTINGS
@given(_EVENTS, _SPACE, st.sampled_from([20, 300, 1000, 1 << 20]))
@example([json.dumps(operator()), json.dumps(kernel(correlation="a")), "{}", json.dumps(kernel())], "\n  ", 20)
def test_whole_events_of_any_kind(tmp_path: Path, events: list[str], space: str, block_bytes: int) -> None:
    assert_same(_write(tmp_path, events, space), block_bytes)


@_SETTINGS
@given(_EVENTS, _BAD, st.data(), st.sampled_from([20, 300, 1 << 20]))
def test_broken_events(tmp_path: Path, events: list[str], bad: str, data: st.DataObject, block_bytes: int) -> None:
    k = data.draw(st.integers(0, len(events) - 1))
    cut = data.draw(st.sampled_from([m for m in range(len(events[k])) if events[k][m] in ':,{}[]"'] or [0]))
    events[k] = events[k][: cut + 1] + bad + events[k][cut + 1 :]
    assert_same(_write(tmp_path, events), block_bytes)


@pytest.mark.parametrize("key", [*at.EVENT_KEYS, "x", "External id", "grid", "Input Dims", "Call stack", "y"])
def test_values_that_are_no_json(tmp_path: Path, key: str) -> None:
    plain = json.dumps(kernel(device=0, grid=[7, 8, 9], correlation=4))
    for bad in [*_BAD_TEXT_TOKENS, *_BAD_NUMBER_TOKENS, *_BAD_TOKENS, "[01]", '{"a":-}', '"a\tb"']:
        if key in at.EVENT_KEYS or key == "x":
            usual = {"ph": '"X"', "ts": "1", "cat": '"cpu_op"', key: bad}
        else:
            usual = {"ph": '"X"', "ts": "1", "cat": '"cpu_op"', "args": f'{{"{key}": {bad}}}'}
        event = _object([(f'"{k}"', v) for k, v in usual.items()], "")
        assert assert_same(_write(tmp_path, [plain, event, plain])) == 0, bad


@_SETTINGS
@given(
    _EVENTS, st.sampled_from(["", ",", ", {", "}", ',{"ph":"X"', "]]", "] x", "]}}"]), st.sampled_from([20, 1 << 20])
)
def test_broken_ends(tmp_path: Path, events: list[str], end: str, block_bytes: int) -> None:
    assert_same(_write(tmp_path, events, end=end), block_bytes)


@_SETTINGS
@given(
    st.sampled_from(inputs("torch")),
    st.sampled_from(MUTATIONS["torch"]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([2_000, 30_000, 1 << 20]),
)
@example(inputs("torch")[0], next(m for m in MUTATIONS["torch"] if m.name == "zip flip"), 672, 2_000)
@example(inputs("torch")[1], next(m for m in MUTATIONS["torch"] if m.name == "number"), 0, 30_000)
def test_mutated_traces(tmp_path: Path, item: Any, mutation: Any, seed: int, block_bytes: int) -> None:
    path = tmp_path / item.name
    path.write_bytes(mutation.change(Random(seed), item.content))
    assert_same(path, block_bytes)


_HEAD = '"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":2,"ts":1,"dur":1'
_KERNEL = '"ph":"X","cat":"kernel","name":"a","pid":1,"tid":2,"ts":1,"dur":1'


@pytest.mark.parametrize(
    "event",
    [
        _HEAD.replace('"name"', r'"n\u0061me"'),
        _HEAD.replace('"name"', r'"name":"c","n\u0061me"'),
        f'{_HEAD},"pid":null',
        f'{_HEAD},"pid":3',
        f'{_HEAD},"name":null',
        f'{_HEAD},"name":"c"',
        f'{_HEAD},"ph":"s"',
        f'{_HEAD},"args":{{"External id":5}},"args":{{}}',
        f'{_HEAD},"args":{{"External id":5,"External id":null}}',
        f'{_HEAD},"args":{{"External id":5,"external id":6}}',
        f'{_HEAD},"args":{{"external id":6,"External id":0}}',
        f'{_HEAD},"args":{{"External \\u0069d":5}}',
        f'{_HEAD},"args":{{"Input Dims":[1],"Input dims":[2]}}',
        f'{_HEAD},"args":{{"Input dims":[2],"Input Dims":[1]}}',
        f'{_HEAD},"args":{{"Input dims":[2]}}',
        f'{_HEAD},"args":{{"Input Dims":[1],"Input Dims":[2]}}',
        f'{_HEAD},"args":{{"finished":false,"finished":true}}',
        f'{_HEAD},"args":{{"finished":false}}',
        f'{_HEAD},"args":{{"finished":0}}',
        f'{_HEAD},"args":{{"Call stack":""}}',
        f'{_HEAD},"args":{{"Call stack":"a;b"}}',
        f'{_HEAD},"args":{{"Call stack":["a;b"]}}',
        f'{_HEAD},"args":{{"Collective name":"","Group size":3}}',
        f'{_HEAD},"args":{{"Collective name":7,"Group size":3}}',
        f'{_HEAD},"args":{{"kernel_file":null}}',
        f'{_HEAD},"args":null',
        f'{_HEAD},"args":[1]',
        f'{_KERNEL},"args":{{"device":0,"grid":[1,2,3],"grid":null}}',
        f'{_KERNEL},"args":{{"device":0,"grid":[1,2,3,4]}}',
        f'{_KERNEL},"args":{{"device":0,"grid":[1,2,3],"block":["4",5,6]}}',
        f'{_KERNEL},"args":{{"device":"0","stream":"stream 7","correlation":"9"}}',
        f'{_KERNEL},"args":{{"est. achieved occupancy %":54.5}}',
        '"name":"a"',
        '"ph":"X","cat":"kernel","pid":1,"tid":2,"dur":1',
        '"ph":null',
        "",
    ],
)
def test_an_event_that_is_nearly_plain(tmp_path: Path, event: str) -> None:
    plain = json.dumps(kernel(device=0, grid=[7, 8, 9], correlation=4))
    assert assert_same(_write(tmp_path, [plain, f"{{{event}}}", plain])) == 1


def test_plain_events_are_scanned_and_odd_ones_do_not_stop_it(tmp_path: Path) -> None:
    events = [json.dumps(kernel(ts=k, device=0, correlation=k)) for k in range(400)]
    events += [json.dumps(operator(ts=k, tid="main", **{"External id": "7"})) for k in range(20)]
    assert assert_same(_write(tmp_path, events), 10_000) == 5


def test_many_distinct_names(tmp_path: Path) -> None:
    """More than the first tables of strings, shapes and events have room for."""
    events = [json.dumps(operator(f"op {k}", ts=k, **{"Input Dims": [[k]]})) for k in range(20_000)]
    events += [json.dumps({"ph": "i", "ts": k}) for k in range(60_000)]
    assert assert_same(_write(tmp_path, events)) > 0


def test_text_that_is_no_utf8_is_not_scanned(tmp_path: Path) -> None:
    path = _write(tmp_path, [json.dumps(kernel("a@b", other="c@d"))])
    for wrong in (b"\xff", b"\xed\xa0\x80", b"\xc3"):
        content = path.read_bytes()
        path.write_bytes(content.replace(b"@", wrong, 1))
        assert assert_same(path) == 0
        path.write_bytes(content.replace(b"c@", b"c" + wrong))
        assert assert_same(path) == 0
        path.write_bytes(content)


class _Failing:
    """A sink that fails at the first batch."""

    def __init__(self) -> None:
        self.texts = Texts()
        self.stacks = Stacks(self.texts)
        self.facts = CaptureFacts()
        self.keep_environment = False

    def write(self, table: str, columns: Any) -> None:
        raise KeyboardInterrupt

    def note(self, *_: Any, **__: Any) -> None:
        return None


@pytest.mark.parametrize("packed", [False, True])
def test_no_thread_outlives_a_consumer_that_fails(tmp_path: Path, packed: bool) -> None:
    path = _write(tmp_path, [json.dumps(operator(ts=k)) for k in range(20_000)])
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes(), 1))
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        TorchReader(TraceFile(path), _Failing(), 10_000, 0).read()
    assert threading.active_count() == before


def test_a_damaged_gzip_file_gives_the_same(tmp_path: Path) -> None:
    path = _write(tmp_path, [json.dumps(operator(f"op {k * k}", ts=k)) for k in range(5_000)])
    content = gzip.compress(path.read_bytes(), 1)
    for at_byte in (20, 30_000, len(content) - 5, len(content) - 1):
        damaged = bytearray(content)
        damaged[at_byte] ^= 0x55
        path.write_bytes(damaged)
        assert_same(path, 50_000)
        path.write_bytes(content[:at_byte])
        assert_same(path, 50_000)


_LOAD = "from traceanalyzer.sources.torch_trace.scanner import load_scanner; assert load_scanner() is None"


@pytest.mark.parametrize(
    "before", ["import sys; sys.modules['numba'] = None", "import os; os.environ['NUMBA_DISABLE_JIT'] = '1'"]
)
def test_without_a_compiler_there_is_no_scanner_and_nothing_is_said(before: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"{before}; {_LOAD}"], cwd=_ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_small_traces_load_no_compiler(tmp_path: Path) -> None:
    path = _write(tmp_path, [json.dumps(kernel(device=0))])
    program = (
        "import sys; from tests.support.torch_reading import read_file; from pathlib import Path;"
        " read_file(Path(sys.argv[1])); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], cwd=_ROOT, check=True)
