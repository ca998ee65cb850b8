"""What may leave with a page: no environment, no user names, hosts and paths shortened, and names replaced on demand.

Everything that a page says goes through `Privacy` before anything is made from it, whole answers at once: a name that
is shortened later, or stands in a sentence, a stack or a figure, is what came out of here.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.passes.answer import Answer, Frame
from traceanalyzer.passes.scope import Scope
from traceanalyzer.units import counted

USER = "(user)"
_SEPARATOR = r"[/\\]"
_PATH = re.compile(
    r"""(?<![\w.%)/\\-])                # not in the middle of a name, a number or a rate such as GB/s
    (?:[A-Za-z]+://(?=/|[\w.-]+/)       # a scheme, such as file://
      |[A-Za-z]:[\\/]                   # a drive of Windows
      |\\\\(?=[\w.-]+\\)                # a share of Windows
      |~[\w.-]*/                        # a home
      |\.{0,2}/)                        # the root, or here
    (?:[^\s/\\:;,"'`<>|()\[\]{}]+[/\\])+   # folders
    (?P<name>[^\s/\\:;,"'`<>|()\[\]{}]*)   # the last part
    """,
    re.VERBOSE,
)
"""A path with a folder or more in it."""
_HOME = re.compile(rf"(?:^|{_SEPARATOR})(?:home|Users|users|u|scratch|fsx)(?:{_SEPARATOR})([A-Za-z_][\w.-]+)", re.ASCII)
_AT_HOST = re.compile(r"\b([A-Za-z_][\w.-]*)@(?=[\w-]+(?:\.[\w-]+)*(?![\w.-]))")
_GENERIC = frozenset(
    {"root", "user", "users", "home", "data", "shared", "public", "model", "models", "torch", "python"}
)
"""Folders of homes that are no names of people, or words that sentences have."""
_LEAST_NAME = 3
_ADDRESS = re.compile(r"\d+(?:\.\d+){3}")
_CUT = 77
"""Characters of a kernel's name that sentences keep."""
_KERNEL_COLUMNS = frozenset({"kernel", "previous_op", "next_op"})
_FILE_IN_FRAME = re.compile(r"\(([^()\s:]+\.\w+):(\d+)\)")


class _Key(msgspec.Struct):
    """What is in the file beside the page: the secret, and the name behind each pseudonym."""

    secret: str
    names: dict[str, str] = {}


class Pseudonyms:
    """Stable names in place of others: the same name always has the same one under the same secret.

    The key, a file beside the page that is not meant to leave, holds the secret and what each pseudonym stands for. A
    key that is there is used again, so that pages made later use the same pseudonyms. Raises `TraceAnalyzerError` where
    the key is not one.
    """

    def __init__(self, key: Path) -> None:
        self.key = key
        self._known = _Key(secrets.token_hex(16))
        if key.exists():
            try:
                self._known = msgspec.json.decode(key.read_bytes(), type=_Key)
            except (OSError, msgspec.DecodeError) as error:
                raise TraceAnalyzerError(f"{key}: is not a key of pseudonyms ({error}); move it away") from error

    def of(self, kind: str, name: str) -> str:
        """The pseudonym of a name of a kind: `kernel-1f0c9a7e`."""
        digest = hmac.new(self._known.secret.encode(), f"{kind}\0{name}".encode("utf-8", "replace"), hashlib.sha256)
        pseudonym = f"{kind}-{digest.hexdigest()[:8]}"
        self._known.names[pseudonym] = name
        return pseudonym

    def content(self) -> bytes:
        """What belongs into the key's file."""
        ordered = _Key(self._known.secret, dict(sorted(self._known.names.items())))
        return msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n"


@dataclass(slots=True)
class LeftOut:
    """What was left out of a page, or shortened in it: distinct ones."""

    variables: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)
    replaced: set[str] = field(default_factory=set)

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
            out.append(
                f"{counted(len(self.replaced), 'name')} of hosts, paths and kernels replaced by pseudonyms; the key"
                " stays with whoever made this page"
            )
        return out or ["nothing was left out or shortened"]


@dataclass(frozen=True, slots=True)
class Names:
    """Names of a store that stand in texts: hosts, and kernels."""

    hosts: frozenset[str]
    kernels: frozenset[str]
    users: frozenset[str]


def names_of(scope: Scope) -> Names:
    """The names that texts about a scope may hold. Users are those whose homes paths of the store lead to."""
    rows = scope.connection.execute("SELECT host, path FROM stored.captures").fetchall()
    processes = scope.connection.execute("SELECT DISTINCT name FROM processes WHERE name IS NOT NULL").fetchall()
    kernels = scope.connection.execute(
        "SELECT DISTINCT name FROM gpu_ops WHERE kind = 'kernel' UNION SELECT DISTINCT kernel FROM kernel_profiles"
        " UNION SELECT DISTINCT kernel FROM kernel_summaries"
    ).fetchall()
    texts = [path for _, path in rows if path] + [name for (name,) in processes]
    found = {name for text in texts for name in _HOME.findall(text)}
    return Names(
        frozenset(host for host, _ in rows if host),
        frozenset(name for (name,) in kernels if name),
        frozenset(name for name in found if len(name) >= _LEAST_NAME and name.lower() not in _GENERIC),
    )


class Privacy:
    """Makes texts and answers fit to leave, and keeps count of what it left out.

    `full_paths` keeps paths and host names whole; `pseudonyms` replaces them, and names of kernels, in any case.
    """

    def __init__(self, names: Names, *, full_paths: bool = False, pseudonyms: Pseudonyms | None = None) -> None:
        self._full = full_paths
        self._pseudonyms = pseudonyms
        self._texts: dict[str, str] = {}
        self._users = _words(names.users)
        self._hosts = _words(host for host in names.hosts if self._short(host) != host or pseudonyms is not None)
        self._kernels = _longest_first(names.kernels) if pseudonyms is not None else []
        self.left_out = LeftOut()

    def answer(self, answer: Answer) -> Answer:
        """The same answer with texts that may leave. Environment variables are not among the facts of its tables."""
        tables = {name: self._frame(frame) for name, frame in answer.tables.items()}
        if self._pseudonyms is not None:
            known = {name for frame in answer.tables.values() for name in _kernels_of(frame)}
            self._kernels = _longest_first({*self._kernels, *known})
        return replace(
            answer,
            tables=tables,
            findings=[replace(finding, text=self.text(finding.text)) for finding in answer.findings],
            warnings=[self.text(text) for text in answer.warnings],
            notes=[self.text(text) for text in answer.notes],
        )

    def text(self, text: str) -> str:
        """A text that may leave."""
        if text not in self._texts:
            self._texts[text] = self._made(text)
        return self._texts[text]

    def command(self, text: str) -> str:
        """A command line that may leave: paths are their last parts, which a reader has to find in any case."""
        return self.text(text).replace("…/", "")

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
            if self._pseudonyms is not None and column in _KERNEL_COLUMNS:
                return self._replaced("kernel", value)
            if column == "host":
                return self._host(value)
            return self.text(value)
        if isinstance(value, (list, tuple)):
            return [self._value(column, item) for item in value]
        if isinstance(value, dict):
            return {name: self._value(name, item) for name, item in value.items()}
        return value

    def _made(self, text: str) -> str:
        if self._pseudonyms is not None:
            text = self._without_kernels(text)
        text = _PATH.sub(self._path, text)
        text = _AT_HOST.sub(self._user, text)
        if self._hosts is not None:
            text = self._hosts.sub(lambda match: self._host(match[0]), text)
        if self._users is not None:
            text = self._users.sub(self._user, text)
        if self._pseudonyms is not None:
            text = _FILE_IN_FRAME.sub(lambda match: f"({self._replaced('path', match[1])}:{match[2]})", text)
        return text

    def _without_kernels(self, text: str) -> str:
        for name in self._kernels:
            if name in text:
                text = text.replace(name, self._replaced("kernel", name))
            elif len(name) > _CUT and f"{name[:_CUT]}..." in text:
                text = text.replace(f"{name[:_CUT]}...", self._replaced("kernel", name))
        return text

    def _path(self, match: re.Match[str]) -> str:
        if self._pseudonyms is not None:
            return self._replaced("path", match[0])
        if self._full:
            return match[0]
        self.left_out.paths.add(match[0])
        return f"…/{match['name']}"

    def _host(self, host: str) -> str:
        if self._pseudonyms is not None:
            return self._replaced("host", host)
        short = self._short(host)
        if short != host:
            self.left_out.hosts.add(host)
        return short

    def _short(self, host: str) -> str:
        """A host without its domain; of an address the last number."""
        if self._full:
            return host
        return f"…{host.rpartition('.')[2]}" if _ADDRESS.fullmatch(host) else host.partition(".")[0]

    def _user(self, match: re.Match[str]) -> str:
        self.left_out.users.add(match[1] if match.re is _AT_HOST else match[0])
        return f"{USER}@" if match.re is _AT_HOST else USER

    def _replaced(self, kind: str, name: str) -> str:
        assert self._pseudonyms is not None
        self.left_out.replaced.add(name)
        return self._pseudonyms.of(kind, name)


def is_variable(fact: str) -> bool:
    """Whether a fact of the environment is an environment variable: those have capitals."""
    return fact.isupper()


def _kernels_of(frame: Frame) -> Iterable[str]:
    return {name for column in _KERNEL_COLUMNS & set(frame.columns) for name in frame.columns[column] if name}


def _longest_first(names: Iterable[str]) -> list[str]:
    """Names, those first that may hold others; very short ones would be found inside of words."""
    return sorted((name for name in set(names) if len(name) >= _LEAST_NAME), key=lambda name: (-len(name), name))


def _words(names: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern that finds names as whole words."""
    able = sorted(set(names), key=lambda name: (-len(name), name))
    if not able:
        return None
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, able))})(?![\w-])")
