"""A torch gradient put together with a signature: its subject, and what is to be had of it otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gradcheck_cli.frameworks.shared.eager_subject import plain
from gradcheck_cli.frameworks.shared.library import Library, Stable
from gradcheck_cli.frameworks.shared.tracing import brief
from gradcheck_cli.frameworks.torch.call import Call, tensor
from gradcheck_cli.frameworks.torch.gradient import FUNCTION, TorchGradient
from gradcheck_cli.frameworks.torch.library import LIBRARY
from gradcheck_cli.frameworks.torch.other_calls import other_calls
from gradcheck_cli.frameworks.torch.random import draws
from gradcheck_cli.frameworks.torch.subject import TorchSubject
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.subject.other_calls import OtherCall
from gradcheck_cli.subject.refusals import Rejected
from gradcheck_cli.subject.results import Place
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code


def fit(gradient: TorchGradient, signature: Signature, dtype: str) -> FittedTorch:
    """Run it at a plain point; `Rejected` if the function refuses it."""
    if not signature.leaves:
        raise Rejected("no differentiable argument")
    call = Call(gradient, signature, getattr(torch, dtype))
    points = [tensor(plain(leaf.shape), call.dtype) for leaf in signature.leaves]
    try:
        with calling_user_code():
            with torch.no_grad():
                call.primal_outputs(points)
            outputs = call.outputs(points)
    except UserCodeError as raised:
        raise Rejected(brief(raised.error)) from None
    if not outputs:
        raise Rejected("it returns no float tensor that can be differentiated")
    call.kept = tuple(outputs)
    return FittedTorch(
        signature=signature, dtype=dtype, gradient=gradient, call=call,
        has_rule=gradient.has_rule,
        outputs=[tuple(out.shape) for out in outputs.values()],
        output_dtypes=[str(out.dtype).removeprefix("torch.") for out in outputs.values()],
    )  # fmt: skip


def of_function(function: Callable[..., Any], name: str, place: Place) -> TorchGradient:
    """A plain function: its value and its automatic gradient are judged."""
    return TorchGradient(
        name=name, kind=FUNCTION, place=place, primal=function, rule=function,
        forward=lambda ctx, *inputs: function(*inputs), backward=None, fitter=fit,
    )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class FittedTorch(TorchSubject):
    """A torch gradient at one signature, with its other calls, library functions and dtypes."""

    def in_dtype(self, dtype: str) -> FittedTorch:
        return fit(self.gradient, self.signature, dtype)

    def in_float64(self) -> FittedTorch | None:
        if draws(lambda: self.primal_row([plain(leaf.shape) for leaf in self.leaves])):
            return None  # it would draw other numbers
        try:
            return self.in_dtype("float64")
        except Rejected:  # it insists on its own dtype
            return None

    def other_calls(self) -> Sequence[OtherCall]:
        return other_calls(self)

    @property
    def library(self) -> Library:
        return self.gradient.library or LIBRARY

    def fitted(self, stable: Stable, plain: Signature) -> FittedTorch:
        gradient = of_function(stable.function, stable.value, self.gradient.place)
        return fit(gradient, plain, self.dtype)
