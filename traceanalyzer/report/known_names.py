"""Names that a store and a command line tell, to be found in texts as they are, before anything is guessed."""

import functools
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

from traceanalyzer.passes.scope import Scope
from traceanalyzer.report.guesses import DOMAIN, HOME, LAST, PATH, REST, Span, spans

_GENERIC = frozenset(
    {
        *("root", "user", "users", "home", "data", "shared", "public", "model", "models", "torch", "python"),
        *("default", "nobody", "ubuntu", "admin", "runner", "none"),
    }
)
"""Folders of homes that are no names of people."""
NO_HOSTS = frozenset({"localhost", "127.0.0.1", "::1", "(none)"})
_LEAST_PERSON = 3
_LEAST_VALUE = 4
_KEY = 3
_STARTS = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z0-9_]|[^\sA-Za-z0-9_]|(?<=_)[A-Za-z0-9]")
_RIGHT_OF_PATH = re.compile(r"[\w-]|\.\w")
_HOMES = r"(home|Users|users|u)[/\\]"
_TOLD = r"\.(com|edu|gov|mil|internal|corp|intra|lan|localdomain|net|org|io|ai|local|cloud|cluster)\b"
"""What names have that may tell a host with its domain."""
_SPACED = r"[/\\][^/\\]* [^/\\]*[/\\]"
_LONGEST_SPACED = 4096
_OWN_FILES = (".py", ".toml", ".html", ".md")
_OPTION_OF_PATH = "--db"


@dataclass(frozen=True, slots=True)
class Names:
    """Names of a store and of the command line that asks it.

    `paths` as they were given and absolute, and those in names whose folders have spaces; `values` those of variables
    of the environment; `homes` the users whose homes paths lead to, also those that cannot be told from words; `inputs`
    the command line's words.
    """

    hosts: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    homes: frozenset[str] = frozenset()
    inputs: str = ""


def names_of(scope: Scope, inputs: str = "") -> Names:
    """The names that texts about a scope may hold. `inputs` is what a command line names the same captures by."""
    rows = scope.connection.execute("SELECT run, host, path, metadata FROM stored.captures").fetchall()
    hosts = {host for _, host, _, _ in rows if host and host not in NO_HOSTS}
    given = {path for _, _, path, _ in rows if path} | {word for word, is_path in words_of(inputs) if is_path}
    paths = given | {os.path.abspath(path) for path in given if "://" not in path}  # noqa: PTH100 - asks no disk
    paths |= {path for text in _texts(scope, _SPACED) if (path := _path_with_spaces(text)) is not None}
    texts = _texts(scope, _HOMES)
    told = (text[span.start : span.end] for text in _texts(scope, _TOLD) for span in spans(text) if span.kind == "host")
    hosts |= {name for name in told if DOMAIN.fullmatch(name)}
    homes = {name for path in paths for name in HOME.findall(path) if is_user(name)}
    return Names(
        hosts=frozenset(hosts),
        kernels=frozenset(_kernels(scope)),
        users=frozenset(name for text in (*texts, *paths) for name in HOME.findall(text) if _is_person(name)),
        paths=frozenset(paths),
        runs=frozenset(run for run, _, _, _ in rows if run),
        values=frozenset(value for _, _, _, metadata in rows for value in _values(metadata)),
        homes=frozenset(homes),
        inputs=inputs,
    )


def words_of(inputs: str) -> list[tuple[str, bool]]:
    """The words of a command line, and whether each is a path: those of options are not, but for the store's."""
    try:
        words = shlex.split(inputs)
    except ValueError:
        words = inputs.split()
    out, option = [], ""
    for word in words:
        begins = word.startswith("--")
        out.append((word, not begins and option in ("", _OPTION_OF_PATH)))
        option = word if begins else ""
    return out


def is_user(name: str) -> bool:
    """Whether the folder of a home is that of somebody."""
    return name.lower() not in _GENERIC and any(c.isalpha() for c in name) and not any(c in "$%*?(" for c in name)


def _is_person(name: str) -> bool:
    """Whether a user's name can be told from words, so that it is looked for everywhere."""
    return is_user(name) and len(name) >= _LEAST_PERSON and not is_own_word(name.lower())


def is_variable(fact: str) -> bool:
    """Whether a fact of the environment is an environment variable: facts of files have small letters only."""
    return fact != fact.lower() or fact.lower().endswith("_proxy") or fact.startswith("_")


def is_own_word(name: str) -> bool:
    """Whether a name is a word that sentences of this program have anyway, so that it cannot be found in them."""
    words = _own_words()
    return name in words if words else re.fullmatch("[a-z]{1,12}", name) is not None


