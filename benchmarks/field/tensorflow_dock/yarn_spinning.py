"""Staple-yarn process model: draw frame, ring frame, evenness tester, blend planning.

Quantities are in the units of the mill: linear density in tex, twist in turns
per metre, strength in cN/tex, elongation at break in percent.
"""
from typing import NamedTuple, Sequence

import tensorflow as tf

# tan(surface angle) = TWIST_CONSTANT * turns/m * sqrt(tex), packing density 0.9 g/cm3
TWIST_CONSTANT = 1.12e-4


class Fibre(NamedTuple):
    name: str
    strength: float      # cN/tex
    elongation: float    # %
    slip: float          # k of the fibre-slippage term


STOCK = {
    "cotton": Fibre("cotton", 28.0, 7.0, 0.06),
    "viscose": Fibre("viscose", 22.0, 18.0, 0.05),
    "polyester": Fibre("polyester", 48.0, 21.0, 0.04),
}


def _fit(grad, like):
    """Sum ``grad`` down to the shape that ``like`` was broadcast from."""
    grad = tf.broadcast_to(
        grad, tf.broadcast_dynamic_shape(tf.shape(grad), tf.shape(like)))
    extra = len(grad.shape) - len(like.shape)
    if extra:
        grad = tf.reduce_sum(grad, axis=list(range(extra)))
    ones = [i for i, n in enumerate(like.shape) if n == 1 and grad.shape[i] != 1]
    return tf.reduce_sum(grad, axis=ones, keepdims=True) if ones else grad


def _lagged(x, lag, forward=True):
    """Move ``x`` by ``lag`` cells along its last axis and fill with zeros."""
    if lag == 0:
        return x
    lead = [[0, 0]] * (len(x.shape) - 1)
    if forward:
        return tf.pad(x[..., :-lag], lead + [[lag, 0]])
    return tf.pad(x[..., lag:], lead + [[0, lag]])


def make_doubler(lags: Sequence[int], draft: float = 6.0):
    """Draw frame with one can per entry of ``lags``.

    The returned function takes ``slivers`` (..., cans, cells) in ktex and
    ``shares`` (cans,), any positive feed settings; the frame meters the cans in
    proportion to them. Every can enters ``lags[i]`` cells late. Result (..., cells).
    """
    lags = [int(v) for v in lags]

    @tf.custom_gradient
    def double(slivers, shares):
        total = tf.reduce_sum(shares)
        mix = shares / total
        late = tf.stack(
            [_lagged(slivers[..., i, :], lag) for i, lag in enumerate(lags)], axis=-2)
        out = tf.reduce_sum(mix[:, None] * late, axis=-2) / draft

        def grad(dout):
            dout = dout / draft
            dslivers = tf.stack(
                [mix[i] * _lagged(dout, lag, forward=False)
                 for i, lag in enumerate(lags)], axis=-2)
            per_can = dout[..., None, :] * late
            per_can = tf.reduce_sum(
                per_can, axis=[a for a in range(len(per_can.shape))
                               if a != len(per_can.shape) - 2])
            dshares = per_can - tf.reduce_sum(per_can * mix)
            return dslivers, dshares

        return out, grad

    return double


@tf.custom_gradient
def spun_strength(twist, tex, fibre_strength, slip):
    """Strength of a twisted staple yarn in cN/tex.

    ``S_f (cos^2 a - k cos^2 a / sin a)``, never below nought: at low twist the
    fibres slide past each other. All four arguments broadcast, twist > 0.
    """
    t = TWIST_CONSTANT * twist * tf.sqrt(tex)
    sec2 = 1.0 + t * t
    cos2 = 1.0 / sec2
    grip = 1.0 / (t * tf.sqrt(sec2))
    efficiency = cos2 - slip * cos2 * tf.sqrt(sec2) / t
    holds = tf.cast(efficiency > 0.0, efficiency.dtype)
    strength = fibre_strength * efficiency * holds

    def grad(upstream):
        live = upstream * holds
        slope = -2.0 * t * cos2 * cos2 + slip * (1.0 + 2.0 * t * t) * grip * cos2 / t
        dt = live * fibre_strength * slope
        return (
            _fit(dt * t / twist, twist),
            _fit(0.5 * dt * t / tex, tex),
            _fit(live * efficiency, fibre_strength),
            _fit(-live * fibre_strength * grip, slip),
        )

    return strength, grad


@tf.custom_gradient
def blend_strength(fraction, s_low, s_high, e_low, e_high):
    """Two-component blend after Hamburger.

    ``fraction`` is the share of the more extensible fibre. Either the yarn fails
    when the less extensible component breaks, the other carrying what its
    straight stress-strain line gives at that elongation, or that component
    alone carries the load afterwards. ``e_low <= e_high``; arguments broadcast.
    """
    carried = s_high * e_low / e_high
    early = (1.0 - fraction) * s_low + fraction * carried
    late = fraction * s_high
    first = early >= late

    def grad(upstream):
        zero = tf.zeros_like(upstream)
        ge = tf.where(first, upstream, zero)
        gl = upstream - ge
        dfraction = ge * (carried - s_low) + gl * s_high
        ds_low = ge * (1.0 - fraction)
        ds_high = upstream * fraction
        de_low = ge * fraction * s_high / e_high
        de_high = -ge * fraction * carried / e_high
        return (_fit(dfraction, fraction), _fit(ds_low, s_low), _fit(ds_high, s_high),
                _fit(de_low, e_low), _fit(de_high, e_high))

    return tf.where(first, early, late), grad


def make_mass_cv(cut: int = 1, unbiased: bool = True):
    """Coefficient of variation of the mass (in %) at a cut length of ``cut`` cells.

    The function made takes capacitance readings (..., cells) and gives (...);
    cells past the last whole cut are left out. At least two cuts, not all equal.
    """

    @tf.custom_gradient
    def mass_cv(readings):
        cells = readings.shape[-1]
        n = cells // cut
        cuts = tf.reshape(readings[..., : n * cut],
                          tf.concat([tf.shape(readings)[:-1], [n, cut]], 0))
        cuts = tf.reduce_mean(cuts, axis=-1)
        mean = tf.reduce_mean(cuts, axis=-1, keepdims=True)
        dev = cuts - mean
        dof = float(n - 1 if unbiased else n)
        std = tf.sqrt(tf.reduce_sum(dev * dev, axis=-1, keepdims=True) / dof)
        cv = std / mean

        def grad(upstream):
            g = 100.0 * upstream[..., None]
            per_cut = g * (dev / (dof * std) - cv / n) / mean
            per_cell = tf.repeat(per_cut / cut, cut, axis=-1)
            tail = [[0, 0]] * (len(readings.shape) - 1) + [[0, cells - n * cut]]
            return tf.pad(per_cell, tail)

        return 100.0 * tf.squeeze(cv, -1), grad

    return mass_cv


def ring_frame_plan(slivers, feed, twist, tex, names=("cotton", "polyester"), cut=4):
    """Strength (lots,) and unevenness (lots,) of a planned lot; slivers (lots, 4, cells)."""
    low, high = (STOCK[n] for n in names)
    dtype = slivers.dtype
    as_t = lambda v: tf.constant(v, dtype)
    sliver = make_doubler([0, 3, 5, 8])(slivers, feed)
    uneven = make_mass_cv(cut)(sliver[..., 8:])
    each = spun_strength(twist[:, None], tex[:, None],
                         as_t([low.strength, high.strength]), as_t([low.slip, high.slip]))
    joint = blend_strength(as_t(0.4), each[:, 0], each[:, 1],
                           as_t(low.elongation), as_t(high.elongation))
    return joint, uneven
