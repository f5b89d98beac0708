"""A JAX function of its float leaves alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.inputs.signature import OMITTED, Fixed, Signature, filled


def flat(fun: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """The function of its float leaves alone, returning its float outputs alone; complex ones as their two parts.

    What is paired and parted here JAX transposes itself: a rule gets the cotangents that a user's program gives it.
    """
    held = signature.changed(_as_jax)

    def flat(*leaves: Any) -> tuple[Any, ...]:
        args, kwargs = _arguments(held, leaves)
        out = jax.tree_util.tree_leaves(fun(*args, **kwargs))
        inexact = (x for x in out if jnp.issubdtype(jnp.result_type(x), jnp.inexact))
        return tuple(part for x in inexact for part in _parts(jnp.asarray(x)))

    return flat


def _parts(x: Any) -> tuple[Any, ...]:
    return (jnp.real(x), jnp.imag(x)) if jnp.iscomplexobj(x) else (x,)


def _as_jax(value: Any) -> Any:
    """Tables and masks as JAX's arrays: numpy's own cannot be indexed by what is traced."""
    if isinstance(value, Fixed) and isinstance(value.value, np.ndarray) and value.value.dtype.kind in "iub":  # fmt: skip
        return replace(value, value=jnp.asarray(value.value))
    return value


def _arguments(signature: Signature, leaves: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments of the call; after one that is left out, by their names."""
    supply = iter(leaves)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    positional = True
    for name, value in signature.arguments:
        if value is OMITTED:
            positional = False
        elif positional and name not in signature.keywords:
            args.append(filled(value, supply, paired=jax.lax.complex))
        else:
            kwargs[name] = filled(value, supply, paired=jax.lax.complex)
    return args, kwargs
