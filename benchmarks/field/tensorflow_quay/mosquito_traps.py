"""Mosquito surveillance: catch models, thermal development, transmission potential.

The functions below are fitted jointly by gradient descent to light-trap and
mark-release-recapture data, so every one carries an analytic derivative.
"""
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

KERNELS = ("exponential", "gaussian")


@dataclass
class ThermalCurve:
    """Briere coefficients of one trait: An. gambiae, arabiensis, funestus."""

    q: np.ndarray
    t_min: np.ndarray
    t_max: np.ndarray

    @classmethod
    def default(cls, dtype="float32"):
        return cls(
            q=np.array([2.03e-4, 1.85e-4, 1.60e-4], dtype),
            t_min=np.array([11.7, 12.2, 13.0], dtype),
            t_max=np.array([42.3, 41.5, 39.8], dtype),
        )


def _sum_to(g, like):
    """Add up ``g`` over the axes along which ``like`` was broadcast."""
    lead = g.shape.rank - like.shape.rank
    if lead:
        g = tf.reduce_sum(g, axis=list(range(lead)))
    ones = [i for i, d in enumerate(like.shape) if d == 1]
    if ones:
        g = tf.reduce_sum(g, axis=ones, keepdims=True)
    return g


@tf.custom_gradient
def briere_rate(temp, q, t_min, t_max):
    """Briere development rate ``q T (T - T0) sqrt(Tm - T)``.

    Parameters
    ----------
    temp : tf.Tensor
        Water temperature in degrees Celsius, e.g. ``(days, 1)``.
    q, t_min, t_max : tf.Tensor
        Coefficients, anything that broadcasts with `temp`, e.g. ``(species,)``.

    Returns
    -------
    tf.Tensor
        Rate per day; zero at and outside the two thermal limits.
    """
    alive = (temp > t_min) & (temp < t_max)
    room = tf.where(alive, t_max - temp, tf.ones_like(temp * t_max))
    root = tf.sqrt(room)
    above = temp - t_min
    rate = tf.where(alive, q * temp * above * root, tf.zeros_like(root))

    def grad(upstream):
        live = tf.where(alive, upstream, tf.zeros_like(upstream))
        half = temp * above / (2.0 * root)
        d_temp = live * q * (root * (above + temp) - half)
        d_tmax = live * q * half
        d_tmin = -live * q * temp * root
        return (
            _sum_to(d_temp, temp),
            _sum_to(live * temp * above * root, q),
            _sum_to(d_tmin, t_min),
            _sum_to(d_tmax, t_max),
        )

    return rate, grad


def make_trap_shares(kernel="exponential", escape=1.0):
    """Build the recapture model of a mark-release experiment.

    Parameters
    ----------
    kernel : {'exponential', 'gaussian'}
        Shape of the dispersal kernel in ``distance / scale``.
    escape : float
        Weight of not being caught in any trap, zero or larger.

    Returns
    -------
    callable
        ``shares(log_attract, dist, scale)`` with `log_attract` of shape
        ``(traps,)``, `dist` of shape ``(releases, traps)`` and `scale`, in the
        units of `dist`, a scalar or ``(releases, 1)``. It returns the
        probability of each trap, ``(releases, traps)``.
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {KERNELS}, not {kernel!r}")

    @tf.custom_gradient
    def shares(log_attract, dist, scale):
        z = dist / scale
        if kernel == "gaussian":
            fall, slope = -0.5 * z * z, -z
        else:
            fall, slope = -z, -tf.ones_like(z)
        logit = log_attract + fall
        out_logit = tf.math.log(tf.cast(escape, logit.dtype))
        top = tf.maximum(tf.reduce_max(logit, axis=-1, keepdims=True), out_logit)
        weight = tf.exp(logit - top)
        total = tf.reduce_sum(weight, axis=-1, keepdims=True) + tf.exp(out_logit - top)
        p = weight / total

        def grad(dy):
            d_logit = p * (dy - tf.reduce_sum(dy * p, axis=-1, keepdims=True))
            d_dist = d_logit * slope / scale
            d_scale = d_logit * z / scale
            return _sum_to(d_logit, log_attract), d_dist, _sum_to(d_scale, scale)

        return p, grad

    return shares


@tf.custom_gradient
def expected_catch(site_rate, moon_slope, night_site, illum):
    """Expected catch of each trap night.

    Parameters
    ----------
    site_rate : (sites, species)
        Mean catch on a moonless night.
    moon_slope : (species,)
        Loss of light-trap catch per unit of lunar illumination.
    night_site : (nights,) int
        The site at which every trap night was run.
    illum : (nights,)
        Illuminated fraction of the moon.
    """
    dim = tf.exp(-illum[:, None] * moon_slope)
    base = tf.gather(site_rate, night_site)
    mean = base * dim

    def grad(dy):
        d_rate = tf.tensor_scatter_nd_update(
            tf.zeros_like(site_rate), night_site[:, None], dy * dim
        )
        pull = -dy * mean
        d_slope = tf.linalg.matvec(pull, illum, transpose_a=True)
        d_illum = tf.linalg.matvec(pull, moon_slope)
        return d_rate, d_slope, None, d_illum

    return mean, grad


@tf.custom_gradient
def vectorial_capacity(density, biting, survival, eip):
    """Garrett-Jones vectorial capacity ``m a^2 p^n / (-ln p)``.

    All four arguments broadcast; `survival` is the daily survival in (0, 1) and
    `eip` the extrinsic incubation period in days.
    """
    hazard = -tf.math.log(survival)
    lived = tf.exp(-hazard * eip) / hazard
    cap = density * biting**2 * lived

    def grad(dy):
        gc = dy * cap
        return (
            _sum_to(dy * biting**2 * lived, density),
            _sum_to(2.0 * dy * density * biting * lived, biting),
            _sum_to(gc * (eip + 1.0 / hazard) / survival, survival),
            _sum_to(-gc * hazard, eip),
        )

    return cap, grad


def fit_step(params, data, optimizer):
    """One joint step; `params` is a dict of variables, `data` a dict of arrays."""
    shares = make_trap_shares(data.get("kernel", "exponential"), data.get("escape", 1.0))
    with tf.GradientTape() as tape:
        mean = expected_catch(
            tf.exp(params["log_rate"]), params["moon"], data["night_site"], data["illum"]
        )
        loss = tf.reduce_sum(mean - data["count"] * tf.math.log(mean + 1e-9))
        p = shares(params["log_attract"], data["dist"], tf.exp(params["log_scale"]))
        loss -= tf.reduce_sum(data["recaptured"] * tf.math.log(p + 1e-9))
    names = sorted(params)
    grads = tape.gradient(loss, [params[n] for n in names])
    optimizer.apply_gradients([(g, params[n]) for g, n in zip(grads, names) if g is not None])
    return loss


def seasonal_capacity(temp, density, curve: ThermalCurve, biting=0.33, survival=0.86):
    """Capacity through a season, ``temp`` of shape (days,), density (species,)."""
    rate = briere_rate(temp[:, None], curve.q, curve.t_min, curve.t_max)
    eip = 1.0 / tf.maximum(rate, 1e-3)
    return vectorial_capacity(density, biting, survival, eip)
