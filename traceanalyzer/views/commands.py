"""Command lines of this program, as answers and pages offer them."""

import shlex

LACKS = {
    "info": frozenset({"--steps", "--window", "--step-range"}),
    "collectives": frozenset({"--step-range"}),
    "scaling": frozenset({"--rank", "--device"}),
}
"""Options that a command does not take, among those that are repeated in the commands offered after an answer."""


def command_line(words: str, inputs: str) -> str:
    """A command of this program and what names the captures and the selection, as another command line gave it: without
    the options that the command does not take.
    """
    lacking = LACKS.get(words.partition(" ")[0], frozenset())
    given = inputs
    if lacking:
        parts = shlex.split(inputs)
        kept = [part for k, part in enumerate(parts) if part not in lacking and (k == 0 or parts[k - 1] not in lacking)]
        given = shlex.join(kept) if len(kept) < len(parts) else inputs
    return " ".join(part for part in ("traceanalyzer", words, given) if part)
