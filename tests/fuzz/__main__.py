"""Many mutated inputs, and a table of what became of them: python -m tests.fuzz --count 2000."""

import argparse
import faulthandler
import sys
import time
from collections import Counter
from random import Random

from tests.fuzz.harness import MOST_SECONDS, Outcome, attempt
from tests.fuzz.inputs import inputs
from tests.fuzz.mutations import MUTATIONS


def main() -> int:
    """Run, print, and return 1 where anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="inputs in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--source", choices=sorted(MUTATIONS), action="append")
    parser.add_argument("--mutation", action="append", help="only these")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after that long")
    given = parser.parse_args()
    rng, begun = Random(given.seed), time.monotonic()
    sources = [source for source in given.source or sorted(MUTATIONS) if inputs(source)]
    if not sources:
        parser.error("what reads them is not installed")
    table: Counter[tuple[str, str, str]] = Counter()
    slowest: list[tuple[float, str]] = []
    wrong: list[tuple[str, Outcome]] = []
    done = 0
    while done < given.count and time.monotonic() - begun < given.seconds:
        source = sources[done % len(sources)]
        mutation = rng.choice([m for m in MUTATIONS[source] if not given.mutation or m.name in given.mutation])
        item, seed = rng.choice(inputs(source, beside=True)), rng.randrange(1 << 32)
        faulthandler.dump_traceback_later(3 * MOST_SECONDS, exit=True)
        outcome = attempt(item, mutation, seed)
        faulthandler.cancel_dump_traceback_later()
        done += 1
        label = f"{source} {item.name}, {mutation.name}, seed {seed}"
        table[source, mutation.name, outcome.what] += 1
        slowest = sorted([*slowest, (outcome.seconds, label)], reverse=True)[:5]
        if outcome.wrong:
            wrong.append((label, outcome))
            print(f"WRONG {label}: {outcome.wrong}\n    {outcome.detail[-1500:]}", file=sys.stderr, flush=True)
    _print(table)
    took = time.monotonic() - begun
    print(f"\n{done} inputs in {took:.0f} s; slowest: " + "; ".join(f"{s:.1f} s {label}" for s, label in slowest[:3]))
    print(f"{len(wrong)} wrong" + "".join(f"\n  {o.wrong[:100]}: {label}" for label, o in wrong))
    return 1 if wrong else 0


def _print(table: Counter[tuple[str, str, str]]) -> None:
    outcomes = ("answered", "warned", "refused", "crash", "hang")
    print(f"{'source':8}{'mutation':18}" + "".join(f"{o:>10}" for o in outcomes))
    for source, mutation in sorted({(s, m) for s, m, _ in table}):
        print(f"{source:8}{mutation:18}" + "".join(f"{table[source, mutation, o] or '':>10}" for o in outcomes))
    print(f"{'in all':26}" + "".join(f"{sum(n for (_, _, w), n in table.items() if w == o):>10}" for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
