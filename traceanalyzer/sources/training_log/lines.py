"""Training logs as programs print them: Megatron-LM, Megatron-DeepSpeed, nanoGPT and those after it."""

import re
from collections.abc import Iterator

from traceanalyzer.schema.kinds import Severity
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.nccl_lines import Environment
from traceanalyzer.sources.telemetry import number, without_escapes
from traceanalyzer.sources.text_lines import Lines
from traceanalyzer.sources.training_log.columns import Meaning, Role, in_seconds, meaning_of, seconds_of
from traceanalyzer.sources.training_log.output import Growing, StepSamples

_PREFIX = r"(?>\[[^\[\]]{0,80}\](?:<\w+>)?:?\s*|(?!step:)[A-Za-z0-9._-]{1,64}:\s+)*+"
"""What launchers, hosts and clocks put before a line: `vm-07-14:`, `[1,0]<stdout>:`, `[2024-06-01 10:00:00]`, `0:`."""
_MEGATRON = re.compile(rf"\s*{_PREFIX}\s*iteration\s+(\d+)\s*/\s*\d+\s*\|(.*)")
_STEP_COLON = re.compile(rf"\s*{_PREFIX}step:(\d+)/\d+\s+(.*)")
_ITER = re.compile(rf"\s*{_PREFIX}iter (\d+): (loss .*)")
_STEP_PIPE = re.compile(rf"\s*{_PREFIX}step\s+(\d+)\s*(?:/\s*\d+\s*)?\|(.*)")
STEP_LINE = re.compile(
    rb"(?:^|\n)[^\n]{0,160}?(?:\b|\x1b\[[0-9;]*m)(?:iteration\s+\d+\s*/\s*\d+\s*\||step:\d+/\d+\s+\w+:|"
    rb"iter \d+: loss |step\s+\d+\s*(?:/\s*\d+\s*)?\| )"
)
"""How a line of a step begins, in the bytes of a file."""
_HOST = re.compile(r"([A-Za-z][\w.-]{0,62}):\s")
_LONGEST_CELL = 160
"""Longer cells are no value with its name: patterns with several ways to match are not tried on them."""
_NAMED = re.compile(r"\s*([A-Za-z][^:|]*?)\s*(?::\s*|\s+)([+-]?[\d.]\S*?|nan|inf)\s*([A-Za-z/%]*)\s*(?:\(.*\))?\s*")
_UNNAMED = re.compile(r"\s*([\d.]+)\s*(ms|s|tok/s|tokens/s|samples/s)\s*")
_TOKEN = re.compile(r"([A-Za-z_/]+):([+-]?[\d.]+(?:e[+-]?\d+)?|nan|inf)([A-Za-z/%]*)", re.I)
_COMMA = re.compile(r"([A-Za-z/]+) ([+-]?[\d.]+(?:e[+-]?\d+)?)([A-Za-z/%]*)")
_WORLD = re.compile(
    r"\b(?:using world size:\s*|world_size \.{2,}\s*|dist_world_size\s*=\s*|world_size\s*[:=]\s*)(\d{1,7})\b"
)
_PYTORCH = re.compile(r"\bRunning PyTorch (\S+) compiled for CUDA (\S+)")
_Pairs = Iterator[tuple[str, str, str]]


