"""README.md says what the commands print.

Each fenced block below a comment `<!-- output: COMMAND -->` holds what the command prints in a pipe, 120 columns wide.
`UPDATE_README=1 pytest tests/cli/test_readme.py` writes the blocks anew.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
README = REPOSITORY / "README.md"
MARKED = re.compile(r"(<!-- output: (?P<command>[^\n]+?) -->\n```\w*\n)(?P<output>.*?)(?P<end>```\n)", re.DOTALL)
UPDATE = "UPDATE_README"


def printed(command: str, folder: Path) -> str:
    """What a command of README.md prints, in a store and a cache of its own."""
    words = shlex.split(command)
    assert words[0] == "traceanalyzer", command
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=REPOSITORY,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"}
        | {
            "PYTHONPATH": str(REPOSITORY),
            "TRACEANALYZER_DB": str(folder / "readme.duckdb"),
            "XDG_CACHE_HOME": str(folder / "cache"),
        },
        capture_output=True,
        check=True,
    )
    return "\n".join(line.rstrip() for line in done.stdout.decode().splitlines()) + "\n"


def test_readme_shows_what_the_commands_print(tmp_path):
    text = README.read_text(encoding="utf-8")
    assert list(MARKED.finditer(text)), "README.md shows no output"
    fresh = MARKED.sub(lambda m: m[1] + printed(m["command"], tmp_path) + m["end"], text)
    if os.environ.get(UPDATE):
        README.write_text(fresh, encoding="utf-8")
    else:
        assert fresh == text, f"write it anew with: {UPDATE}=1 pytest tests/cli/test_readme.py"


@pytest.mark.parametrize("name", ["demo", "test"])
def test_the_commands_that_ci_runs_are_marked(name):
    found = re.findall(rf"<!-- ci: {name} -->\n```sh\n([^\n]+)\n```\n", README.read_text(encoding="utf-8"))
    assert len(found) == 1


def test_links_lead_somewhere():
    pages = [
        README,
        REPOSITORY / "CONTRIBUTING.md",
        REPOSITORY / "sample_traces/README.md",
        *(REPOSITORY / "docs").rglob("*.md"),
    ]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
