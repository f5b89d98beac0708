"""Functions with custom gradients inside, that call them or hand them out."""

import jax
import jax.numpy as jnp


def scaled(x, factor):
    """The factor is closed over."""
    rows = jnp.atleast_2d(x) * x.shape[0] / x.shape[0]

    @jax.custom_gradient
    def op(y):
        return y * factor, lambda g: (g * factor,)

    return op(rows)[0]


def factory():
    @jax.custom_gradient
    def op(y):
        return y, lambda g: g

    return op


class Layer:
    """What `call` makes, it calls; `make` hands it out."""

    def __init__(self, factor=2.0):
        self.factor = factor

    def call(self, x):
        factor = self.factor

        @jax.custom_gradient
        def op(y):
            return y * factor, lambda g: (g * factor,)

        return op(x)

    def make(self):
        @jax.custom_gradient
        def op(y):
            return y, lambda g: g

        return op


def times(factor, offset=1.0):
    def shifted(x, rows):
        @jax.custom_gradient
        def op(y):
            return y * factor, lambda g: (g * factor,)

        return op(x)[rows] + offset

    return shifted


def squared_by(scale=1.0):
    def squared(x):
        @jax.custom_gradient
        def op(y):
            return scale * y * y, lambda g: (2 * scale * y * g,)

        return op(x)

    return squared


def demo():
    return times(3.0)(jnp.ones(2), 0)


squared = squared_by(0.5)


class Law:
    """Hands attributes of its own to what it makes."""

    def __init__(self, rate=2.0, low=0.0):
        self.rate, self.low = rate, low

    def log_prob(self, x):
        @jax.custom_gradient
        def op(y, rate, low):
            return rate * (y - low), lambda g: (g * rate, g * (y - low), -g * rate)

        return op(x, jnp.asarray(self.rate), self.low)


class Tilted:
    """Makes what it hands on of its attributes before."""

    def __init__(self, rate=2.0, low=0.0):
        self.rate, self.low = rate, low

    def log_prob(self, x):
        @jax.custom_gradient
        def op(y, rate, low):
            return rate * (y - low), lambda g: (g * rate, g * (y - low), -g * rate)

        args = (jnp.asarray(v) for v in (x, self.rate, self.low))
        return op(*args)


def joined(*parts):
    """Takes any number of arrays."""

    @jax.custom_gradient
    def op(*each):
        return sum(each), lambda g: tuple(g for _ in each)

    return op(*parts)
