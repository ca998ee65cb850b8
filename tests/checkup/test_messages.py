"""The message catalogue: every sentence in every language, with the same values to fill in."""

import re
from pathlib import Path
from string import Formatter

import pytest

import traceanalyzer.checkup
from traceanalyzer.checkup.messages import KINDS, LANGUAGES, Messages, catalogue
from traceanalyzer.checkup.verdicts import VERDICTS

CHINESE = re.compile(r"[\u4e00-\u9fff]")
TERMS = ("", "pinned memory", "kernel", "checkpoint", "GPU")
"""Words of the field that Chinese engineers write in English."""
SOURCES = [path.read_text(encoding="utf-8") for path in Path(traceanalyzer.checkup.__file__).parent.rglob("*.py")]
SOURCES.append((Path(traceanalyzer.checkup.__file__).parents[1] / "cli/render/card.py").read_text(encoding="utf-8"))


def messages(table, path=()):
    """Every message with its key: a table that has the languages."""
    if set(LANGUAGES) <= set(table):
        yield ".".join(path), table
        return
    for name, value in table.items():
        if isinstance(value, dict):
            yield from messages(value, (*path, name))
        elif isinstance(value, list):
            for place, each in enumerate(value):
                yield ".".join((*path, name, str(place))), each


def fields(text):
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


EVERY = dict(messages(catalogue()))


@pytest.mark.parametrize("key", EVERY)
def test_every_message_is_there_in_every_language_with_the_same_values(key):
    texts = [EVERY[key][language] for language in LANGUAGES]
    assert len({frozenset(fields(text)) for text in texts}) == 1
    assert not CHINESE.search(EVERY[key]["en"])
    words = re.sub(r"\{\w*\}", "", EVERY[key]["zh"]).strip("（） ")
    assert CHINESE.search(words) or words in TERMS


def test_every_verdict_has_an_experiment_and_advice_of_known_kinds():
    for name in (*VERDICTS, "healthy"):
        assert "experiment" in catalogue()[name]
        for each in catalogue()[name].get("advice", []):
            assert each["kind"] in KINDS
            assert ("{now}" in each["en"]) == ("setting" in each)


def test_advice_is_given_settings_first_and_rewrites_last():
    for name in VERDICTS:
        kinds = [KINDS.index(each.kind) for each in Messages().advice(name)]
        assert kinds == sorted(kinds)


def test_every_message_is_used():
    """By its key, or by the last part of one that is put together."""
    text = "\n".join(SOURCES)
    for key in EVERY:
        head, _, last = key.partition(".")
        if last.startswith("advice.") or last == "experiment":
            continue
        exact = f'"{key}"' in text or f'{{NAME}}.{last}"' in text or f'{{name}}.{last}"' in text
        own = next((source for source in SOURCES if f'NAME = "{head}"' in source), "")
        assembled = f"{head}.{{" in text or "{NAME}.{" in own
        assert exact or assembled, key


def test_texts_are_put_in_as_they_are():
    assert Messages("zh").text("where.line", blame="f{x} (a.py:1)") == "，主要在 f{x} (a.py:1)"
