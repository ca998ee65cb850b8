"""Work of fused optimizers: lists of parameters, gradients and states, read and written once.

FLOP an element by the algorithms of torch.optim. Adam: the mean 3, the mean square 4, the denominator 3, the step 3;
AdamW's decay 1, AMSGrad's maximum 1. SGD: the step 2, with momentum 3 more. Adagrad: the sum 2, the step 5. Decay that
is added to gradients is not counted.
"""

from dataclasses import dataclass
from functools import partial

from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.work.amounts import Estimator, Work, read_once, work
from traceanalyzer.passes.work.arguments import Arguments


@dataclass(frozen=True, slots=True)
class _Optimizer:
    """What an optimizer does an element. Lists: parameters, gradients, then its states."""

    flop: int
    states: tuple[int, ...] = ()
    """Where the states are that it always has."""
    optional_state: int | None = None
    """Where a state is that may be empty."""
    optional_flop: int = 0


_OPERATORS = {
    "_fused_adam_": _Optimizer(13, (2, 3), 4, 1),
    "_fused_adamw_": _Optimizer(14, (2, 3), 4, 1),
    "_fused_sgd_": _Optimizer(2, (), 2, 3),
    "_fused_adagrad_": _Optimizer(7, (2,)),
}


def _work_of(operator: _Optimizer, arguments: Arguments) -> Work:
    parameters, gradients = arguments.tensors(0), arguments.tensors(1)
    states = [tensor for at in operator.states for tensor in arguments.tensors(at)]
    per_element = operator.flop
    if operator.optional_state is not None and (more := arguments.find_tensors(operator.optional_state)):
        states.extend(more)
        per_element += operator.optional_flop
    updated = [*parameters, *states]
    flop = per_element * sum(tensor.elements for tensor in parameters)
    read = read_once(updated) + read_once(gradients)
    return work(Family.OPTIMIZER, flop, read, sum(tensor.bytes for tensor in updated), parameters[0].precision)


def _work_of_unscaling(arguments: Arguments) -> Work:
    """`_amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale)`: gradients in place."""
    gradients = arguments.tensors(0)
    elements = sum(tensor.elements for tensor in gradients)
    written = sum(tensor.bytes for tensor in gradients)
    return work(Family.OPTIMIZER, elements, read_once(gradients), written, gradients[0].precision)


ESTIMATORS: dict[str, Estimator] = {
    **{name: partial(_work_of, operator) for name, operator in _OPERATORS.items()},
    "_amp_foreach_non_finite_check_and_unscale_": _work_of_unscaling,
}
