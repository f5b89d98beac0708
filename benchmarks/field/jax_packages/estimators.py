"""Gradient estimators, surrogates and bounded distributions."""

import jax
import jax.numpy as jnp
from jax.scipy import special as jss
from jax.scipy import stats as jst


def superspike_surrogate(beta=10.0):
    """Heaviside spike with the SuperSpike surrogate derivative.

    Args:
      beta: steepness of the surrogate.

    Returns:
      A function that is 1 where its argument is positive, else 0, and whose
      derivative is replaced by ``1 / (1 + beta * |x|)**2``.
    """

    @jax.custom_jvp
    def spike(x):
        x = jnp.asarray(x)
        return jnp.where(x > 0, 1.0, 0.0).astype(x.dtype)

    @spike.defjvp
    def spike_jvp(primals, tangents):
        (x,), (dx,) = primals, tangents
        return spike(x), dx / jnp.square(1.0 + beta * jnp.abs(x))

    return spike


class LeakyIntegrateAndFire:
    """A layer of leaky integrate-and-fire units with a soft reset."""

    def __init__(self, decay=0.9, threshold=1.0, surrogate=None):
        self.decay = decay
        self.threshold = threshold
        self.spike = superspike_surrogate() if surrogate is None else surrogate

    def __call__(self, current):
        def step(volt, inp):
            volt = self.decay * volt + inp
            out = self.spike(volt - self.threshold)
            return volt - self.threshold * out, out

        return jax.lax.scan(step, jnp.zeros_like(current[0]), current)[1]


@jax.custom_gradient
def clip_gradient(x, gradient_min: float, gradient_max: float):
    """Identity whose gradient is clipped to ``[gradient_min, gradient_max]``."""

    def _compute_gradient(g):
        return jnp.clip(g, gradient_min, gradient_max), None, None

    return x, _compute_gradient


@jax.tree_util.register_pytree_node_class
class BoundedPareto:
    """Power law with the density ``x**alpha``, up to a factor, on ``[low, high]``.

    Args:
      alpha: exponent, any real number but -1.
      low: lower end, positive.
      high: upper end, above ``low``.
    """

    def __init__(self, alpha, low, high):
        self.alpha = alpha
        self.low = low
        self.high = high

    def tree_flatten(self):
        return (self.alpha, self.low, self.high), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)

    def icdf(self, u):
        power = self.alpha + 1.0
        lo, hi = self.low**power, self.high**power
        return (lo + u * (hi - lo)) ** (1.0 / power)

    def log_prob(self, value):
        """Log density at ``value``, which lies between ``low`` and ``high``."""

        @jax.custom_jvp
        def f(x, alpha, low, high):
            power = alpha + 1.0
            mass = (high**power - low**power) / power
            return alpha * jnp.log(x) - jnp.log(mass)

        @f.defjvp
        def f_jvp(primals, tangents):
            x, alpha, low, high = primals
            dx, dalpha, dlow, dhigh = tangents
            power = alpha + 1.0
            span = high**power - low**power
            by_alpha = jnp.log(x) + 1.0 / power - high**power * jnp.log(high) / span
            by_low = power * low**alpha / span
            by_high = -power * high**alpha / span
            out = f(x, alpha, low, high)
            return out, alpha / x * dx + by_alpha * dalpha + by_low * dlow + by_high * dhigh

        return f(value, self.alpha, self.low, self.high)


def _like(x, ref):
    lead = x.ndim - jnp.ndim(ref)
    x = jnp.sum(x, axis=tuple(range(lead)))
    flat = tuple(i for i, n in enumerate(jnp.shape(ref)) if n == 1)
    return jnp.sum(x, axis=flat, keepdims=True)


@jax.custom_vjp
def sample_truncated_normal(u, loc, scale, low, high):
    return _truncated_normal_fwd(u, loc, scale, low, high)[0]


def _truncated_normal_fwd(u, loc, scale, low, high):
    cdf_lo = jss.ndtr((low - loc) / scale)
    cdf_hi = jss.ndtr((high - loc) / scale)
    z = jss.ndtri(cdf_lo + u * (cdf_hi - cdf_lo))
    return loc + scale * z, (u, loc, scale, low, high, z)


def _truncated_normal_bwd(res, g):
    u, loc, scale, low, high, z = res
    alpha = (low - loc) / scale
    beta = (high - loc) / scale
    pdf = jst.norm.pdf
    du = g * scale * (jss.ndtr(beta) - jss.ndtr(alpha)) / pdf(z)
    dlow = g * (1.0 - u) * pdf(alpha) / pdf(z)
    dhigh = g * u * pdf(beta) / pdf(z)
    dloc = g
    dscale = g * z
    return _like(du, u), _like(dloc, loc), _like(dscale, scale), _like(dlow, low), _like(dhigh, high)


sample_truncated_normal.defvjp(_truncated_normal_fwd, _truncated_normal_bwd)
