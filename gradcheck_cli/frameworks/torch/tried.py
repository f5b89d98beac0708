"""A rule tried at one plain point: what it raises, which gradients it gives without a word, what it launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradcheck_cli.frameworks.shared.tracing import brief
from gradcheck_cli.frameworks.torch.call import Call, Tensors
from gradcheck_cli.frameworks.torch.returned_slots import left_open, overgrown, shifted
from gradcheck_cli.frameworks.torch.triton.launched import BEYOND, launched
from gradcheck_cli.inputs.signature import Leaf
from gradcheck_cli.subject.refusals import Declined, RuleError
from gradcheck_cli.subject.results import Kernel
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

_REFUSED = object()


def tried(
    call: Call, run: Callable[[Tensors, Tensors], Any], points: Tensors, cotangents: Tensors
) -> tuple[Kernel, ...]:
    """The kernels that the rule launches; `RuleError` where it raises or gives what no gradient can be.

    `run` is the rule as training runs it.
    """
    try:
        with calling_user_code(), launched() as launches:
            run(points, cotangents)
    except UserCodeError as raised:
        message = brief(raised.error)
        beyond = message.startswith(BEYOND)
        # Of several arrays the shapes may be what nobody means: a plain forward broadcasts them.
        meant = call.by_kernels or len(call.signature.whole_leaves) == 1
        certain = "number of gradients" in message or (beyond and meant)
        raise RuleError.raised(
            raised.error, message, certain=certain, out_of_bounds=beyond
        ) from None
    _hold_to_shapes(call, points, cotangents)
    _decline(call, points, cotangents)
    return launches.kernels


def _hold_to_shapes(call: Call, points: Tensors, cotangents: Tensors) -> None:
    """`RuleError` for what torch hands on without a word: a slot too far, an unwanted sum, memory that nobody wrote."""
    try:
        with calling_user_code(), torch.no_grad():
            outs, context = call.primal(points)
            pulled = call.returned(outs, context, cotangents)
    except UserCodeError:  # it needs more than a bare context
        return
    inputs, names = call.inputs(points), [name for name, _ in call.signature.arguments]
    message = shifted(names, inputs, pulled)
    if message is not None:
        raise RuleError("slots", message, certain=True, silent=True)
    message = overgrown(names, inputs, pulled)
    if message is not None:
        raise RuleError("shape", message, silent=True)
    wanted = [isinstance(value, Leaf) for _, value in call.signature.arguments]
    message = left_open(names, pulled, wanted)
    if message is not None:
        raise RuleError("unwritten", message, certain=call.by_kernels, silent=True)


def _decline(call: Call, points: Tensors, cotangents: Tensors) -> None:
    """An argument whose gradient is None and that may be a plain number is one, such as a slope."""
    names = call.signature.arrays
    if len(names) != len(points) or len(points) == 1:
        return
    pulled = _bare_gradients(call, points, cotangents)
    for name, x, gradient in zip(names, points, pulled, strict=True):
        if gradient is not None:
            continue
        others = [float(x.reshape(-1)[0]) if x is y else y for y in points]
        if _bare_gradients(call, others, cotangents)[0] is not _REFUSED:
            raise Declined(name)


def _bare_gradients(call: Call, leaves: Sequence[Any], cotangents: Tensors) -> list[Any]:
    """Gradients as backward itself returns them, None for None; refused where it raises."""
    try:
        with calling_user_code(), torch.no_grad():
            outs, context = call.primal(leaves)
            if any(not isinstance(t, torch.Tensor) for t in context.saved_tensors if t is not None):
                return [_REFUSED] * len(leaves)
            return call.pulled_back(outs, context, cotangents)
    except UserCodeError:
        return [_REFUSED] * len(leaves)
