"""A page on paper: every figure is drawn, light, and nothing is cut off."""

import re

PAPER_PX = 703
"""What is left of a page of A4 between its margins."""


def test_printing_draws_every_figure_light_and_leaves_the_theme(visit):
    page = visit("planted_sleep", scheme="dark")
    page.page.wait_for_selector("svg.main-svg")
    assert not all(figure["drawn"] for figure in page.figures())
    page.run(
        """() => addEventListener("beforeprint", () => {
            const tick = document.querySelector(".xtick text");
            window.printed = { theme: document.documentElement.dataset.theme, ink: getComputedStyle(tick).fill,
                widths: [...document.querySelectorAll("svg.main-svg")].map((svg) => svg.clientWidth) };
        })"""
    )
    ink = page.run("() => getComputedStyle(document.querySelector('.xtick text')).fill")
    pdf = page.page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 5
    assert [figure for figure in page.figures() if not figure["drawn"] or not figure["marks"]] == []
    printed = page.run("() => window.printed")
    assert printed["theme"] == "light"
    assert printed["ink"] != ink
    assert len(printed["widths"]) >= len(page.figures())
    assert max(printed["widths"]) <= PAPER_PX
    assert page.run("() => document.documentElement.dataset.theme") is None
    assert page.run("() => getComputedStyle(document.querySelector('.xtick text')).fill") == ink


def test_a_chosen_theme_is_the_same_after_printing(visit):
    page = visit("kernel_limits")
    page.locate("#theme").click()
    page.page.pdf(format="A4")
    assert page.run("() => document.documentElement.dataset.theme") == "dark"


def test_no_table_is_wider_than_paper(visit):
    page = visit("ddp2_slow1", width=PAPER_PX)
    page.page.emulate_media(media="print")
    wide = page.run(
        """() => {
            document.querySelectorAll("details.fold").forEach((each) => { each.open = true; });
            return [...document.querySelectorAll("table")]
                .filter((table) => table.getBoundingClientRect().right > innerWidth + 1)
                .map((table) => table.closest(".table").id);
        }"""
    )
    assert wide == []
