"""What may leave with a report: planted secrets are in no byte of it, and what is no secret stays."""

import json
import re
import shlex
import stat
import string
import time
from importlib import resources

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.report import secret_files as planted
from tests.report.parsed_page import ParsedPage
from traceanalyzer.cli.main import run
from traceanalyzer.cli.render.output import rendered
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.report.privacy import USER, Names, Privacy, Pseudonyms, is_variable
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.traceset import TraceSet

ASSETS = ("page.css", "page.js")
KERNEL_WORDS = [
    *("zcutlass", "zParams", "zlong", "zkernel", "zgemm", "triton_poi_fused_zadd_0", "zAllReduce", "znsys_kernel"),
    *("zncu_kernel",),
]
NAMES = Names(
    hosts=frozenset({"node17.cluster.zcorp.com", "gpubox", "10.20.30.40", "2001:db8::17", "gpu"}),
    users=frozenset({"jane", "lin"}),
    paths=frozenset({"runs/zsecret/rank 0.json", "/home/jane doe/z secret/t.json", "/abs/zdir", "my run/rank1.json"}),
    kernels=frozenset({*planted.KERNELS, *planted.WORDLIKE}),
    runs=frozenset({"zrun", "trace"}),
    inputs="--db '/home/jane doe/z secret/t.json' --run zrun -q runs/zsecret/a.json",
)


