"""Names of processes and threads, which metadata events give."""

from collections import defaultdict

import numpy as np

from traceanalyzer.schema.kinds import RankSource
from traceanalyzer.schema.sink import Sink, Values
from traceanalyzer.sources.torch_trace.columns import Identities
from traceanalyzer.sources.torch_trace.records import ABSENT, NameArguments
from traceanalyzer.sources.torch_trace.rows import Rows
from traceanalyzer.sources.torch_trace.timeline_header import TimelineHeader


class Names:
    """Collects names of rows; writes `processes` and `threads` for those that have events."""

    def __init__(self, identities: Identities) -> None:
        self.identities = identities
        self._processes: dict[int, dict[str, None]] = defaultdict(dict)
        self._threads: dict[tuple[int, int], dict[str, None]] = defaultdict(dict)

    def add(self, rows: Rows) -> None:
        """Takes metadata events."""
        chosen = [i for i, name in enumerate(rows.name_texts()) if name in ("process_name", "thread_name")]
        rows = rows.take(np.array(chosen, np.intp))
        columns = rows.name_texts(), rows.process_ids(), rows.thread_ids(), rows.records(NameArguments)
        for kind, process_id, thread_id, arguments in zip(*columns, strict=True):
            if arguments.name is None:
                continue
            process = self.identities.number(process_id)
            if kind == "process_name":
                self._processes[process][arguments.name] = None
            else:
                self._threads[process, self.identities.number(thread_id)][arguments.name] = None

    def of_process(self, process: int) -> str:
        """Names of a process, else its id where that is a text; else empty."""
        return ", ".join(self._processes.get(process, ())) or self._text(process)

    def _text(self, number: int) -> str:
        return next((text for text, own in self.identities.texts.items() if own == number), "")

    def write(self, sink: Sink, threads: set[tuple[int, int]], header: TimelineHeader | None) -> None:
        """Writes the processes and threads that have events; of an aligned timeline all processes, with their ranks."""
        rows = sorted((p, t) for p, t in threads if p != ABSENT)
        known = header.ranks if header is not None else {}
        processes = sorted({p for p, _t in rows} | known.keys())
        if processes:
            names = [(header.names.get(p) if header and p in known else self.of_process(p)) or None for p in processes]
            columns: dict[str, Values] = {"process": np.array(processes), "name": sink.texts.codes(names, len(names))}
            if any(rank is not None for rank in known.values()):
                ranks = [known.get(p) for p in processes]
                none = np.array([rank is None for rank in ranks], np.bool_)
                columns["rank"] = np.ma.MaskedArray(np.array([rank or 0 for rank in ranks], np.int32), none)
                source = np.full(len(ranks), int(RankSource.METADATA), np.uint8)
                columns["rank_source"] = np.ma.MaskedArray(source, none)
            sink.write("processes", columns)
        rows = [(p, t) for p, t in rows if t != ABSENT]
        if rows:
            texts = [", ".join(self._threads.get(row, ())) or self._text(row[1]) or None for row in rows]
            columns = {
                "process": np.array([p for p, _t in rows]),
                "thread": np.array([t for _p, t in rows]),
                "name": sink.texts.codes(texts, len(texts)),
            }
            sink.write("threads", columns)
