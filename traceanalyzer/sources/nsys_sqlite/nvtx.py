"""NVTX_EVENTS: ranges, marks, names of threads and domains, Python samples, interpreter lock, NCCL and MPI calls."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from traceanalyzer.schema.kinds import EventKind, SampleKind, ThreadState
from traceanalyzer.schema.sink import NO_TEXT
from traceanalyzer.sources.nsys_sqlite.api_calls import Backtraces
from traceanalyzer.sources.nsys_sqlite.call_chains import NO_NODE
from traceanalyzer.sources.nsys_sqlite.capture import Capture
from traceanalyzer.sources.nsys_sqlite.collectives import Collectives
from traceanalyzer.sources.nsys_sqlite.database import NULL, Block, Integers
from traceanalyzer.sources.nsys_sqlite.payloads import Payloads, compact
from traceanalyzer.sources.nsys_sqlite.python_stacks import ON_CUDA, PERIODIC, WITHOUT_FRAMES, PythonStacks

NVTX = "NVTX_EVENTS"
# ENUM_NSYS_EVENT_TYPE: 59, 60 and 34 come from the program itself, 70, 71 and 65 from imported text files.
_PUSH_POP = (59, 70)
_START_END = (60, 71)
_MARKS = (34, 65)
_CATEGORY, _THREAD_NAME, _DOMAIN = 33, 39, 75
_GIL_KINDS = {"Holding GIL": EventKind.GIL_HOLD, "Waiting for GIL": EventKind.GIL_WAIT}
_COLUMNS = ("start", "end", "eventType", "globalTid", "endGlobalTid", "textId", "domainId", "category", "jsonTextId")
_NUMBERS = ("uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue")
_VALUES = ("text", "jsonText", "binaryData", *_NUMBERS)


@dataclass(slots=True)
class NvtxNames:
    """What NVTX rows name: domains and categories by process (ids repeat between processes), and threads."""

    domains: dict[tuple[int, int], str] = field(default_factory=dict)
    categories: dict[tuple[int, int, int], str] = field(default_factory=dict)
    threads: dict[int, list[str]] = field(default_factory=dict)


def read_names(capture: Capture) -> NvtxNames:
    """Names of domains, categories and threads. Read before the ranges: a name may stand after its uses."""
    out = NvtxNames()
    kinds = f'"eventType" IN ({_CATEGORY}, {_THREAD_NAME}, {_DOMAIN})'
    if not capture.database.has(NVTX, "eventType", "globalTid"):
        return out
    columns = ("eventType", "globalTid", "domainId", "category", "textId")
    for block in capture.database.blocks(NVTX, columns, ("text",), where=kinds):
        process = capture.process(block["globalTid"])
        for row, text in enumerate(block.values("text")):
            name = text if isinstance(text, str) else capture.names.text(int(block["textId"][row]))
            if not name:
                continue
            kind, domain = int(block["eventType"][row]), int(block["domainId"][row])
            if kind == _DOMAIN:
                out.domains.setdefault((int(process[row]), domain), name)
            elif kind == _CATEGORY:
                out.categories.setdefault((int(process[row]), domain, int(block["category"][row])), name)
            else:
                names = out.threads.setdefault(int(block["globalTid"][row]), [])
                if name not in names:
                    names.append(name)
    return out


class NvtxEvents:
    """Reads the ranges and marks."""

    def __init__(self, capture: Capture, names: NvtxNames, backtraces: Backtraces) -> None:
        self._capture = capture
        self._names = names
        self._backtraces = backtraces
        self._python = PythonStacks(capture)
        self._payloads = Payloads(capture)
        self.collectives = Collectives(capture)

    def read(self) -> None:
        """Write `cpu_events` of all ranges and marks, `samples` of the Python samples, and `collectives`."""
        has_type = self._capture.database.has(NVTX, "eventType")
        for block in self._capture.database.blocks(NVTX, _COLUMNS, _VALUES) if has_type else ():
            self._block(block)
        self.collectives.write()

    def _block(self, block: Block) -> None:
        kind, start = block["eventType"], block["start"]
        ranges = np.isin(kind, _PUSH_POP + _START_END)
        marks = np.isin(kind, _MARKS)
        lost = (ranges | marks) & (start == NULL)
        self._capture.note(
            "ranges_without_time", "Some NVTX events have no start; they were left out.", int(lost.sum())
        )
        domains = self._domain_names(block)
        python = marks & ~lost & np.isin(domains.codes, domains.codes_of(PERIODIC, ON_CUDA, WITHOUT_FRAMES))
        if python.any():
            self._python_marks(block, domains, np.flatnonzero(python))
        rows = np.flatnonzero((ranges | (marks & ~python)) & ~lost)
        if len(rows):
            self._events(block, domains, rows)

    # ------------------------------------------------------------ names

    def _domain_names(self, block: Block) -> "_Domains":
        """Domain of every row of the block: the default domain, and one whose name is not in the file, is null."""
        process, domain = self._capture.process(block["globalTid"]), block["domainId"]
        texts: dict[int, str] = {}
        codes = np.full(block.rows, NO_TEXT, np.int32)
        for (owner, number), name in self._names.domains.items():
            rows = (process == owner) & (domain == number)
            if rows.any():
                code = self._capture.names.code(name)
                texts[code] = name
                codes[rows] = code
        return _Domains(codes, texts)

    def _text_codes(self, block: Block, rows: Integers) -> Any:
        """Names of events: the text of the row, else the registered string."""
        texts = block.values("text")
        codes = self._capture.sink.texts.codes((texts[row] for row in rows.tolist()), len(rows))
        registered = codes == NO_TEXT
        if registered.any():
            codes[registered] = self._capture.names.codes(block["textId"][rows[registered]])
        return codes

    # ------------------------------------------------------------ ranges and marks

    def _events(self, block: Block, domains: "_Domains", rows: Integers) -> None:
        capture = self._capture
        kind, start, end = block["eventType"][rows], block["start"][rows], block["end"][rows].copy()
        tids, end_tids = block["globalTid"][rows], block["endGlobalTid"][rows]
        push_pop, marks = np.isin(kind, _PUSH_POP), np.isin(kind, _MARKS)
        end[marks] = start[marks]
        self._close(start, end, push_pop, marks)
        kinds = np.full(len(rows), EventKind.PROCESS_RANGE, np.uint8)
        kinds[push_pop] = EventKind.RANGE
        kinds[marks] = EventKind.MARK
        # A range that another thread ended cannot be part of the stack of either.
        kinds[push_pop & (end_tids != NULL) & (end_tids != tids)] = EventKind.PROCESS_RANGE
        names = self._text_codes(block, rows)
        domain = domains.codes[rows]
        gil = domains.codes_of("GIL Trace")
        for text, gil_kind in _GIL_KINDS.items():
            kinds[np.isin(domain, gil) & (names == self._code_if_known(text))] = gil_kind
        kinds[np.isin(domain, domains.codes_of("MPI")) & push_pop] = EventKind.HOST_COMMUNICATION
        arguments, payloads = self._arguments(block, rows)
        first = capture.write_events(
            kinds,
            "NVTX ranges",
            {
                **capture.threads(tids),
                "name": names,
                "domain": domain,
                "start_ns": start,
                "end_ns": end,
                "args": arguments,
            },
        )
        nccl = np.flatnonzero(np.isin(kinds, (EventKind.RANGE, EventKind.PROCESS_RANGE)))
        self.collectives.add(
            first,
            nccl,
            names=names,
            domains=domain,
            domain_texts=domains.texts,
            processes=capture.process(tids),
            payloads=payloads,
        )

    def _close(self, start: Integers, end: Integers, push_pop: Any, marks: Any) -> None:
        """Give an end to ranges that have none. nsys itself ends those never popped at the end of the session."""
        capture = self._capture
        missing = end == NULL
        never = missing | (push_pop & (end == capture.duration) if capture.duration is not None else False)
        if never.any():
            end[missing] = np.maximum(start[missing], capture.end_of_capture)
            capture.note(
                "ranges_never_ended",
                "Some NVTX ranges were never ended; they last to the end of the capture.",
                int((never & ~marks).sum()),
            )

    def _code_if_known(self, text: str) -> int:
        return self._capture.sink.texts.get(text, NO_TEXT - 1)

    def _arguments(self, block: Block, rows: Integers) -> tuple[Any, dict[int, dict[str, Any]]]:
        """Payloads and categories as JSON texts, and the payloads by position in `rows`."""
        codes = np.full(len(rows), NO_TEXT, np.int32)
        payloads: dict[int, dict[str, Any]] = {}
        json_ids, category = block["jsonTextId"], block["category"]
        some = (json_ids != NULL) | (category != NULL)
        for name in _VALUES[1:]:
            some |= block.present(name)
        if not some[rows].any():
            return codes, payloads
        json_texts, binaries = block.values("jsonText"), block.values("binaryData")
        numbers = [block.values(name) for name in _NUMBERS]
        process, domain = self._capture.process(block["globalTid"]), block["domainId"]
        for position in np.flatnonzero(some[rows]).tolist():
            row = int(rows[position])
            fields = self._payloads.decode(self._json(json_texts[row], int(json_ids[row])), binaries[row])
            if fields:
                payloads[position] = fields
            else:
                number = next((n[row] for n in numbers if n[row] is not None), None)
                fields = {} if number is None else {"payload": number}
            label = self._names.categories.get((int(process[row]), int(domain[row]), int(category[row])))
            fields = {**fields, "category": label} if label else fields
            if fields:
                codes[position] = self._capture.names.code(compact(fields))
        return codes, payloads

    def _json(self, text: Any, text_id: int) -> Any:
        return self._capture.names.text(text_id) if text is None and text_id != NULL else text

    # ------------------------------------------------------------ Python samples

    def _python_marks(self, block: Block, domains: "_Domains", rows: Integers) -> None:
        capture = self._capture
        json_texts, binaries = block.values("jsonText"), block.values("binaryData")
        nodes = np.full(len(rows), NO_NODE, np.int64)
        for position, row in enumerate(rows.tolist()):
            text = self._json(json_texts[row], int(block["jsonTextId"][row]))
            nodes[position] = self._python.node(text, binaries[row])
        without = int((nodes == NO_NODE).sum())
        capture.note(
            "python_samples_without_frames",
            "Python samples or back traces are in the file without their frames and were left out; export the report"
            " with --include-json=true of a newer nsys.",
            without,
        )
        rows, nodes = rows[nodes != NO_NODE], nodes[nodes != NO_NODE]
        periodic = np.isin(domains.codes[rows], domains.codes_of(PERIODIC))
        start, tids = block["start"][rows], block["globalTid"][rows]
        self._backtraces.add(tids[~periodic], start[~periodic], nodes[~periodic])
        count = int(periodic.sum())
        capture.write(
            "samples",
            {
                **capture.threads(tids[periodic]),
                "kind": np.full(count, SampleKind.PYTHON, np.uint8),
                "t_ns": start[periodic],
                "node_id": nodes[periodic],
                "state": np.full(count, ThreadState.UNKNOWN, np.uint8),
            },
        )


@dataclass(slots=True)
class _Domains:
    """Codes of the domains of a block's rows, and the texts of these codes."""

    codes: Any
    texts: dict[int, str]

    def codes_of(self, *names: str) -> list[int]:
        return [code for code, text in self.texts.items() if text in names]
