"""What people see of ranks and how they compare."""

from traceanalyzer.views.view import View

VIEWS = {
    "collectives": View(
        shown=("collectives", "clocks", "bandwidth"),
        columns={
            "collectives": (
                "run",
                "kind",
                "bytes",
                "duration_ns",
                "wait_ns",
                "transfer_ns",
                "exposed_ns",
                "rank",
                "last_rank",
                "step",
                "ordinal",
                "group",
            ),
        },
        hidden=frozenset({"run", "group"}),
        spare={"collectives": ("ordinal", "bytes", "step", "exposed_ns")},
        nulls={"wait_ns": "unresolved"},
        hints=(
            ("traceanalyzer imbalance", "which rank is late, and why"),
            ("traceanalyzer collectives --table bandwidth", "how fast each kind and size is"),
            ("traceanalyzer ledger", "waiting and transfer beside everything else"),
        ),
    ),
    "imbalance": View(
        shown=("ranks", "stragglers", "efficiency"),
        columns={
            "stragglers": (
                "run",
                "rank",
                "kind",
                "excess_ns",
                "late_steps",
                "period",
                "others_wait_ns",
                "reason",
                "stack",
            ),
        },
        beneath={"stragglers": "stack"},
        hidden=frozenset({"run"}),
        heat=("excess", "excess_ns"),
        hints=(
            ("traceanalyzer collectives", "the waits one by one"),
            ("traceanalyzer gaps --by rank", "idle time of each rank"),
        ),
    ),
    "scaling": View(
        columns={
            "scaling": ("ranks", "run", "throughput", "efficiency", "lost_share", "step_ns"),
            "lost": ("ranks", "category", "lost_ns"),
        },
        hints=(
            ("traceanalyzer steps --run all", "the steps that the runs are compared by"),
            ("traceanalyzer gaps --run all", "why the GPUs were idle in each of them"),
        ),
    ),
}
"""Views by command."""
