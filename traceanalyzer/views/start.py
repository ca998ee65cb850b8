"""What people see of the check-up, of files that were read, and of what a store holds."""

from traceanalyzer.views.view import View

VIEWS = {
    "checkup": View(
        shown=("verdicts", "next", "environment"),
        columns={"verdicts": ("order", "verdict", "cost_ns", "share", "confidence", "title")},
        unless_empty=frozenset({"next", "environment"}),
        is_card=True,
        hints=(
            ("traceanalyzer report -o report.html", "all of this and more in one page to pass around"),
            ("traceanalyzer gaps", "why the GPUs were idle, down to the line of Python"),
            (
                "traceanalyzer checkup --table charges",
                "what each verdict is charged with: the ledger of the steps, cut",
            ),
        ),
    ),
    "ingest": View(
        columns={
            "files": (
                "status",
                "source",
                "rank",
                "n_ops",
                "n_events",
                "n_launches",
                "n_samples",
                "seconds",
                "path",
                "note",
            )
        },
        hints=(
            ("traceanalyzer info", "what was captured, and which questions it can answer"),
            ("traceanalyzer gaps", "why the GPUs were idle"),
        ),
    ),
    "info": View(
        shown=("captures", "devices", "answers", "fitness", "quality"),
        columns={
            "captures": ("run", "capture", "source", "tool_version", "rank", "world_size", "host", "path"),
            "devices": ("run", "capture", "rank", "device", "name", "n_ops"),
            "answers": ("run", "capture", "question", "answerable", "reason"),
            "fitness": ("capture", "check", "state", "text", "spoils"),
            "quality": ("run", "capture", "severity", "code", "count", "text"),
        },
        spare={"captures": ("tool_version", "host")},
        nulls={"answerable": "in part"},
        hints=(("traceanalyzer gaps", "why the GPUs were idle"),),
    ),
}
"""Views by command."""
