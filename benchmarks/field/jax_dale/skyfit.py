"""Forward model pieces for survey fitting: luminosity functions, atmosphere, orbits, count statistics."""
from functools import partial
from typing import Literal, Optional

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy

Array = jax.Array


@jax.custom_jvp
def schechter_density(lum, phi_star, l_star, alpha):
    x = lum / l_star
    return phi_star / l_star * x**alpha * jnp.exp(-x)


@schechter_density.defjvp
def _schechter_jvp(primals, tangents):
    lum, phi_star, l_star, alpha = primals
    dl, dphi, dls, dal = tangents
    x = lum / l_star
    shape = x**alpha * jnp.exp(-x) / l_star
    n = phi_star * shape
    dlogx = dl / lum - dls / l_star
    # d log n = (alpha - x) dlogx - dlog l* + log x dalpha
    out = n * ((alpha - x) * dlogx - dls / l_star + jnp.log(x) * dal) + shape * dphi
    return n, out


_KY_A, _KY_B, _KY_C = 0.50572, 96.07995, 1.6364


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def airmass(zenith: Array, degrees: bool = True) -> Array:
    """Kasten-Young relative airmass for zenith angles in [0, 90] degrees (radians with ``degrees=False``)."""
    z_deg = zenith if degrees else jnp.rad2deg(zenith)
    return 1.0 / (jnp.cos(jnp.deg2rad(z_deg)) + _KY_A * (_KY_B - z_deg) ** (-_KY_C))


@airmass.defjvp
def _airmass_jvp(degrees, primals, tangents):
    (zenith,), (dz,) = primals, tangents
    z_deg = zenith if degrees else jnp.rad2deg(zenith)
    unit = jnp.pi / 180.0 if degrees else 1.0
    am = airmass(zenith, degrees)
    slope = -jnp.sin(jnp.deg2rad(z_deg)) * unit
    slope = slope + _KY_A * _KY_C * (_KY_B - z_deg) ** (-_KY_C - 1.0)
    return am, -(am**2) * slope * dz


_EZ = (0.0, 0.0, 1.0)


@jax.custom_vjp
def oblate_gravity(pos: Array, mu: float, j2: float, r_eq: float) -> Array:
    r"""Acceleration around an oblate body (point mass plus the J2 harmonic).

    .. math::
        a = -\mu \left[ x r^{-3} + k\,(x r^{-5} - 5 z^2 x r^{-7} + 2 z e_z r^{-5}) \right],
        \qquad k = \tfrac32 J_2 R^2

    Parameters
    ----------
    pos : (..., 3)
        Body-fixed positions with the rotation axis along z; not the origin.
    mu, j2, r_eq : float
        Scalars: gravitational parameter, second zonal coefficient, equatorial radius.

    Returns
    -------
    (..., 3)
        Acceleration.

    Notes
    -----
    The Jacobian with respect to position is the (symmetric) gravity gradient tensor, so that
    the pull back is one matrix free tensor-vector product and no tape is kept for the powers
    of ``r``.
    """
    return -mu * sum(_field(pos, 1.5 * j2 * r_eq**2))


def _field(pos, k):
    z = pos[..., 2:]
    r2 = jnp.sum(pos * pos, axis=-1, keepdims=True)
    u = r2**-0.5
    ez = jnp.asarray(_EZ, pos.dtype)
    return pos * u**3, k * (pos * u**5 - 5.0 * z**2 * pos * u**7 + 2.0 * z * ez * u**5)


def _oblate_fwd(pos, mu, j2, r_eq):
    return oblate_gravity(pos, mu, j2, r_eq), (pos, mu, j2, r_eq)


def _oblate_bwd(res, g):
    pos, mu, j2, r_eq = res
    k = 1.5 * j2 * r_eq**2
    z = pos[..., 2:]
    gz = g[..., 2:]
    ez = jnp.asarray(_EZ, pos.dtype)
    u = jnp.sum(pos * pos, axis=-1, keepdims=True) ** -0.5
    dot = jnp.sum(pos * g, axis=-1, keepdims=True)
    mono = g * u**3 - 3.0 * pos * dot * u**5
    quad = (
        g * u**5
        - 5.0 * pos * dot * u**7
        - 5.0 * z**2 * g * u**7
        - 10.0 * z * (ez * dot + pos * gz) * u**7
        + 35.0 * z**2 * pos * dot * u**9
        + 2.0 * ez * gz * u**5
    )
    point, bulge = _field(pos, k)
    _, unit_bulge = _field(pos, 1.0)
    g_mu = -jnp.sum(g * (point + bulge))
    g_k = -mu * jnp.sum(g * unit_bulge)
    return -mu * (mono + k * quad), g_mu, 1.5 * r_eq**2 * g_k, 3.0 * j2 * r_eq * g_k


oblate_gravity.defvjp(_oblate_fwd, _oblate_bwd)


def _per_bin(model, counts):
    return 2.0 * (model - counts + xlogy(counts, counts) - xlogy(counts, model))


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def cash_statistic(
    model: Array,
    counts: Array,
    good: Array,
    reduction: Literal["none", "sum", "mean"] = "sum",
) -> Array:
    """Cash (Poisson likelihood ratio) statistic of a binned spectrum.

    Args:
        model: expected counts per bin, positive, any shape.
        counts: observed counts, a float array of the same shape holding whole
            numbers; zero is allowed. Treated as data, no gradient is propagated to it.
        good: boolean array of the same shape. Bins that are not good (detector gaps,
            contaminated channels) do not contribute. At least one bin is good.
        reduction: ``"none"`` for the statistic of each bin (zero for the bins that
            are not good), ``"sum"``, or ``"mean"``, which is the average over the good
            bins only.

    Returns:
        The statistic, ``2 * (m - n + n log(n / m))`` per bin, reduced.
    """
    stat = jnp.where(good, _per_bin(model, counts), 0.0)
    if reduction == "none":
        return stat
    total = jnp.sum(stat)
    return total / jnp.sum(good) if reduction == "mean" else total


def _cash_fwd(model, counts, good, reduction):
    return cash_statistic(model, counts, good, reduction), (model, counts, good)


def _cash_bwd(reduction, res, g):
    model, counts, good = res
    if reduction == "mean":
        g = g / model.size
    grad = jnp.where(good, 2.0 * (1.0 - counts / model), 0.0)
    return g * grad, jnp.zeros_like(counts), None


cash_statistic.defvjp(_cash_fwd, _cash_bwd)


def fit_amplitude(template, counts, good: Optional[Array] = None, steps: int = 100, lr: float = 1e-2):
    """Maximum likelihood amplitude of a fixed template."""
    good = jnp.ones(counts.shape, bool) if good is None else good

    def loss(log_amp):
        return cash_statistic(jnp.exp(log_amp) * template, counts, good, "mean")

    log_amp = jnp.zeros(())
    for _ in range(steps):
        log_amp = log_amp - lr * jax.grad(loss)(log_amp)
    return jnp.exp(log_amp)
