"""Names in traces are text in the page, in its figures and in what figures say when they are pointed at."""

import pytest

from tests.report.browser.conftest import HOSTILE
from tests.report.browser.hostile import NAMES
from traceanalyzer.cells import printable

_FOREIGN = """() => {
    const out = [];
    for (const element of document.querySelectorAll("*")) {
        for (const { name, value } of element.attributes) {
            if (name.startsWith("on")) out.push(`${element.tagName} ${name}`);
            if (/^(xlink:)?href$|^src$|^action$/.test(name) && value[0] !== "#") out.push(`${name}=${value}`);
        }
        const inside = element.closest(".plot"), tag = element.tagName.toLowerCase();
        if (/^(img|iframe|object|embed|b|i|sub|sup|br|textarea|form)$/.test(tag)) out.push(tag);
        if (!inside && tag === "svg" && element.id !== "js-plotly-tester") out.push(tag);
        if (inside && tag === "a" && !element.closest(".modebar")) out.push("a in a figure");
        const style = element.getAttribute("style") ?? "";
        if (inside && tag === "tspan" && /bold|italic|font-size|baseline/.test(style)) out.push(style);
    }
    if (document.getElementById("planted")) out.push("#planted");
    if ("planted" in window) out.push("window.planted");
    return out;
}"""
_POINTED_AT = """async ([id, words]) => {
    const plot = document.querySelector(`#figure-${id} .plot`), out = [];
    const wait = () => new Promise((done) => setTimeout(done, 80)); // sooner it does not look again
    for (const [curveNumber, trace] of plot.data.entries()) {
        for (let pointNumber = 0; pointNumber < trace.x.length; pointNumber++) {
            const name = `${trace.y[pointNumber]} ${(trace.customdata ?? [])[pointNumber]}`;
            if (!words.some((word) => name.includes(word))) continue;
            Plotly.Fx.hover(plot, [{ curveNumber, pointNumber }]);
            await wait();
            for (const text of plot.querySelectorAll(".hoverlayer text")) out.push(text.textContent);
        }
    }
    return out;
}"""


@pytest.fixture(scope="module")
def page(long_visit):
    """With everything drawn and unfolded."""
    page = long_visit(HOSTILE)
    page.scroll_through()
    page.run("() => document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    return page


def test_nothing_is_made_from_a_name(page):
    assert sorted(set(page.run(_FOREIGN))) == []
    scripts = page.run("() => [...document.scripts].map((script) => script.type)")
    assert scripts.count("") == 3, "what unpacks, what draws, and what the page does"
    assert len(scripts) == 3 + len(page.figures())
    assert page.run("() => document.title") == "<img src=x onerror=alert(1)> ' & 🚀: traceanalyzer report"


@pytest.mark.parametrize(
    ("table", "column"),
    [("kernels-kernels", "kernel"), ("ops-ops", "op"), ("ranges-ranges", "range"), ("gaps-blames", "blame")],
)
def test_each_name_is_to_be_read(page, table, column):
    found = page.run(
        """([table, column]) => {
            const headings = [...document.querySelectorAll(`#${table} th`)];
            const place = headings.findIndex((each) => each.dataset.column === column);
            return [...document.querySelector(`#${table} tbody`).rows].map(({ cells }) =>
                (cells[place].querySelector("details > span") ?? cells[place]).textContent);
        }""",
        [table, column],
    )
    for name in NAMES:
        assert any(text == printable(name) or text.startswith(f"{printable(name)} (train.py:") for text in found), name


def test_the_file_and_the_device_are_to_be_read(page):
    assert "<img src=x onerror=alert(1)> ' & 🚀.json" in page.locate("#info-captures").text_content()
    assert NAMES[0] in page.locate("#checkup-environment").text_content()


def test_figures_show_names_as_text(page):
    labels = page.run(
        "() => [...document.querySelectorAll('#figure-operators .ytick text')].map((text) => text.textContent)"
    )
    assert len(labels) == 15
    assert "<b>bold</b><i>it</i><br><sub>low</sub>" in labels
    assert '<a href="javascript:window.planted=1">link</a>' in labels
    assert "&lt;b&gt;twice&lt;/b&gt; &amp;" in labels
    assert "%{x} %{fullData.name} <extra>%{y}</extra>" in labels


@pytest.mark.parametrize("figure", ["operators", "icicle"])
def test_pointing_at_a_figure_shows_names_as_text(page, figure):
    told = page.run(_POINTED_AT, [figure, ["fullData", "bold", "link"]])
    assert len(told) >= 3
    for name in ("<b>bold</b><i>it</i><br><sub>low</sub>", "%{x} %{fullData.name} <extra>%{y}</extra>"):
        assert any(name in text for text in told), name
    assert any('<a href="javascript:window.planted=1">link</a>' in text for text in told)
    assert sorted(set(page.run(_FOREIGN))) == []


def test_searching_and_sorting_leave_names_as_text(page):
    page.locate("#kernels-kernels input[type=search]").fill("<b>bold</b>")
    assert page.locate("#kernels-kernels tbody tr:visible").count() == 1
    page.locate("#kernels-kernels th[data-column=kernel] button").click()
    assert sorted(set(page.run(_FOREIGN))) == []
