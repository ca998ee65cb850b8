"""Work of reductions: sums, means, extremes, norms, losses. FLOP an element are the operations of the formula."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.work.amounts import Estimator, Work, read_once, work
from traceanalyzer.passes.work.arguments import Arguments, Tensor, UnrecordedError, product
from traceanalyzer.passes.work.elementwise import Pointwise, pointwise
from traceanalyzer.passes.work.precisions import BOOL, INT64, Precision
from traceanalyzer.passes.work.shapes import broadcast, reduced

_DIMS_UNKNOWN = "the result is not counted, reduced dimensions are not recorded"


@dataclass(frozen=True, slots=True)
class _Reduction:
    """What a reduction does."""

    flop: int = 1
    """An element."""
    dims_at: int = 1
    """Where it is told the dimensions to reduce; an empty list or none at all are all."""
    whole_count: int | None = None
    """So many arguments are the overload that reduces all."""
    type_at: int | None = None
    """Where it is told the type of the result."""
    widens: bool = False
    """Of integers it makes int64."""
    yields: Precision | None = None
    also_bytes: int = 0
    """What it writes beside each element of the result."""


_SUM = _Reduction(whole_count=2, type_at=3, widens=True)
_EXTREME = _Reduction(whole_count=1, also_bytes=INT64.bytes)
_TRUTH = _Reduction(whole_count=1, yields=BOOL)
_SPREAD = _Reduction(flop=4, whole_count=2)
_OPERATORS = {
    **dict.fromkeys(("sum", "nansum", "mean", "prod"), _SUM),
    **dict.fromkeys(("amax", "amin"), _Reduction()),
    **dict.fromkeys(("argmax", "argmin"), _Reduction(yields=INT64)),
    **dict.fromkeys(("all", "any"), _TRUTH),
    "count_nonzero": _Reduction(yields=INT64),
    "logsumexp": _Reduction(flop=4),
    "norm": _Reduction(flop=2, dims_at=2, whole_count=2),
    "linalg_vector_norm": _Reduction(flop=2, dims_at=2, type_at=4),
    **dict.fromkeys(("var", "std"), _SPREAD),
}
_COMPARISON = Pointwise(2, 1)
_SQUARED_DIFFERENCE_FLOP = 3


def _result_elements(operator: _Reduction, arguments: Arguments, data: Tensor) -> int | None:
    """Number of elements of the result, None if the trace does not tell which dimensions were reduced."""
    if arguments.count == operator.whole_count:
        return 1
    over = arguments.find_integers(operator.dims_at)
    if over is None:
        # Values were recorded, but here is none: all dimensions.
        return 1 if arguments.has_values and not arguments.text(operator.dims_at) else None
    return product(reduced(data.dims, over))


def _work_of(operator: _Reduction, arguments: Arguments) -> Work:
    data = next(iter(arguments.all_tensors()), None)
    if data is None:
        raise UnrecordedError("nothing to reduce")
    elements = _result_elements(operator, arguments, data)
    told = None if operator.type_at is None else arguments.find_type(operator.type_at)
    widened = INT64 if operator.widens and data.precision.key and not data.precision.is_floating else data.precision
    yields = operator.yields or arguments.result_type(operator.dims_at) or told or widened
    notes = (_DIMS_UNKNOWN,) if elements is None else ()
    written = (elements or 0) * (yields.bytes + operator.also_bytes)
    flop = operator.flop * data.elements
    return work(Family.REDUCTION, flop, data.distinct_bytes, written, data.precision, *notes)


def _work_of_extreme(arguments: Arguments) -> Work:
    """`max(self)`, `max(self, dim, keepdim)`, which finds the places too, and `max(self, other)`."""
    other = arguments.find(1)
    if other is not None:
        operands = [arguments.tensor(0), other]
        return pointwise(Family.ELEMENTWISE, _COMPARISON, operands, arguments.result_type(1))
    return _work_of(_EXTREME if arguments.count > 1 else _Reduction(whole_count=1), arguments)


def _work_of_running_sum(arguments: Arguments) -> Work:
    """`cumsum(self, dim, dtype)`: as many results as elements."""
    data = next(iter(arguments.all_tensors()), None)
    if data is None:
        raise UnrecordedError("nothing to sum")
    widened = INT64 if data.precision.key and not data.precision.is_floating else data.precision
    yields = arguments.find_type(2) or widened
    return work(Family.REDUCTION, data.elements, data.distinct_bytes, data.elements * yields.bytes, data.precision)


def _work_of_squared_loss(arguments: Arguments) -> Work:
    """`mse_loss(self, target, reduction)`; reduction 0 keeps an element each."""
    operands: Sequence[Tensor] = (arguments.tensor(0), arguments.tensor(1))
    elements = product(broadcast([tensor.dims for tensor in operands]))
    how = arguments.find_integers(2)
    results = elements if how == (0,) else 1
    notes = ("a mean or a sum, which is not recorded",) if how is None else ()
    precision = operands[0].precision
    flop, written = _SQUARED_DIFFERENCE_FLOP * elements, results * precision.bytes
    return work(Family.REDUCTION, flop, read_once(operands), written, precision, *notes)


def _work_of_likelihood(first: int, arguments: Arguments) -> Work:
    """Negative log likelihood: one element a target is picked, forward summed, backward written."""
    data, target = arguments.tensor(first), arguments.tensor(first + 1)
    picked = target.elements * data.precision.bytes
    read = target.distinct_bytes + (0 if first else picked)
    written = picked if first else data.precision.bytes
    return work(Family.REDUCTION, target.elements, read, written, data.precision)


def _work_of_norms(arguments: Arguments) -> Work:
    """`_foreach_norm(self, ord, dtype)`: one number a tensor."""
    tensors = arguments.tensors(0)
    flop = 2 * sum(tensor.elements for tensor in tensors)
    written = len(tensors) * tensors[0].precision.bytes
    return work(Family.REDUCTION, flop, read_once(tensors), written, tensors[0].precision)


ESTIMATORS: dict[str, Estimator] = {
    **{name: partial(_work_of, operator) for name, operator in _OPERATORS.items()},
    **dict.fromkeys(("max", "min"), _work_of_extreme),
    **dict.fromkeys(("cumsum", "cumprod"), _work_of_running_sum),
    "mse_loss": _work_of_squared_loss,
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), partial(_work_of_likelihood, 0)),
    **dict.fromkeys(("nll_loss_backward", "nll_loss2d_backward"), partial(_work_of_likelihood, 1)),
    "_foreach_norm": _work_of_norms,
}
