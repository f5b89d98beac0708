"""From an object of `keras.ops.custom_gradient` on PyTorch to a `TorchGradient`.

It is run as Keras runs it there: the grad function gets the inputs again, and `upstream`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from gradcheck_cli.discover.makers import Maker
from gradcheck_cli.frameworks.keras.hooks import KIND, recording, source
from gradcheck_cli.frameworks.shared.made_anew import Anew, recorded_again, settings_of
from gradcheck_cli.frameworks.torch.fit import fit
from gradcheck_cli.frameworks.torch.gradient import TorchGradient
from gradcheck_cli.subject.environment import NotHereError
from gradcheck_cli.subject.refusals import RuleError
from gradcheck_cli.subject.results import Found, Place

_PARTS = ("primal", "rule", "forward", "backward")
FORGOTTEN = (
    "TypeError: it returns no grad function, and on PyTorch its gradient is NaN without a word: "
    "write `return value, grad`"
)

_SEVERAL = "TypeError: Keras's own backward takes one cotangent there"
_OF_SEVERAL = "a Keras that hands it the cotangents of several outputs on PyTorch"


def adopted_from(recorded: Found) -> TorchGradient:
    """The gradient of a recorded object, with the function that was made up to get at it, and its factory's settings."""
    gradient = adopt(recorded.thing)
    invented = str(recorded.extra.get("invented", ""))
    placed = replace(gradient, place=replace(gradient.place, invented=invented))
    maker = recorded.extra.get("maker")
    return _made_anew(placed, maker) if isinstance(maker, Maker) else placed


def _made_anew(gradient: TorchGradient, maker: Maker) -> TorchGradient:
    """The gradient with the settings of the factory that made it among its arguments."""
    names = [parameter.name for parameter in gradient.parameters()]
    settings = settings_of(maker, next(iter(gradient.rule_code()), None), names)
    if not settings:
        return gradient
    make = recorded_again(maker, gradient, recording, lambda found: adopt(found.thing))
    anew = Anew(settings, make, _PARTS)
    return anew.dressed(replace(gradient, anew=anew), gradient)


def adopt(thing: Any) -> TorchGradient:
    """A custom gradient whose context keeps its inputs and its grad function."""
    body = thing.forward_fn
    path, line = source(body)
    qualname = getattr(body, "__qualname__", KIND)

    def split(*inputs: Any, **keywords: Any) -> tuple[Any, Any]:
        result = body(*inputs, **keywords)
        pair = isinstance(result, tuple) and len(result) == 2 and callable(result[1])
        return result if pair else (result, None)

    def forward(ctx: Any, *inputs: Any, **keywords: Any) -> Any:
        out, grad = split(*inputs, **keywords)
        ctx.save_for_backward(*inputs)
        ctx.grad_fn = grad
        return out

    def backward(ctx: Any, *upstream: Any) -> Any:
        (weight,) = upstream  # Keras's own backward takes one
        pulled = ctx.grad_fn(*ctx.saved_tensors, upstream=weight)
        return pulled if isinstance(pulled, tuple) else (pulled,)

    return TorchGradient(
        name=qualname.rpartition(".")[2], kind=KIND, place=Place(path, line, qualname), primal=body,
        rule=_asking(thing, split), forward=forward, backward=backward, fitter=fit, written=body,
    )  # fmt: skip


def _asking(thing: Any, split: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
    """What user code calls; the first time, whether there is a grad function at all is looked at."""
    answers: list[bool] = []

    def rule(*inputs: Any, **keywords: Any) -> Any:
        if not answers:
            with torch.no_grad():
                out, grad = split(*inputs, **keywords)
            if grad is not None and isinstance(out, (tuple, list)) and len(out) > 1:
                raise RuleError("TypeError", _SEVERAL, error=NotHereError(_OF_SEVERAL))
            answers.append(grad is not None)
        if not answers[0]:
            raise RuleError("TypeError", FORGOTTEN, certain=True)
        return thing(*inputs, **keywords)

    return rule
