"""The pages in reports/ are those that the command in README.md makes of the samples.

`UPDATE_REPORTS=1 pytest tests/report/test_examples.py` writes them anew.
"""

import os
import re
from pathlib import Path

import pytest

from traceanalyzer.cli.main import run

REPOSITORY = Path(__file__).parents[2]
REPORTS = REPOSITORY / "reports"
COMMAND = re.search(
    r"<!-- reports -->\n```sh\nfor job in ([\w ]+); do traceanalyzer report -q -o reports/\$job.html"
    r" sample_traces/\$job; done\n```\n",
    (REPOSITORY / "README.md").read_text(encoding="utf-8"),
)
JOBS = COMMAND[1].split() if COMMAND else []


def comparable(page: str) -> str:
    """A page without what may differ: when it was made, and how plotly.js was packed."""
    page = re.sub(r'<script id="drawing">.*?</script>', "", page, flags=re.DOTALL)
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", page)


def test_readme_has_the_command():
    assert len(JOBS) == 3
    assert sorted(path.stem for path in REPORTS.glob("*.html")) == sorted(JOBS)


@pytest.mark.parametrize("job", JOBS)
def test_the_page_is_current(job, tmp_path, monkeypatch, capfdbinary):
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path / "cache"))
    target = REPORTS / f"{job}.html" if os.environ.get("UPDATE_REPORTS") else tmp_path / f"{job}.html"
    assert run(["report", "-q", "-o", str(target), f"sample_traces/{job}"]) == 0
    fresh = comparable(target.read_text(encoding="utf-8"))
    assert len(fresh) > 20_000
    kept = comparable((REPORTS / f"{job}.html").read_text(encoding="utf-8"))
    assert fresh == kept, "write it anew with: UPDATE_REPORTS=1 pytest tests/report/test_examples.py"
