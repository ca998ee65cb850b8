"""A replay of a job's steps: what they take if ranks took another time by themselves.

Each rank is a line of its own work, in which communication begins and on which it is held up. Where it is held up it
goes on when the operation ends that was running until then. An operation begins on a rank when its work has got so far
and the operation before it in its group has ended; it ends, for all its ranks, its transfer after the last of them has
begun. Operations that are not matched, and time in which communication runs on while nothing waits for it, are own
work.

Replayed with the times that were measured it should take as long as it did: by how much it does not is its error, and
above 5 % it is not to be trusted.
"""

from collections import defaultdict, deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.intervals import measure_before
from traceanalyzer.passes.communication.clocks import Clock
from traceanalyzer.passes.communication.matching import NONE
from traceanalyzer.passes.communication.ranks import RankCommunication

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_ERROR = 0.05
"""A replay that is off by more than this is refused."""
HELD_UP_NS = 30_000
"""A rank was held up by an operation if it goes on no later than this after its end: what a launch takes."""
MOST_OPERATIONS = 400_000
"""The replay goes operation by operation: of more than this it would take minutes."""


@dataclass(frozen=True, slots=True)
class RankLine:
    """The work of one rank in the replayed window: where operations begin in it, and where it is held up.

    Progress is in ns of own work since the window began. `begins` are (progress, operation), `stalls` are (progress,
    operation that it is held up by), both in order; `length` is all of it, and `offset` when it begins on the common
    clock.
    """

    begins: list[tuple[float, int]]
    stalls: list[tuple[float, int]]
    length: float
    offset: float

    def segments(self) -> Floats:
        """Own work before the first operation begins, between each two, and after the last."""
        found: Floats = np.diff(np.array([0.0, *(at for at, _ in self.begins), self.length]))
        return found

    def with_segments(self, segments: Floats) -> "RankLine":
        """The same rank if these took another time; where it is held up moves along."""
        before = np.array([0.0, *(at for at, _ in self.begins), self.length])
        after = np.append(0.0, np.cumsum(segments))
        stalls = np.interp([at for at, _ in self.stalls], before, after).tolist()
        return RankLine(
            [(at, op) for at, (_, op) in zip(after[1:-1].tolist(), self.begins, strict=True)],
            [(at, op) for at, (_, op) in zip(stalls, self.stalls, strict=True)],
            float(after[-1]),
            self.offset,
        )


def line_of(
    communication: RankCommunication,
    clock: Clock,
    which: NDArray[np.intp],
    exposed: tuple[Ints, Ints],
    window: tuple[int, int],
    matched: NDArray[np.bool_],
    ready: tuple[Ints, Ints],
) -> RankLine:
    """The work of a rank: `which` are its operations, `exposed` is communication that no compute hides."""
    of = communication.matches.communication
    low, high = window
    inside = which[(of.start[which] >= low) & (of.end[which] <= high) & matched[which]]
    ends = np.sort(of.end[inside])
    by_end = inside[np.argsort(of.end[inside], kind="stable")]
    start, end = np.clip(exposed[0], low, high), np.clip(exposed[1], low, high)
    long = end > start
    start, end = start[long], end[long]
    last = np.searchsorted(ends, end, side="right") - 1
    held = (last >= 0) & (end - ends[np.maximum(last, 0)] <= HELD_UP_NS) if len(ends) else np.zeros(len(end), bool)
    held &= ends[np.maximum(last, 0)] > start if len(ends) else False
    # What is not held up by an operation that can be replayed is own work.
    start, last = start[held], last[held]
    until = ends[last] if len(ends) else start
    begin = inside[np.argsort(of.start[inside], kind="stable")]
    able = _able_from(communication, begin, ready)

    def progress(instants: Ints) -> Floats:
        lost = measure_before(start, until, instants) if len(start) else np.zeros(len(instants), np.int64)
        done: Floats = (instants - low - lost).astype(np.float64)
        return done

    at = progress(able)
    order = np.argsort(at, kind="stable")
    return RankLine(
        list(zip(at[order].tolist(), begin[order].tolist(), strict=True)),
        list(zip(progress(start).tolist(), by_end[last].tolist(), strict=True)),
        float(progress(np.array([high]))[0]),
        float(clock.aligned(np.array([low]))[0]),
    )


def _able_from(communication: RankCommunication, begin: NDArray[np.intp], ready: tuple[Ints, Ints]) -> Ints:
    """When operations could begin, in the order in which they did: when they did, but for those that began as soon as
    the one before them in their group had ended. These were ready when the compute before them was done.
    """
    of = communication.matches.communication
    able = of.start[begin].copy()
    number, instant = ready
    for group in np.unique(of.group[begin]).tolist():
        mine = np.flatnonzero(of.group[begin] == group)
        rows = begin[mine]
        bound = np.append(False, of.start[rows[1:]] - of.end[rows[:-1]] <= HELD_UP_NS)
        at = np.minimum(np.searchsorted(number, of.op_id[rows]), max(len(number) - 1, 0))
        known = bound & (number[at] == of.op_id[rows]) if len(number) else np.zeros(len(rows), np.bool_)
        able[mine[known]] = np.minimum(able[mine[known]], instant[at[known]])
        able[mine] = np.maximum.accumulate(able[mine])  # they stay in order
    return able


def replay(communication: RankCommunication, lines: dict[int, RankLine]) -> float | None:
    """When the last rank ends, after the first began, in ns.

    None where the replay gets stuck: operations wait for each other in a circle, which the order on streams forbids.
    """
    return _Replay(communication, lines).run()


