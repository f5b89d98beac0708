"""A torch gradient put together with a signature: a subject that has other calls and other dtypes."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gradcheck_cli.frameworks.shared.plain_points import other_turn
from gradcheck_cli.frameworks.shared.tracing import brief, refused
from gradcheck_cli.frameworks.torch.call import Call, parts, tensor
from gradcheck_cli.frameworks.torch.gradient import TorchGradient
from gradcheck_cli.frameworks.torch.other_calls import other_calls
from gradcheck_cli.frameworks.torch.subject import TorchSubject
from gradcheck_cli.frameworks.torch.triton.launched import Launches, launched
from gradcheck_cli.frameworks.torch.triton.unwritten import first_unwritten
from gradcheck_cli.inputs.signature import Signature, tables
from gradcheck_cli.subject.other_calls import OtherCall
from gradcheck_cli.subject.refusals import TO_THE_END, Rejected, RuleError
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code


def fit(gradient: TorchGradient, signature: Signature, dtype: str, turn: int = 0) -> FittedTorch:
    """Run it at a plain point; `Rejected` if the function refuses it."""
    if not signature.leaves:
        raise Rejected("no differentiable argument")
    call = Call(gradient, signature, getattr(torch, dtype), turn)
    points = [tensor(call.plain(leaf), call.dtype) for leaf in signature.leaves]
    try:
        with calling_user_code(), launched(some=True) as launches:
            with torch.no_grad():
                values = call.primal_outputs(points)
            outputs = call.outputs(points)
    except UserCodeError as raised:
        other = other_turn(raised.error, turn)
        if other is not None:
            return fit(gradient, signature, dtype, other)
        if _is_of_setup(gradient, raised.error):
            raise RuleError.raised(raised.error, brief(raised.error)) from None
        raise refused(raised.error, gradient) from None
    _hold_to_kernels(signature, points, values, launches)
    if not outputs:
        raise Rejected("it returns no float tensor that can be differentiated", progress=TO_THE_END)
    call.kept, call.by_kernels = tuple(outputs), bool(launches.kernels)
    judged = [part for out in outputs.values() for part in parts(out)]
    return FittedTorch(
        signature=signature, dtype=dtype, gradient=gradient, call=call,
        has_rule=gradient.has_rule, kernels=launches.kernels,
        outputs=[tuple(out.shape) for out in judged],
        output_dtypes=[str(out.dtype).removeprefix("torch.") for out in judged],
    )  # fmt: skip


def _hold_to_kernels(
    signature: Signature, points: Sequence[Any], values: Sequence[Any], launches: Launches
) -> None:
    """`Rejected` for shapes that kernels take by accident: of which they leave a part unwritten or unread."""
    for value in () if launches.left_out else values:
        place = first_unwritten(value) if isinstance(value, torch.Tensor) else None
        if place is not None:
            raise Rejected(f"element {place} of what it returns is never written by a kernel")
    if next(tables(signature), None) is not None:
        return  # who picks by numbers may leave others
    for leaf, point in zip(signature.leaves, points, strict=True):
        left = launches.unread(point)
        if left:
            raise Rejected(f"its kernels leave the last {left} elements of {leaf.path} unread")


def _is_of_setup(gradient: TorchGradient, error: BaseException) -> bool:
    """Was it raised where the rule keeps what it needs, the function itself done?"""
    code = getattr(gradient.setup, "__code__", None)
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return code is not None and any(frame.f_code is code for frame in frames)


@dataclass(slots=True, kw_only=True)
class FittedTorch(TorchSubject):
    """A torch gradient at one signature, with its other calls and dtypes."""

    def in_dtype(self, dtype: str) -> FittedTorch:
        return fit(self.gradient, self.signature, dtype)

    def other_calls(self) -> Sequence[OtherCall]:
        return other_calls(self)
