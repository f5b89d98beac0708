"""Functions that a traced body calls keep their own backward: each becomes a `jax.custom_vjp`.

That is what a plain function's gradient really rests on. The truth is traced without it, so that it
bypasses every rule that users wrote (SEMANTICS D1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import torch

from gradcheck_cli.frameworks.torch.context import Context, with_a_context
from gradcheck_cli.frameworks.torch.gradient import Surroundings
from gradcheck_cli.frameworks.torch.hooks import calls_through
from gradcheck_cli.frameworks.torch.trace import environment


@contextmanager
def keeping_rules(surroundings: Surroundings) -> Iterator[list[Any]]:
    """While active, traced calls of Functions are differentiated by their rules, and are listed."""
    called: list[Any] = []

    def hook(original: Any, cls: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs or not any(_is_traced(a) for a in args):
            return original(cls, *args, **kwargs)
        called.append(cls)
        return _with_its_rule(cls, args, surroundings)

    with calls_through(hook):
        yield called


def _is_traced(value: Any) -> bool:
    from torchax.tensor import Tensor
    from torchax.view import View

    return isinstance(value, (Tensor, View)) and value.is_floating_point()


def _with_its_rule(cls: Any, args: Sequence[Any], surroundings: Surroundings) -> Any:
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
        with environment(
            surroundings
        ):  # JAX calls this again after the trace of the body has ended
            out = body(context, *inputs)
        single[:] = [not isinstance(out, tuple)]
        return context, list(out) if isinstance(out, tuple) else [out]

    def primal(*arrays: Any) -> tuple[Any, ...]:
        return tuple(interop.jax_view(run(arrays)[1]))

    def forward(*arrays: Any) -> Any:
        return primal(*arrays), arrays

    def backward(arrays: Any, cotangents: Any) -> tuple[Any, ...]:
        with environment(surroundings):
            context, outs = run(arrays)
            weights = [_weight(out, ct) for out, ct in zip(outs, cotangents, strict=True)]
            pulled = cls.backward(context, *weights)
        pulled = pulled if isinstance(pulled, (tuple, list)) else (pulled,)
        return tuple(_array(pulled[k] if k < len(pulled) else None, a) for k, a in zip(at, arrays, strict=True))  # fmt: skip

    function = jax.custom_vjp(primal)
    function.defvjp(forward, backward)
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
