"""Gradients for given cotangents, handed to the graph exactly as they are.

`torch.autograd.grad` with explicit cotangents imports a symbolic algebra to compare shapes, which
takes a second; and it says nothing about layout. Here a last step of our own feeds them in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class _Feed(torch.autograd.Function):
    """A number that depends on the outputs, and whose backward is the cotangents."""

    @staticmethod
    def forward(ctx: Any, weights: Sequence[Any], *outs: Any) -> Any:
        ctx.weights = weights
        return outs[0].detach().real.new_zeros(())  # of complex outputs, too, a real number

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return (None, *ctx.weights)


def gradients(
    outs: Sequence[Any], held: Sequence[Any], weights: Sequence[Any], *, keep: bool = False
) -> list[Any]:
    """A gradient for each of `held`; None where the outputs do not depend on it."""
    feed: Any = _Feed.apply
    fed = feed(tuple(weights), *outs)
    return list(torch.autograd.grad(fed, list(held), allow_unused=True, retain_graph=keep))
