"""Elementwise functions with derivatives that stay finite where autodiff does not."""

import jax
import jax.numpy as jnp
from jax.scipy import special as jsp

__all__ = ["inverse_mills_ratio", "bessel_ratio", "tsallis_log", "signed_power", "hill_response"]

_MILLS = (1.0, -2.0, 10.0, -74.0, 706.0, -8162.0)


def _tail_start(dtype):
    return 20.0 if jnp.finfo(dtype).bits == 64 else 10.0


def _mills_tail(t):
    """Expansion of pdf/cdf at ``-t`` for large ``t``, with its slope in ``t``."""
    u = 1.0 / (t * t)
    series = jnp.zeros_like(t)
    slope = jnp.zeros_like(t)
    for k in reversed(range(len(_MILLS))):
        series = series * u + _MILLS[k]
        slope = slope * u - (2 * k + 1) * _MILLS[k]
    return t + series / t, 1.0 + slope * u


@jax.custom_jvp
def inverse_mills_ratio(x):
    """Standard normal hazard in the lower tail, ``pdf(x) / cdf(x)``.

    Args:
      x: Real array of any shape.

    Returns:
      Array of the shape of ``x``, positive and decreasing.
    """
    x = jnp.asarray(x)
    start = _tail_start(x.dtype)
    body = jnp.maximum(x, -start)
    log_pdf = -0.5 * body * body - 0.5 * jnp.log(2 * jnp.pi).astype(x.dtype)
    value = jnp.exp(log_pdf - jsp.log_ndtr(body))
    tail, _ = _mills_tail(jnp.maximum(-x, start))
    return jnp.where(x < -start, tail, value)


@inverse_mills_ratio.defjvp
def _inverse_mills_ratio_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    x = jnp.asarray(x)
    m = inverse_mills_ratio(x)
    start = _tail_start(x.dtype)
    _, slope = _mills_tail(jnp.maximum(-x, start))
    return m, jnp.where(x < -start, -slope, -m * (x + m)) * dx


@jax.custom_jvp
def bessel_ratio(kappa):
    """I1(kappa) / I0(kappa), the mean resultant of a von Mises law. Odd in kappa."""
    return jsp.i1e(kappa) / jsp.i0e(kappa)


@bessel_ratio.defjvp
def _(primals, tangents):
    kappa, = primals
    dot, = tangents
    r = bessel_ratio(kappa)
    a = jnp.abs(kappa)
    far = 500.0 if jnp.finfo(r.dtype).bits == 64 else 50.0
    mid = jnp.clip(a, 1e-3, far)
    rm = jsp.i1e(mid) / jsp.i0e(mid)
    d_mid = 1.0 - rm / mid - rm * rm
    d_small = 0.5 - 3.0 * kappa * kappa / 16.0
    w = 1.0 / jnp.maximum(a, far)
    d_far = w * w * (0.5 + w * (0.25 + w * (0.375 + w * (25 / 32 + w * 65 / 32))))
    d = jnp.where(a < 1e-3, d_small, jnp.where(a > far, d_far, d_mid))
    return r, d * dot


@jax.custom_jvp
def tsallis_log(x, q):
    r"""Deformed logarithm :math:`(x^{1-q} - 1) / (1 - q)`.

    :param x: positive array.
    :param q: entropic index, broadcast against ``x``; ``q = 1`` is the natural logarithm
        and the usual starting value of a trained index.
    :return: array of the broadcast shape.
    """
    t = 1.0 - q
    lx = jnp.log(x)
    near = jnp.abs(t) < 1e-4
    safe = jnp.where(near, 1.0, t)
    return jnp.where(near, lx + 0.5 * t * lx * lx, jnp.expm1(safe * lx) / safe)


@tsallis_log.defjvp
def _tsallis_log_jvp(primals, tangents):
    x, q = primals
    dx, dq = tangents
    out = tsallis_log(x, q)
    t = 1.0 - q
    lx = jnp.log(x)
    near = jnp.abs(t) < 1e-4
    safe = jnp.where(near, 1.0, t)
    xt = jnp.exp(safe * lx)
    slope = jnp.where(near, lx**2 * (0.5 + t * lx / 3.0), (out - xt * lx) / safe)
    return out, jnp.exp(-q * lx) * dx + slope * dq


@jax.custom_jvp
def signed_power(x, p):
    return jnp.sign(x) * jnp.abs(x) ** p


@signed_power.defjvp
def _signed_power_jvp(primals, tangents):
    x, p = primals
    x_dot, p_dot = tangents
    mag = jnp.abs(x)
    zero = mag == 0
    base = jnp.where(zero, 1.0, mag)
    power = jnp.where(zero, 0.0, base**p)
    lead = jnp.where(zero, jnp.where(p == 1, 1.0, 0.0), p * base ** (p - 1))
    return jnp.sign(x) * power, lead * x_dot + power * jnp.log(base) * p_dot


def _reduce_like(g, ref):
    shape = jnp.shape(ref)
    extra = g.ndim - len(shape)
    g = g.sum(tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return g.sum(axes, keepdims=True) if axes else g


@jax.custom_gradient
def hill_response(x, half, order):
    """Hill curve ``x**n / (half**n + x**n)``.

    Parameters
    ----------
    x : array
        Concentration, non-negative.
    half : array
        Concentration of half response, positive.
    order : array
        Hill coefficient ``n``, at least one.

    Notes
    -----
    The arguments broadcast against each other.
    """
    x, half, order = jnp.asarray(x), jnp.asarray(half), jnp.asarray(order)
    positive = x > 0
    ratio = jnp.where(positive, x, half) / half
    log_ratio = jnp.log(ratio)
    h = jnp.where(positive, jax.nn.sigmoid(order * log_ratio), 0.0)

    def pullback(g):
        bell = jnp.where(positive, h * jax.nn.sigmoid(-order * log_ratio), 0.0)
        at_zero = jnp.where(order == 1, 1.0 / half, 0.0)
        dx = jnp.where(positive, order * bell / jnp.where(positive, x, 1.0), at_zero)
        dhalf = -order * bell / half
        dorder = bell * log_ratio
        return _reduce_like(g * dx, x), _reduce_like(g * dhalf, half), _reduce_like(g * dorder, order)

    return h, pullback
