"""Functions that a traced body calls keep their own backward: each becomes a `jax.custom_vjp`.

That is what a plain function's gradient really rests on. The truth is traced without it, so that it
bypasses every rule that users wrote (SEMANTICS D1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

    def backward(arrays: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        """Gradients from the cotangents of the float outputs."""
        supply = iter(cotangents)
        with environment(surroundings):
            context, outs = run(arrays)
            weights = [
                interop.torch_view(next(supply))
                if out.is_floating_point()
                else torch.zeros_like(out)
                for out in outs
            ]
            pulled = cls.backward(context, *weights)
        pulled = pulled if isinstance(pulled, (tuple, list)) else (pulled,)
        return tuple(_array(pulled[k] if k < len(pulled) else None, a) for k, a in zip(at, arrays, strict=True))  # fmt: skip

    outs = _closed(primal, backward, interop.jax_view([args[k] for k in at]))
    outs = interop.torch_view(outs)
    return outs[0] if single[0] else tuple(outs)


def _closed(primal: Callable[..., Any], backward: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    """The call with its rule, both traced now: what they close over is gone once this trace has ended."""
    values = jax.make_jaxpr(primal)(*arrays)
    floats = [jnp.issubdtype(aval.dtype, jnp.inexact) for aval in values.out_avals]
    weights = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype)
        for aval, is_float in zip(values.out_avals, floats, strict=True)
        if is_float
    ]
    gradients = jax.make_jaxpr(backward)(list(arrays), weights)

    def evaluated(closed: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(jax.core.eval_jaxpr(values.jaxpr, closed[0], *arrays))

    def forward(closed: Sequence[Any], arrays: Sequence[Any]) -> Any:
        return evaluated(closed, arrays), (closed, arrays)

    def pulled(kept: Any, cotangents: Sequence[Any]) -> Any:
        closed, arrays = kept
        cts = [ct for ct, is_float in zip(cotangents, floats, strict=True) if is_float]
        return None, list(jax.core.eval_jaxpr(gradients.jaxpr, closed[1], *arrays, *cts))

    function = jax.custom_vjp(evaluated)
    function.defvjp(forward, pulled)
    return function([list(values.consts), list(gradients.consts)], list(arrays))


def _array(gradient: Any, like: Any) -> Any:
    from torchax import interop

    if gradient is None:
        return jnp.zeros_like(like)
    array = interop.jax_view(gradient)
    if array.shape != like.shape:
        array = interop.jax_view(gradient.sum_to_size(like.shape))
    return array.astype(like.dtype)
