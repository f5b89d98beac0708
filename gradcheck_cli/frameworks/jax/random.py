"""A JAX call with other keys: all of them in one compiled call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.frameworks.shared.tracing import cast, precision
from gradcheck_cli.inputs.signature import Fixed, Signature

Array = np.ndarray[Any, Any]
Arrays = Sequence[Array]


class Keyed(Protocol):
    """A rule and its primal at a signature, which may hold keys."""

    signature: Signature
    dtype: str
    avals: tuple[Any, ...]
    out_avals: tuple[Any, ...]

    @property
    def primal(self) -> Callable[..., Any]: ...
    @property
    def rule(self) -> Callable[..., Any]: ...


def with_new_draws(
    subject: Keyed, fit: Callable[[Signature], Keyed],
    seeds: int, point: Arrays, cotangent: Arrays, ends: Arrays,
) -> tuple[list[Array], list[Array]] | None:  # fmt: skip
    """Gradients here and values at the ends for new keys; `fit` gives the subject at a signature."""
    arguments = subject.signature.arguments
    if not any(map(_is_key, (value for _, value in arguments))):
        return None

    def drawn(key: Any) -> tuple[Any, Any]:
        keyed = tuple((n, Fixed(key, "key", "") if _is_key(v) else v) for n, v in arguments)
        own = fit(replace(subject.signature, arguments=keyed))
        _, pull = jax.vjp(own.rule, *leaves)
        return pull(tuple(weights)), jax.lax.map(lambda end: own.primal(*end), tuple(far))

    with precision(subject.dtype):
        leaves, far = cast(point, subject.avals), cast(ends, subject.avals)
        weights = cast(cotangent, subject.out_avals)
        keys = jax.random.split(jax.random.key(0), seeds)
        gradients, values = jax.jit(jax.vmap(drawn))(keys)
        return _host(gradients), _host(values)


def _host(arrays: Sequence[Any]) -> list[Array]:
    return [np.asarray(a, np.float64) for a in arrays]


def _is_key(value: Any) -> bool:
    array = value.value if isinstance(value, Fixed) else None
    return isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
