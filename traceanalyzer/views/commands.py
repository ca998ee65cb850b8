"""Command lines of this program, as answers and pages offer them."""

import shlex
from decimal import Decimal

from traceanalyzer.passes.selection import ALIGNMENTS, Selection, spelled

_OF_TIME = frozenset({"--align", "--peaks"})
_OF_KERNELS = frozenset({"--align", "--input-range", "--user-code"})
_OF_CALLS = _OF_KERNELS | {"--peaks"}
LACKS = {
    "summary": frozenset({"--peaks"}),
    "gaps": _OF_TIME,
    "ledger": frozenset({"--peaks"}),
    "steps": _OF_TIME,
    "ranges": _OF_CALLS | {"--warmup"},
    "ops": _OF_CALLS,
    "memory": _OF_TIME | {"--input-range"},
    "kernels": _OF_KERNELS,
    "streams": _OF_CALLS,
    "launches": _OF_CALLS,
    "throughput": _OF_KERNELS,
    "metrics": _OF_CALLS | {"--warmup"},
    "collectives": frozenset({"--input-range", "--peaks", "--step-range", "--user-code", "--warmup"}),
    "imbalance": frozenset({"--peaks"}),
    "scaling": _OF_TIME | {"--device", "--rank", "--user-code"},
    "info": _OF_CALLS | {"--step-range", "--steps", "--warmup", "--window"},
    "sql": _OF_TIME,
    "export": frozenset({"--peaks"}),
}
"""Options of a selection that a command does not take; those that are not here take all."""
_NS_A_SECOND = 10**9


def command_line(words: str, inputs: str, selection: Selection | None = None) -> str:
    """A command of this program about the same captures and the same part of them.

    `inputs` is what another command line named them by. Of the options in it, and of those that `selection` comes from,
    the command gets those that it takes.
    """
    lacking = LACKS.get(words.partition(" ")[0], frozenset())
    parts = _parts(inputs)
    kept = [part for k, part in enumerate(parts) if part not in lacking and (k == 0 or parts[k - 1] not in lacking)]
    said = {part for part in (*parts, *words.split()) if part.startswith("--")}
    more = [] if selection is None else _options(selection)
    added = [shlex.join((option, value)) for option, value in more if option not in said and option not in lacking]
    given = shlex.join(kept) if len(kept) < len(parts) else inputs
    return " ".join(part for part in ("traceanalyzer", words, *added, given) if part)


def _parts(inputs: str) -> list[str]:
    try:
        return shlex.split(inputs)
    except ValueError:  # no words for a shell, but a name that a program gave
        return [inputs]


def _options(selection: Selection) -> list[tuple[str, str]]:
    """The options that make a selection, without those that are as they are by themselves."""
    window = None
    if selection.window_ns is not None:
        window = ":".join(f"{Decimal(bound) / _NS_A_SECOND:f}" for bound in selection.window_ns)
    values = {
        "--run": selection.run,
        "--rank": None if selection.ranks is None else spelled(selection.ranks),
        "--device": selection.device,
        "--source": selection.source,
        "--capture": None if selection.captures is None else spelled(selection.captures),
        "--steps": None if selection.steps is None else "-".join(map(str, selection.steps)),
        "--window": window,
        "--warmup": selection.warmup,
        "--step-range": selection.step_range,
        "--input-range": selection.input_range,
        "--user-code": selection.user_code,
        "--align": None if selection.align == ALIGNMENTS[0] else selection.align,
        "--peaks": selection.peaks,
    }
    return [(option, str(value)) for option, value in values.items() if value is not None]