def fit(text, **options):
    return Privacy(NAMES, **options).text(text)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files with secrets in them, below folders that are some: given relatively and absolutely, some with spaces."""
    folder = tmp_path_factory.mktemp("top") / "home" / "jqpublic" / "zfolder1 q" / "zfolder2"
    given = folder / "given"
    given.mkdir(parents=True)
    return {
        "torch": [
            planted.torch_file(given / "zrank0.json"),
            planted.torch_file(given / "zrank1.json", 1, planted.HOSTS[1]),
        ],
        "nsys": [planted.nsys_file(folder / "zexport.sqlite")],
        "ncu": [planted.ncu_file(folder / "zncu.csv")],
        "nccl": [planted.nccl_log(folder / "znccl.log")],
        "log": [planted.training_log(folder / "ztrain.log")],
        "telemetry": planted.telemetry(given),
    }


@pytest.fixture(scope="module", params=["torch", "nsys", "ncu", "nccl", "log", "telemetry"])
def told(request, files, tmp_path_factory):
    """A file of each kind: the report as everybody gets it, the same with pseudonyms, and what the key says."""
    given, key = files[request.param], tmp_path_factory.mktemp("key") / "key.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACEANALYZER_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.chdir(given[0].parents[2])
        if request.param == "torch":
            given = [path.relative_to(given[0].parents[2]) for path in given]
        inputs = shlex.join(map(str, given))
        with TraceSet.of_files(given) as traces:
            plain = traces.report(inputs=inputs)
            hidden = traces.report(inputs=inputs, key=key)
            texts = {id(report): texts_of(report) for report in (plain, hidden)}
            hidden.pseudonyms.save()
    return request.param, plain, hidden, texts, json.loads(key.read_text())["names"]


def texts_of(report):
    """All that leaves, without our own style sheet and scripts."""
    page = report.html
    for name in ASSETS:
        asset = resources.files("traceanalyzer.report").joinpath("assets", name).read_text(encoding="utf-8")
        page = page.replace(asset, "")
    page = re.sub(r"[A-Za-z0-9+/=]{9999,}", "", page)  # plotly.js, packed
    return {"html": page, "markdown": report.markdown, "json": rendered(report.summary, "json", top=0)}


def found(texts, words):
    return [
        (form, word, text[max(0, at - 60) : at + 60])
        for form, text in texts.items()
        for word in words
        if (at := text.find(word)) >= 0
    ]


# ---------------------------------------------------------------- whole reports


def test_no_secret_is_in_any_byte_of_a_report(told):
    _, plain, _, texts, _ = told
    assert not found(texts[id(plain)], planted.SECRETS)
    assert "</script><script>alert" not in texts[id(plain)]["html"] and "\u202e" not in texts[id(plain)]["html"]


def test_with_pseudonyms_no_name_of_kernel_host_or_file_is_either(told):
    _, _, hidden, texts, _ = told
    hosts = [name for host in planted.HOSTS for name in (host, host.partition(".")[0])]
    names = ["zrank0", "zrank1", "zexport", "zncu.csv", "znccl", "ztrain", "run given", "load.bin", "model.py"]
    assert not found(texts[id(hidden)], [*planted.SECRETS, *KERNEL_WORDS, *hosts, *names])
    assert not re.search(r"(?<!\w)zq(?!\w)", " ".join(texts[id(hidden)].values()))


def test_the_key_tells_what_each_pseudonym_stands_for(told):
    kind, _, hidden, texts, names = told
    shown = set(re.findall(r"(?<![\w-])(?:kernel|host|path|run)-[0-9a-f]{8}(?![\w-])", texts[id(hidden)]["html"]))
    assert shown and shown <= set(names)
    if kind == "torch":
        kernels = {name for pseudonym, name in names.items() if pseudonym.startswith("kernel-")}
        assert {*planted.KERNELS[:8], *planted.WORDLIKE} <= kernels
        assert {planted.HOSTS[0], planted.HOSTS[1]} <= set(names.values())
        page = ParsedPage(hidden.html)
        cells = {row["kernel"][1] for _, row in page.tables["kernels", "kernels"].rows}
        assert cells and all(re.fullmatch("kernel-[0-9a-f]{8}", cell) for cell in cells)
        gaps = {row["next_op"][1] for _, row in page.tables["gaps", "gaps"].rows}
        assert not gaps & set(planted.WORDLIKE) and any("Memcpy" in cell or "memcpy" in cell for cell in gaps)


def test_names_that_are_no_secrets_stay_in_a_report(told):
    kind, plain, _, texts, _ = told
    if kind in ("torch", "nsys"):
        for name in planted.HARMLESS:
            assert name in texts[id(plain)]["html"], name


def test_the_page_says_what_was_left_out_and_nothing_else(told):
    kind, plain, hidden, texts, _ = told
    said = "; ".join(plain.head.left_out)
    assert f"{said}." in re.sub(r"\s+", " ", texts[id(plain)]["html"])
    assert ("environment variable" in said) == (kind in ("torch", "nsys", "nccl"))
    assert ("user name" in said) == (kind in ("torch", "nsys"))
    assert ("host name" in said) == (kind in ("torch", "nsys", "ncu"))
    assert "pseudonyms" not in said and "path" in said
    with_pseudonyms = "; ".join(hidden.head.left_out)
    assert "shortened" not in with_pseudonyms and "run name" in with_pseudonyms
    assert ("kernel name" in with_pseudonyms) == (kind in ("torch", "nsys", "ncu"))
    if kind == "ncu":
        assert said.startswith("1 path shortened") and "1 host name shortened" in said
        assert with_pseudonyms.startswith("1 path, 1 host name, 1 kernel name and 1 run name replaced by pseudonyms")
    if kind == "nccl":
        assert said.startswith("3 environment variables left out; 1 path shortened")


def test_every_command_of_a_page_is_one_for_a_shell(told):
    _, plain, hidden, _, _ = told
    for report in (plain, hidden):
        commands = [text for text in ParsedPage(report.html).commands if text.startswith("traceanalyzer ")]
        assert commands
        for text in commands:
            words = shlex.split(text)
            assert words[0] == "traceanalyzer" and not any("/" in word or "…" in word for word in words)


def test_full_paths_keeps_paths_and_hosts_but_no_user(files, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path))
    with TraceSet.of_files(files["ncu"]) as traces:
        report = traces.report(inputs=shlex.join(map(str, files["ncu"])), full_paths=True)
        text = report.html
    assert planted.HOSTS[0] in text and f"home/{USER}/zfolder1 q/zfolder2/zncu.csv" in text
    assert "jqpublic" not in text
    assert report.head.left_out == ["1 user name replaced by (user)"]
    assert shlex.split(report.head.command)[-1].endswith(f"home/{USER}/zfolder1 q/zfolder2/zncu.csv")


def test_the_path_of_the_store_is_one_too(files, tmp_path, monkeypatch):
    folder = tmp_path / "home" / "jqpublic" / "zfolder3"
    folder.mkdir(parents=True)
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path))
    store, page = folder / "zstore.duckdb", tmp_path / "r.html"
    assert run(["ingest", str(files["nccl"][0]), "--db", str(store), "--quiet"]) == 0
    assert run(["report", "--db", str(store), "-o", str(page), "--quiet"]) == 0
    text = page.read_text(encoding="utf-8")
    assert "zfolder" not in text and "jqpublic" not in text and "--db zstore.duckdb" in text


# ---------------------------------------------------------------- texts

SHORTENED = [
    ("/home/jane/z/x.py", "…/x.py"),
    ("/home/zoe", f"…/{USER}"),
    ("/home/li/", f"…/{USER}"),
    ("reads '/home/zoe/z a/x.py', twice", "reads '…/x.py', twice"),
    (r"C:\Users\zoe\z\x.py and D:/z/x.py", "…/x.py and …/x.py"),
    (r"C:\\Users\\zoe\\x.py", "…/x.py"),
    (r"\\?\C:\Users\zoe\z\x.py", "…/x.py"),
    (r"\\zserver\z\x.bin", "…/x.bin"),
    ("~zoe/z/x.py ~/z/y.py cd ~zoe", f"…/x.py …/y.py cd ~{USER}"),
    ("file:///home/zoe/z/x.py s3://z/zoe/key.bin", "…/x.py …/key.bin"),
    ("-I/home/zoe/z/include -L/usr/lib/x", "-I…/include -L…/x"),
    ("--out=/data/z/x at:/data/z/y (/z/w/v)", "--out=…/x at:…/y (…/v)"),
    ("/z/run(1)/z/x.py /a,b/z/x /z's/y/x", "…/x.py …/x …/x"),
    ("z/z/train.py:12", "…/train.py:12"),
    ("zoe@node17.cluster.zcorp.com:/home/zoe/x ssh zoe@other", f"{USER}@node17:…/x ssh {USER}@other"),
    ("jane's run, exp_jane_2, Jane", f"{USER}'s run, exp_{USER}_2, Jane"),
    ("10.20.30.40:29500 tcp://192.168.1.5:1 2001:db8::17 fe80::1:2:3", "…40:29500 tcp://…5:1 …17 …3"),
    ("node17.cluster.zcorp.com:1 a-1.z.internal x.z.zcorp.com", "node17:1 a-1 x"),
    ("WANDB_API_KEY=z LD_LIBRARY_PATH=/z/z:/z/w USER=zoe x", "WANDB_API_KEY=(left out) LD_LIBRARY_PATH=(left out)"
     " USER=(left out) x"),
    ("https://z.zcorp.io/z/page?token=z", "…/page"),
    ("runs/zsecret/rank 0.json: is empty", "…/rank 0.json: is empty"),
    ("left out: /abs/zdir/z/x.json: is empty", "left out: …/x.json: is empty"),
    ("my run/rank1.json:", "…/rank1.json:"),
    ("/home/jane doe/z secret/t.json", "…/t.json"),
]  # fmt: skip
KEPT = [
    *("12 GB/s and/or 3 us/step", "3/4 of 5/6", "aten::add", "nn.Module: Linear_0", "step (workloads.py:171)"),
    *("host_bound", "2026-11-29T16:00:00+01:00", "[[8, 128], [4]]", "Janet linear Lina_0", "forward/attention/qkv"),
    *("abc::dead(int) fd::move", "cuDNN 9.1.0.70, NCCL 2.21.5, 560.35.03", "f@plt memcpy@GLIBC_2.2.5 x@@V1 t@cuda:0"),
    *("std::thread::~thread ~Foo() a::~b", "took ~5 us", "/scratch"),
    *("TCP/IP I/O n/a 1/s tok/s/GPU", "~10 % ~3/4 (-4/3)", "torch.nn.functional scipy.io model.layers.0.net"),
    *("NCCL_DEBUG=INFO BLOCK=128 OMP_NUM_THREADS=8", "0000:3b:00.0 12:34:56 1:2:3:4 aa::bb", "kernel<a/b, c*>"),
    *("see https://docs.nvidia.com/nsight-compute/2024.3/index.html#metrics", "https://pytorch.org/docs/x/y.html"),
    *("gpu_metrics of the gpu", "127.0.0.1 localhost", "\\alpha x\\n", "a / b / c", "x -> y @ z"),
    "rank 0: 5 % @ 3 GB/s",
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SHORTENED)
def test_secrets_of_a_text_are_shortened(text, expected):
    assert fit(text) == expected


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_secret_stays(text, tmp_path):
    assert fit(text) == fit(text, full_paths=True) == text
    plain = Privacy(Names(users=NAMES.users), pseudonyms=Pseudonyms(tmp_path / "k"))
    assert plain.text(text) == text.replace("workloads.py", plain.text("workloads.py"))


def test_full_paths_hides_users_alone():
    assert fit("/home/zoe/z/x.py on node17.cluster.zcorp.com", full_paths=True) == (
        f"/home/{USER}/z/x.py on node17.cluster.zcorp.com"
    )
    assert fit("/home/li/x zoe@a.b", full_paths=True) == f"/home/{USER}/x {USER}@a.b"


FOLDER = st.text(string.ascii_letters + string.digits + "_-.+=@%#äß目", min_size=1, max_size=8).map("zz".__add__)
PART = st.text(st.characters(exclude_characters="/\\\0", codec="utf-8"), min_size=1, max_size=6)
START = st.sampled_from(
    [
        "/",
        "./",
        "../",
        "~/",
        "/home/",
        "/Users/",
        "C:\\",
        "C:/",
        "\\\\",
        "file:///",
        "s3://",
        "-I/data/",
        "--a=/",
        "'/",
        "x=/",
    ]
)


@settings(deadline=None, max_examples=300)
@given(START, st.lists(FOLDER, min_size=2, max_size=5), st.sampled_from("/\\"), st.text("ab .,:;", max_size=4))
@example("/", ["zza b", "zzc"], "/", "")
@example("~/", ["zza"], "/", ".")
def test_no_folder_of_a_path_stays(start, parts, mark, after):
    made = Privacy(Names()).text(f"reads {start}{mark.join([*parts, 'last'])}{after}")
    assert not [folder for folder in parts if folder in made], made
    assert made.startswith("reads ") and "last" in made


@settings(deadline=None, max_examples=200)
@given(
    st.lists(PART, min_size=2, max_size=4),
    st.booleans(),
    st.sampled_from(["{}", "{}: is empty", "left out: {}", "'{}'", "run a; {} (3 times)"]),
)  # fmt: skip
def test_no_folder_of_a_known_path_stays(parts, absolute, sentence):
    *folders, last = [f"zz{part}z" for part in parts]
    path = "/" * absolute + "/".join([*folders, last])
    inputs = shlex.join(["--db", path])
    privacy = Privacy(Names(paths=frozenset({path}), inputs=inputs))
    assert privacy.text(sentence.format(path)) == sentence.format(f"…/{privacy.text(last)}")
    command = privacy.text(f"traceanalyzer gaps {inputs}")
    assert shlex.split(command) == ["traceanalyzer", "gaps", "--db", privacy.text(last)]


HOSTILE_PIECES = [
    *("/", "a/", "a,", "/a b", "C:/", "a@", "1.2.3.4 ", "a.", "a-.", "a:", "\\a", "a://", "KEY=", "/home/", "~a"),
    *("https://pytorch.org/ ", "runs/zsecret/", "node17."),
]


@pytest.mark.parametrize("piece", HOSTILE_PIECES)
def test_hostile_names_take_no_long_time(piece):
    """Were it the square of the length, this would take minutes."""
    started = time.process_time()
    Privacy(NAMES).text(piece * (100_000 // len(piece)))
    assert time.process_time() - started < 10


# ---------------------------------------------------------------- commands


def test_commands_have_last_parts_quoted():
    privacy = Privacy(NAMES)
    assert privacy.command("--db '/home/jane doe/z secret/my t.json' 'z z/a.json' ./-x.json b.json --rank 0,2") == (
        "--db 'my t.json' a.json ./-x.json b.json --rank 0,2"
    )
    assert privacy.text(f"traceanalyzer gaps --table gaps {NAMES.inputs}") == (
        "traceanalyzer gaps --table gaps --db t.json --run zrun -q a.json"
    )
    assert privacy.left_out.paths == {
        *("/home/jane doe/z secret/my t.json", "z z/a.json", "/home/jane doe/z secret/t.json", "runs/zsecret/a.json")
    }


def test_a_single_file_is_a_command_line_too():
    privacy = Privacy(Names(paths=frozenset({"a.json", "/x/a.json"}), inputs="a.json"))
    assert privacy.command("a.json") == "a.json"
    assert privacy.text("traceanalyzer gaps a.json, or traceanalyzer info a.json.") == (
        "traceanalyzer gaps a.json, or traceanalyzer info a.json."
    )
    assert not privacy.left_out.paths


def test_commands_of_a_range_of_steps_stay_patterns():
    assert Privacy(Names()).command("--step-range 'fwd/.*' a.json") == "--step-range 'fwd/.*' a.json"
    assert Privacy(Names()).command("it's") == shlex.quote("it's")


# ---------------------------------------------------------------- pseudonyms


def answer_of(*rows, findings=()):
    text = [Column(name, Type.TEXT, "A name.") for name in ("kernel", "previous_op", "operation", "text")]
    frame = Frame.of_rows(TableSpec("kernels", "Kernels.", tuple(text)), rows)
    return Answer("kernels", {"kernels": frame}, [Finding("top", each) for each in findings])


def test_kernels_that_are_words_are_replaced_where_kernels_stand_and_sentences_stay(tmp_path):
    pseudonyms = Pseudonyms(tmp_path / "k")
    privacy = Privacy(NAMES, pseudonyms=pseudonyms)
    copy, k = pseudonyms.of("kernel", "copy"), pseudonyms.of("kernel", "k")
    made = privacy.answer(
        answer_of(
            ["copy", "k", "memcpy", "the copy and the kernel idle"],
            ["k", "Memcpy HtoD (Pageable -> Device)", "memset", "gemm"],
            findings=[
                "50.0 % of the kernel time of rank 0, device 0: copy, 3 calls, 1 ms",
                "k takes 51.0 % of the profiled time in 3 launches",
                "compute takes more: as many kernels, but others, as for other sizes; most of the time is of copy",
                "the same kernels take longer; most of all k, 2.00 times as long",
                "no kernel runs while data is copied: copy",
                "zgemm, zgemm_split and zgemm_split_k; not zgemm_splitter",
            ],
        )
    )
    assert list(made.kernels.rows()) == [
        {"kernel": copy, "previous_op": k, "operation": "memcpy", "text": "the copy and the kernel idle"},
        {"kernel": k, "previous_op": "Memcpy HtoD (Pageable -> Device)", "operation": "memset", "text": "gemm"},
    ]
    a, b, c = (pseudonyms.of("kernel", name) for name in ("zgemm", "zgemm_split", "zgemm_split_k"))
    assert [finding.text for finding in made.findings] == [
        f"50.0 % of the kernel time of rank 0, device 0: {copy}, 3 calls, 1 ms",
        f"{k} takes 51.0 % of the profiled time in 3 launches",
        f"compute takes more: as many kernels, but others, as for other sizes; most of the time is of {copy}",
        f"the same kernels take longer; most of all {k}, 2.00 times as long",
        "no kernel runs while data is copied: copy",
        f"{a}, {b} and {c}; not zgemm_splitter",
    ]


@pytest.mark.parametrize(("length", "mark"), [(100, " ..."), (77, "...")])
def test_names_that_sentences_cut_are_replaced(tmp_path, length, mark):
    pseudonyms = Pseudonyms(tmp_path / "k")
    name = pseudonyms.of("kernel", planted.LONG)
    text = Privacy(NAMES, pseudonyms=pseudonyms).text(f"5 % of rank 0: {planted.LONG[:length]}{mark}, 3 calls")
    assert text == f"5 % of rank 0: {name}, 3 calls"


def test_the_filter_of_ncu_is_replaced(tmp_path):
    pseudonyms = Pseudonyms(tmp_path / "k")
    made = Privacy(NAMES, pseudonyms=pseudonyms).text('ncu --set full --kernel-name "regex:device_kernel" --csv')
    assert made == f'ncu --set full --kernel-name "regex:{pseudonyms.of("kernel", "device_kernel")}" --csv'


def test_hosts_runs_files_and_frames_are_replaced(tmp_path):
    pseudonyms = Pseudonyms(tmp_path / "k")
    privacy = Privacy(NAMES, pseudonyms=pseudonyms)
    host = pseudonyms.of("host", "node17.cluster.zcorp.com")
    assert privacy.text("node17 node17.cluster.zcorp.com node17-ib0") == f"{host} {host} {host}-ib0"
    assert privacy.text("run trace, zrun") == f"run {privacy.run('trace')}, {privacy.run('zrun')}"
    assert privacy.text("the trace of a run") == "the trace of a run"
    file = pseudonyms.of("path", "runs/zsecret/rank 0.json")
    assert privacy.text("rank 0.json: rank 0 is missing") == f"{file}: rank 0 is missing"
    twice = Privacy(Names(paths=frozenset({"a/x.json", "b/x.json"})), pseudonyms=pseudonyms)
    assert twice.text("x.json: is empty") == f"{pseudonyms.of('path', 'x.json')}: is empty"
    assert privacy.text("step (zmodel.py:171)") == f"step ({pseudonyms.of('path', 'zmodel.py')}:171)"
    assert privacy.command("--run zrun runs/zsecret/x.json") == (
        f"--run {privacy.run('zrun')} {pseudonyms.of('path', 'runs/zsecret/x.json')}"
    )


def report(folder, name, *more, trace="t.json", kernels=None):
    file = folder / trace
    if not file.exists():
        planted.torch_file(file, names=["aten::mm", "x", "y"])
    return run(["report", str(file), "-o", str(folder / name), "--pseudonyms", "--quiet", *more])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path / "cache"))
    return tmp_path


def kernels_of(folder, name="r.html"):
    page = ParsedPage((folder / name).read_text(encoding="utf-8"))
    return {row["kernel"][1] for _, row in page.tables["kernels", "kernels"].rows}


def test_the_key_is_for_its_owner_alone_and_used_again(folder):
    key = folder / "r.html.key.json"
    assert report(folder, "r.html") == 0
    before, first = json.loads(key.read_text()), kernels_of(folder)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert {before["names"][name] for name in first} == {planted.KERNELS[1], planted.KERNELS[7]}
    key.chmod(0o644)
    planted.torch_file(folder / "other.json", names=["aten::mm", "x", "y"], host="qxnode9")
    assert report(folder, "r.html", trace="other.json") == 0
    after = json.loads(key.read_text())
    assert kernels_of(folder) == first
    assert after["secret"] == before["secret"] and before["names"].items() <= after["names"].items()
    assert "qxnode9" in after["names"].values() and stat.S_IMODE(key.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"secret": ""}', b'{"secret": "x", "names": {}}', b'{"names": {}}',
     b'{"secret": 7}', b'{"secret": "%s", "names": {"a": 1}}' % (b"0" * 32), b"null", b"# notes of mine"],
)  # fmt: skip
def test_a_damaged_key_is_one_line_and_stays(folder, capfdbinary, content):
    key = folder / "r.html.key.json"
    key.write_bytes(content)
    assert report(folder, "r.html") == 2
    err = capfdbinary.readouterr().err.decode()
    assert err.count("\n") == 1 and "r.html.key.json: is not a key of pseudonyms" in err and "move it away" in err
    assert key.read_bytes() == content and not (folder / "r.html").exists()


def test_a_folder_in_the_place_of_the_key_is_one_line(folder, capfdbinary):
    (folder / "r.html.key.json").mkdir()
    assert report(folder, "r.html") == 2
    assert capfdbinary.readouterr().err.decode().count("\n") == 1
    assert not (folder / "r.html").exists()


def test_the_key_is_there_where_the_page_cannot_be_written(folder, monkeypatch, capfdbinary):
    def full(target, content):
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr("traceanalyzer.report.report.write_whole", full)
    assert report(folder, "r.html") == 2
    assert b"No space left" in capfdbinary.readouterr().err
    assert not (folder / "r.html").exists()
    assert planted.KERNELS[1] in json.loads((folder / "r.html.key.json").read_text())["names"].values()


def test_no_page_is_written_without_its_key(folder, monkeypatch, capfdbinary):
    def full(self):
        raise OSError(28, "cannot be written (No space left on device)", str(self.key))

    monkeypatch.setattr(Pseudonyms, "save", full)
    assert report(folder, "r.html") == 2
    assert not (folder / "r.html").exists() and b"No space left" in capfdbinary.readouterr().err


def test_two_reports_at_once_lose_no_name(tmp_path):
    key = tmp_path / "k"
    Pseudonyms(key).save()
    one, other = Pseudonyms(key), Pseudonyms(key)
    names = {one.of("kernel", "a"): "a", other.of("kernel", "b"): "b"}
    one.save()
    other.save()
    assert json.loads(key.read_text())["names"] == names


def test_a_key_that_another_report_made_meanwhile_is_not_overwritten(tmp_path):
    key = tmp_path / "k"
    one, other = Pseudonyms(key), Pseudonyms(key)
    one.save()
    before = key.read_bytes()
    with pytest.raises(TraceAnalyzerError, match="meanwhile"):
        other.save()
    assert key.read_bytes() == before


def test_names_of_one_pseudonym_get_longer_ones(tmp_path):
    pseudonyms = Pseudonyms(tmp_path / "k")
    known = pseudonyms.of("kernel", "a")
    again = Pseudonyms(tmp_path / "k")
    again._secret, again._names = pseudonyms._secret, {known: "not a"}
    assert re.fullmatch(f"{known}[0-9a-f]{{4}}", again.of("kernel", "a"))


@given(st.lists(st.text(max_size=9), unique=True, max_size=20))
@settings(deadline=None, max_examples=30)
def test_the_key_maps_each_name_back(tmp_path_factory, names):
    key = tmp_path_factory.mktemp("keys") / "k"
    pseudonyms = Pseudonyms(key)
    made = {pseudonyms.of("kernel", name): name for name in names}
    pseudonyms.save()
    assert json.loads(key.read_text(encoding="utf-8"))["names"] == made and len(made) == len(names)
    assert {Pseudonyms(key).of("kernel", name): name for name in names} == made


# ---------------------------------------------------------------- the environment


def test_variables_are_told_by_their_names():
    assert all(map(is_variable, ("HOME", "NCCL_DEBUG", "My_Var", "http_proxy", "_")))
    assert not any(map(is_variable, ("gpu", "cuda_version", "nccl_transports", "cpu_cores")))
