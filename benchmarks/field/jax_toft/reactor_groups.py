"""Few-group constants and point kinetics."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class DelayedData(NamedTuple):
    lam: jax.Array    # (K,) decay constants [1/s]
    beta: jax.Array   # (K,) delayed fractions


# six-group thermal U-235
U235_LAMBDA = (0.0124, 0.0305, 0.111, 0.301, 1.14, 3.01)
U235_BETA = (0.000215, 0.001424, 0.001274, 0.002568, 0.000748, 0.000273)


def u235(dtype=jnp.float32):
    return DelayedData(jnp.asarray(U235_LAMBDA, dtype), jnp.asarray(U235_BETA, dtype))


def _membership(group_ids, num_groups, dtype):
    return jax.nn.one_hot(group_ids, num_groups, dtype=dtype)


def make_collapse(num_groups):
    """Build the flux-weighted condensation onto `num_groups` coarse groups."""

    @jax.custom_vjp
    def collapse_xs(sigma, flux, group_ids):
        """sigma (R, F), flux (B, F) > 0, group_ids (F,) -> (B, R, G); empty coarse groups give 0."""
        return forward(sigma, flux, group_ids)[0]

    def forward(sigma, flux, group_ids):
        m = _membership(group_ids, num_groups, flux.dtype)
        phi = flux @ m
        inv = jnp.where(phi > 0, 1.0 / jnp.where(phi > 0, phi, 1.0), 0.0)
        out = jnp.einsum("rf,bf,fg->brg", sigma, flux, m) * inv[:, None, :]
        return out, (sigma, flux, m, inv, out)

    def backward(res, g):
        sigma, flux, m, inv, out = res
        gn = g * inv[:, None, :]
        d_sigma = jnp.einsum("brg,fg,bf->rf", gn, m, flux)
        direct = jnp.einsum("brg,fg,rf->bf", gn, m, sigma)
        norm = jnp.einsum("brg,brg,fg->bf", gn, out, m)
        return d_sigma, direct - norm, None

    collapse_xs.defvjp(forward, backward)
    return collapse_xs


def _production(lam, dt):
    decay = jnp.exp(-lam * dt)
    phi = -jnp.expm1(-lam * dt) / lam
    return decay, phi


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def precursor_history(power, data, c0, dt, gen_time):
    """Delayed-neutron source along a power history.

    The precursor balance dC/dt = beta/Lambda * n - lam * C is integrated exactly over each
    step with the power held constant.

    Args:
      power: (T, B) relative power in each step, for B nodes.
      data: DelayedData with K families, lam > 0.
      c0: (B, K) initial concentrations.
      dt: step length [s], static.
      gen_time: prompt generation time Lambda [s], static.

    Returns:
      source (T, B), sum over families of lam * C at the end of each step, and
      the final concentrations (B, K), from which a restart can go on.
    """
    (source, c_end), _ = _history_fwd(power, data, c0, dt, gen_time)
    return source, c_end


def _history_fwd(power, data, c0, dt, gen_time):
    decay, phi = _production(data.lam, dt)

    def step(c, n):
        c_new = c * decay + n[:, None] * (data.beta / gen_time) * phi
        return c_new, (c_new @ data.lam, c)

    c_end, (source, c_before) = jax.lax.scan(step, c0, power)
    return (source, c_end), (power, data, c_before)


def _history_bwd(dt, gen_time, res, cotangents):
    power, data, c_before = res
    g, _ = cotangents
    lam, beta = data
    decay, phi = _production(lam, dt)
    d_phi = (dt * decay - phi) / lam

    def step(carry, inputs):
        dc, d_lam, d_beta = carry
        n, c, gt = inputs
        c_new = c * decay + n[:, None] * (beta / gen_time) * phi
        dc = dc + gt[:, None] * lam
        d_lam = d_lam + gt @ c_new
        d_lam = d_lam + jnp.sum(
            dc * (-dt * decay * c + n[:, None] * (beta / gen_time) * d_phi), axis=0)
        d_beta = d_beta + jnp.sum(dc * n[:, None], axis=0) * phi / gen_time
        dn = dc @ (beta * phi / gen_time)
        return (dc * decay, d_lam, d_beta), dn

    init = (jnp.zeros_like(c_before[0]), jnp.zeros_like(lam), jnp.zeros_like(beta))
    (dc0, d_lam, d_beta), d_power = jax.lax.scan(step, init, (power, c_before, g), reverse=True)
    return d_power, DelayedData(d_lam, d_beta), dc0


precursor_history.defvjp(_history_fwd, _history_bwd)


@jax.custom_jvp
def rod_worth(z, height, total):
    """Inserted worth of a rod bank at depth z; zero when withdrawn, `total` when fully in."""
    x = jnp.clip(z / height, 0.0, 1.0)
    return total * (x - jnp.sin(2 * jnp.pi * x) / (2 * jnp.pi))


@rod_worth.defjvp
def _rod_worth_jvp(primals, tangents):
    z, height, total = primals
    dz, dh, dtot = tangents
    x = z / height
    slope = 1.0 - jnp.cos(2 * jnp.pi * x)
    out = rod_worth(z, height, total)
    shape = rod_worth(z, height, jnp.ones_like(total))
    return out, total * slope * (dz - x * dh) / height + shape * dtot


def bank_reactivity(depths, height, totals):
    return -jnp.sum(rod_worth(depths, height, totals), axis=-1)
