"""A report of one run: built once from answers, and written as a page, as Markdown or as JSON."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from traceanalyzer.errors import UsageError
from traceanalyzer.passes.answer import Answer
from traceanalyzer.passes.scope import Scope
from traceanalyzer.report.blocks import Built
from traceanalyzer.report.material import Ask, Material
from traceanalyzer.report.page import Head, Lead, card_anchor, cost_of, page
from traceanalyzer.report.privacy import Privacy, Pseudonyms, names_of
from traceanalyzer.report.sections import SECTIONS
from traceanalyzer.units import Unit, counted, format_value
from traceanalyzer.version import __version__

Progress = Callable[[str, int, int], None]
"""Told the section that is made, its place, and how many there are."""
MOST_LEADS = 3


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a report is to be made.

    `inputs` is what a command line names the same captures and selection by. `full_paths` keeps paths and host names
    whole; `pseudonyms` replaces them, and names of kernels.
    """

    inputs: str = ""
    language: str = "en"
    full_paths: bool = False
    pseudonyms: Pseudonyms | None = None


class Report:
    """Everything that a report says, ready to be written. Made by `TraceSet.report`."""

    def __init__(self, scope: Scope, ask: Ask, wishes: Wishes, progress: Progress | None = None) -> None:
        if len(scope.runs) > 1:
            raise UsageError("a report is of one run; --run NAME chooses it")
        self._wishes = wishes
        self._privacy = Privacy(
            names_of(scope, wishes.inputs), full_paths=wishes.full_paths, pseudonyms=wishes.pseudonyms
        )

        def asked(question: str, **selection: Any) -> Answer:
            return self._privacy.answer(ask(question, **selection))

        self.material = Material(scope, asked, self._privacy.command(wishes.inputs), wishes.language)
        # What others answered is told by this one, so it is built last and stands where it stands.
        order = sorted(SECTIONS, key=lambda section: section.name == "fitness")
        built: dict[str, Built] = {}
        for place, section in enumerate(order):
            if progress is not None:
                progress(section.title, place, len(order))
            built[section.name] = section.built(self.material)
        if progress is not None:
            progress("", len(order), len(order))
        self.sections = tuple(built[section.name] for section in SECTIONS)

    @property
    def pseudonyms(self) -> Pseudonyms | None:
        """The pseudonyms that it uses, if any: their key belongs beside the page."""
        return self._wishes.pseudonyms

    @cached_property
    def head(self) -> Head:
        """What is said first."""
        checkup = self.material.answer("checkup")
        verdicts = list(checkup.tables["verdicts"].rows())
        leads = [Lead(_cost_and_share(row), row["title"], card_anchor(row)) for row in verdicts[1 : MOST_LEADS + 1]]
        first = next((text for row in verdicts if row["cost_ns"] for text in row["advice"]), None)
        problems = sum(state == "problem" for state in self.material.answer("info").tables["fitness"].columns["state"])
        run = ", ".join(map(self._privacy.run, self.material.scope.runs)) or "empty store"
        return Head(
            title=f"{run}: traceanalyzer report",
            headline=_headline(verdicts),
            cost=_price(verdicts),
            notes=[*checkup.notes],
            leads=leads,
            first_change=first,
            doubt=None
            if not problems
            else f"{counted(problems, 'check')} of the captures found a problem: read what"
            " it spoils before you rely on these numbers",
            language=self._wishes.language,
            version=__version__,
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            command=self.material.command("report -o report.html"),
            left_out=self._privacy.left_out.sentences(),
        )

    def written(self, form: str) -> str:
        """The report in a format: html, markdown or json. Raises `UsageError` for another one."""
        forms = {"html": lambda: self.html}
        if form not in forms:
            raise UsageError(f"no format {form!r} of a report; there are {', '.join(forms)}")
        return forms[form]()

    @cached_property
    def html(self) -> str:
        """The page: one file, which fetches nothing."""
        return page(self.head, self.sections)


def _headline(verdicts: list[dict[str, Any]]) -> str:
    if not verdicts:
        return "Nothing was recorded that a verdict could be made from"
    title: str = verdicts[0]["title"]
    return title[:1].upper() + title[1:]


def _price(verdicts: list[dict[str, Any]]) -> str | None:
    """What the first verdict costs, and how sure it is; None where it costs nothing."""
    if not verdicts or not verdicts[0]["cost_ns"]:
        return None
    return f"{_cost_and_share(verdicts[0])}, confidence {verdicts[0]['confidence']}"


def _cost_and_share(row: dict[str, Any]) -> str:
    share = f" ({format_value(row['share'], Unit.SHARE)})" if row["share"] else ""
    return cost_of(row) + share
