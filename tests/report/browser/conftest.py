"""A real browser, started once in each process of the tests that needs one, and reports, each made once."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.report.browser.hostile import write_trace
from tests.report.browser.visit import Visit
from tests.support.real_traces import opened
from traceanalyzer.report.report import Report

SAMPLES = Path(__file__).parents[3] / "sample_traces"
HOSTILE = "hostile"
MOST_SECONDS = 120
NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class HungError(AssertionError):
    """The browser gives no answer."""


@pytest.fixture(autouse=True)
def _no_test_takes_for_ever() -> Iterator[None]:
    """Calls of the browser without a limit of their own, such as printing, may never come back."""

    def give_up(*_: object) -> None:
        raise HungError(f"no answer from the browser in {MOST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(MOST_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium as it is installed; the tests skip where there is none, but not in CI."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        reason = f"no browser is installed: none of {', '.join(NAMES)}"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=list(ARGUMENTS), headless=True)
        yield started
        started.close()


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Report]]:
    """The page of a sample, or of the hostile trace, and the report that it was written from."""
    known: dict[str, tuple[Path, Report]] = {}

    def make(name: str) -> tuple[Path, Report]:
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            trace = write_trace(folder) if name == HOSTILE else SAMPLES / name
            with opened(trace) as traces:
                report = traces.report(inputs=trace.name)
                page = folder / "report.html"
                page.write_text(report.html, encoding="utf-8")
            known[name] = page, report
        return known[name]

    return make


@pytest.fixture
def visit(browser: Browser, made: Callable[[str], tuple[Path, Report]]) -> Iterator[Callable[..., Visit]]:
    """Opens reports by their names. When the test is over, each must have been silent, and have fetched nothing."""
    yield from _visits(browser, made)


@pytest.fixture(scope="module")
def long_visit(browser: Browser, made: Callable[[str], tuple[Path, Report]]) -> Iterator[Callable[..., Visit]]:
    """The same for pages that the tests of a module share."""
    yield from _visits(browser, made)


def _visits(browser: Browser, made: Callable[[str], tuple[Path, Report]]) -> Iterator[Callable[..., Visit]]:
    visits: list[Visit] = []

    def start(name: str, fragment: str = "", *, width: int = 1280, scheme: str = "light") -> Visit:
        visits.append(Visit(browser, made(name)[0], fragment, width, scheme))
        return visits[-1]

    yield start
    for each in visits:
        each.page.context.close()
    for each in visits:
        assert each.problems == []
        assert each.asked_for == [each.address]
