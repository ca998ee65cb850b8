"""Work of softmax and its logarithm, and their gradients.

FLOP an element. Forward: the maximum, the difference from it, its exponential, their sum, the quotient (the logarithm:
another difference) 5. Backward: softmax y (g - sum(g y)) 4, its logarithm g - exp(y) sum(g) 4.
"""

from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.work.amounts import Estimator, Work, work
from traceanalyzer.passes.work.arguments import Arguments
from traceanalyzer.passes.work.precisions import FP32, Precision

_FORWARD_FLOP, _BACKWARD_FLOP = 5, 4


def _forward(arguments: Arguments, yields: Precision | None) -> Work:
    data = arguments.tensor(0)
    written = data.elements * (yields or data.precision).bytes
    return work(Family.SOFTMAX, _FORWARD_FLOP * data.elements, data.distinct_bytes, written, data.precision)


def _work_of_kernel(arguments: Arguments) -> Work:
    """`_softmax(self, dim, half_to_float, out)`: reads fp16 and may write fp32."""
    to_float = arguments.find_flags(2) == (True,)
    return _forward(arguments, FP32 if to_float else arguments.result_type(2))


def _work_of_composite(arguments: Arguments) -> Work:
    """`softmax(self, dim, dtype)`."""
    return _forward(arguments, arguments.find_type(2))


def _work_of_backward(arguments: Arguments) -> Work:
    """`_softmax_backward_data(grad_output, output, dim, input_dtype, out)`."""
    gradient, output = arguments.tensor(0), arguments.tensor(1)
    yields = arguments.result_type(2) or arguments.find_type(3) or output.precision
    flop, read = _BACKWARD_FLOP * output.elements, gradient.distinct_bytes + output.distinct_bytes
    return work(Family.SOFTMAX, flop, read, output.elements * yields.bytes, output.precision)


ESTIMATORS: dict[str, Estimator] = {
    **dict.fromkeys(("_softmax", "_log_softmax"), _work_of_kernel),
    **dict.fromkeys(("softmax", "log_softmax", "special_softmax", "special_log_softmax"), _work_of_composite),
    "_safe_softmax": _work_of_composite,
    **dict.fromkeys(("_softmax_backward_data", "_log_softmax_backward_data"), _work_of_backward),
}
