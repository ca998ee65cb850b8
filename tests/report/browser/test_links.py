"""Links lead to what they name, also into what is folded; everything can be reached with keys."""

import pytest

_FOCUSED = """() => {
    const at = document.activeElement;
    if (at.matches(".skip")) return "skip";
    if (at.id === "theme") return "theme";
    if (at.matches("nav a")) return "section";
    if (at.matches("th button")) return "heading";
    if (at.matches("input[type=search]")) return "search";
    if (at.matches("summary")) return "summary";
    if (at.matches(".scroll")) return "table";
    return at.tagName;
}"""
MOST_TABS = 40


@pytest.fixture(scope="module")
def page(long_visit):
    """Tests follow links in it: what they open stays open."""
    return long_visit("ddp2_slow1")


def follow(page, target):
    page.run("(target) => { location.hash = target; }", target)
    page.locate(target).wait_for(state="visible")
    page.page.wait_for_timeout(100)


def test_links_of_evidence_lead_to_rows(page):
    links = page.run("""() => [...document.querySelectorAll(".evidence a")].map((link) => link.getAttribute("href"))""")
    rows = page.run("""(links) => links.map((href) => document.getElementById(href.slice(1)).tagName)""", links)
    assert len(links) > 10
    assert rows.count("TR") > 0.8 * len(rows)


@pytest.mark.parametrize("target", ["#gaps-blames-r0", "#gaps-blames-r12", "#gaps-stacks-r5", "#steps-steps-r15"])
def test_a_link_brings_its_row_into_view_also_from_what_is_folded(page, target):
    folded = not target.startswith("#gaps-blames")
    assert page.locate(target).is_visible() != folded
    follow(page, target)
    assert page.comes_into_view(target)


def test_evidence_opens_the_row_behind_it(page):
    link = page.locate("#verdict-1 .evidence a").first
    target = link.get_attribute("href")
    assert not page.locate(target).is_visible()
    link.click()
    page.locate(target).wait_for(state="visible")
    page.page.wait_for_timeout(100)
    assert page.comes_into_view(target)


def test_a_page_opens_at_a_row(visit):
    target = "#gaps-stacks-r5"
    page = visit("planted_sleep", target)
    page.page.wait_for_timeout(100)
    assert page.locate(target).is_visible()
    assert page.comes_into_view(target)


def test_a_link_to_a_section_brings_its_heading_into_view_on_a_phone(visit):
    page = visit("planted_sleep", width=390)
    for section in ("definitions", "gaps", "operators"):
        follow(page, f"#{section}")
        assert page.comes_into_view(f"#{section} h2")


def test_a_link_to_nothing_breaks_nothing(visit):
    page = visit("planted_sleep", "#%zz")
    page.run("() => { location.hash = '#%e0%a4%a'; }")
    page.run("() => { location.hash = '#no-such-row'; }")
    page.locate("#theme").click()
    assert page.run("() => document.documentElement.dataset.theme") == "dark"


def test_keys_reach_everything_and_sort(visit):
    page = visit("ddp2_slow1")
    press = page.page.keyboard.press
    reached = []

    def tab_to(kind):
        for _ in range(MOST_TABS):
            press("Tab")
            reached.append(page.run(_FOCUSED))
            if reached[-1] == kind:
                shown = page.run("() => getComputedStyle(document.activeElement).outlineStyle")
                return shown != "none"
        return False

    assert tab_to("skip")
    assert len(reached) == 1
    assert page.run("() => document.activeElement.getBoundingClientRect().left") >= 0
    assert tab_to("theme")
    assert tab_to("section")
    page.run("() => document.querySelector('#ledger h2 a').focus()")
    assert tab_to("search")
    page.page.keyboard.type("host")
    assert page.run("() => document.activeElement.value") == "host"
    assert tab_to("table")
    assert tab_to("heading")
    sorts = []
    for key in ("Enter", " "):
        press(key)
        sorts.append(page.run("() => document.activeElement.closest('th').getAttribute('aria-sort')"))
    assert sorted(sorts) == ["ascending", "descending"]
    assert tab_to("summary")
    press("Enter")
    assert page.run("() => document.activeElement.parentElement.open")
    page.run("() => document.querySelector('.skip').focus()")
    press("Enter")
    press("Tab")
    assert page.run("() => !!document.activeElement.closest('main')")
