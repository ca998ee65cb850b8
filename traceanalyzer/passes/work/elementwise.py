"""Work of operators that compute each element of the result from one element of each operand.

FLOP are those of the formula in PyTorch's documentation: one for an arithmetic operation or comparison, and one for an
elementary function (exp, tanh, erf, a power), however many instructions that takes. Selecting counts nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.work.amounts import Estimator, Work, read_once, work
from traceanalyzer.passes.work.arguments import Arguments, Tensor, UnrecordedError, product
from traceanalyzer.passes.work.precisions import BOOL, FP32, Precision, promoted
from traceanalyzer.passes.work.shapes import broadcast


@dataclass(frozen=True, slots=True)
class Pointwise:
    """What such an operator does an element."""

    operands: int
    """How many of the first arguments are operands; those that are no tensors cost nothing."""
    flop: int
    yields: Precision | None = None
    """Type of the result whatever the operands are."""
    is_real: bool = False
    """Of integers it makes fp32."""
    mask_bytes: int = 0
    """What it writes beside the result, an element."""
    assumes: tuple[str, ...] = ()


_PROBABILITIES = ("drawing random numbers is not counted",)
_REAL = partial(Pointwise, is_real=True)
_OPERATIONS = {
    **dict.fromkeys(("add", "sub", "rsub", "mul", "pow", "maximum", "minimum", "fmax", "fmin"), Pointwise(2, 1)),
    **dict.fromkeys(("remainder", "fmod", "floor_divide", "clamp_min", "clamp_max"), Pointwise(2, 1)),
    **dict.fromkeys(("div", "true_divide", "divide", "atan2"), _REAL(2, 1)),
    **dict.fromkeys(("neg", "abs", "square", "sgn", "sign", "relu", "relu6", "clamp", "hardtanh"), Pointwise(1, 1)),
    **dict.fromkeys(("floor", "ceil", "round", "trunc", "threshold", "leaky_relu"), Pointwise(1, 1)),
    **dict.fromkeys(("sqrt", "rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10"), _REAL(1, 1)),
    **dict.fromkeys(("log1p", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "erfc", "erfinv"), _REAL(1, 1)),
    **dict.fromkeys(("silu", "gelu", "logit", "softplus", "elu"), Pointwise(1, 2)),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), Pointwise(2, 1, BOOL)),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), Pointwise(1, 1, BOOL)),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), Pointwise(2, 0, BOOL)),
    "logical_not": Pointwise(1, 0, BOOL),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "masked_fill"), Pointwise(2, 0)),
    **dict.fromkeys(("bitwise_not", "nan_to_num"), Pointwise(1, 0)),
    **dict.fromkeys(("where", "_s_where"), Pointwise(3, 0)),
    **dict.fromkeys(("addcmul", "addcdiv", "lerp"), Pointwise(3, 3)),
    "native_dropout": Pointwise(1, 2, mask_bytes=1, assumes=_PROBABILITIES),
    "_fused_dropout": Pointwise(1, 2, mask_bytes=1, assumes=_PROBABILITIES),
    **dict.fromkeys(("native_dropout_backward", "_masked_scale"), Pointwise(2, 2)),
    **dict.fromkeys(("threshold_backward", "hardtanh_backward", "leaky_relu_backward"), Pointwise(2, 1)),
    **dict.fromkeys(("tanh_backward", "sigmoid_backward", "logit_backward"), Pointwise(2, 3)),
    "mse_loss_backward": Pointwise(3, 3),
    # g (F(x) + x f(x)) with the normal distribution's F and f.
    "gelu_backward": Pointwise(2, 5),
    # g s(x) (1 + x (1 - s(x))) with the logistic function s.
    "silu_backward": Pointwise(2, 6),
}
_FOREACH = frozenset(
    ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max", "addcmul", "addcdiv", "lerp")
) | frozenset(("neg", "abs", "sign", "sqrt", "rsqrt", "reciprocal", "exp", "log", "tanh", "sigmoid", "relu"))
_DRAWS = ("uniform_", "normal_", "bernoulli_", "exponential_", "random_", "log_normal_", "cauchy_", "geometric_")


def pointwise(
    family: Family, operation: Pointwise, operands: Sequence[Tensor], yields: Precision | None = None
) -> Work:
    """Work of an operation on tensors that broadcast; `yields` is the type of a result that the caller gave."""
    if not operands:
        raise UnrecordedError("no operand")
    elements = product(broadcast([tensor.dims for tensor in operands]))
    common = promoted([(tensor.precision, len(tensor.dims)) for tensor in operands])
    if yields is None:
        yields = operation.yields or common
        # What is not recorded is taken for real.
        yields = FP32 if operation.is_real and yields.key and not yields.is_floating else yields
    written = elements * (yields.bytes + operation.mask_bytes)
    return work(family, elements * operation.flop, read_once(operands), written, common, *operation.assumes)


def _work_of(operation: Pointwise, arguments: Arguments) -> Work:
    operands = [tensor for at in range(operation.operands) if (tensor := arguments.find(at)) is not None]
    return pointwise(Family.ELEMENTWISE, operation, operands, arguments.result_type(operation.operands - 1))


def _work_in_place(operation: Pointwise, arguments: Arguments) -> Work:
    first = arguments.tensor(0)
    others = [tensor for at in range(1, operation.operands) if (tensor := arguments.find(at)) is not None]
    return pointwise(Family.ELEMENTWISE, operation, [first, *others], first.precision)


def _work_of_lists(operation: Pointwise, arguments: Arguments) -> Work:
    """`_foreach_...`: the operation on each tensor of a list with those at its place in other lists."""
    lists = [found for at in range(operation.operands) if (found := arguments.find_tensors(at))]
    first = arguments.tensors(0)
    elements = sum(tensor.elements for tensor in first)
    read = sum(read_once(tensors) for tensors in lists)
    written = sum(tensor.bytes for tensor in first)
    return work(Family.ELEMENTWISE, elements * operation.flop, read, written, first[0].precision)


def _work_of_draws(arguments: Arguments) -> Work:
    """Fills a tensor with random numbers."""
    filled = arguments.tensor(0)
    return work(Family.ELEMENTWISE, 0, 0, filled.bytes, filled.precision, *_PROBABILITIES)


def _work_into(flop: int, arguments: Arguments) -> Work:
    """Operators of vLLM that name their result first: so many FLOP an element of it."""
    out, source = arguments.tensor(0), arguments.tensor(1)
    return work(Family.ELEMENTWISE, flop * out.elements, source.distinct_bytes, out.bytes, source.precision)


ESTIMATORS: dict[str, Estimator] = {
    **{name: partial(_work_of, operation) for name, operation in _OPERATIONS.items()},
    **{f"{name}_": partial(_work_in_place, operation) for name, operation in _OPERATIONS.items()},
    **{
        f"_foreach_{name}{in_place}": partial(_work_of_lists, _OPERATIONS[name])
        for name in _FOREACH
        for in_place in ("", "_")
    },
    **dict.fromkeys(_DRAWS, _work_of_draws),
    # (out, input): one half of a row, activated, times the other.
    "_C::silu_and_mul": partial(_work_into, 3),
    # (out, input, scale)
    "_C::static_scaled_fp8_quant": partial(_work_into, 1),
}
