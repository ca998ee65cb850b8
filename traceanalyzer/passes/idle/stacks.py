"""Stacks as nodes of a prefix tree, and what each says by itself: its cause, its blame, its texts."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.causes import Cause, cause_of_event, outermost_cause
from traceanalyzer.passes.native_frames import short_native_frame
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.user_code import is_framework_range, is_user_file
from traceanalyzer.schema.kinds import EventKind

Nodes = NDArray[np.int32]
NO_STACK = -1

_NATIVE = 255
"""Kind of frames of native code."""
_MADE = frozenset({EventKind.API_CALL, EventKind.OS_CALL, EventKind.HOST_COMMUNICATION, _NATIVE})
"""Kinds of what a frame of Python made: it is inside of that frame, whatever recorded the two."""
_BACKWARD = re.compile(r"\W*+[\w.:]*backward[\w.:]*(?:\(\))?(?:\W+(?:pass|step|call))?[\W\d]*", re.IGNORECASE)
"""A range that is a backward pass, and not one that only speaks of it."""
_MOST_OF_NAME = 200


@dataclass(frozen=True, slots=True)
class Label:
    """A frame wherever it occurs."""

    text: str
    kind: int
    file: str | None
    line: int | None
    module: str | None

    @property
    def recorded_name(self) -> str:
        """The text with the whole path of its file before it."""
        return f"{self.file}: {self.text}" if self.file else self.text


class StackTree:
    """All stacks of a store. Node `n` stands for the frame `label[n]` called from node `parent[n]`; -1 is no stack.

    Stacks that nothing recorded as a whole, a sample inside open ranges, are added to the tree: their numbers are
    larger than those of the store. Arrays by nodes: `cause` of time in which the node is the stack (`Cause`),
    `in_call` whether an API call is open, `is_call` whether it is innermost, `blame` the node of the blamed frame (-1).
    """

    def __init__(self, scope: Scope) -> None:
        selection = scope.selection
        self._step_range = re.compile(selection.step_range) if selection.step_range else None
        self._input_range = re.compile(selection.input_range) if selection.input_range else None
        self._user_code = re.compile(selection.user_code) if selection.user_code else None
        self._load(scope)
        self._shortened = self._shorten()
        self._ask_labels()
        self._derive()
        self._children: dict[tuple[int, int], int] | None = None
        self._merged: dict[tuple[int, int, bool], int] = {}
        self._frames: dict[int, list[str]] = {}
        self._under: dict[str, NDArray[np.bool_]] = {}
        self._blame_label: NDArray[np.int32] | None = None
        self._ranges: Nodes | None = None
        self.stored = len(self.parent)
        self._unmarked = self._without_marks()

    def _load(self, scope: Scope) -> None:
        got = scope.connection.execute(
            f"""SELECT node_id, coalesce(parent_id, -1)::INTEGER AS parent, frame::INTEGER AS frame,
                coalesce(file, -1)::INTEGER AS file, coalesce(line, -1)::INTEGER AS line,
                coalesce(module, -1)::INTEGER AS module, coalesce(kind, {_NATIVE})::INTEGER AS kind
            FROM stored.stack_nodes ORDER BY node_id"""
        ).fetchnumpy()
        keys = np.stack([np.asarray(got[name], np.int64) for name in ("frame", "kind", "file", "line", "module")], 1)
        distinct, label = np.unique(keys, axis=0, return_inverse=True) if len(keys) else (keys, np.zeros(0, np.intp))
        texts = scope.texts(np.unique(distinct[:, [0, 2, 4]]).tolist())
        self.labels = [
            Label(texts.get(frame, ""), kind, texts.get(file), None if line < 0 else line, texts.get(module))
            for frame, kind, file, line, module in distinct.tolist()
        ]
        self.parent = np.asarray(got["parent"], np.int32)
        self.label = label.reshape(-1).astype(np.int32)

    def _shorten(self) -> dict[int, int | None]:
        """Labels of native frames as they stand in merged stacks: None where they are left out."""
        numbers = {label: k for k, label in enumerate(self.labels)}
        out: dict[int, int | None] = {}
        for k, label in enumerate(self.labels[:]):
            if label.kind != _NATIVE:
                continue
            text = short_native_frame(label.text, label.module)
            short = None if text is None else Label(text, _NATIVE, None, None, label.module)
            if short is not None and short not in numbers:
                numbers[short] = len(self.labels)
                self.labels.append(short)
            out[k] = None if short is None else numbers[short]
        return out

    def _ask_labels(self) -> None:
        """What each distinct frame says: asked once, for stacks that are added have no others."""
        labels, inputs = self.labels, self._input_range
        self._label_kind = np.array([label.kind for label in labels], np.uint8)
        self._label_own = np.array([_own_cause(label, inputs) for label in labels], np.int8)
        self._label_outer = np.array([_outer_cause(label, inputs) for label in labels], np.int8)
        self._label_frame = np.array([self._is_user_frame(label) for label in labels], np.bool_)
        self._label_range = np.array([_is_user_range(label) for label in labels], np.bool_)

    def _derive(self) -> None:
        kind = self._of_labels(self._label_kind)
        own_cause, outer_cause = self._of_labels(self._label_own), self._of_labels(self._label_outer)
        call = self.nearest(kind == EventKind.API_CALL)
        decides = self.outermost(outer_cause >= 0)
        innermost = self.nearest(kind != _NATIVE)
        cause = np.full(len(self.parent), int(Cause.OUTSIDE_EVENTS), np.int8)
        for found, of_node in ((innermost, own_cause), (decides, outer_cause), (call, own_cause)):
            known = found >= 0
            cause[known] = of_node[found[known]]
        self.cause = cause
        self.in_call, self.is_call = call >= 0, kind == EventKind.API_CALL
        frame = self.nearest(self._of_labels(self._label_frame))
        user_range = self.nearest(self._of_labels(self._label_range))
        self.blame = np.where(frame >= 0, frame, user_range).astype(np.int32)

    def _without_marks(self) -> Nodes | None:
        """Of each stored stack the same without the ranges that `--step-range` makes step marks; None: all are so."""
        pattern = self._step_range
        if pattern is None:
            return None
        mark = self.matching(lambda label: label.kind == EventKind.RANGE and bool(pattern.fullmatch(label.text)))
        marked = np.flatnonzero(self.inside(mark))
        if not len(marked):
            return None
        found = np.arange(len(self.parent) + 1, dtype=np.int32)
        found[-1] = NO_STACK
        for node in marked.tolist():  # parents have the smaller numbers
            above = int(found[self.parent[node]])
            found[node] = above if mark[node] else self._child(above, int(self.label[node]))
        self._derive()
        return found

    def seen(self, nodes: Nodes) -> Nodes:
        """Stored stacks as they are told: without step marks."""
        return nodes if self._unmarked is None else self._unmarked[nodes]

    def _of_labels(self, values: NDArray[Any]) -> NDArray[Any]:
        return values[self.label] if len(self.label) else values[:0]

    def _is_user_frame(self, label: Label) -> bool:
        return label.kind == EventKind.PYTHON_FRAME and is_user_file(label.file, self._user_code)

    def matching(self, test: Callable[[Label], bool]) -> NDArray[np.bool_]:
        """Nodes whose innermost frame passes a test, which is asked once for each distinct frame."""
        return self._of_labels(np.array([test(label) for label in self.labels], np.bool_))

    def nearest(self, flag: NDArray[np.bool_]) -> Nodes:
        """The innermost node with a flag on each stack, itself included; -1 where there is none."""
        # One more node, the last, stands for no stack; numpy reaches it as -1. Distances double.
        up = np.append(np.where(flag, np.arange(len(flag)), self.parent), -1).astype(np.int32)
        stop = np.append(flag, True)
        left = np.flatnonzero(~stop[up])
        while len(left):
            up[left] = up[up[left]]
            left = left[~stop[up[left]]]
        return up[:-1]

    def outermost(self, flag: NDArray[np.bool_]) -> Nodes:
        """The outermost node with a flag on each stack, itself included; -1 where there is none."""
        found = np.append(self.nearest(flag), -1).astype(np.int32)
        flagged = np.flatnonzero(flag)
        above = found[self.parent[flagged]]  # the next one with a flag further out
        top = np.arange(len(found), dtype=np.int32)
        top[flagged] = np.where(above >= 0, above, flagged)
        moving = flagged
        while len(moving):
            over = top[top[moving]]
            moving = moving[over != top[moving]]
            top[moving] = top[top[moving]]
        top[-1] = -1
        return top[found[:-1]]

    def inside(self, flag: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Nodes with a flag somewhere on their stack."""
        return self.nearest(flag) >= 0

    def under(self, pattern: str) -> NDArray[np.bool_]:
        """Nodes with a frame on their stack whose text the pattern is found in."""
        known = self._under.get(pattern)
        if known is None or len(known) < len(self.parent):
            expression = re.compile(pattern)
            flag = self.matching(lambda label: expression.search(label.recorded_name) is not None)
            known = self._under[pattern] = self.inside(flag)
        return known

    def blame_label(self) -> NDArray[np.int32]:
        """The blamed frame of every node as a number of `labels`, -1 for none."""
        if self._blame_label is None or len(self._blame_label) < len(self.parent):
            self._blame_label = np.where(self.blame >= 0, self.label[self.blame], -1).astype(np.int32)
        return self._blame_label

    @property
    def copy_calls(self) -> NDArray[np.bool_]:
        """Nodes that are calls which copy; one more at the end, for no stack."""
        return np.append(self.matching(lambda label: label.kind == EventKind.API_CALL and _is_copy(label.text)), False)

    @property
    def innermost_range(self) -> Nodes:
        """The innermost node of a range, whoever opened it, on each stack; -1 where there is none."""
        if self._ranges is None or len(self._ranges) < len(self.parent):
            self._ranges = self.nearest(self.matching(lambda label: label.kind == EventKind.RANGE))
        return self._ranges

    def path(self, node: int) -> list[int]:
        """Nodes from the outermost to this one; empty for -1."""
        out = []
        while node >= 0:
            out.append(node)
            node = int(self.parent[node])
        return out[::-1]

    def text(self, node: int) -> str | None:
        """Text of the innermost frame of a stack; None for no stack."""
        return self.labels[self.label[node]].text if node >= 0 else None

    def frames(self, node: int) -> list[str]:
        """Texts of the frames, outermost first. The list is shared: do not change it."""
        known = self._frames.get(node)
        if known is None:
            known = self._frames[node] = [self.labels[self.label[n]].text for n in self.path(node)]
        return known

    def blame_text(self, node: int) -> str | None:
        """The innermost frame of the user's own code; none: the innermost range of the user; else None."""
        return self.text(int(self.blame[node])) if node >= 0 else None

    def merged(self, event: Nodes, sample: Nodes, *, of_call: bool = False) -> Nodes:
        """Stacks of samples and back traces (second) inside what is open (first): inside ranges, around calls.

        Back traces of a call, or of an operator, are around open operators as well (`of_call`).

        Native frames of the interpreter, and those without a name, are left out; of the others the text is shortened.
        Such stacks are added to the tree where they are not yet part of it.
        """
        pair = event.astype(np.int64) << 32 | sample
        distinct, inverse = np.unique(pair, return_inverse=True)
        found = np.empty(len(distinct), np.int32)
        before = len(self.parent)
        for k, key in enumerate(distinct.tolist()):
            outer, inner = key >> 32, key & 0xFFFFFFFF
            node = self._merged.get((outer, inner, of_call))
            if node is None:
                node = self._merged[outer, inner, of_call] = self._merge(outer, inner, of_call)
            found[k] = node
        if len(self.parent) > before:
            self._derive()
        return np.asarray(found[inverse.reshape(-1)], np.int32)

    def _merge(self, event: int, sample: int, of_call: bool) -> int:
        open_ = [int(self.label[n]) for n in self.path(event)]
        called = [int(self.label[n]) for n in self.path(sample)]
        if event < 0 and not any(label in self._shortened for label in called):
            return sample
        kinds = _MADE | {EventKind.OPERATOR} if of_call else _MADE
        made = [label for label in open_ if self.labels[label].kind in kinds]
        if made and called and self.labels[called[-1]].text == self.labels[made[-1]].text:
            called.pop()  # the call itself ends its own back trace
        node = NO_STACK
        outer = [label for label in open_ if self.labels[label].kind not in kinds]
        for label in (*outer, *called, *made):
            short = self._shortened.get(label, label)
            if short is not None:
                node = self._child(node, short)
        return node

    def _child(self, parent: int, label: int) -> int:
        if self._children is None:
            keys = zip(self.parent.tolist(), self.label.tolist(), strict=True)
            self._children = {key: node for node, key in enumerate(keys)}
        node = self._children.get((parent, label))
        if node is None:
            node = self._children[parent, label] = len(self._children)
            self.parent = np.append(self.parent, np.int32(parent))
            self.label = np.append(self.label, np.int32(label))
        return node

    def waits_for_backward(self, frames_recorded: bool) -> NDArray[np.bool_]:
        """Nodes that are a thread which waits until others have done a backward pass.

        Where Python frames were recorded that is the call of the engine, else a range of the name (or calls of the
        system in it), or a sample that was taken in the call.
        """

        def waits(label: Label) -> bool:
            if label.kind == EventKind.PYTHON_FRAME:
                return "run_backward" in label.text
            return not frames_recorded and label.kind == EventKind.RANGE and _is_backward(label.text)

        innermost = self.nearest(self.matching(lambda label: label.kind not in _MADE))
        return np.append(self.matching(waits), False)[innermost]


def _is_copy(call: str) -> bool:
    return "memcpy" in call.lower()


def _is_backward(name: str) -> bool:
    return len(name) <= _MOST_OF_NAME and _BACKWARD.fullmatch(name) is not None


def _own_cause(label: Label, input_range: re.Pattern[str] | None) -> int:
    if label.kind == _NATIVE:
        return -1
    return int(cause_of_event(EventKind(label.kind), label.recorded_name, input_range))


def _outer_cause(label: Label, input_range: re.Pattern[str] | None) -> int:
    if label.kind == _NATIVE:
        return -1
    found = outermost_cause(EventKind(label.kind), label.recorded_name, input_range)
    return -1 if found is None else int(found)


def _is_user_range(label: Label) -> bool:
    return label.kind == EventKind.RANGE and not is_framework_range(label.text)
