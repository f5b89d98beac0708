"""Fragrance formulation: headspace, dry-down and perceived strength."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def family_share(moles, pvap, family, n_families):
    """Share of the headspace that each odour family holds (Raoult).

    moles [..., C], pvap [C], family [C] integer ids -> [..., n_families].
    """
    partial_p = moles * pvap
    by_family = jnp.zeros(moles.shape[:-1] + (n_families,), partial_p.dtype)
    by_family = by_family.at[..., family].add(partial_p)
    return by_family / jnp.sum(partial_p, axis=-1, keepdims=True)


def _share_fwd(moles, pvap, family, n_families):
    share = family_share(moles, pvap, family, n_families)
    return share, (moles, pvap, family, share)


def _share_bwd(n_families, res, g):
    moles, pvap, family, share = res
    total = jnp.sum(moles * pvap, axis=-1, keepdims=True)
    centred = (g - jnp.sum(g * share, axis=-1, keepdims=True)) / total
    d_partial = jnp.take(centred, family, axis=-1)
    d_pvap = jnp.einsum("...c,...c->c", d_partial, moles)
    return d_partial * pvap, d_pvap, None


family_share.defvjp(_share_fwd, _share_bwd)


def _evaporate(m, rate, dt):
    return m - dt * rate * m / jnp.sum(m, axis=-1, keepdims=True)


def _trace(m0, rate, dt, steps):
    def body(m, _):
        m = _evaporate(m, rate, dt)
        return m, m

    _, tail = lax.scan(body, m0, None, length=steps)
    return jnp.concatenate([m0[None], tail], axis=0)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def dry_down(m0, rate, dt, steps):
    """Remaining moles of each material on the blotter.

    m0 [B, C] applied moles, rate [C] pure-component evaporation rate (mol/h), explicit steps of dt
    hours. Returns [steps + 1, B, C], the first entry being m0. The adjoint sweep needs only the
    stored trace.
    """
    return _trace(m0, rate, dt, steps)


def _dry_fwd(m0, rate, dt, steps):
    trace = _trace(m0, rate, dt, steps)
    return trace, (trace, rate)


def _dry_bwd(dt, steps, res, g):
    trace, rate = res

    def body(carry, xs):
        lam, d_rate = carry
        m, g_m = xs
        s = jnp.sum(m, axis=-1, keepdims=True)
        x = m / s
        pull = rate * lam
        d_rate = d_rate - dt * jnp.sum(lam * x, axis=0)
        lam = lam - dt * (pull - jnp.sum(pull * x, axis=-1, keepdims=True)) / s
        return (lam + g_m, d_rate), None

    init = (g[-1], jnp.zeros_like(rate))
    (lam, d_rate), _ = lax.scan(body, init, (trace[1:], g[:-1]), reverse=True)
    return lam, d_rate


dry_down.defvjp(_dry_fwd, _dry_bwd)


def make_strength_index(power=1.0):
    def parts(ov, scale, expo):
        return (scale * ov**expo) ** power

    @jax.custom_jvp
    def strength(ov, scale, expo):
        return jnp.sum(parts(ov, scale, expo), axis=-1) ** (1.0 / power)

    @strength.defjvp
    def strength_jvp(primals, tangents):
        ov, scale, expo = primals
        ov_dot, scale_dot, expo_dot = tangents
        each = parts(ov, scale, expo)
        rel = scale_dot / scale + expo_dot * jnp.log(ov) + expo * ov_dot / ov
        return jnp.sum(each, axis=-1) ** (1.0 / power), jnp.sum(each * rel, axis=-1)

    return strength


additive_strength = make_strength_index()
synergy_strength = make_strength_index(power=1.6)


def odour_values(moles, pvap, threshold):
    x = moles / moles.sum(-1, keepdims=True)
    return x * pvap / threshold
