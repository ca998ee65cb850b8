"""A report of one run: built once from answers, and written as a page, as Markdown or as JSON."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from traceanalyzer.checkup.recordings import unused
from traceanalyzer.errors import UsageError
from traceanalyzer.files import write_whole
from traceanalyzer.passes.answer import Answer, Finding
from traceanalyzer.passes.fitness import PROBLEM
from traceanalyzer.passes.scope import Scope
from traceanalyzer.report.blocks import Built
from traceanalyzer.report.material import BESIDE_TIMELINES, Ask, Material
from traceanalyzer.report.page import Head, Lead, card_anchor, cost_of, page
from traceanalyzer.report.privacy import Privacy, Pseudonyms, names_of
from traceanalyzer.report.sections import SECTIONS
from traceanalyzer.report.summary import markdown, summary
from traceanalyzer.units import Unit, counted, format_value
from traceanalyzer.version import __version__
from traceanalyzer.views.machine import as_json

Progress = Callable[[str, int, int], None]
"""Told the section that is made, its place, and how many there are."""
FORMS = ("html", "markdown", "json")
_FORM_OF = {".html": "html", ".htm": "html", ".md": "markdown", ".json": "json"}
_OTHER_FORMS = frozenset({".pdf", ".csv", ".txt", ".png", ".svg", ".xlsx", ".docx", ".parquet", ".gz", ".zip"})
MOST_LEADS = 3
LAST = "definitions"
"""The section that ends the page, behind those that only say what would fill them."""


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
    """Everything that a report says, ready to be written. Made by `TraceSet.report`.

    `left_out` says which recordings of the same work it is not made from.
    """

    def __init__(
        self,
        scope: Scope,
        ask: Ask,
        wishes: Wishes,
        left_out: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> None:
        if len(scope.runs) > 1:
            raise UsageError("a report is of one run; --run NAME chooses it")
        self._wishes = wishes
        self._privacy = Privacy(
            names_of(scope, wishes.inputs), full_paths=wishes.full_paths, pseudonyms=wishes.pseudonyms
        )

        def asked(question: str, **selection: Any) -> Answer:
            return self._privacy.answer(ask(question, **selection))

        self._left_out = [self._privacy.text(text) for text in (*left_out, *unused(scope, left_out))]
        inputs = self._privacy.command(wishes.inputs)
        told = self._privacy.selection(scope.selection)
        self.material = Material(scope, asked, inputs, told, self._privacy.text)
        # What others answered is told by this one, so it is built last and stands where it stands.
        order = sorted(SECTIONS, key=lambda section: section.name == "fitness")
        built: dict[str, Built] = {}
        for place, section in enumerate(order):
            if progress is not None:
                progress(section.title, place, len(order))
            built[section.name] = section.built(self.material)
        if progress is not None:
            progress("", len(order), len(order))
        in_order = [built[section.name] for section in SECTIONS]
        self.sections = tuple(sorted(in_order, key=lambda section: (section.name == LAST, section.is_missing)))

    @property
    def pseudonyms(self) -> Pseudonyms | None:
        """The pseudonyms that it uses, if any: their key belongs beside the page."""
        return self._wishes.pseudonyms

    @cached_property
    def head(self) -> Head:
        """What is said first."""
        checkup = self.material.answer("checkup")
        verdicts = list(checkup.tables["verdicts"].rows())
        told = verdicts[1:] if self.material.has_timeline else verdicts
        leads = [Lead(_cost_and_share(row), row["title"], card_anchor(row)) for row in told[:MOST_LEADS]]
        first = next((text for row in verdicts if row["cost_ns"] for text in row["advice"]), None)
        rests_on = {"gaps", "ledger"} | ({"imbalance"} if len(self.material.ranks) > 1 else set())
        problems = sum(
            row["state"] == PROBLEM and not rests_on.isdisjoint(row["spoils"].split(", "))
            for row in self.material.answer("info").tables["fitness"].rows()
        )
        run = ", ".join(map(self._privacy.run, self.material.scope.runs)) or "empty store"
        return Head(
            title=f"{run}: traceanalyzer report",
            headline=self._headline(verdicts),
            cost=_price(verdicts),
            notes=[*checkup.notes],
            made_from=self._left_out,
            leads=leads,
            first_change=first,
            doubt=None
            if not problems
            else f"{counted(problems, 'check')} of the captures found a problem: read what"
            " it spoils before you rely on these numbers",
            language=self._wishes.language,
            version=__version__,
            made=_now().strftime("%Y-%m-%d %H:%M UTC"),
            command=self.material.command("report -o report.html"),
            command_note=self._command_note,
            left_out=self._privacy.left_out.sentences(),
        )

    @property
    def _command_note(self) -> str | None:
        if self._wishes.pseudonyms is not None:
            return "Commands have pseudonyms in them: whoever keeps the key can tell what they stand for."
        if self._wishes.full_paths:
            return None
        return "Commands name files by the last part of their paths: run them where the files are."

    def _headline(self, verdicts: list[dict[str, Any]]) -> str:
        """The first verdict; without a timeline what the files tell all the same."""
        if not self.material.has_timeline:
            for question in BESIDE_TIMELINES:
                if findings := self.material.answer(question).findings:
                    return findings[0].text  # it may begin with a name
        title: str = verdicts[0]["title"] if verdicts else "nothing was recorded that a verdict could be made from"
        return title[:1].upper() + title[1:]

    def written(self, form: str) -> str:
        """The report in one of `FORMS`. Raises `UsageError` for another one."""
        if form not in FORMS:
            raise UsageError(f"no form {form!r} of a report; there are {', '.join(FORMS)}")
        if form == "json":
            return as_json(self.summary, 0)
        return self.html if form == "html" else self.markdown

    def write(self, target: str | Path, form: str | None = None) -> None:
        """Write the report to a file, as a whole or not at all; the key of its pseudonyms, if any, is kept first.

        Without `form` the end of the file's name says it, else it is a page. Raises `OSError`.
        """
        path = Path(target)
        text = self.written(form or form_of(path))
        if self.pseudonyms is not None:
            self.pseudonyms.save()
        write_whole(path, text.encode("utf-8", "backslashreplace"))

    @cached_property
    def html(self) -> str:
        """The page: one file, which fetches nothing."""
        return page(self.head, self.sections)

    @cached_property
    def markdown(self) -> str:
        """The report in short, for an issue or a pull request."""
        return markdown(self.head, self.material)

    @cached_property
    def summary(self) -> Answer:
        """The report in short, for a program."""
        answer = summary(self.material)
        answer.findings += [Finding("left_out", text) for text in self._privacy.left_out.sentences()]
        return answer


def form_of(path: Path) -> str:
    """The form that the name of a file says: a page where it says none. Raises `UsageError` for another format."""
    suffix = path.suffix.lower()
    if suffix in _OTHER_FORMS:
        raise UsageError(f"{path}: a report is no {suffix} file; give a name that ends in {', '.join(_FORM_OF)}")
    return _FORM_OF.get(suffix, FORMS[0])


def _now() -> datetime:
    """The time, or what $SOURCE_DATE_EPOCH says it is, so that the same files give the same page."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if given.isascii() and given.isdigit():
        with suppress(ValueError, OverflowError, OSError):  # later than a calendar goes
            return datetime.fromtimestamp(int(given), UTC)
    return datetime.now(UTC)


def _price(verdicts: list[dict[str, Any]]) -> str | None:
    """What the first verdict costs, and how sure it is; None where it costs nothing."""
    if not verdicts or not verdicts[0]["cost_ns"]:
        return None
    return f"{_cost_and_share(verdicts[0])}, confidence {verdicts[0]['confidence']}"


def _cost_and_share(row: dict[str, Any]) -> str:
    share = f" ({format_value(row['share'], Unit.SHARE)})" if row["share"] else ""
    return cost_of(row) + share
