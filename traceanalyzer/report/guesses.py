"""Paths, hosts and users in texts of which nothing is known: what looks like one.

A guess may take too much of a name that a program made up, and must take nothing of a sentence of ours: rates such as
GB/s, ratios, names of operators, shapes, dates and versions stay.
"""

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address
from typing import NamedTuple


class Span(NamedTuple):
    """A part of a text that is a name: from, to, and what it is."""

    start: int
    end: int
    kind: str


_EXTENSIONS = (
    "py|pyc|pyx|ipynb|so|a|o|exe|dll|json|jsonl|gz|zst|xz|bz2|zip|tar|tgz|cu|cuh|cc|cpp|cxx|hpp|inl|txt|log|yaml|yml"
    "|toml|ini|cfg|sh|pt|pth|bin|ckpt|safetensors|npy|npz|parquet|arrow|csv|tsv|sqlite|db|duckdb|nsys-rep|ncu-rep|html"
)
_NAME = r"""[^\s/\\"`<>|,;:']"""
_IN_FOLDER = rf"(?:{_NAME}|[,;:'](?![\s/\\~]))"
"""A character of a folder: marks that separate are part of it where neither a space nor another path follows."""
_NO_FOLDER = r"(?!(?:and|or|[kKMGT]i?B?|[numk]?s|steps?|samples?|tokens?|iterations?|it|req|[\d.,]+)[/\\])"
"""Words before a slash that are a choice, a rate or a ratio."""
_FOLDER = rf"{_IN_FOLDER}+(?:[ ]{_NO_FOLDER}(?![~-]){_IN_FOLDER}+(?<![=(:,;'\[{{]))?[/\\]+"
"""A folder, which may be of two words."""
LAST = r"""[^\s/\\:;,"'`<>|()\[\]{}]*"""
"""The last part of a path."""
_WELL_KNOWN = r"(?:home|Users|scratch|fsx|mnt|tmp|opt|usr|var|nfs|lustre|gpfs|workspace|export|root|Volumes)[/\\]"
PATH = re.compile(
    rf"""(?:
      (?<![A-Za-z0-9]) [A-Za-z][\w+.-]*://+ (?:[A-Za-z]:[/\\]+)? (?:{_FOLDER})+  # a scheme, such as file://
      |(?<![\w.]) [A-Za-z]:[/\\]+ (?:{_FOLDER})*                                  # a drive of Windows
      |(?<![\w/\\]) \\\\+ {_NAME}+ [/\\]+ (?:[A-Za-z]:[/\\]+)? (?:{_FOLDER})*     # a share of Windows
      |(?<![\w.%)/\\~-]) ~ (?:[^\W\d][\w.-]*)? [/\\]+ (?:{_FOLDER})*              # a home
      |(?<![\w.%)/\\-]) (?:\.{{0,2}}/+|\.{{1,2}}\\+) (?:{_FOLDER})+               # the root, or here
      |(?<=[\s]-[A-Za-z]) [/\\]+ (?:{_FOLDER})+                                   # right after an option: -I/usr
      |(?<!…) [/\\] (?={_WELL_KNOWN}) (?:{_FOLDER})+                              # in the middle of anything
    ) {LAST}""",
    re.VERBOSE,
)
_RELATIVE = re.compile(rf"(?<![\w./\\~-])(?:\.*[\w+=@%-][\w.+=@%-]*[/\\]+)+[\w.+=@%-]*\.(?:{_EXTENSIONS})(?![\w/\\])")
"""A relative path, by how its file's name ends."""
REST = re.compile(rf"(?:[/\\]+{_IN_FOLDER}+(?=[/\\]))*[/\\]+{LAST}")
"""What of a path may follow a folder that is known."""
FILE = re.compile(rf"(?<![\w./\\*{{}}-])[\w+=@-][\w.+=@-]*\.(?:{_EXTENSIONS})(?![\w/\\])")
"""The name of a file without its folders."""

