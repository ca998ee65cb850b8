"""The message catalogue: every sentence of the check-up in every language, from `messages.toml`."""

import functools
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from importlib import resources
from typing import Any

LANGUAGES = ("en", "zh")
"""Languages that every message is there in; the first is the default."""
KINDS = ("setting", "loop", "rewrite")
"""Kinds of advice in the order in which they are given: the cheapest first."""


@functools.cache
def catalogue() -> dict[str, Any]:
    """The whole catalogue as it stands in the file."""
    text = resources.files("traceanalyzer.checkup").joinpath("messages.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@dataclass(frozen=True, slots=True)
class Advice:
    """One change to make: its kind, one of `KINDS`, the setting that it is about, if any, and its text."""

    kind: str
    setting: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of one language."""

    language: str = LANGUAGES[0]

    def text(self, key: str, **values: object) -> str:
        """The message of a key such as `input_bound.title`, filled in. Values are put in as they are."""
        return self._in_language(_at(key)).format_map(values)

    def advice(self, verdict: str, facts: Collection[str] = (), *, is_torch: bool = True) -> list[Advice]:
        """What to change first for a verdict: settings, then the loop, then rewrites. Texts are not filled in.

        Entries that hold only `when` a fact does are left out unless it is among `facts`, and those about PyTorch where
        the job is none of it.
        """
        entries = [
            each
            for each in catalogue()[verdict].get("advice", [])
            if each.get("when", "") in ("", *facts) and (is_torch or "framework" not in each)
        ]
        found = [Advice(each["kind"], each.get("setting"), self._in_language(each)) for each in entries]
        return sorted(found, key=lambda each: KINDS.index(each.kind))

    def _in_language(self, message: dict[str, str]) -> str:
        return message[self.language]


def _at(key: str) -> dict[str, str]:
    found: Any = catalogue()
    for part in key.split("."):
        found = found[part]
    return dict(found)
