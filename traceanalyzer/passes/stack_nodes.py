"""`stack_nodes` as the pieces of gaps need it: also with the stacks that nothing recorded as a whole."""

from traceanalyzer.passes.answer import Frame, TableSpec
from traceanalyzer.passes.idle.lanes import devices_with_gaps
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.schema.tables import STACK_NODES
from traceanalyzer.store.database import first_row

SPEC = TableSpec(
    STACK_NODES.name,
    f"{STACK_NODES.meaning} With those of samples inside open ranges, as gap_pieces.node_id has them.",
    STACK_NODES.columns,
    cut=False,
)


def complete_stack_nodes(scope: Scope, swept: StackTree | None = None) -> Frame | None:
    """All stacks of the store, and those that samples and back traces of the selection make; None where none do.

    `swept` are the stacks that a sweep over all gaps has left, where one was done already.
    """
    row = first_row(
        scope.connection.execute(
            f"""SELECT (SELECT count(node_id) FROM stored.samples WHERE capture IN {scope.numbers()})
                + (SELECT count(backtrace_node_id) FROM stored.cpu_events WHERE capture IN {scope.numbers()})"""
        )
    )
    if not row or not row[0]:
        return None
    tree = swept or _swept(scope)
    if len(tree.parent) == tree.stored:
        return None
    kinds = EventKind.texts()
    rows = []
    for node, (parent, label) in enumerate(zip(tree.parent.tolist(), tree.label.tolist(), strict=True)):
        frame = tree.labels[label]
        kind = kinds[frame.kind] if frame.kind < len(kinds) else None
        rows.append((node, None if parent < 0 else parent, frame.text, frame.file, frame.line, frame.module, kind))
    return Frame.of_rows(SPEC, rows)


def _swept(scope: Scope) -> StackTree:
    tree = StackTree(scope)
    for part in devices_with_gaps(scope, tree):
        for _ in part.pieces():
            pass
    return tree
