"""Distributions on an interval."""

import jax
import jax.numpy as jnp


def _fold(ct, ref):
    n = ct.ndim - jnp.ndim(ref)
    ct = ct.sum(axis=tuple(range(n)))
    for axis, size in enumerate(jnp.shape(ref)):
        if size == 1:
            ct = ct.sum(axis=axis, keepdims=True)
    return ct.astype(jnp.result_type(ref))


class TruncatedExponential:
    """Exponential distribution restricted to an interval.

    Parameters
    ----------
    rate
        Positive rate.
    low, high
        Ends of the interval.

    All three broadcast against each other and against the values.
    """

    def __init__(self, rate, low=0.0, high=1.0):
        self.rate = rate
        self.low = low
        self.high = high

    @property
    def batch_shape(self):
        return jnp.broadcast_shapes(jnp.shape(self.rate), jnp.shape(self.low), jnp.shape(self.high))

    def mean(self):
        width = self.high - self.low
        return self.low + 1.0 / self.rate - width / jnp.expm1(self.rate * width)

    def icdf(self, q):
        mass = -jnp.expm1(-self.rate * (self.high - self.low))
        return self.low - jnp.log1p(-q * mass) / self.rate

    def log_prob(self, value):
        """Log density; minus infinity (and no gradient) off the interval."""

        @jax.custom_gradient
        def f(x, rate, low, high):
            width = high - low
            inside = (x >= low) & (x <= high)
            log_norm = jnp.log(-jnp.expm1(-rate * width)) - jnp.log(rate)
            out = jnp.where(inside, -rate * (x - low) - log_norm, -jnp.inf)

            def vjp(ct):
                ct = jnp.where(inside, ct, 0.0)
                odds = 1.0 / jnp.expm1(rate * width)
                return (
                    _fold(-ct * rate, x),
                    _fold(ct * (1.0 / rate - x - width * odds), rate),
                    _fold(ct * rate * (1.0 + odds), low),
                    _fold(-ct * rate * odds, high),
                )

            return out, vjp

        return f(*(jnp.asarray(v, jnp.result_type(float)) for v in (value, self.rate, self.low, self.high)))
