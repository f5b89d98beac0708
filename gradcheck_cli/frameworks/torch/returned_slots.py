"""Gradients that torch takes without a word: one too many with None at the end, too large ones, ones never written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradcheck_cli.frameworks.torch.triton.unwritten import first_unwritten


def shifted(names: Sequence[str], inputs: Sequence[Any], pulled: Sequence[Any]) -> str | None:
    """A message if there is one gradient too many and all fit once a None before is taken out."""
    if len(pulled) != len(inputs) + 1:
        return None
    wrong = [i for i, x in enumerate(inputs) if not _fits(pulled[i], x)]
    for slot, gradient in enumerate(pulled):
        moved = [*pulled[:slot], *pulled[slot + 1 :]]
        if gradient is None and all(map(_fits, moved, inputs)):
            here = [i for i in wrong if i > slot]
            if here:
                return (
                    f"it returns {len(pulled)} gradients for {len(inputs)} inputs, and the one of "
                    f"`{names[here[0] - 1]}` stands where `{names[here[0]]}` has its own: "
                    "there is a None too many before it"
                )
    return None


def overgrown(names: Sequence[str], inputs: Sequence[Any], pulled: Sequence[Any]) -> str | None:
    """A message if a gradient has more axes than any argument: torch sums over them."""
    rank = max((x.dim() for x in inputs if isinstance(x, torch.Tensor)), default=0)
    for name, x, gradient in zip(names, inputs, pulled, strict=False):
        if isinstance(gradient, torch.Tensor) and isinstance(x, torch.Tensor) and gradient.dim() > rank:  # fmt: skip
            has, wants = list(gradient.shape), list(x.shape)
            return f"the gradient of {name} has the shape {has}, its argument {wants}: torch sums it without a word"
    return None


def left_open(names: Sequence[str], pulled: Sequence[Any], wanted: Sequence[bool]) -> str | None:
    """A message if nobody has written a part of a gradient that is wanted: whatever lies in that memory is returned."""
    for name, gradient, taken in zip(names, pulled, wanted, strict=False):
        place = first_unwritten(gradient) if taken and isinstance(gradient, torch.Tensor) else None
        if place is not None:
            return (
                f"element {place} of the gradient of {name} is never written: it was made by `torch.empty`, "
                "and nothing is stored there; what is added, is added to whatever lies there"
            )
    return None


def _fits(gradient: Any, x: Any) -> bool:
    """Does a gradient fit without a sum? torch drops leading ones that an input was broadcast along."""
    if gradient is None:
        return True
    if not isinstance(gradient, torch.Tensor) or not isinstance(x, torch.Tensor):
        return False
    return gradient.squeeze().shape == x.squeeze().shape
