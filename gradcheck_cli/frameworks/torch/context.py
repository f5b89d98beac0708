"""A `ctx` that holds what a Function's forward leaves for its backward, and nothing else.

It stands in for torch's own where a forward's body runs by itself: under autograd (that is
autodiff through the primal), or traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcheck_cli.frameworks.torch.private_api import sets_up_context_apart


class Context:
    """The part of `torch.autograd.function.FunctionCtx` that user code sees."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self.saved_tensors: tuple[Any, ...] = ()
        self.materialize_grads = True
        self.dirty_tensors: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        return self.saved_tensors

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Only forward mode reads these."""

    def mark_dirty(self, *tensors: Any) -> None:
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value


def with_a_context(cls: Any) -> Callable[..., Any]:
    """The forward of a Function in either style: (context, *inputs) → outputs."""
    if not sets_up_context_apart(cls):
        forward: Callable[..., Any] = cls.forward
        return forward

    def apart(ctx: Context, *inputs: Any) -> Any:
        output = cls.forward(*inputs)
        cls.setup_context(ctx, inputs, output)
        return output

    return apart
