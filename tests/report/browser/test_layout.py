"""Nothing is cut off or lies over something else, on a desktop and on a phone."""

import pytest

from tests.report.browser.conftest import HOSTILE

PHONE, DESKTOP = 390, 1280
TALLEST_ROW = 200
"""Pixels of a row of a table: eight lines."""
_CUT_OFF = """() => [...document.querySelectorAll(".plot")].flatMap((plot) => {
    const frame = plot.getBoundingClientRect(), out = [];
    if (plot.scrollHeight > plot.clientHeight + 1) out.push("figure");
    for (const bar of plot.querySelectorAll(".legend .scrollbar"))
        if (bar.getBoundingClientRect().height > 0) out.push("legend");
    for (const text of plot.querySelectorAll(".xtick text, .ytick text, .xtitle, .ytitle, .legendtext")) {
        const box = text.getBoundingClientRect();
        if (box.width && (box.left < frame.left - 2 || box.right > frame.right + 2 || box.bottom > frame.bottom + 2))
            out.push(text.textContent);
    }
    return out.map((what) => `${plot.closest("figure").id}: ${what}`);
})"""
_NARROW_BARS = """() => [...document.querySelectorAll(".plot")]
    .filter((plot) => plot._fullLayout._size.w < 0.3 * plot.clientWidth).map((plot) => plot.closest("figure").id)"""
_TALL_ROWS = """(most) => [...document.querySelectorAll("tbody tr")]
    .filter((row) => row.offsetHeight > most).map((row) => row.id)"""
_OVERLAP = """([one, other]) => {
    const range = document.createRange();
    range.selectNodeContents(document.querySelector(one));
    const box = document.querySelector(other).getBoundingClientRect();
    return [...range.getClientRects()].some((text) =>
        text.right > box.left && text.left < box.right && text.bottom > box.top && text.top < box.bottom);
}"""


@pytest.mark.parametrize(("name", "width"), [("ddp2_slow1", PHONE), ("ddp2_slow1", DESKTOP), (HOSTILE, PHONE)])
def test_everything_fits(visit, name, width):
    page = visit(name, width=width)
    page.scroll_through()
    assert page.run("() => document.documentElement.scrollWidth") == width
    assert page.run(_CUT_OFF) == []
    assert page.run(_NARROW_BARS) == []
    assert page.run(_TALL_ROWS, TALLEST_ROW) == []
    for text in (".kind", "h1"):
        assert not page.run(_OVERLAP, [text, "#theme"])


def test_a_figure_fits_after_the_window_has_changed(visit):
    page = visit("ddp2_slow1")
    page.page.wait_for_selector("#figure-composition svg.main-svg")
    page.page.set_viewport_size({"width": PHONE, "height": 900})
    page.wait_until(
        f"() => document.querySelector('#figure-composition svg.main-svg').getBoundingClientRect().width < {PHONE}"
    )
    page.wait_until(f"() => ({_CUT_OFF})().length === 0")
    assert page.run("() => document.documentElement.scrollWidth") == PHONE
