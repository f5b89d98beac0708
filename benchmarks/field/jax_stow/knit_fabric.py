"""Weft-knit fabric relations used by the garment simulator.

Three relations carry their own derivatives because the fitting loop runs over
thousands of swatches:

``make_robbing_back``  loop length on each needle after yarn is robbed from the
                       neighbouring stitch while it is being drawn,
``stocking_pressure``  interface pressure of a compression stocking,
``Jersey.build_skew``  spirality of single jersey after relaxation.

Lengths are millimetres, yarn count is tex, pressure is mmHg.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

KNIT, TUCK, MISS, TRANSFER = range(4)
PA_TO_MMHG = 7.50062e-3

# stitch charts, courses by wales
CHARTS = {
    "plain": np.full((4, 6), KNIT),
    "rib_effect": np.tile(np.array([[KNIT, MISS]]), (4, 3)),
    "half_cardigan": np.array([[KNIT, TUCK] * 3, [KNIT, KNIT] * 3]),
    "bird_eye": np.array(
        [
            [KNIT, KNIT, TUCK, KNIT, KNIT, TUCK],
            [MISS, KNIT, KNIT, MISS, KNIT, KNIT],
            [KNIT, TUCK, TUCK, KNIT, KNIT, MISS],
        ]
    ),
    "lace": np.array(
        [
            [KNIT, TRANSFER, MISS, KNIT, KNIT],
            [KNIT, KNIT, KNIT, TRANSFER, MISS],
        ]
    ),
}


def tightness_factor(tex, loop):
    """Munden's cover factor in sqrt(tex) per millimetre."""
    return jnp.sqrt(tex) / loop


def wales_and_courses(loop, k_w=4.2, k_c=5.5):
    return k_w / loop, k_c / loop


# ---------------------------------------------------------------- robbing back


def make_robbing_back(chart):
    """Build the needle loop length map of a tubular machine.

    Args:
      chart: integer stitch codes, one row per course.  The last needle of a
        course is followed by its first one, the cylinder being round.

    Returns:
      ``needle_length(lengths, robbing)`` where ``lengths`` holds the set loop
      length of each stitch code and ``robbing`` the share of yarn, per course,
      that a needle takes on from the one after it.
    """
    codes = jnp.asarray(np.asarray(chart, dtype=np.int32))

    @jax.custom_vjp
    def needle_length(lengths, robbing):
        drawn = lengths[codes]
        following = jnp.roll(drawn, -1, axis=1)
        return drawn + robbing[:, None] * (following - drawn)

    def fwd(lengths, robbing):
        return needle_length(lengths, robbing), (lengths, robbing)

    def bwd(res, ct):
        lengths, robbing = res
        drawn = lengths[codes]
        share = robbing[:, None]
        d_drawn = ct * (1.0 - share) + jnp.roll(ct * share, -1, axis=1)
        d_lengths = jnp.zeros_like(lengths).at[codes].add(d_drawn)
        d_robbing = jnp.sum(ct * (jnp.roll(drawn, -1, axis=1) - drawn), axis=1)
        return d_lengths, d_robbing

    needle_length.defvjp(fwd, bwd)
    return needle_length


class ChartFit:
    """Least-squares fit of stitch lengths to unravelled needle lengths."""

    def __init__(self, chart, measured, weights=None):
        self.rule = make_robbing_back(chart)
        self.measured = jnp.asarray(measured)
        self.weights = jnp.ones_like(self.measured) if weights is None else weights

    def loss(self, params):
        robbing = 0.3 * jax.nn.sigmoid(params["robbing_logit"])
        predicted = self.rule(params["lengths"], robbing)
        return jnp.sum(self.weights * (predicted - self.measured) ** 2)

    def fit(self, params, steps=200, rate=0.02):
        grad = jax.jit(jax.grad(self.loss))
        for _ in range(steps):
            params = jax.tree_util.tree_map(
                lambda p, g: p - rate * g, params, grad(params)
            )
        return params


# ---------------------------------------------------------------- stockings


class Elastane(NamedTuple):
    """Bilinear course-wise tension of the knit, per unit of width.

    ``soft`` and ``stiff`` are slopes in N/m per unit strain; ``knee`` is the
    strain at which the inlay yarn straightens.
    """

    soft: jax.Array
    stiff: jax.Array
    knee: jax.Array


def _tension(strain, yarn):
    low = jnp.clip(strain, 0.0, yarn.knee)
    high = jnp.maximum(strain - yarn.knee, 0.0)
    return yarn.soft * low + yarn.stiff * high


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def stocking_pressure(girth, circumference, yarn, layers=1):
    """Laplace pressure of the stocking at each measuring level.

    girth: (wearers, levels) limb girths.  circumference: (levels,) relaxed
    tube.  yarn: an ``Elastane`` of scalars or (levels,) arrays.  ``layers``
    counts fabric layers (2 at a turned welt).  A tube wider than the limb
    gives no pressure.
    """
    strain = girth / circumference - 1.0
    newtons = layers * _tension(strain, yarn)
    return PA_TO_MMHG * 2.0 * math.pi * newtons / (girth * 1e-3)


