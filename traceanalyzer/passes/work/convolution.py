"""Work of convolutions: 2 times the terms of each output element, padding counted as data, as is usual.

Additions for biases and for their gradients are not counted.
"""

from dataclasses import dataclass
from functools import partial

from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.work.amounts import Estimator, Work, multiply_adds, read_once, work
from traceanalyzer.passes.work.arguments import Arguments, Tensor, UnrecordedError, product


@dataclass(frozen=True, slots=True)
class _Forward:
    """Where the arguments of a convolution are, after its input and its weight."""

    stride: int
    padding: int
    dilation: int | None = None
    """None: not dilated."""
    bias: int | None = None
    groups: int | None = None
    output_padding: int | None = None
    transposed: int | bool = False
    """Where the operator is told, or what its name says."""


@dataclass(frozen=True, slots=True)
class _Backward:
    """Where the arguments of a backward convolution are that yields the gradients that a mask asks for."""

    mask: int
    transposed: int | None = None


_GENERAL = _Forward(stride=3, padding=4, dilation=5, bias=2, transposed=6, output_padding=7, groups=8)
_PLAIN = _Forward(stride=3, padding=4, dilation=5, bias=2, groups=6)
_PLAIN_TRANSPOSED = _Forward(stride=3, padding=4, dilation=7, bias=2, groups=6, output_padding=5, transposed=True)
_CUDNN = _Forward(stride=3, padding=2, dilation=4, groups=5)
_MIOPEN = _Forward(stride=4, padding=3, dilation=5, bias=2, groups=6)
_WITH_KERNEL_SIZE = _Forward(stride=4, padding=5, bias=3)
_WITH_KERNEL_SIZE_DILATED = _Forward(stride=4, padding=5, dilation=6, bias=3)
_WITH_KERNEL_SIZE_TRANSPOSED = _Forward(stride=4, padding=5, dilation=7, bias=3, output_padding=6, transposed=True)
_FORWARD = {
    **dict.fromkeys(("convolution", "_convolution", "convolution_overrideable"), _GENERAL),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _PLAIN),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _PLAIN_TRANSPOSED),
    "cudnn_convolution": _CUDNN,
    "cudnn_convolution_relu": _Forward(stride=3, padding=4, dilation=5, bias=2, groups=6),
    "cudnn_convolution_transpose": _Forward(
        stride=4, padding=2, dilation=5, groups=6, output_padding=3, transposed=True
    ),
    **dict.fromkeys(("miopen_convolution", "miopen_depthwise_convolution"), _MIOPEN),
    "miopen_convolution_transpose": _Forward(
        stride=5, padding=3, dilation=6, bias=2, groups=7, output_padding=4, transposed=True
    ),
    **dict.fromkeys(("thnn_conv2d", "_slow_conv2d_forward", "slow_conv3d", "slow_conv3d_forward"), _WITH_KERNEL_SIZE),
    **dict.fromkeys(
        ("slow_conv_dilated2d", "slow_conv_dilated3d", "_conv_depthwise2d", "conv_depthwise3d"),
        _WITH_KERNEL_SIZE_DILATED,
    ),
    **dict.fromkeys(("slow_conv_transpose2d", "slow_conv_transpose3d"), _WITH_KERNEL_SIZE_TRANSPOSED),
}
_BACKWARD = {
    **dict.fromkeys(("convolution_backward", "convolution_backward_overrideable"), _Backward(10, transposed=7)),
    "_slow_conv2d_backward": _Backward(6),
}


def _per_dimension(values: tuple[int, ...], n_dims: int) -> tuple[int, ...]:
    """A value a dimension; one value stands for all."""
    if len(values) == 1:
        return values * n_dims
    if len(values) != n_dims:
        raise UnrecordedError("not a value a dimension")
    return values


def _is_transposed(operator: _Forward, arguments: Arguments) -> bool:
    if isinstance(operator.transposed, bool):
        return operator.transposed
    return arguments.flags(operator.transposed, 1)[0]