class _Replay:
    def __init__(self, communication: RankCommunication, lines: dict[int, RankLine]) -> None:
        matches = communication.matches
        of = matches.communication
        self._collective = matches.collective
        self._lines = lines
        taking_part = np.array([op for line in lines.values() for _, op in line.begins], np.intp)
        numbers, counts = np.unique(self._collective[taking_part], return_counts=True)
        self._left = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        aligned = communication.waits.aligned
        ends = aligned + of.duration
        self._transfer: dict[int, float] = {}
        order = np.argsort(self._collective[taking_part], kind="stable")
        rows = taking_part[order]
        first = np.searchsorted(self._collective[rows], numbers)
        latest = np.maximum.reduceat(aligned[rows], first) if len(rows) else np.zeros(0)
        done = np.minimum.reduceat(ends[rows], first) if len(rows) else np.zeros(0)
        for number, time in zip(numbers.tolist(), np.maximum(done - latest, 0).tolist(), strict=True):
            self._transfer[number] = float(time)
        self._group = of.group
        self._begun: dict[int, float] = {}
        self._ended: dict[int, float] = {}
        self._busy: set[tuple[int, int]] = set()  # ranks and groups of which an operation runs
        self._free: dict[tuple[int, int], float] = {}
        self._queue: dict[tuple[int, int], deque[tuple[float, int]]] = defaultdict(deque)
        self._lines_of: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._waiting: dict[int, list[int]] = defaultdict(list)

    def run(self) -> float | None:
        place = {rank: [0, 0] for rank in self._lines}  # in what begins, and in what holds up
        lost = dict.fromkeys(self._lines, 0.0)
        begin = min((line.offset for line in self._lines.values()), default=0.0)
        finished: dict[int, float] = {}
        ready = deque(self._lines)
        while ready:
            rank = ready.popleft()
            line, at = self._lines[rank], place[rank]
            base = line.offset - begin
            while True:
                next_begin = line.begins[at[0]] if at[0] < len(line.begins) else None
                next_stall = line.stalls[at[1]] if at[1] < len(line.stalls) else None
                if next_begin is not None and (next_stall is None or next_begin[0] <= next_stall[0]):
                    self._arrive(rank, next_begin[1], base + next_begin[0] + lost[rank], ready)
                    at[0] += 1
                elif next_stall is not None:
                    end = self._ended.get(int(self._collective[next_stall[1]]))
                    if end is None:
                        self._waiting[int(self._collective[next_stall[1]])].append(rank)
                        break
                    now = base + next_stall[0] + lost[rank]
                    lost[rank] += max(end - now, 0.0)
                    at[1] += 1
                else:
                    finished[rank] = base + line.length + lost[rank]
                    break
        return max(finished.values()) if len(finished) == len(self._lines) else None

    def _arrive(self, rank: int, op: int, time: float, ready: deque[int]) -> None:
        """The work of a rank has got to where an operation begins; it begins when those of its group are done."""
        line = rank, int(self._group[op])
        if line in self._busy:
            self._queue[line].append((time, op))
            return
        todo = deque([(line, op, max(time, self._free.get(line, 0.0)))])
        while todo:
            line, op, time = todo.popleft()
            number = int(self._collective[op])
            self._busy.add(line)
            self._lines_of[number].append(line)
            self._begun[number] = max(self._begun.get(number, time), time)
            self._left[number] -= 1
            if self._left[number]:
                continue
            end = self._ended[number] = self._begun[number] + self._transfer[number]
            ready.extend(self._waiting.pop(number, ()))
            for each in self._lines_of.pop(number):
                self._busy.discard(each)
                self._free[each] = end
                if self._queue[each]:
                    begun, following = self._queue[each].popleft()
                    todo.append((each, following, max(begun, end)))


def without_excess(lines: dict[int, RankLine], saved: dict[int, float]) -> dict[int, RankLine]:
    """The ranks if some saved so much own work in all: there where they take longer than the others usually do.

    Segments are compared with the median of the other ranks' where all ranks have as many operations, as where all run
    one program; else all segments of a rank shrink alike.
    """
    segments = {rank: line.segments() for rank, line in lines.items()}
    alike = len({len(each) for each in segments.values()}) == 1 and len(lines) > 1
    out = dict(lines)
    for rank, total in saved.items():
        own = segments[rank]
        longer = own.copy()
        if alike:
            others = np.median(np.stack([each for other, each in segments.items() if other != rank]), axis=0)
            longer = np.maximum(own - others, 0)
        if longer.sum() > 0:
            out[rank] = lines[rank].with_segments(own - np.minimum(longer * (total / longer.sum()), own))
    return out


def evened(lines: dict[int, RankLine]) -> dict[int, RankLine] | None:
    """The ranks if all took the mean of what they take, segment by segment; None where these cannot be compared."""
    segments = [line.segments() for line in lines.values()]
    if len({len(each) for each in segments}) != 1:
        return None
    mean = np.mean(np.stack(segments), axis=0)
    return {rank: line.with_segments(mean) for rank, line in lines.items()}


def usable(communication: RankCommunication) -> NDArray[np.bool_]:
    """Operations that can be replayed: matched, of ranks on one clock."""
    able: NDArray[np.bool_] = (communication.matches.collective != NONE) & (communication.waits.last != NONE)
    return able