@stocking_pressure.defjvp
def _stocking_pressure_jvp(layers, primals, tangents):
    girth, circumference, yarn = primals
    d_girth, d_circumference, d_yarn = tangents
    strain = girth / circumference - 1.0
    tension = _tension(strain, yarn)
    d_strain = (d_girth - (strain + 1.0) * d_circumference) / circumference
    taut = strain > 0.0
    straight = strain > yarn.knee
    slope = jnp.where(straight, yarn.stiff, jnp.where(taut, yarn.soft, 0.0))
    d_tension = (
        slope * d_strain
        + jnp.clip(strain, 0.0, yarn.knee) * d_yarn.soft
        + jnp.maximum(strain - yarn.knee, 0.0) * d_yarn.stiff
        + jnp.where(straight, yarn.soft - yarn.stiff, 0.0) * d_yarn.knee
    )
    scale = PA_TO_MMHG * 2.0e3 * math.pi * layers
    out = scale * tension / girth
    d_out = scale * d_tension / girth - out * d_girth / girth
    return out, d_out


def graduated_profile_loss(girth, circumference, yarn, target, layers=1):
    """Mean squared miss of the prescribed ankle-to-thigh pressures."""
    pressure = stocking_pressure(girth, circumference, yarn, layers)
    return jnp.mean((pressure - target) ** 2)


# ---------------------------------------------------------------- spirality


class Jersey:
    """Single jersey from one circular machine.

    Parameters
    ----------
    feeders : int
    cylinder : float
        Circumference of the tube.
    liveliness : float
        Degrees of skew per (turn/cm) ** ``power`` of residual twist.
    power : float
    reference : float
        Tightness at which the twist effect has fallen to 1/e.
    """

    def __init__(self, feeders=72, cylinder=1800.0, liveliness=4.0, power=1.5, reference=1.2):
        self.feeders = feeders
        self.cylinder = cylinder
        self.liveliness = liveliness
        self.power = power
        self.reference = reference

    def feed_angle(self, loop):
        _, courses = wales_and_courses(loop)
        return jnp.degrees(jnp.arctan(self.feeders / (courses * self.cylinder)))

    def build_skew(self):
        """Twist skew in degrees; positive residual twist (Z) leans right,
        negative (S) leans left."""
        gain, power, reference = self.liveliness, self.power, self.reference

        @jax.custom_vjp
        def twist_skew(twist, tex, loop):
            drive = jnp.sign(twist) * jnp.abs(twist) ** power
            return gain * drive * jnp.exp(-tightness_factor(tex, loop) / reference)

        def fwd(twist, tex, loop):
            skew = twist_skew(twist, tex, loop)
            return skew, (twist, tex, loop, skew)

        def bwd(res, ct):
            twist, tex, loop, skew = res
            size = jnp.abs(twist)
            lively = size > 0.0
            d_twist = jnp.where(lively, power * skew / jnp.where(lively, size, 1.0), 0.0)
            tight = tightness_factor(tex, loop)
            d_tight = -skew / reference
            return (
                ct * d_twist,
                ct * d_tight * 0.5 * tight / tex,
                -ct * d_tight * tight / loop,
            )

        twist_skew.defvjp(fwd, bwd)
        return twist_skew

    def spirality(self, twist, tex, loop):
        return self.feed_angle(loop) + self.build_skew()(twist, tex, loop)


def balance_twist(jersey, twist, tex, loop, steps=40, rate=0.01):
    """Steer the residual twist until feed angle and twist skew cancel."""
    objective = lambda t: jnp.sum(jersey.spirality(t, tex, loop) ** 2)
    grad = jax.jit(jax.grad(objective))
    for _ in range(steps):
        twist = twist - rate * grad(twist)
    return twist


if __name__ == "__main__":
    key = jax.random.PRNGKey(3)
    truth = {"lengths": jnp.array([5.0, 3.4, 1.1, 4.2]), "robbing_logit": jnp.zeros(4)}
    rule = make_robbing_back(CHARTS["rib_effect"])
    seen = rule(truth["lengths"], 0.15 * jnp.ones(4))
    seen = seen + 0.02 * jax.random.normal(key, seen.shape)
    start = {"lengths": jnp.array([4.0, 3.0, 2.0, 4.0]), "robbing_logit": -jnp.ones(4)}
    print(ChartFit(CHARTS["rib_effect"], seen).fit(start))

    girths = jnp.array([[225.0, 300.0, 370.0], [245.0, 330.0, 400.0]])
    tube = jnp.array([150.0, 200.0, 290.0])
    yarn = Elastane(jnp.array(180.0), jnp.array(420.0), jnp.array(0.45))
    print(stocking_pressure(girths, tube, yarn))
    print(jax.grad(graduated_profile_loss, argnums=1)(girths, tube, yarn, jnp.array([23.0, 16.0, 10.0])))

    jersey = Jersey()
    print(jersey.spirality(jnp.array([0.8, 1.6]), jnp.array([20.0, 30.0]), jnp.array([2.9, 3.4])))
