"""Light and dark: that of the system, until the reader chooses one. Text is readable in both."""

import math

LIGHT, DARK = "light", "dark"
LEAST_CONTRAST = 4.5
_COLORS = """() => {
    const body = getComputedStyle(document.body);
    const fill = (selector) => getComputedStyle(document.querySelector(selector)).fill;
    return [body.color, body.backgroundColor, fill(".plot .xtick text"), fill(".plot .legendtext")];
}"""
_CONTRASTS = """(selectors) => {
    const parts = (color) => color.match(/[\\d.]+/g).map(Number);
    const luminance = (color) => {
        const [r, g, b] = parts(color).map((part) => part / 255)
            .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor;
            if ((parts(color)[3] ?? 1) === 1) return color;
        }
        return "rgb(255, 255, 255)";
    };
    const contrast = (element) => {
        const style = getComputedStyle(element), color = element.closest("svg") ? style.fill : style.color;
        const [one, other] = [luminance(color), luminance(behind(element))].sort((a, b) => b - a);
        return (one + 0.05) / (other + 0.05);
    };
    return Object.fromEntries(selectors.map((selector) =>
        [selector, Math.min(...[...document.querySelectorAll(selector)].slice(0, 20).map(contrast))]));
}"""
TEXTS = (
    "body h1",
    "main h2",
    "main h3",
    "main h4",
    ".kind",
    ".price a",
    ".first",
    "nav a",
    "nav a.empty",
    "button",
    ".card li",
    ".card .cost",
    ".card .share",
    ".tag",
    "code",
    ".evidence a",
    ".findings li",
    ".words",
    "caption",
    "th button",
    "td",
    "summary",
    ".count",
    ".missing",
    ".warning",
    "dt",
    "dd",
    "footer p",
    ".xtick text",
    ".ytick text",
    ".legendtext",
)


def colors(page):
    page.page.wait_for_selector(".plot .legendtext")
    return page.run(_COLORS)


def theme_button(page):
    return page.locate("#theme")


def test_the_button_switches_page_and_figures_and_the_choice_is_kept(visit):
    page = visit("planted_sleep")
    light = colors(page)
    assert theme_button(page).text_content() == "Dark"
    theme_button(page).click()
    dark = colors(page)
    assert [one != other for one, other in zip(light, dark, strict=True)] == [True] * 4
    assert theme_button(page).text_content() == "Light"
    page.page.reload()
    page.asked_for.remove(page.address)
    assert page.run("() => localStorage.getItem('traceanalyzer-theme')") == DARK
    assert colors(page) == dark
    theme_button(page).click()
    assert colors(page) == light


def test_the_theme_follows_the_system_until_one_is_chosen(visit):
    page = visit("planted_sleep", scheme=DARK)
    dark = colors(page)
    page.prefer(LIGHT)
    light = colors(page)
    assert [one != other for one, other in zip(light, dark, strict=True)] == [True] * 4
    page.prefer(DARK)
    assert colors(page) == dark
    theme_button(page).click()
    assert colors(page) == light
    page.prefer(LIGHT)
    page.prefer(DARK)
    assert colors(page) == light


def test_text_stands_out_from_what_is_behind_it(visit):
    page = visit("planted_sleep")
    page.scroll_through()
    for scheme in (LIGHT, DARK):
        page.prefer(scheme)
        found = page.run(_CONTRASTS, TEXTS)
        assert [name for name in TEXTS if math.isinf(found[name])] == [], "selectors that find nothing"
        assert {name: round(found[name], 2) for name in TEXTS if found[name] < LEAST_CONTRAST} == {}, scheme
