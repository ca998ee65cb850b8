"""Names of kernels in a form in which those of torch, nsys and ncu are the same.

The three spell one kernel in three ways: with or without parameter lists, casts and namespaces, lambdas counted in
brackets or braces, `const` before or behind the type, and ncu leaves out the namespace `native` of ATen.
"""

import re
from functools import lru_cache

_ANONYMOUS = re.compile(r"\(anonymous namespace\)|<unnamed>|_GLOBAL__N__\w+")
_LAMBDA = re.compile(r"[\[{]lambda\(([^()]*)\)(?: \(instance (\d+)\)\]|#(\d+)\})")
_CALL_OPERATOR = re.compile(r"operator ?\(\)")
_INNERMOST_BRACKETS = re.compile(r"\(([^()]*)\)([,>]?)")
"""A bracket that is a template argument, or ends one, has a comma or a `>` behind it."""
_DROPPED = re.compile(r"\bconst\b|\bvoid (?=[\w:])|\bnative::")
_INTEGER_SUFFIX = re.compile(r"\b(\d+)[uUlL]+\b")
_BOOLEANS = re.compile(r"\b(true|false)\b")
_SPACES = re.compile(r"\s+")
_RANGE_IN_FRONT = re.compile(r"[^<(]*/(?=[^<(/])")
_LONGEST = 10_000
"""Names that are longer are no names of kernels, and are compared as they are."""


@lru_cache(1 << 14)
def same_name(name: str) -> str:
    """The name without what profilers spell differently. Names without templates come back much as they are."""
    if len(name) > _LONGEST:
        return name
    text = demangled(name)
    if in_front := _RANGE_IN_FRONT.match(text):
        text = text[in_front.end() :]
    text = _ANONYMOUS.sub("anonymous", text)
    text = _LAMBDA.sub(lambda found: f"lambda[{found[1]}]#{found[2] or found[3]}", text)
    text = _CALL_OPERATOR.sub("operator", text)
    while (shorter := _INNERMOST_BRACKETS.sub(_without_bracket, text)) != text:
        text = shorter
    text = _BOOLEANS.sub(lambda found: "1" if found[1] == "true" else "0", _DROPPED.sub("", text))
    return _SPACES.sub("", _INTEGER_SUFFIX.sub(r"\1", text))


def _without_bracket(found: re.Match[str]) -> str:
    """What stays of a bracket: nothing of parameters and casts; of one that is a template argument its content."""
    return f"[{found[1]}]{found[2]}" if found[2] else ""


@lru_cache(1 << 14)
def function_name(name: str) -> str:
    """The name of the function alone, without namespaces, template arguments and parameters."""
    head = same_name(name).partition("<")[0]
    return head.rpartition("::")[2]


def has_arguments(name: str) -> bool:
    """Whether a name tells more than the function: its template arguments."""
    return "<" in same_name(name)


def demangled(name: str) -> str:
    """The name in words where it is mangled as C++ compilers do; others, and what is no such name, as they are."""
    if not name.startswith("_Z"):
        return name
    try:
        import cxxfilt  # late: few files have mangled names
    except (ImportError, OSError):
        return name  # needs the C++ library of the system
    try:
        return str(cxxfilt.demangle(name))
    except cxxfilt.InvalidName:
        return name
