"""Pairs of midpoint and radius as XLA computes with them: the scalar side of `Balls64`."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from gradcheck_cli.reals.pairs.arithmetic import EPS, ULP, Arithmetic, Array, Pair, exact

__all__ = ["EPS", "ULP", "XLA", "Array", "Pair", "exact"]

XLA = Arithmetic(
    jnp,
    erf=lax.erf,
    erf_inv=lax.erf_inv,
    erfc=lax.erfc,
    bits=lambda x: lax.bitcast_convert_type(x, jnp.uint64),
)