def _output_dims(operator: _Forward, arguments: Arguments, image: Tensor, weight: Tensor) -> tuple[int, ...]:
    """Shape of the output, by the formulas of torch.nn.Conv2d and ConvTranspose2d."""
    n_dims = len(weight.dims) - 2
    if n_dims < 1 or len(image.dims) not in (n_dims + 1, n_dims + 2):
        raise UnrecordedError("no image and weight of a convolution")

    def values(at: int | None, missing: int) -> tuple[int, ...]:
        return (missing,) * n_dims if at is None else _per_dimension(arguments.integers(at), n_dims)

    strides, paddings, dilations = values(operator.stride, 1), values(operator.padding, 0), values(operator.dilation, 1)
    if any(stride < 1 for stride in strides):
        raise UnrecordedError("no stride")
    channels, rests = weight.dims[0], (0,) * n_dims
    transposed = _is_transposed(operator, arguments)
    if transposed:
        rests = values(operator.output_padding, 0)
        channels = weight.dims[1] * (1 if operator.groups is None else arguments.integers(operator.groups)[0])
    spatial = [
        _transposed_size(*dimension) if transposed else _size(*dimension)
        for dimension in zip(image.dims[-n_dims:], weight.dims[2:], strides, paddings, dilations, rests, strict=True)
    ]
    return (*image.dims[: -n_dims - 1], channels, *spatial)


def _size(size: int, kernel: int, stride: int, padding: int, dilation: int, _rest: int) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _transposed_size(size: int, kernel: int, stride: int, padding: int, dilation: int, rest: int) -> int:
    return (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + rest + 1


def _flop(spread: Tensor | tuple[int, ...], weight: Tensor) -> int:
    """Each element of one side meets a kernel for each channel of the other in its group.

    The side is the output, or what is read where the convolution is transposed.
    """
    dims = spread.dims if isinstance(spread, Tensor) else spread
    return multiply_adds(product((*dims, *weight.dims[1:])), weight.precision)


def _work_of_forward(operator: _Forward, arguments: Arguments) -> Work:
    image, weight = arguments.tensor(0), arguments.tensor(1)
    output = _output_dims(operator, arguments, image, weight)
    flop = _flop(image if _is_transposed(operator, arguments) else output, weight)
    bias = None if operator.bias is None else arguments.find(operator.bias)
    written = product(output) * image.precision.bytes
    return work(Family.CONVOLUTION, flop, read_once([image, weight, bias]), written, image.precision)


def _work_of_backward(operator: _Backward, arguments: Arguments) -> Work:
    """Gradients of the input and of the weight: each is as many FLOP as the forward convolution."""
    gradient, image, weight = (arguments.tensor(at) for at in range(3))
    wanted = arguments.flags(operator.mask, 3)
    transposed = operator.transposed is not None and arguments.flags(operator.transposed, 1)[0]
    if len(gradient.dims) != len(weight.dims) or len(weight.dims) < 3:
        raise UnrecordedError("no gradient and weight of a convolution")
    forward = _flop(image if transposed else gradient, weight)
    read = read_once([gradient, image if wanted[1] else None, weight if wanted[0] else None])
    bias = Tensor(gradient.dims[1:2], None, weight.precision)
    written = sum(tensor.bytes for tensor, asked in zip((image, weight, bias), wanted, strict=True) if asked)
    return work(Family.CONVOLUTION, forward * sum(wanted[:2]), read, written, image.precision)


def _work_of_backward_input(arguments: Arguments) -> Work:
    """`cudnn_convolution_backward_input(self_size, grad_output, weight, ...)`, until PyTorch 1.10."""
    gradient, weight = arguments.tensor(1), arguments.tensor(2)
    size = arguments.find_integers(0)
    written = 0 if size is None else product(size) * gradient.precision.bytes
    assumed = ("the result, whose size is not recorded, is not counted",) if size is None else ()
    read = read_once([gradient, weight])
    return work(Family.CONVOLUTION, _flop(gradient, weight), read, written, gradient.precision, *assumed)


def _work_of_backward_weight(arguments: Arguments) -> Work:
    """`cudnn_convolution_backward_weight(weight_size, grad_output, self, ...)`, until PyTorch 1.10."""
    gradient, image = arguments.tensor(1), arguments.tensor(2)
    weight = Tensor(arguments.integers(0), None, gradient.precision)
    read = read_once([gradient, image])
    return work(Family.CONVOLUTION, _flop(gradient, weight), read, weight.bytes, gradient.precision)


ESTIMATORS: dict[str, Estimator] = {
    **{name: partial(_work_of_forward, operator) for name, operator in _FORWARD.items()},
    **{name: partial(_work_of_backward, operator) for name, operator in _BACKWARD.items()},
    "cudnn_convolution_backward_input": _work_of_backward_input,
    "cudnn_convolution_backward_weight": _work_of_backward_weight,
}