def is_findable(name: str) -> bool:
    """Whether a name can be told from the words and numbers of sentences."""
    return any(c.isalpha() for c in name) and (name.endswith("_kernel") or not is_own_word(name))


@functools.cache
def _own_words() -> frozenset[str]:
    """Words and names of files in the sources of this program, of which its sentences are made."""
    found: set[str] = set()
    for file in _files(resources.files("traceanalyzer")):
        text = file.read_text(encoding="utf-8")
        found.update(re.findall(r"\w+", text))
        found.update(re.findall(r"\w[\w-]*\.\w[\w.]*", text))
    return frozenset(found)


def _files(folder: Traversable) -> Iterator[Traversable]:
    for each in folder.iterdir():
        if each.is_dir() and each.name not in ("assets", "sample_traces", "__pycache__"):
            yield from _files(each)
        elif each.name.endswith(_OWN_FILES):
            yield each


def _texts(scope: Scope, pattern: str) -> list[str]:
    """Texts of the store's dictionary of names that a pattern is found in."""
    rows = scope.connection.execute("SELECT text FROM stored.names WHERE regexp_matches(text, ?)", [pattern]).fetchall()
    return [text for (text,) in rows]


def _path_with_spaces(text: str) -> str | None:
    """All that may be a path in a name that has spaces between marks of folders: from the first path to the last."""
    first = PATH.search(text) if len(text) <= _LONGEST_SPACED else None
    if first is None:
        return None
    return re.match(rf"(?s:.*)[/\\\\]{LAST}", text[first.start() :])[0]  # type: ignore[index]


def _kernels(scope: Scope) -> list[str]:
    rows = scope.connection.execute(
        """SELECT text FROM stored.names WHERE name_id IN (SELECT DISTINCT name FROM stored.gpu_ops WHERE kind = 0)
        UNION SELECT kernel FROM kernel_profiles UNION SELECT kernel FROM kernel_summaries"""
    ).fetchall()
    return [name for (name,) in rows if name]


def _values(metadata: str | None) -> Iterator[str]:
    """Values of environment variables that can be told from words and numbers."""
    try:
        found = json.loads(metadata or "{}")
    except ValueError:
        return
    facts = found.get("environment") if isinstance(found, dict) else None
    for name, value in facts.items() if isinstance(facts, dict) else ():
        told = is_variable(name) and isinstance(value, str) and len(value) >= _LEAST_VALUE
        if told and not value.isalpha() and is_findable(value):
            yield value


class Finder:
    """Finds the longest of many names at each place of a text, at a cost that does not grow with their number.

    `kinds` gives each name its kind: `path`, `host`, `user` and so on. Names are found as whole words; hosts
    and users also between underlines; paths with what follows below them.
    """

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self._kinds = dict(kinds)
        lengths: dict[str, set[int]] = {}
        for name in kinds:
            lengths.setdefault(name[:_KEY], set()).add(len(name))
        self._lengths = {key: sorted(each, reverse=True) for key, each in lengths.items()}
        self._short = sorted({len(key) for key in lengths if len(key) < _KEY}, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def spans(self, text: str) -> Iterator[Span]:
        """Where names stand in a text; they do not overlap."""
        end = 0
        for match in _STARTS.finditer(text):
            start = match.start()
            if start < end:
                continue
            found = self._at(text, start)
            if found is not None:
                end = found.end
                yield found

    def _at(self, text: str, start: int) -> Span | None:
        for length in self._candidates(text, start):
            name = text[start : start + length]
            kind = self._kinds.get(name) if len(name) == length else None
            if kind is not None and _is_whole(text, start, start + length, kind):
                below = REST.match(text, start + length) if kind == "path" else None
                return Span(start, start + length if below is None else below.end(), kind)
        return None

    def _candidates(self, text: str, start: int) -> Iterable[int]:
        key = text[start : start + _KEY]
        found: Iterable[int] = self._lengths.get(key, ())
        if self._short:
            found = (*found, *(n for n in self._short if key[:n] in self._lengths and n < _KEY))
        return found


def _is_whole(text: str, start: int, end: int, kind: str) -> bool:
    """Whether a part of a text is no part of a longer name."""
    before, after = text[start - 1 : start], text[end : end + 1]
    if kind == "path":
        if before and (before.isalnum() or before in "_./\\~-"):
            return False
        return after in "/\\" or _RIGHT_OF_PATH.match(text, end) is None
    joined = "" if kind in ("host", "user") else "_"
    return not (_continues(before, text[start], joined) or _continues(after, text[end - 1], joined))


def _continues(other: str, edge: str, joined: str) -> bool:
    return bool(other) and _is_word(other, joined) and _is_word(edge, joined)


def _is_word(character: str, joined: str) -> bool:
    return (character.isascii() and character.isalnum()) or (joined != "" and character == joined)
