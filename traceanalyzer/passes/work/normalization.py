"""Work of normalizations.

FLOP an element by their formulas. Forward: mean 1, variance 3 (difference, square, sum), scaling by the deviation 1,
weight and bias 1 each; a root mean square needs square, sum, scaling. Backward: the normalized input 2 (RMS 1), times
the weight 1, the sums that the gradient needs 3 (RMS 2), the gradient itself 4 (RMS 3), of the weight 2, of the bias 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.work.amounts import Estimator, Work, read_once, work
from traceanalyzer.passes.work.arguments import Arguments, Tensor

_ALL_ASSUMED = "all gradients, which were asked for is not recorded"
_MODE_ASSUMED = "with given statistics, whether in training is not recorded"


@dataclass(frozen=True, slots=True)
class _Forward:
    """Where the arguments of a normalization are, after its input."""

    weight: int
    bias: int | None = None
    flop: int = 5
    """Without weight and bias."""
    training: int | None = None
    """Where it is told whether to compute statistics or to take those at the two places before."""


@dataclass(frozen=True, slots=True)
class _Backward:
    """Where the arguments of a backward normalization are."""

    tensors: tuple[int, ...]
    """Gradient, input, weight, statistics: all that is read."""
    mask: int | None
    """Where it is told which gradients are wanted; None: all."""
    has_bias: bool = True
    flop: int = 10
    """For the gradient of the input."""


_BATCH = _Forward(1, 2, training=5)
_RMS_FLOP, _RMS_BACKWARD_FLOP, _SCALE_AND_SHIFT_FLOP = 3, 7, 2
_FORWARD = {
    # (input, normalized_shape, weight, bias, eps)
    **dict.fromkeys(("native_layer_norm", "layer_norm", "group_norm"), _Forward(2, 3)),
    # (input, normalized_shape, weight, eps)
    **dict.fromkeys(("_fused_rms_norm", "rms_norm"), _Forward(2, flop=_RMS_FLOP)),
    # (input, weight, bias, N, C, HxW, group, eps)
    "native_group_norm": _Forward(1, 2),
    # (input, weight, bias, running_mean, running_var, training, ...)
    **dict.fromkeys(("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "batch_norm"), _BATCH),
    "_native_batch_norm_legit": _BATCH,
}
_BACKWARD = {
    # (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
    "native_layer_norm_backward": _Backward((0, 1, 5, 3, 4), 7),
    # (grad_out, input, normalized_shape, rstd, weight, output_mask)
    "_fused_rms_norm_backward": _Backward((0, 1, 4, 3), 5, has_bias=False, flop=_RMS_BACKWARD_FLOP),
    # (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)
    "native_group_norm_backward": _Backward((0, 1, 4, 2, 3), 9),
    # (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask)
    "native_batch_norm_backward": _Backward((0, 1, 2, 5, 6), 9),
    # (input, grad_output, weight, running_mean, running_var, save_mean, save_var, epsilon, ...)
    **dict.fromkeys(("cudnn_batch_norm_backward", "miopen_batch_norm_backward"), _Backward((1, 0, 2, 5, 6), None)),
}


def _work_of_forward(operator: _Forward, arguments: Arguments) -> Work:
    data, weight = arguments.tensor(0), arguments.find(operator.weight)
    bias = None if operator.bias is None else arguments.find(operator.bias)
    per_element, statistics, assumed = operator.flop, [], []
    if operator.training is not None:
        training = arguments.find_flags(operator.training)
        if training != (True,):  # where the trace does not tell too: subtracting a mean and scaling is the least
            per_element = _SCALE_AND_SHIFT_FLOP
            statistics = [arguments.find(operator.training - 2), arguments.find(operator.training - 1)]
            assumed = [] if training else [_MODE_ASSUMED]
    per_element += sum(tensor is not None for tensor in (weight, bias))
    read = read_once([data, weight, bias, *statistics])
    return work(Family.NORMALIZATION, per_element * data.elements, read, data.bytes, data.precision, *assumed)


def _work_of_backward(operator: _Backward, arguments: Arguments) -> Work:
    tensors = [arguments.find(at) for at in operator.tensors]
    gradient, data = arguments.tensor(operator.tensors[0]), arguments.tensor(operator.tensors[1])
    weight = tensors[2]
    told = None if operator.mask is None else arguments.find_flags(operator.mask)
    n_gradients = 3 if operator.has_bias else 2
    assumed = operator.mask is not None and (told is None or len(told) != n_gradients)
    wanted = (True,) * n_gradients if told is None or assumed else told
    costs = (operator.flop, 2, 1)[:n_gradients]
    results: Sequence[Tensor | None] = (data, weight, weight)[:n_gradients]
    made = [
        (cost, result)
        for cost, result, asked in zip(costs, results, wanted, strict=True)
        if asked and result is not None
    ]
    flop = gradient.elements * sum(cost for cost, _ in made)
    written = sum(result.bytes for _, result in made)
    notes = (_ALL_ASSUMED,) if assumed else ()
    return work(Family.NORMALIZATION, flop, read_once(tensors), written, data.precision, *notes)


def _work_of_vllm(arguments: Arguments) -> Work:
    """`_C::rms_norm(out, input, weight, eps)`."""
    out, data, weight = (arguments.tensor(at) for at in range(3))
    flop = (_RMS_FLOP + 1) * data.elements
    return work(Family.NORMALIZATION, flop, read_once([data, weight]), out.bytes, data.precision)


def _work_of_vllm_with_sum(arguments: Arguments) -> Work:
    """`_C::fused_add_rms_norm(input, residual, weight, eps)`: both become their sum, the input normalized."""
    data, residual, weight = (arguments.tensor(at) for at in range(3))
    flop = (_RMS_FLOP + 2) * data.elements
    read = read_once([data, residual, weight])
    return work(Family.NORMALIZATION, flop, read, data.bytes + residual.bytes, data.precision)


ESTIMATORS: dict[str, Estimator] = {
    **{name: partial(_work_of_forward, operator) for name, operator in _FORWARD.items()},
    **{name: partial(_work_of_backward, operator) for name, operator in _BACKWARD.items()},
    "_C::rms_norm": _work_of_vllm,
    "_C::fused_add_rms_norm": _work_of_vllm_with_sum,
}
