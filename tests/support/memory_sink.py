"""A sink that keeps what a reader writes, for tests of readers alone."""

from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np

from traceanalyzer.schema.column import Type
from traceanalyzer.schema.kinds import Severity
from traceanalyzer.schema.sink import NO_TEXT, CaptureFacts, Stacks, Texts, Values
from traceanalyzer.schema.tables import TABLE_BY_NAME


class MemorySink:
    """Checks every batch against the schema and keeps it; `rows(table)` gives rows as dictionaries with texts."""

    def __init__(self, keep_environment: bool = False) -> None:
        self.texts = Texts()
        self.stacks = Stacks(self.texts)
        self.facts = CaptureFacts()
        self.keep_environment = keep_environment
        self.batches: dict[str, list[dict[str, Values]]] = defaultdict(list)
        self.notes: Counter[tuple[str, str]] = Counter()

    def write(self, table: str, columns: Mapping[str, Values]) -> None:
        declared = TABLE_BY_NAME[table].by_name
        lengths = {len(v) for v in columns.values()}
        assert len(lengths) == 1, (table, lengths)
        for name, values in columns.items():
            assert name in declared, (table, name)
            assert not declared[name].derived and name != "capture", (table, name)
            assert isinstance(values, np.ndarray), (table, name, type(values))
            assert values.dtype != object or declared[name].type is Type.TEXT, (table, name)
        self.batches[table].append(dict(columns))

    def note(self, code: str, text: str, count: int = 1, severity: Severity = Severity.WARNING) -> None:
        self.notes[code, text] += count

    def rows(self, table: str) -> list[dict[str, object]]:
        """All rows written to a table, with texts and names of kinds in place of codes."""
        out: list[dict[str, object]] = []
        for batch in self.batches[table]:
            columns = {name: self._plain(table, name, values) for name, values in batch.items()}
            out += [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return out

    def _plain(self, table: str, name: str, values: Values) -> list[object]:
        column = TABLE_BY_NAME[table].by_name[name]
        items = values.tolist()
        if column.type is Type.NAME:
            return [None if v is None or v == NO_TEXT else self.texts.all[v] for v in items]
        if column.type is Type.CHOICE:
            return [None if v is None else column.choices[v] for v in items]
        if name in ("node_id", "backtrace_node_id"):
            return [None if v is None or v < 0 else self.stack(v) for v in items]
        return items

    def stack(self, node: int) -> list[str]:
        """Frames of a stack, outermost first."""
        nodes, out = list(self.stacks.nodes), []
        while node >= 0:
            out.append(self.texts.all[nodes[node][1]])
            node = nodes[node][0]
        return out[::-1]
