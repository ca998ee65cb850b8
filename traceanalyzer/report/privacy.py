"""What may leave with a page: no environment, no user names, hosts and paths shortened, and names replaced on demand.

Everything that a page says goes through `Privacy` before anything is made from it, whole answers at once: a name that
is shortened later, or stands in a sentence, a stack or a figure, is what came out of here.
"""

import os
import re
import shlex
from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from traceanalyzer.passes.answer import Answer, Frame
from traceanalyzer.passes.kernels import NAME_IN_FINDING
from traceanalyzer.passes.selection import Selection
from traceanalyzer.report import guesses
from traceanalyzer.report.guesses import FILE, HOME, Span
from traceanalyzer.report.known_names import (
    NO_HOSTS,
    Finder,
    Names,
    is_findable,
    is_own_word,
    is_user,
    is_variable,
    names_of,
    words_of,
)
from traceanalyzer.report.pseudonyms import Pseudonyms
from traceanalyzer.units import counted

__all__ = ["LeftOut", "Names", "Privacy", "Pseudonyms", "is_variable", "names_of"]

USER = "(user)"
VALUE = "(left out)"
SHORTENED = "…"
_NUMBER_OF_RUN = re.compile(r"-\d+$")
"""What is added to the name of a run that is taken."""
_ADDRESS = re.compile(r"\d+(?:\.\d+){3}")
_PROGRAM = "traceanalyzer "
_CUTS = ((NAME_IN_FINDING, " ..."), (77, "..."))
"""Characters of a kernel's name that sentences keep, and what follows them."""
_KERNEL, _OPERATIONS = "kernel", frozenset({"previous_op", "next_op"})
"""The column of kernels, and those of operations of a device, which may be kernels."""
_NCU_FILTER = re.compile(r"(?<=--kernel-name \"regex:)[^\"]+(?=\")")
_TOLD = (
    ("kernel", "kernels", r"(?<=: )NAME(?=, [\d,.]+ calls?\b)|^NAME(?= takes [\d.]+ %)"),
    ("kernel", "kernels", r"(?<= time is of )NAME$|(?<=most of all )NAME(?=, [\d.]+ times)"),
    ("run", "runs", r"(?<=\brun )NAME(?=$|[,;:. ])"),
)
"""How sentences tell of kernels and runs."""
_KINDS = (("path", "path"), ("host", "host name"), ("kernel", "kernel name"), ("run", "run name"))
_FIRST = ("inputs", "value", "public")
"""Kinds of parts that go before all others, whatever these hold."""


@dataclass(slots=True)
class LeftOut:
    """What was left out of a page, shortened or replaced in it: distinct ones, by kind."""

    variables: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)
    replaced: dict[str, set[str]] = field(default_factory=dict)

    def sentences(self) -> list[str]:
        """The same in words, without what they are."""
        out = []
        if self.variables:
            out.append(f"{counted(len(self.variables), 'environment variable')} left out")
        if self.paths:
            out.append(f"{counted(len(self.paths), 'path')} shortened to the last part (--full-paths keeps them)")
        if self.hosts:
            out.append(f"{counted(len(self.hosts), 'host name')} shortened (--full-paths keeps them)")
        if self.users:
            out.append(f"{counted(len(self.users), 'user name')} replaced by {USER}")
        if self.replaced:
            counts = [counted(len(self.replaced[kind]), words) for kind, words in _KINDS if kind in self.replaced]
            out.append(f"{_listed(counts)} replaced by pseudonyms; the key stays with whoever made this page")
        return out or ["nothing was left out or shortened"]


