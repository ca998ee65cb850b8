"""Arguments of operators as torch.profiler writes them."""

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class T:
    """A tensor; contiguous unless strides are given."""

    dims: list[int]
    type: str = "float"
    strides: list[int] | None = None
    contiguous: list[int] = field(init=False)

    def __post_init__(self) -> None:
        steps, step = [], 1
        for dim in reversed(self.dims):
            steps.insert(0, step)
            step *= dim
        object.__setattr__(self, "contiguous", steps if self.strides is None else self.strides)


def _recorded(argument: Any) -> tuple[Any, str, Any, str]:
    """Dims, type, strides and value of an argument."""
    if isinstance(argument, T):
        return argument.dims, argument.type, argument.contiguous, ""
    if isinstance(argument, list) and argument and isinstance(argument[0], T):
        return [t.dims for t in argument], "TensorList", [t.contiguous for t in argument], ""
    if argument is None:
        return [], "", [], ""
    return [], "ScalarList" if isinstance(argument, list) else "Scalar", [], str(argument)


def call(*arguments: Any, without: tuple[str, ...] = ()) -> str:
    """Compact JSON of the arguments of a call, without some of its keys."""
    dims, types, strides, values = zip(*map(_recorded, arguments), strict=True)
    keys = {"Input Dims": dims, "Input type": types, "Input Strides": strides, "Concrete Inputs": values}
    return json.dumps({key: value for key, value in keys.items() if key not in without}, separators=(",", ":"))
