"""Functions that a traced body calls keep their own backward: each becomes a `jax.custom_vjp`.

That is what a plain function's gradient really rests on. The truth is traced without it, so that it
bypasses every rule that users wrote (SEMANTICS D1).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import torch

from gradcheck_cli.frameworks.torch.context import Context, with_a_context
from gradcheck_cli.frameworks.torch.trace import environment
from gradcheck_cli.subject.protocol import Note

_MODULE: Any = torch.autograd.function
_HOOK = "_cgcheck_apply"


class _Code:
    """Code for `Function.apply` that asks the hook; it has the cell that torch's own has."""

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        __class__  # type: ignore[name-defined]  # noqa: B018
        return _cgcheck_apply(cls, *args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


@contextmanager
def kept() -> Iterator[list[Any]]:
    """While active, traced calls of Functions are differentiated by their rules; those met are listed."""
    met: list[Any] = []

    def hook(original: Any, cls: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs or not any(_is_traced(a) for a in args):
            return original(cls, *args, **kwargs)
        met.append(cls)
        return _with_its_rule(cls, args)

    with _through(hook):
        yield met


@contextmanager
def watching(note: Note) -> Iterator[None]:
    """While active, every call of a Function is noted."""

    def hook(original: Any, cls: Any, *args: Any, **kwargs: Any) -> Any:
        note(cls, args, kwargs)
        return original(cls, *args, **kwargs)

    with _through(hook):
        yield


@contextmanager
def _through(hook: Callable[..., Any]) -> Iterator[None]:
    """`apply` may be bound to a name already, so it is its code that is exchanged."""
    apply = torch.autograd.Function.__dict__["apply"].__func__
    before = apply.__code__
    original = types.FunctionType(before, apply.__globals__, "apply", apply.__defaults__, apply.__closure__)  # fmt: skip
    setattr(_MODULE, _HOOK, functools.partial(hook, original))
    apply.__code__ = _Code.apply.__code__
    try:
        yield
    finally:
        apply.__code__ = before
        delattr(_MODULE, _HOOK)


def _is_traced(value: Any) -> bool:
    from torchax.tensor import Tensor
    from torchax.view import View

    return isinstance(value, (Tensor, View)) and value.is_floating_point()


def _with_its_rule(cls: Any, args: Sequence[Any]) -> Any:
    """The call as a JAX function with a derivative of its own; backward runs forward again."""
    from torchax import interop

    body = with_a_context(cls)
    at = [k for k, a in enumerate(args) if _is_traced(a)]
    single: list[bool] = []

    def run(arrays: Sequence[Any]) -> tuple[Context, list[Any]]:
        inputs = list(args)
        for k, array in zip(at, arrays, strict=True):
            inputs[k] = interop.torch_view(array)
        context = Context(tuple(k in at for k in range(len(args))))
        with environment():  # JAX calls this again after the trace of the body has ended
            out = body(context, *inputs)
        single[:] = [not isinstance(out, tuple)]
        return context, list(out) if isinstance(out, tuple) else [out]

    def primal(*arrays: Any) -> tuple[Any, ...]:
        return tuple(interop.jax_view(run(arrays)[1]))

    def forward(*arrays: Any) -> Any:
        return primal(*arrays), arrays

    def backward(arrays: Any, cotangents: Any) -> tuple[Any, ...]:
        with environment():
            context, outs = run(arrays)
            given = [_weight(out, ct) for out, ct in zip(outs, cotangents, strict=True)]
            pulled = cls.backward(context, *given)
        pulled = pulled if isinstance(pulled, (tuple, list)) else (pulled,)
        return tuple(_array(pulled[k] if k < len(pulled) else None, a) for k, a in zip(at, arrays, strict=True))  # fmt: skip

    function: Callable[..., Any] = jax.custom_vjp(primal)
    function.defvjp(forward, backward)  # type: ignore[attr-defined]
    outs = interop.torch_view(function(*interop.jax_view([args[k] for k in at])))
    return outs[0] if single[0] else tuple(outs)


def _weight(out: Any, cotangent: Any) -> Any:
    from torchax import interop

    return interop.torch_view(cotangent) if out.is_floating_point() else torch.zeros_like(out)


def _array(gradient: Any, like: Any) -> Any:
    from torchax import interop

    if gradient is None:
        return jnp.zeros_like(like)
    array = interop.jax_view(gradient)
    if array.shape != like.shape:
        array = interop.jax_view(gradient.sum_to_size(like.shape))
    return array.astype(like.dtype)
