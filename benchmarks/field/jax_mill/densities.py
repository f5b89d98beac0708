"""Densities, quantile transforms and importance weights."""

from __future__ import annotations

import dataclasses
import math
from typing import Tuple, Union

import jax
import jax.numpy as jnp
from jax.scipy.special import i0e, i1e, log_ndtr, logsumexp

ArrayLike = Union[jax.Array, float]

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def _sum_to(value, like):
    """Sum ``value`` down to the shape of ``like``."""
    shape = jnp.shape(like)
    extra = value.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        i + extra for i, d in enumerate(shape) if d == 1 and value.shape[i + extra] != 1)
    return jnp.sum(value, axis=axes).reshape(shape)


@jax.custom_gradient
def kumaraswamy_from_uniform(u, a, b):
    """Push uniform noise through the Kumaraswamy quantile function.

    Args:
      u: uniform draws in (0, 1).
      a: first shape parameter, positive; broadcasts against ``u``.
      b: second shape parameter, positive; broadcasts against ``u``.

    Returns:
      Samples ``(1 - (1 - u) ** (1 / b)) ** (1 / a)``, differentiable in all
      three arguments.
    """
    log_survival = jnp.log1p(-u)
    head = -jnp.expm1(log_survival / b)
    sample = head ** (1.0 / a)

    def grad(g):
        by_head = sample / (a * head)
        tail = 1.0 - head
        du = g * by_head * tail / (b * (1.0 - u))
        da = -g * sample * jnp.log(sample) / a
        db = g * by_head * tail * log_survival / b
        return _sum_to(du, u), _sum_to(da, a), _sum_to(db, b)

    return sample, grad


def _one_minus_bessel_quotient(kappa):
    far = kappa > 100.0
    k = jnp.where(far, kappa, 100.0)
    r = 1.0 / k
    tail = r * (1 / 2 + r * (1 / 8 + r * (1 / 8 + r * (25 / 128 + r * (13 / 32 + r * 1073 / 1024)))))
    near = jnp.where(far, 1.0, kappa)
    return jnp.where(far, tail, 1.0 - i1e(near) / i0e(near))


@jax.custom_gradient
def von_mises_log_prob(x: ArrayLike, loc: ArrayLike, kappa: ArrayLike):
    half = jnp.sin(0.5 * (x - loc))
    dip = -2.0 * half * half
    out = kappa * dip - math.log(2.0 * math.pi) - jnp.log(i0e(kappa))

    def grad(g):
        turn = g * kappa * jnp.sin(x - loc)
        by_kappa = g * (dip + _one_minus_bessel_quotient(kappa))
        return _sum_to(-turn, x), _sum_to(turn, loc), _sum_to(by_kappa, kappa)

    return out, grad


@dataclasses.dataclass(frozen=True)
class SkewNormal:
    """Skew normal distribution of Azzalini.

    :param loc: location
    :param scale: positive scale
    :param skew: slant; zero gives the normal distribution
    """

    loc: ArrayLike = 0.0
    scale: ArrayLike = 1.0
    skew: ArrayLike = 0.0

    def mean(self) -> jax.Array:
        delta = self.skew / jnp.sqrt(1.0 + jnp.square(self.skew))
        return self.loc + self.scale * delta * math.sqrt(2.0 / math.pi)

    def log_prob(self, value: ArrayLike) -> jax.Array:
        """Log density at ``value``, which broadcasts against the parameters."""

        @jax.custom_jvp
        def f(value, loc, scale, skew):
            z = (value - loc) / scale
            return (math.log(2.0) - jnp.log(scale) - 0.5 * z * z
                    - _HALF_LOG_2PI + log_ndtr(skew * z))

        @f.defjvp
        def f_jvp(primals, tangents):
            value, loc, scale, skew = primals
            dvalue, dloc, dscale, dskew = tangents
            z = (value - loc) / scale
            t = skew * z
            mills = jnp.exp(-0.5 * t * t - _HALF_LOG_2PI - log_ndtr(t))
            by_z = skew * mills - z
            out = f(value, loc, scale, skew)
            tangent = by_z / scale * (dvalue - dloc)
            tangent = tangent + (z * z - 1.0) / scale * dscale
            tangent = tangent + z * mills * dskew
            return out, tangent

        dtype = jnp.result_type(float, value, self.loc, self.scale, self.skew)
        args = (jnp.asarray(v, dtype) for v in (value, self.loc, self.scale, self.skew))
        return f(*args)


def normalize_log_weights(log_weights: "Float[Array, '... particles']", axis: int = -1
                          ) -> "Tuple[Float[Array, '... particles'], Float[Array, '...']]":
    """Normalise importance weights and estimate the evidence.

    Parameters
    ----------
    log_weights
        Unnormalised log weights.
    axis
        The axis of the particles.

    Returns
    -------
    log_normalized, log_evidence
        The log weights with their total over ``axis`` removed, and the logarithm
        of the mean weight, from which ``axis`` is dropped.
    """

    @jax.custom_gradient
    def run(lw):
        total = logsumexp(lw, axis=axis, keepdims=True)
        log_normalized = lw - total
        log_evidence = jnp.squeeze(total, axis) - math.log(lw.shape[axis])

        def grad(cotangents):
            g, _ = cotangents
            lead = jnp.sum(g, axis=axis, keepdims=True)
            return (g - jnp.exp(log_normalized) * lead,)

        return (log_normalized, log_evidence), grad

    return run(log_weights)


def effective_sample_size(log_weights, axis=-1):
    log_normalized, _ = normalize_log_weights(log_weights, axis)
    return jnp.exp(-logsumexp(2.0 * log_normalized, axis=axis))
