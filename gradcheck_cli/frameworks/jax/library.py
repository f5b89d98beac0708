"""Stable functions that JAX ships, with the derivative as one would write it.

If a primal equals one of these over the reals, that is what to write instead. The
derivative's text is itself traced and verified before it is shown. One line a function.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy import special

from gradcheck_cli.frameworks.shared.library import Library, Stable

STABLE: tuple[Stable, ...] = (
    Stable(jax.nn.softplus, "jax.nn.softplus({x})", "ct * jax.nn.sigmoid({x})"),
    Stable(jax.nn.sigmoid, "jax.nn.sigmoid({x})", "ct * jax.nn.sigmoid({x}) * jax.nn.sigmoid(-{x})"),
    Stable(jax.nn.log_sigmoid, "jax.nn.log_sigmoid({x})", "ct * jax.nn.sigmoid(-{x})"),
    Stable(lambda x: -jax.nn.softplus(x), "-jax.nn.softplus({x})", "-ct * jax.nn.sigmoid({x})"),
    Stable(lambda x: jax.nn.sigmoid(-x), "jax.nn.sigmoid(-{x})", "-ct * jax.nn.sigmoid({x}) * jax.nn.sigmoid(-{x})"),
    Stable(jax.nn.silu, "jax.nn.silu({x})", "jax.vjp(jax.nn.silu, {x})[1](ct)[0]"),
    Stable(jnp.tanh, "jnp.tanh({x})", "ct / jnp.cosh({x}) ** 2"),
    Stable(jnp.expm1, "jnp.expm1({x})", "ct * jnp.exp({x})"),
    Stable(jnp.log1p, "jnp.log1p({x})", "ct / (1 + {x})"),
    Stable(jnp.arcsinh, "jnp.arcsinh({x})", "ct / jnp.hypot(1.0, {x})"),
    Stable(special.logsumexp, "jax.scipy.special.logsumexp({x})", "ct * jax.nn.softmax({x}, axis=None)", True),
    Stable(jax.nn.softmax, "jax.nn.softmax({x})", "jax.vjp(jax.nn.softmax, {x})[1](ct)[0]", True),
    Stable(jax.nn.log_softmax, "jax.nn.log_softmax({x})", "ct - jax.nn.softmax({x}) * ct.sum(-1, keepdims=True)", True),
    Stable(special.log_ndtr, "jax.scipy.special.log_ndtr({x})", "jax.vjp(jax.scipy.special.log_ndtr, {x})[1](ct)[0]"),
    Stable(special.xlogy, "jax.scipy.special.xlogy({x})", "jax.vjp(jax.scipy.special.xlogy, {x})[1](ct)"),
    Stable(jnp.logaddexp, "jnp.logaddexp({x})", "jax.vjp(jnp.logaddexp, {x})[1](ct)"),
    Stable(jnp.hypot, "jnp.hypot({x})", "jax.vjp(jnp.hypot, {x})[1](ct)"),
)  # fmt: skip

LIBRARY = Library(STABLE, {"jax": jax, "jnp": jnp})