class LogLines:
    """Reads a log line by line; lines that tell nothing of a step are passed over."""

    def __init__(self, file: TraceFile, sink: Sink) -> None:
        self._file, self._sink = file, sink
        self._samples = StepSamples(sink)
        self._elapsed = Growing()
        self._nccl = Environment(sink)
        self._steps = self._torn = 0
        self._worlds: set[int] = set()
        self._hosts: set[str] = set()
        self._meanings: dict[tuple[str, str], Meaning] = {}

    def read(self) -> int:
        """Write every step; returns how many lines told of one."""
        lines, held = Lines(self._file), None
        for line in lines:
            if held is not None:
                self._line(held)
            held = line
        if held is not None and not (lines.cut and self._found(without_escapes(held)) is not None):
            self._line(held)
        elif held is not None:
            self._sink.facts.whole = False
            self._sink.note("truncated", "The last step has no line end and was left out: a part of it may be missing.")
        self._samples.finish()
        self._nccl.finish()
        facts = self._sink.facts
        if len(self._worlds) == 1:
            facts.world_size = self._worlds.pop()
        if len(self._hosts) == 1:
            facts.host = self._hosts.pop()
        if self._torn:
            self._sink.note("torn_lines", "Lines of a step without a value were left out.", self._torn)
        if self._elapsed.resets:
            text = "Where the log's clock starts anew, the step there has no time."
            self._sink.note("started_anew", text, self._elapsed.resets, Severity.INFO)
        return self._steps

    def _line(self, line: str) -> None:
        line = without_escapes(line)
        found = self._found(line)
        if found is None:
            self._facts(line)
            return
        step, pairs = found
        told = [pair for pair in pairs if self._pair(step, *pair)]
        self._steps += bool(told)
        self._torn += not told
        host = _HOST.match(line)
        if host and host[1].lower() not in ("step", "iter", "iteration", "info", "default", "rank"):
            self._hosts.add(host[1])

    def _found(self, line: str) -> tuple[int, _Pairs] | None:
        """The step that a line tells of, and its names, values and units."""
        for pattern, pairs in ((_MEGATRON, _piped), (_STEP_COLON, _tokens), (_ITER, _commas), (_STEP_PIPE, _piped)):
            match = pattern.match(line)
            if match is not None and len(match[1]) < 16:
                return int(match[1]), pairs(match[2])
        return None

    def _pair(self, step: int, name: str, text: str, unit: str) -> bool:
        value = number(text)
        if value is None and text.lower() not in ("nan", "inf", "-inf", "+inf"):
            return False
        meaning = self._meaning(name, unit)
        role = meaning.role
        if role is Role.TIME and meaning.elapsed and value is not None and meaning.seconds is not None:
            grown = self._elapsed.per_step(step, in_seconds(value, meaning.seconds))
            if grown is not None:
                self._samples.known(Role.STEP_TIME, step, grown)
        elif role in (Role.STEP_TIME, Role.LOADER_TIME):
            told = value is not None and meaning.seconds is not None
            self._samples.known(role, step, in_seconds(value or 0.0, meaning.seconds or 1.0) if told else None)
        elif role in (None, Role.STEP, Role.TIME):
            self._samples.other(meaning.name, meaning.unit, step, value)
        else:
            self._samples.known(role, step, value)
        return True

    def _meaning(self, name: str, unit: str) -> Meaning:
        """What a name means; the unit stands in it, or behind the value. `time` of an iteration is that of a step."""
        if (known := self._meanings.get((name, unit))) is not None:
            return known
        meaning = meaning_of(name)
        seconds = seconds_of(unit) if unit else meaning.seconds
        role = meaning.role
        if role is Role.TIME and not meaning.elapsed:
            role = Role.STEP_TIME
        if role in (Role.STEP_TIME, Role.LOADER_TIME) and seconds is None:
            self._sink.note("unit_unknown", f"{name} names no unit: its values are left out.")
        found = Meaning(meaning.name, role, unit or meaning.unit, seconds, meaning.elapsed)
        if len(self._meanings) < 10_000:
            self._meanings[name, unit] = found
        return found

    def _facts(self, line: str) -> None:
        if "NCCL" in line:
            self._nccl.line(line)
        if "world" in line and (world := _WORLD.search(line)) and int(world[1]):
            self._worlds.add(int(world[1]))
        elif line.startswith("Running PyTorch") and (versions := _PYTORCH.match(line)):
            environment = {"pytorch_version": versions[1], "cuda_version": versions[2]}
            self._sink.facts.metadata["environment"] = environment


def _piped(text: str) -> _Pairs:
    """`name: value |`, `name value |`, and values whose unit tells what they are: `3.00 ms |`."""
    for cell in text.split("|"):
        part = " ".join(cell.split())
        if len(part) > _LONGEST_CELL:
            continue
        if named := _NAMED.fullmatch(part):
            yield named[1], named[2], named[3]
        elif unnamed := _UNNAMED.fullmatch(part):
            yield (
                ("step_time" if unnamed[2] in ("ms", "s") else unnamed[2]),
                unnamed[1],
                (unnamed[2] if unnamed[2] in ("ms", "s") else ""),
            )


def _tokens(text: str) -> _Pairs:
    """`name:value` with a unit glued to the value."""
    for found in _TOKEN.finditer(text):
        name, value, unit = found.groups()
        yield name, value, unit


def _commas(text: str) -> _Pairs:
    """`name value, name value`."""
    for part in text.split(","):
        if found := _COMMA.fullmatch(part.strip()):
            yield found[1], found[2], found[3]
