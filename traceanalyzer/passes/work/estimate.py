"""How much work an operator is, by its name and the shapes that torch.profiler recorded."""

from dataclasses import replace
from functools import lru_cache

from traceanalyzer.passes.work import (
    attention,
    convolution,
    copies,
    elementwise,
    embedding,
    matmul,
    normalization,
    optimizer,
    reduction,
    softmax,
)
from traceanalyzer.passes.work.amounts import Estimator, Work
from traceanalyzer.passes.work.arguments import Arguments, UnrecordedError
from traceanalyzer.passes.work.precisions import UNRECORDED, Precision, precision_of

__all__ = ["Work", "precision_of", "work_of"]

KINDS = (
    matmul,
    convolution,
    attention,
    elementwise,
    copies,
    normalization,
    softmax,
    reduction,
    embedding,
    optimizer,
)
"""One module a kind of operators."""
_ESTIMATORS: dict[str, Estimator] = {name: found for kind in KINDS for name, found in kind.ESTIMATORS.items()}


@lru_cache(maxsize=2048)
def work_of(name: str, args: str | None, untyped: Precision = UNRECORDED) -> Work | None:
    """Work of one call of an operator; None if the operator is not known or the trace does not tell enough.

    `name` and `args` are those of `cpu_events`. `untyped` is the type of tensors whose type was not recorded, such as
    those in lists: the name of the kernel may tell it (`kernel_types.element_of`).
    """
    estimator = _ESTIMATORS.get(name.removeprefix("aten::"))
    if estimator is None or not args:
        return None
    try:
        arguments = Arguments.read(args, untyped)
        estimate = estimator(arguments)
    except UnrecordedError:
        return None
    if not arguments.has_untyped:
        return estimate
    told = "type of elements by the kernel" if untyped.key else f"{untyped.bytes} bytes an element, types not recorded"
    return replace(estimate, note=f"{estimate.note}; {told}")
