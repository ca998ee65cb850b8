"""Tables are sorted by their headings and searched by a field."""

import pytest

from traceanalyzer.report.blocks import Table

BLAMES, STEPS = "gaps-blames", "steps-steps"
_ROWS = """([table, column]) => {
    const element = document.getElementById(table);
    const place = [...element.querySelectorAll("th")].findIndex((heading) => heading.dataset.column === column);
    return [...element.querySelector("tbody").rows].filter((row) => !row.hidden)
        .map((row) => [Number(row.id.split("-r").pop()), row.cells[place].textContent]);
}"""


@pytest.fixture(scope="module")
def page(long_visit):
    """Tests sort and search in it, so each takes the rows in any order."""
    visit = long_visit("ddp2_slow1")
    visit.run("() => document.querySelectorAll('details.fold').forEach((each) => { each.open = true; })")
    return visit


@pytest.fixture(scope="module")
def column(made):
    """Values of a column of a table, as they were answered."""

    def values(table, name):
        blocks = [block for section in made("ddp2_slow1")[1].sections for block in section.blocks]
        frame = next(block.frame for block in blocks if isinstance(block, Table) and block.anchor == table)
        return frame.columns[name]

    return values


def heading(page, table, column):
    return page.locate(f"#{table} th[data-column={column}]")


def press(page, table, column):
    heading(page, table, column).locator("button").click()
    return heading(page, table, column).get_attribute("aria-sort")


def order(page, table):
    """The places of the rows in the answer, as they stand now, without those that are hidden."""
    return [place for place, _ in page.run(_ROWS, [table, "rank"])]


@pytest.mark.parametrize(("table", "name"), [(BLAMES, "idle_ns"), (BLAMES, "share"), (STEPS, "device_duration_ns")])
def test_numbers_are_sorted_as_numbers_both_ways(page, column, table, name):
    values = column(table, name)
    texts = dict(page.run(_ROWS, [table, name]))
    assert len(values) == len(texts) >= 10
    assert [values[place] for place in sorted(texts, key=texts.get)] != sorted(values), "text is not told from numbers"
    assert press(page, table, name) == "descending"
    down = [values[place] for place in order(page, table)]
    assert down == sorted(values, reverse=True)
    assert sorted(order(page, table)) == list(range(len(values)))
    assert press(page, table, name) == "ascending"
    up = order(page, table)
    assert [values[place] for place in up] == sorted(values)
    assert page.run(_ROWS, [table, name]) == [[place, texts[place]] for place in up]


def test_text_is_sorted_as_text_and_one_heading_shows_it(page, column):
    causes = column(BLAMES, "cause")
    press(page, BLAMES, "idle_ns")
    assert press(page, BLAMES, "cause") == "ascending"
    assert [causes[place] for place in order(page, BLAMES)] == sorted(causes)
    assert press(page, BLAMES, "cause") == "descending"
    assert [causes[place] for place in order(page, BLAMES)] == sorted(causes, reverse=True)
    assert heading(page, BLAMES, "idle_ns").get_attribute("aria-sort") is None


def test_yes_and_no_are_sorted(page, column):
    values = column(STEPS, "incomplete")
    assert {True, False} <= set(values)
    press(page, STEPS, "incomplete")
    once = [values[place] for place in order(page, STEPS)]
    press(page, STEPS, "incomplete")
    assert once == sorted(values)
    assert [values[place] for place in order(page, STEPS)] == sorted(values, reverse=True)


def test_a_search_leaves_rows_with_all_of_its_words(page, column):
    blames, causes = column(BLAMES, "blame"), column(BLAMES, "cause")
    field = page.locate(f"#{BLAMES} input[type=search]")
    assert field.is_visible()
    field.fill("  PYTHON region ")
    pairs = enumerate(zip(blames, causes, strict=True))
    found = [place for place, (blame, cause) in pairs if blame and "region" in blame and cause == "python"]
    assert 0 < len(found) < causes.count("python") < len(causes)
    assert sorted(order(page, BLAMES)) == found
    assert page.locate(f"#{BLAMES} tbody tr:visible").count() == len(found)
    field.fill("no such words")
    assert order(page, BLAMES) == []
    field.fill("")
    assert [cause for _, cause in sorted(page.run(_ROWS, [BLAMES, "cause"]))] == causes
