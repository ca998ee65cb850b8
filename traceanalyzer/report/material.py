"""What sections are made from: the answers to the questions, each asked once, and what they have in common."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

from traceanalyzer.passes.answer import Answer
from traceanalyzer.passes.communication.ranks import communication_of
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.selection import Selection
from traceanalyzer.passes.step_picture import StepPicture, step_picture
from traceanalyzer.report.figures.common import in_order, place_names
from traceanalyzer.views.commands import command_line

Ask = Callable[..., Answer]
"""Answers a question by its name; keywords are of the selection."""

POINTS = 500
"""Points of a picture of a step, from its start to its end."""
MOST_IN_PICTURE = 8
"""Devices of a picture of a step."""
BESIDE_TIMELINES = ("throughput", "metrics")
"""Questions that files without a timeline may answer."""
_WHOLE = frozenset({"steps", "memory", "metrics", "checkup", "info"})
"""Questions that are asked for all rows."""
LEAST_ROWS, ROWS_A_DEVICE, MOST_ROWS = 500, 60, 20_000


class Material:
    """The answers that a report is made from, for the one run of a scope.

    `ask` answers questions about that scope; `inputs` is what a command line names the same captures by, and `told`
    the selection that its commands tell; `private` makes texts that come from no answer fit to leave.
    """

    def __init__(self, scope: Scope, ask: Ask, inputs: str, told: Selection, private: Callable[[str], str]) -> None:
        self.scope, self._inputs, self._told = scope, inputs, told
        self._ask, self._private = ask, private
        self._answers: dict[str, Answer] = {}

    @property
    def rows(self) -> int:
        """Rows of each list that questions are asked for."""
        return min(max(LEAST_ROWS, ROWS_A_DEVICE * len(self.scope.devices)), MOST_ROWS)

    def answer(self, question: str) -> Answer:
        """The answer to a question: asked once."""
        if question not in self._answers:
            # Steps are few, and each is drawn; curves and samples are thinned by those who draw them.
            top = 0 if question in _WHOLE else self.rows
            self._answers[question] = self._ask(question, top=top)
        return self._answers[question]

    def is_cut(self, answer: Answer, name: str) -> bool:
        """Whether a table may have more rows than were asked for."""
        frame = answer.tables[name]
        return frame.spec.cut and answer.command not in _WHOLE and len(frame) >= self.rows

    @property
    def answers(self) -> list[Answer]:
        """Those that were asked so far."""
        return list(self._answers.values())

    @property
    def warnings(self) -> list[str]:
        """What the answers warn of, each text once. That nothing was recorded for a question is told by its section."""
        told = [answer for answer in self.answers if any(len(frame) for frame in answer.tables.values())]
        return list(dict.fromkeys(text for answer in told for text in answer.warnings))

    def command(self, words: str) -> str:
        """A command line of this program about the same captures."""
        return command_line(words, self._inputs, self._told)

    @property
    def has_timeline(self) -> bool:
        """Whether operations of devices were recorded."""
        return bool(self.scope.devices)

    @property
    def ranks(self) -> list[int]:
        """The ranks that operations were recorded of."""
        return sorted({device.rank for device in self.scope.devices if device.rank is not None})

    def pictured(self, step: int) -> list[DeviceOfCapture]:
        """The devices that are drawn in a picture of a step: of many the one on which it is longest, then those that
        are late, and those that wait most."""
        took = {
            (row["capture"], row["device"]): row["device_duration_ns"]
            for row in self.answer("steps").tables["steps"].rows()
            if row["step"] == step and row["device_duration_ns"]
        }
        able = [device for device in self.scope.devices if (device.capture, device.device) in took]
        devices = sorted(able, key=lambda d: in_order((d.capture, d.rank, d.device)))
        if len(devices) <= MOST_IN_PICTURE:
            return devices
        longest = max(devices, key=lambda device: took[device.capture, device.device])
        answer = self.answer("imbalance")
        late = answer.tables["stragglers"].columns["rank"]
        rows = sorted(answer.tables["ranks"].rows(), key=lambda row: -(row["wait_ns"] or 0))
        order = list(dict.fromkeys([*late, *(row["rank"] for row in rows)]))
        place = {rank: k for k, rank in enumerate(order)}
        most = sorted(devices, key=lambda d: (d is not longest, place.get(d.rank, len(order))))[:MOST_IN_PICTURE]
        return [device for device in devices if device in most]

    def names(self) -> dict[DeviceOfCapture, str]:
        """Names of the devices, as short as tells them apart."""
        places = {(device.capture, device.rank, device.device): device for device in self.scope.devices}
        return {places[place]: name for place, name in place_names(places).items()}

    def steps_to_draw(self) -> list[tuple[str, int]]:
        """A typical step and the worst one, of those that count: `typical`, `worst`, and their numbers.

        A step's length is that of the device that takes longest; the typical one is of median length.
        """
        longest: dict[int, int] = {}
        for row in self.answer("steps").tables["steps"].rows():
            counts = row["device_duration_ns"] and not row["warmup"] and not row["incomplete"]
            if counts:
                longest[row["step"]] = max(longest.get(row["step"], 0), row["device_duration_ns"])
        if not longest:
            return []
        ordered = sorted(longest, key=lambda step: (longest[step], step))
        typical = ordered[(len(ordered) - 1) // 2]
        worst = max(ordered, key=lambda step: (longest[step], -step))
        return [("typical", typical)] + ([("worst", worst)] if worst != typical else [])

    def picture(self, step: int) -> StepPicture | None:
        """A step of the pictured devices; None where nothing has any length in it."""
        picture = step_picture(self.scope, self._tree, self._communication, self.pictured(step), step, POINTS)
        if picture is None:
            return None
        stretches = {
            device: [replace(each, blame=each.blame and self._private(each.blame)) for each in stretches]
            for device, stretches in picture.stretches.items()
        }
        return replace(picture, stretches=stretches)

    @cached_property
    def _tree(self) -> StackTree:
        return StackTree(self.scope)

    @cached_property
    def _communication(self) -> Any:
        return communication_of(self.scope)
