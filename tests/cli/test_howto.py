"""Pages on how to capture: complete, plain, and printed without any engine."""

import re

import pytest

from tests.cli.test_commands import ENGINES, modules_after
from traceanalyzer.cli.commands.howto import TEXTS, TOPICS, page, plain, title

NAMED = {
    "nsys": (
        "--capture-range=cudaProfilerApi",
        "--python-sampling=true",
        "5 to 10 %",
        "--cuda-graph-trace=node",
        "--cuda-graph-trace=graph",
        "rank%q{RANK}",
        "--lazy=false --include-blobs=true --include-json=true",
        "nsys launch",
        "--pid=host",
    ),
    "torch": (
        'os.makedirs("traces", exist_ok=True)',
        "schedule(wait=20, warmup=5, active=10, repeat=1)",
        "with_stack=True",
        "record_shapes=True",
    ),
    "ncu": (
        "--set roofline --section Occupancy --section LaunchStats",
        "--set full",
        "--launch-skip",
        "--launch-count",
        "LC_ALL=C",
        "--print-units base",
    ),
    "peaks": ("[[gpu]]", "memory_gbs = 3900", "--peaks peaks.toml", "--table peaks"),
    "telemetry": ("nvidia-smi dmon", "nvidia-smi pmon", "nvidia-smi topo -m"),
    "dcgm": ("dcgm-exporter", "-c 1000", "1 to 3 s"),
    "baseline": ("Fixed seed", "20 to 30 warm-up", "50 to 100 measured", "At least 3 repeats", "median"),
}


@pytest.mark.parametrize("topic", TOPICS)
def test_each_page_has_its_commands(call, topic):
    done = call("howto", topic)
    assert (done.code, done.err) == (0, "")
    for text in NAMED[topic]:
        assert text in done.out
    assert "```" not in done.out
    assert max(map(len, page(topic).splitlines())) <= 120


@pytest.mark.parametrize("topic", TOPICS)
def test_commands_inside_of_sentences_are_quoted_and_in_one_line(topic):
    prose = re.sub(r"(?s)```.*?```", "", page(topic)).splitlines()
    assert [line for line in prose if line.count("`") % 2] == []
    bare = [re.sub(r"`[^`]*`", "", line) for line in prose]
    assert [line for line in bare if re.search(r"(?<![\w-])--?[a-z]", line)] == []


def test_every_export_of_nsys_keeps_what_the_reader_wants():
    code = re.sub(r"\\\n\s*", "", "\n".join(re.findall(r"(?s)```sh\n(.*?)```", page("nsys"))))
    exports = [line for line in code.splitlines() if "nsys export" in line]
    assert len(exports) == 2
    assert all("--lazy=false --include-blobs=true --include-json=true" in line for line in exports)


def test_topics_are_listed(call):
    out = call("howto").out
    assert [line.split()[0] for line in out.splitlines()[: len(TOPICS)]] == list(TOPICS)
    assert sorted(path.stem for path in TEXTS.glob("*.md")) == sorted(TOPICS)
    assert all(title(topic) and not title(topic).startswith("#") for topic in TOPICS)


def test_an_unknown_topic_is_one_line(call):
    done = call("howto", "perf")
    assert done.code == 2 and len(done.err.splitlines()) == 1


def test_code_is_indented_and_kept():
    assert plain("# a: b\n\nuse `x`\n\n```sh\nrun `y`\n\n  more\n```\n") == (
        "a: b\n====\n\nuse `x`\n\n    run `y`\n\n      more\n"
    )


def test_howto_imports_no_engine():
    out, modules = modules_after(["howto", "nsys"])
    assert "nsys profile" in out
    assert [m for m in modules if m in ENGINES] == []
