"""Complete events without a category: the legacy autograd exporter, and rows that Ascend's exporter adds."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.kinds import Severity
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.torch_trace.columns import Identities
from traceanalyzer.sources.torch_trace.names import Names
from traceanalyzer.sources.torch_trace.rows import Rows

_LEGACY_PROCESS = "CPU functions"
DERIVED_ROWS = "Rows that the exporter derived from others were left out: they are no records."


class Uncategorised:
    """Tells operators of the legacy exporter from rows that are counted only, by process."""

    def __init__(self) -> None:
        self._others: Counter[int | str | None] = Counter()

    def operators(self, rows: Rows, uncategorised: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the events are operators of the legacy exporter."""
        out = np.zeros(len(rows), np.bool_)
        places = np.flatnonzero(uncategorised)
        for i, process in zip(places.tolist(), rows.take(places).process_ids(), strict=True):
            if process == _LEGACY_PROCESS:
                out[i] = True
            else:
                self._others[process] += 1
        return out

    def note(self, sink: Sink, names: Names) -> None:
        """Says what was not read, by the names that the processes of the rows have."""
        identities: Identities = names.identities
        for pid, count in self._others.items():
            name = names.of_process(identities.number(pid))
            if name == "Overlap Analysis":
                sink.note("derived_rows", DERIVED_ROWS, count, Severity.INFO)
            elif "hardware" in name.lower() or name == "CUDA functions":
                text = f"Work of devices that are neither CUDA nor HIP devices ({name}) is not counted as operations."
                sink.note("other_device", text, count, Severity.INFO)
            else:
                text = f"Events without a category of the process {name[:60]!r} were left out."
                sink.note("unknown_category", text, count, Severity.INFO)
