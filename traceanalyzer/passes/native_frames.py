"""Frames of native code as they stand in stacks: without the interpreter, addresses and the noise of templates."""

import re

_INTERPRETER = re.compile(r"(?:^|/)(?:python[\d.]*|libpython[\d.]*\.so[\d.]*)$")
_START = frozenset({"_start", "__libc_start_main", "__libc_start_call_main", "clone", "clone3", "start_thread"})
_PROFILER = re.compile(r"(?:^|/)(?:libToolsInjection\w*|libcupti|libnvperf\w*)[\w.-]*$")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_PARAMETERS = re.compile(r"[\w>~\]}]\(")
_MOST = 120


def short_native_frame(name: str, module: str | None) -> str | None:
    """The name without parameters and template arguments; None for frames that say nothing of what the program does.

    These are frames of the Python interpreter itself, which the Python frames stand for, of the profiler, of the start
    of a program or thread, and addresses that were not resolved.
    """
    if (
        name in _START
        or _ADDRESS.fullmatch(name)
        or (module and (_INTERPRETER.search(module) or _PROFILER.search(module)))
    ):
        return None
    short = _without_parameters(_without_templates(name)).strip() or name
    return short if len(short) <= _MOST else short[: _MOST - 1] + "…"


def _without_templates(name: str) -> str:
    """`f<int, g<x> >(y)` becomes `f<...>(y)`; operators and names in angle brackets stay."""
    if "operator" in name or "<" not in name:
        return name
    out, depth = [], 0
    for position, character in enumerate(name):
        if character == "<" and (depth or (position and (name[position - 1].isalnum() or name[position - 1] == "_"))):
            if not depth:
                out.append("<...>")
            depth += 1
        elif character == ">" and depth:
            depth -= 1
        elif not depth:
            out.append(character)
    return name if depth else "".join(out)


def _without_parameters(name: str) -> str:
    """Cuts the parameter list at the end, and what follows it. In time that grows with the name, whatever it is."""
    if "operator" in name or name.startswith("("):
        return name
    whole = name
    if whole.endswith("]") and (clone := max(whole.rfind(") ["), whole.rfind(") const ["))) >= 0:
        whole = whole[: whole.find(" [", clone)]
    begin = _PARAMETERS.search(whole)
    return whole[: begin.end() - 1] if begin and whole.removesuffix(" const").endswith(")") else name
