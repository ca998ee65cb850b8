"""Every section and every figure of a page is there, and the page is silent and alone."""

import pytest

from tests.report.browser.visit import Visit
from traceanalyzer.report.blocks import Figure
from traceanalyzer.report.sections import SECTIONS

SAMPLES = ("planted_sleep", "ddp2_slow1", "launch_bound", "kernel_limits", "telemetry")


@pytest.mark.parametrize("name", SAMPLES)
def test_sections_and_figures_are_drawn_and_every_link_has_its_end(visit, made, name):
    page = visit(name)
    page.scroll_through()
    headings = page.run(
        """() => [...document.querySelectorAll("main > section")].map(
            (section) => [section.id, section.querySelector("h2").firstChild.textContent.trim()])"""
    )
    sections = made(name)[1].sections
    assert headings == [[section.name, section.title] for section in sections]
    assert sorted(headings) == sorted([section.name, section.title] for section in SECTIONS)
    expected = [f"figure-{block.name}" for each in sections for block in each.blocks if isinstance(block, Figure)]
    assert [figure["name"] for figure in page.figures()] == expected != []
    assert [figure for figure in page.figures() if not figure["drawn"] or not figure["marks"]] == []
    ends = page.run(
        """() => [...document.querySelectorAll("a")].map((link) => link.getAttribute("href"))
            .filter((href) => !href || href[0] !== "#" || !document.getElementById(href.slice(1)))"""
    )
    assert ends == []
    ids = page.run(
        """() => [...document.querySelectorAll("main [id]")].filter((e) => !e.closest(".plot")).map((e) => e.id)"""
    )
    assert len(ids) == len(set(ids)) > 50
    assert page.problems == []
    assert page.asked_for == [page.address]


def test_what_a_page_says_and_asks_for_is_noticed(browser, tmp_path):
    path = tmp_path / "loud.html"
    path.write_text(
        """<!doctype html><img src="other.png"><script>
        console.warn("a warning"); setTimeout(() => { throw new Error("an error"); });
        fetch("http://127.0.0.1:9/").catch(() => {}); alert("a dialog");</script>"""
    )
    page = Visit(browser, path, "", 800, "light")
    page.page.wait_for_timeout(100)
    told = "\n".join(page.problems)
    page.page.context.close()
    for each in ("warning: a warning", "error: an error", "dialog: a dialog", "request: http://127.0.0.1:9/"):
        assert each in told
    other = (tmp_path / "other.png").as_uri()
    assert f"request: {other}" in told
    assert set(page.asked_for) == {page.address, other, "http://127.0.0.1:9/"}
