"""Compartment, decay and community models used by the fitting scripts."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple, Tuple

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from jaxtyping import Array, Float

_SERIES_CUTOFF = 0.03


class DecayResult(NamedTuple):
    inventory: jax.Array
    decays: jax.Array


def _phi(x):
    """(1 - exp(-x)) / x and its derivative, for x >= 0."""
    small = x < _SERIES_CUTOFF
    z = jnp.where(small, 1.0, x)
    e = jnp.exp(-z)
    val = jnp.where(
        small,
        1.0 - x / 2.0 * (1.0 - x / 3.0 * (1.0 - x / 4.0 * (1.0 - x / 5.0 * (1.0 - x / 6.0)))),
        -jnp.expm1(-z) / z,
    )
    der = jnp.where(
        small,
        -0.5 + x * (1 / 3 - x * (1 / 8 - x * (1 / 30 - x * (1 / 144 - x / 840)))),
        (e * (1.0 + z) - 1.0) / (z * z),
    )
    return val, der


@jax.custom_jvp
def bateman(
    t: Float[Array, "*b"],
    dose: Float[Array, "*b"],
    ka: Float[Array, "*b"],
    ke: Float[Array, "*b"],
    vol: Float[Array, "*b"],
    lag: Float[Array, "*b"],
) -> Float[Array, "*b"]:
    """Plasma concentration after one oral dose (one compartment, first-order uptake).

    Written through (1 - exp(-x)) / x so that flip-flop kinetics and equal absorption and
    elimination rates need no special treatment by the caller. The concentration is zero up
    to the lag time. Floating point arguments, broadcast against each other; ka, ke, vol > 0.
    """
    s = jnp.maximum(t - lag, 0.0)
    lo = jnp.minimum(ka, ke)
    phi, _ = _phi(jnp.abs(ka - ke) * s)
    return dose * ka / vol * s * jnp.exp(-lo * s) * phi


@bateman.defjvp
def _bateman_jvp(primals, tangents):
    t, dose, ka, ke, vol, lag = jnp.broadcast_arrays(*primals)
    t_dot, dose_dot, ka_dot, ke_dot, vol_dot, lag_dot = tangents
    s = jnp.maximum(t - lag, 0.0)
    lo = jnp.minimum(ka, ke)
    gap = jnp.abs(ka - ke)
    phi, dphi = _phi(gap * s)
    decay = jnp.exp(-lo * s)
    shape = s * decay * phi
    amp = dose * ka / vol

    d_fast = s * s * decay * dphi
    d_slow = -s * s * decay * (phi + dphi)
    fast_uptake = ka >= ke
    d_ka = jnp.where(fast_uptake, d_fast, d_slow)
    d_ke = jnp.where(fast_uptake, d_slow, d_fast)
    d_s = decay * (phi * (1.0 - lo * s) + gap * s * dphi)
    d_s = jnp.where(t > lag, d_s, 0.0)

    out = amp * shape
    out_dot = (
        ka / vol * shape * dose_dot
        + (dose / vol * shape + amp * d_ka) * ka_dot
        + amp * d_ke * ke_dot
        - out / vol * vol_dot
        + amp * d_s * (t_dot - lag_dot)
    )
    return out, out_dot


def _decay_step(n, rates, feed, dt):
    lost = n * -jnp.expm1(-rates * dt)
    return n - lost + lost @ feed, lost


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def decay_chain(
    inventory: Float[Array, "nuclide"],
    rates: Float[Array, "nuclide"],
    feed: Float[Array, "nuclide nuclide"],
    dt: float,
    steps: int,
) -> DecayResult:
    """Explicit decay chain with branching.

    ``feed[i, j]`` is the fraction of the decays of nuclide i that produce nuclide j. Returns the
    final inventory and the number of decays in each step, shape (steps, nuclide), for
    comparison with a counter. The trajectory is kept for the adjoint.
    """
    def body(n, _):
        return _decay_step(n, rates, feed, dt)

    last, decays = jax.lax.scan(body, inventory, None, length=steps)
    return DecayResult(last, decays)


def _decay_chain_fwd(inventory, rates, feed, dt, steps):
    def body(n, _):
        nxt, lost = _decay_step(n, rates, feed, dt)
        return nxt, (n, lost)

    last, (states, decays) = jax.lax.scan(body, inventory, None, length=steps)
    return DecayResult(last, decays), (states, decays, rates, feed)


def _decay_chain_bwd(dt, steps, res, ct):
    states, decays, rates, feed = res
    prob = -jnp.expm1(-rates * dt)
    dprob = dt * jnp.exp(-rates * dt)

    def body(carry, inp):
        adj, g_rates, g_feed = carry
        n, lost, ct_lost = inp
        transfer = feed @ adj - adj
        g_rates = g_rates + (ct_lost + transfer) * n * dprob
        g_feed = g_feed + jnp.outer(lost, adj)
        adj = adj + transfer * prob
        return (adj, g_rates, g_feed), None

    init = (ct.inventory, jnp.zeros_like(rates), jnp.zeros_like(feed))
    (adj, g_rates, g_feed), _ = jax.lax.scan(
        body, init, (states, decays, ct.decays), reverse=True
    )
    return adj, g_rates, g_feed


decay_chain.defvjp(_decay_chain_fwd, _decay_chain_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def leinster_cobbold(
    p: Float[Array, "*site species"],
    similarity: Float[Array, "species species"],
    q: float = 2.0,
) -> Float[Array, "*site"]:
    """Similarity-sensitive diversity of order q (Leinster & Cobbold 2012).

    Args:
      p: relative abundances, strictly positive; the derivative is that of the formula, without the
        constraint that they sum to one.
      similarity: ``similarity[i, j]`` is how well species j stands in for species i, in (0, 1],
        with ones on the diagonal. It does not have to be symmetric (e.g. trait containment).
      q: order, any non-negative number; q = 1 gives the exponential of the similarity-sensitive entropy.

    Returns:
      Effective number of species for each site.
    """
    z = p @ similarity.T
    if q == 1.0:
        return jnp.exp(-jnp.sum(p * jnp.log(z), axis=-1))
    return jnp.sum(p * z ** (q - 1.0), axis=-1) ** (1.0 / (1.0 - q))


def _lc_fwd(p, similarity, q):
    out = leinster_cobbold(p, similarity, q)
    return out, (p, similarity, out)


def _lc_bwd(q, res, ct):
    p, similarity, div = res
    z = p @ similarity.T
    # d(div)/d(moment) is folded into one factor; div ** q is finite for every order
    if q == 1.0:
        direct, ordinary = -jnp.log(z), -p / z
        outer = ct * div
    else:
        direct, ordinary = z ** (q - 1.0), (q - 1.0) * p * z ** (q - 2.0)
        outer = ct * div**q / (1.0 - q)
    outer = outer[..., None]
    dp = outer * (direct + ordinary @ similarity.T)
    dz = (outer * ordinary).reshape(-1, p.shape[-1])
    dsim = dz.T @ p.reshape(-1, p.shape[-1])
    return dp, dsim


leinster_cobbold.defvjp(_lc_fwd, _lc_bwd)


def _perron_projector(a, squarings: int = 40):
    def square(m, _):
        m = m @ m
        return m / jnp.max(m, axis=(-2, -1), keepdims=True), None

    m0 = a / jnp.max(a, axis=(-2, -1), keepdims=True)
    m, _ = jax.lax.scan(square, m0, None, length=squarings)
    return m


@jax.custom_vjp
def perron_growth(a: Float[Array, "*b n n"]) -> Float[Array, "*b"]:
    """Asymptotic growth rate (dominant eigenvalue) of a primitive non-negative matrix.

    High powers of the matrix tend to a multiple of ``v w^T`` with the right and left Perron vectors; the
    growth rate and its sensitivities are both read off that matrix, so no eigensolver is called.
    """
    m = _perron_projector(a)
    return jnp.sum(a @ m, axis=(-2, -1)) / jnp.sum(m, axis=(-2, -1))


def _perron_fwd(a):
    m = _perron_projector(a)
    lam = jnp.sum(a @ m, axis=(-2, -1)) / jnp.sum(m, axis=(-2, -1))
    return lam, m


def _perron_bwd(m, ct):
    trace = jnp.trace(m, axis1=-2, axis2=-1)
    return ((ct / trace)[..., None, None] * jnp.swapaxes(m, -1, -2),)


perron_growth.defvjp(_perron_fwd, _perron_bwd)


def elasticities(a: Float[Array, "n n"]) -> Tuple[jax.Array, jax.Array]:
    """Growth rate and proportional sensitivities of one projection matrix."""
    lam, sens = jax.value_and_grad(perron_growth)(a)
    return lam, sens * a / lam
