"""Collectives by the names of nccl-tests' programs."""

import re

_KINDS = {
    "all_reduce": "all_reduce",
    "allreduce": "all_reduce",
    "all_gather": "all_gather",
    "allgather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "alltoallv": "all_to_all",
    "sendrecv": "send_recv",
    "send_recv": "send_recv",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "hypercube": "hypercube",
}
_NAMES = "|".join(sorted(_KINDS, key=len, reverse=True))
_PROGRAM = re.compile(rf"\b({_NAMES})_perf\b")
_TITLE = re.compile(rf"#\s*({_NAMES})\s*")
_IN_FILE_NAME = re.compile(rf"(?<![a-z])({_NAMES})(?![a-z])")


def kind_in(line: str) -> str | None:
    """The collective that a line names by its program (`all_reduce_perf`), or as a title (`# all_gather`).

    None where it names several: then it is a list of what could be run.
    """
    if title := _TITLE.fullmatch(line.strip()):
        return _KINDS[title[1]]
    found = {_KINDS[name] for name in _PROGRAM.findall(line)}
    return found.pop() if len(found) == 1 else None


def kind_in_name(name: str) -> str | None:
    """The collective that the name of a file tells."""
    found = {_KINDS[each] for each in _IN_FILE_NAME.findall(name.lower().replace("-", "_"))}
    return found.pop() if len(found) == 1 else None