class Privacy:
    """Makes texts and answers fit to leave, and keeps count of what it left out.

    `full_paths` keeps paths and host names whole, but for users in them; `pseudonyms` replaces them, and names of
    kernels and runs, in any case.
    """

    def __init__(self, names: Names, *, full_paths: bool = False, pseudonyms: Pseudonyms | None = None) -> None:
        self._names, self._pseudonyms = names, pseudonyms
        self._full = full_paths and pseudonyms is None
        self._texts: dict[str, str] = {}
        self._hosts = {host.partition(".")[0]: host for host in sorted(names.hosts) if not _is_address(host)}
        self._hosts |= {host: host for host in names.hosts}
        self._files = _by_last_part(names.paths)
        self._cut = {
            f"{name[:length]}{mark}": name
            for length, mark in _CUTS
            for name in sorted(names.kernels)
            if len(name) > length
        }
        self._finder = Finder(self._kinds())
        self._told = self._told_by_sentences()
        self.left_out = LeftOut()

    def answer(self, answer: Answer) -> Answer:
        """The same answer with texts that may leave. Environment variables are not among the facts of its tables."""
        return replace(
            answer,
            tables={name: self._frame(frame) for name, frame in answer.tables.items()},
            findings=[replace(finding, text=self.text(finding.text)) for finding in answer.findings],
            warnings=[self.text(text) for text in answer.warnings],
            notes=[self.text(text) for text in answer.notes],
        )

    def text(self, text: str) -> str:
        """A text that may leave."""
        known = self._texts.get(text)
        if known is None:
            known = self._texts[text] = self._made(text)
        return known

    def run(self, name: str) -> str:
        """The name of a run that may leave. Runs have the names of files or folders, which may be a user's home."""
        if self._pseudonyms is not None:
            return self._replaced("run", name)
        plain = _NUMBER_OF_RUN.sub("", name)
        if plain not in self._names.homes:
            return self.text(name)
        self.left_out.users.add(plain)
        return USER

    def command(self, inputs: str) -> str:
        """The captures of a command line so that they may leave, still quoted for a shell: of paths the last part."""
        out: list[str] = []
        option = ""
        for word, is_path in words_of(inputs):
            made = self._path_of_command(word) if is_path else self.run(word) if option == "--run" else self.text(word)
            out.append(made)
            option = word
        return shlex.join(out)

    def selection(self, selection: Selection) -> Selection:
        """A selection whose texts may leave, as commands name it."""

        def told(pattern: str | None) -> str | None:
            return None if pattern is None else self.text(pattern)

        return replace(
            selection,
            run=None if selection.run is None else self.run(selection.run),
            peaks=None if selection.peaks is None else self._path_of_command(selection.peaks),
            step_range=told(selection.step_range),
            input_range=told(selection.input_range),
            user_code=told(selection.user_code),
        )

    def _kinds(self) -> dict[str, str]:
        """Every name that is looked for in texts, and what it is. Words of sentences cannot be told from them."""
        names, kinds = self._names, dict[str, str]()
        if self._pseudonyms is not None:
            kinds |= dict.fromkeys(names.runs, "run") | dict.fromkeys(names.kernels, "kernel")
        kinds |= dict.fromkeys(self._hosts, "host")
        kinds = {name: kind for name, kind in kinds.items() if is_findable(name)}
        if self._pseudonyms is not None:
            kinds |= dict.fromkeys(self._cut, "kernel")
            kinds |= {name: "file" for name in self._files if "." in name or is_findable(name)}
        kinds |= dict.fromkeys(names.users, "user")
        if not self._full:
            paths = [path for path in names.paths if last_part(path) != path]
            kinds |= dict.fromkeys(paths, "path") | {f"file://{path}": "path" for path in paths}
        return kinds | dict.fromkeys(names.values, "value")

    def _told_by_sentences(self) -> list[tuple[str, re.Pattern[str]]]:
        """Patterns that find names which are words of sentences, where the words around say what they are."""
        out = []
        for kind, names, pattern in _TOLD if self._pseudonyms is not None else ():
            able = [name for name in getattr(self._names, names) if not is_findable(name)]
            if able:
                name = f"(?:{'|'.join(map(re.escape, sorted(able, key=len, reverse=True)))})"
                out.append((kind, re.compile(pattern.replace("NAME", name))))
        return out

    def _frame(self, frame: Frame) -> Frame:
        if frame.spec.name == "environment" and "fact" in frame.columns:
            frame = self._without_variables(frame)
        columns = {name: [self._value(name, value) for value in values] for name, values in frame.columns.items()}
        return Frame(frame.spec, columns)

    def _without_variables(self, frame: Frame) -> Frame:
        rows = list(frame.rows())
        kept = [row for row in rows if not is_variable(str(row["fact"]))]
        self.left_out.variables |= {str(row["fact"]) for row in rows if is_variable(str(row["fact"]))}
        return Frame(frame.spec, {name: [row[name] for row in kept] for name in frame.columns})

    def _value(self, column: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._cell(column, value)
        if isinstance(value, (list, tuple)):
            return [self._value(column, item) for item in value]
        if isinstance(value, dict):
            return {name: self._value(name, item) for name, item in value.items()}
        return value

    def _cell(self, column: str, value: str) -> str:
        if self._pseudonyms is not None and (
            column == _KERNEL or (column in _OPERATIONS and value in self._names.kernels)
        ):
            return self._replaced("kernel", value)
        if column == "run":
            return self.run(value)
        return self._host(value) if column == "host" else self.text(value)

    def _made(self, text: str) -> str:
        out, end = [], 0
        for span in _chosen(self._spans(text)):
            out += [text[end : span.start], self._instead(text[span.start : span.end], span.kind)]
            end = span.end
        return "".join((*out, text[end:]))

    def _spans(self, text: str) -> Iterator[Span]:
        yield from self._finder.spans(text)
        yield from self._inputs(text)
        yield from (span for span in guesses.spans(text) if not (self._full and span.kind == "path"))
        if self._full:
            yield from (Span(*match.span(1), "user") for match in HOME.finditer(text) if is_user(match[1]))
        if self._pseudonyms is not None:
            for kind, pattern in (*self._told, ("kernel", _NCU_FILTER)):
                yield from (Span(*match.span(), kind) for match in pattern.finditer(text))
            yield from (Span(*match.span(), "file") for match in FILE.finditer(text) if not is_own_word(match[0]))

    def _inputs(self, text: str) -> Iterator[Span]:
        """Where commands of this program name the captures, with all that the names of these hold."""
        inputs, at = self._names.inputs, text.find(_PROGRAM)
        while inputs and at >= 0 and (at := text.find(f" {inputs}", at)) >= 0:
            end = at + 1 + len(inputs)
            if text[end : end + 1] in ("", " ", ",", ";", ")", "`"):
                yield Span(at + 1, end, "inputs")
            at = end

    def _instead(self, found: str, kind: str) -> str:
        """What stands in the place of a name of a kind."""
        if kind == "inputs":
            return self.command(found)
        if kind == "public":
            return found
        if kind == "user":
            self.left_out.users.add(found)
            return USER
        if kind == "host":
            return self._host(found)
        if kind == "path":
            return self._path(found)
        if kind == "file":
            return self._replaced("path", self._files.get(found, found))
        if kind in ("kernel", "run"):
            return self._replaced(kind, self._cut.get(found, found))
        self.left_out.variables.add(kind.removeprefix("variable "))
        return VALUE

    def _path(self, path: str) -> str:
        if self._pseudonyms is not None:
            return self._replaced("path", path.removeprefix("file://"))
        self.left_out.paths.add(path)
        return f"{SHORTENED}/{self._last(path)}"

    def _path_of_command(self, path: str) -> str:
        if self._pseudonyms is not None:
            return self._replaced("path", path)
        last = last_part(path)
        if self._full or last == path.removeprefix("./"):
            return self.text(path)
        self.left_out.paths.add(path)
        last = self._last(path)
        return f"./{last}" if last.startswith("-") else last

    def _last(self, path: str) -> str:
        """The last part of a path, without a user's name."""
        last = last_part(path)
        if "://" in path:
            last = re.split("[?#]", last, maxsplit=1)[0]
        of_home = any(match.end(1) == len(path.rstrip("/\\")) for match in HOME.finditer(path))
        if (of_home and is_user(last)) or (last.startswith("~") and len(last) > 1):
            self.left_out.users.add(last.lstrip("~"))
            return USER
        return self.text(last)

    def _host(self, host: str) -> str:
        if self._pseudonyms is not None:
            return host if host in NO_HOSTS else self._replaced("host", self._hosts.get(host, host))
        short = host if self._full else _short(host)
        if short != host:
            self.left_out.hosts.add(host)
        return self._without_users(short)

    def _without_users(self, name: str) -> str:
        spans = [span for span in self._finder.spans(name) if span.kind == "user"]
        for span in reversed(spans):
            self.left_out.users.add(name[span.start : span.end])
            name = name[: span.start] + USER + name[span.end :]
        return name

    def _replaced(self, kind: str, name: str) -> str:
        assert self._pseudonyms is not None
        self.left_out.replaced.setdefault(kind, set()).add(name)
        return self._pseudonyms.of(kind, name)


def last_part(path: str) -> str:
    """The last part of a path, of any system."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def _by_last_part(paths: Iterable[str]) -> dict[str, str]:
    """The path of each last part, by which sentences name files; the part itself where it is that of several."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(paths):
        found.setdefault(last_part(path), {})[os.path.abspath(path)] = path  # noqa: PTH100 - asks no disk
    return {last: next(iter(each.values())) if len(each) == 1 else last for last, each in found.items()}


def _chosen(spans: Iterable[Span]) -> list[Span]:
    """Parts of a text that do not overlap: of those that do the first kinds, else the longest one."""
    out: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.kind not in _FIRST, span.start - span.end, span.start)):
        place = bisect(out, span)
        is_free = (not place or out[place - 1].end <= span.start) and (
            place == len(out) or span.end <= out[place].start
        )
        if is_free and span.end > span.start:
            out.insert(place, span)
    return out


def _short(host: str) -> str:
    """A host without its domain; of an address the last number."""
    if not _is_address(host):
        return host.partition(".")[0]
    return f"{SHORTENED}{re.split('[.:]', host.rstrip(':]'))[-1]}"


def _is_address(host: str) -> bool:
    return ":" in host or _ADDRESS.fullmatch(host) is not None


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
