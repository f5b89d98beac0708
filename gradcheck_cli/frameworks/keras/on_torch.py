"""`keras.ops.custom_gradient` on PyTorch, as Keras runs it there: the inputs again, and `upstream`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch

from gradcheck_cli.discover.factories import attributes, enter
from gradcheck_cli.discover.same_definition import told_apart
from gradcheck_cli.frameworks.keras.private_api import custom_gradient_on_torch, global_state
from gradcheck_cli.frameworks.torch.context import Context
from gradcheck_cli.frameworks.torch.fit import fit
from gradcheck_cli.frameworks.torch.gradient import TorchGradient
from gradcheck_cli.frameworks.torch.trace import SCOPES
from gradcheck_cli.subject.refusals import RuleError
from gradcheck_cli.subject.results import Found, Missing, Place

KIND = "custom_gradient"
CLASS: Any = custom_gradient_on_torch()
FORGOTTEN = (
    "TypeError: it returns no grad function, and on PyTorch its gradient is NaN without a word: "
    "write `return value, grad`"
)


@contextmanager
def recording() -> Iterator[list[Found]]:
    """While active, every custom gradient that is made is listed."""
    met: list[Found] = []
    made = CLASS.__init__

    def note(self: Any, forward_fn: Any) -> None:
        made(self, forward_fn)
        met.append(Found(self, KIND, *_source(forward_fn)))

    CLASS.__init__ = note
    try:
        yield met
    finally:
        CLASS.__init__ = made


def find(
    module: ModuleType, path: str, recorded: list[Found], scopes: Sequence[str]
) -> tuple[list[TorchGradient], list[Missing]]:
    """The module's own custom gradients, in the order of their lines."""
    known = {id(found.thing) for found in recorded}
    for _, value in attributes(module):
        if isinstance(value, CLASS) and id(value) not in known:
            recorded.append(Found(value, KIND, *_source(value.forward_fn)))
    missing = [m for scope in scopes if (m := enter(module, path, scope, [torch.tanh])) is not None]
    adopted = [(found.thing, adopt(found.thing)) for found in recorded if found.path == path]
    gradients, more = told_apart(adopted, module)
    return gradients, [*missing, *more]


def adopt(thing: Any) -> TorchGradient:
    body = thing.forward_fn
    path, line = _source(body)
    qualname = getattr(body, "__qualname__", KIND)

    def split(*inputs: Any, **keywords: Any) -> tuple[Any, Any]:
        made = body(*inputs, **keywords)
        pair = isinstance(made, tuple) and len(made) == 2 and callable(made[1])
        return made if pair else (made, None)

    def forward(ctx: Context, *inputs: Any, **keywords: Any) -> Any:
        out, grad = split(*inputs, **keywords)
        ctx.save_for_backward(*inputs)
        ctx.grad_fn = grad  # type: ignore[attr-defined]
        return out

    def backward(ctx: Any, *upstream: Any) -> Any:
        (given,) = upstream  # Keras's own backward takes one
        pulled = ctx.grad_fn(*ctx.saved_tensors, upstream=given)
        return pulled if isinstance(pulled, tuple) else (pulled,)

    return TorchGradient(
        name=qualname.rpartition(".")[2], kind=KIND, place=Place(path, line, qualname), primal=body,
        rule=_asking(thing, split), forward=forward, backward=backward, fitter=fit, written=body,
    )  # fmt: skip


def _asking(thing: Any, split: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
    """What user code calls; the first time, whether there is a grad function at all is looked at."""
    asked: list[bool] = []

    def rule(*inputs: Any, **keywords: Any) -> Any:
        if not asked:
            with torch.no_grad():
                _, grad = split(*inputs, **keywords)
            asked.append(grad is not None)
        if not asked[0]:
            raise RuleError("TypeError", FORGOTTEN, certain=True)
        return thing(*inputs, **keywords)

    return rule


@contextmanager
def _placed() -> Iterator[None]:
    """Keras moves tensors to its own device: while they are traced, that is where they are traced."""
    before = global_state.get_global_attribute("torch_device", None)
    global_state.set_global_attribute("torch_device", torch.device("jax:0"))
    try:
        yield
    finally:
        global_state.set_global_attribute("torch_device", before)


SCOPES.append(_placed)


def _source(function: Any) -> tuple[str, int]:
    code = getattr(function, "__code__", None)
    return ("", 1) if code is None else (code.co_filename, code.co_firstlineno)