HOME = re.compile(
    r"(?:(?:(?<![^\s/\\\"'=:(,;])|[/\\])(?:home|Users)|[/\\](?:users|u))[/\\]+([^\s/\\:;,\"'`<>|()\[\]{}]+)"
)
"""A home, and the name of its user."""
_TILDE = re.compile(r"(?<![^\s'\"=])~([a-z_][\w.-]*)(?![^\s'\",;])")
"""A home alone: the name after ~ of a destructor in C++ follows a colon, or has parentheses."""
_AT = re.compile(
    r"(?<![\w.@-])([^\W\d][\w.+-]*)(?:[:][^\s@/]+)?@"
    r"(?!(?:plt|got|cuda|cpu|gpu|rank|step|stream|device|fp|bf|int|float|v?\d)[\d:.]*(?![\w-]))"
    r"(?![A-Z][A-Z0-9_.]*(?![\w-]))\[?([\w-]+(?:\.[\w-]+)*)"
)
"""A user at a host; after a symbol its version, or a device or type, is no host."""
_URL_HOST = re.compile(r"(?<![A-Za-z0-9])[A-Za-z][\w+.-]*://+(?:[^\s/@]*@)?(\[[0-9A-Fa-f:.]+\]|[\w.-]*\w)")
_V4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\w)")
_PORT = re.compile(r":\d{2,5}\b")
_V6 = re.compile(
    r"(?<![\w:.])(?:(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}"
    r"|(?:[23][0-9A-Fa-f]{3}|fe80|FE80|f[cd][0-9a-f]{2}|F[CD][0-9A-F]{2})(?::[0-9A-Fa-f]{1,4})*::"
    r"(?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4})*)?)(?![\w:])"
)
"""Addresses that are written out, or of the kinds that hosts have: `abc::add` is a name in C++."""
DOMAIN = re.compile(
    r"(?<![\w.@-])(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.){2,}"
    r"(?:com|edu|gov|mil|internal|corp|intra|lan|localdomain)(?![\w.]*\w)"
    r"|(?<![\w.@-])(?=[\w.]*-)(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+"
    r"(?:com|net|org|io|ai|local|cloud|cluster)(?![\w.]*\w)"
)
"""Names of hosts with their domain. Names of modules have dots too, but no such ends, or no hyphens."""
_PUBLIC = re.compile(
    r"https?://(?:(?:[\w-]+\.)*(?:nvidia\.com|pytorch\.org|python\.org|perfetto\.dev|arxiv\.org|readthedocs\.io)"
    r"|github\.com/(?:NVIDIA|pytorch|google/perfetto))(?=[/\s]|$)[^\s\"'`<>|)]*"
)
"""Pages that everybody can read, which our own sentences point to."""
_VARIABLE = re.compile(
    r"\b((?:\w*(?:KEY|TOKEN|SECRET|PASS|PASSWORD|PASSWD|CREDENTIALS?|AUTH|PROXY|USER|USERNAME|EMAIL)"
    r"|(?:WANDB|AWS|HF|SLURM|SSH|LD|GITHUB|GITLAB|AZURE|GOOGLE|GCP|MLFLOW|PBS|LSF|OMPI|KUBERNETES|XDG|CONDA|SUDO|CI)_\w+"
    r"|HOME|PWD|OLDPWD|PATH|PYTHONPATH|LOGNAME|HOSTNAME|HOST|MAIL|SHELL|MASTER_ADDR|VIRTUAL_ENV))"
    r"=(\"[^\"]*\"|'[^']*'|[^\s\"',;)]+)"
)
"""A variable of the environment that tells of people, places or secrets, with its value."""
_LEAST_PUBLIC_OCTET = 31
"""First numbers of addresses that no version has."""


def spans(text: str) -> Iterator[Span]:
    """Parts of a text that look like a path, the user or the host of an address, or a variable's value.

    Pages that everybody can read are parts too, of the kind `public`, and stay. Parts may overlap.
    """
    if "/" in text or "\\" in text:
        for pattern in (PATH, _RELATIVE):
            yield from (Span(*match.span(), "path") for match in pattern.finditer(text))
    if "://" in text:
        yield from (Span(*match.span(), "public") for match in _PUBLIC.finditer(text))
        yield from (Span(*match.span(1), "host") for match in _URL_HOST.finditer(text))
    if "@" in text:
        for match in _AT.finditer(text):
            yield from (Span(*match.span(1), "user"), Span(*match.span(2), "host"))
    if "~" in text:
        yield from (Span(*match.span(1), "user") for match in _TILDE.finditer(text))
    if "." in text:
        yield from (Span(*match.span(), "host") for match in _V4.finditer(text) if _is_host(text, match))
        yield from (Span(*match.span(), "host") for match in DOMAIN.finditer(text))
    if ":" in text:
        yield from (Span(*match.span(), "host") for match in _V6.finditer(text))
    if "=" in text:
        yield from (Span(*match.span(2), f"variable {match[1]}") for match in _VARIABLE.finditer(text))


def _is_host(text: str, match: re.Match[str]) -> bool:
    """Whether four numbers are an address, and no version: a private one, one with a port, or of large numbers."""
    try:
        address = IPv4Address(match[0])
    except AddressValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return False
    named = text.endswith(("@", "//", "host=", "host ", "addr="), 0, match.start())
    has_port = _PORT.match(text, match.end()) is not None
    return address.is_private or named or has_port or int(match[0].partition(".")[0]) > _LEAST_PUBLIC_OCTET
