"""Event and plot soil loss after RUSLE, with derivatives for calibration.

Units follow the SI handbook: intensities in mm/h, slope lengths in m, slopes
in radians, erosivity in MJ mm / (ha h), soil loss in t/ha.
"""

import numpy as np
import tensorflow as tf

UNIT_PLOT = 22.13          # m
BREAK_GRADE = 0.09         # tan(theta) at which the steepness line changes
RILL_RATIO = {"low": 0.5, "moderate": 1.0, "high": 2.0}
DRY = 0.05                 # mm/h; steps below it carry no energy
HEAVY = 76.0               # mm/h; drop size no longer grows
LOG10 = float(np.log(10.0))


def _sum_like(grad, ref):
    """Reduce `grad` to the shape of `ref` (undo broadcasting)."""
    lead = len(grad.shape) - len(ref.shape)
    if lead:
        grad = tf.reduce_sum(grad, axis=list(range(lead)))
    axes = [a for a, (n, m) in enumerate(zip(grad.shape, ref.shape)) if m == 1 and n != 1]
    return tf.reduce_sum(grad, axis=axes, keepdims=True) if axes else grad


def length_exponent(theta, ratio):
    """RUSLE slope-length exponent.
"""
    s = tf.sin(theta)
    beta = ratio * (s / 0.0896) / (3.0 * s ** 0.8 + 0.56)
    return beta / (1.0 + beta)


def topographic_factor(rilling="moderate"):
    """Build the LS factor for one class of rilling.

    Parameters
    ----------
    rilling : {"low", "moderate", "high"}

    Returns
    -------
    callable
        ``ls(length, theta)``; the two arguments broadcast, e.g. lengths
        ``(fields, 1)`` and slopes ``(segments,)``.
    """
    ratio = RILL_RATIO[rilling]

    @tf.custom_gradient
    def ls(length, theta):
        s, c = tf.sin(theta), tf.cos(theta)
        steep = tf.tan(theta) >= BREAK_GRADE
        steepness = tf.where(steep, 16.8 * s - 0.5, 10.8 * s + 0.03)
        m = length_exponent(theta, ratio)
        rel = (length / UNIT_PLOT) ** m

        def grad(dy):
            d_length = dy * steepness * rel * m / length
            d_steep = tf.where(steep, 16.8 * c, 10.8 * c)
            d_theta = dy * rel * d_steep
            return _sum_like(d_length, length), _sum_like(d_theta, theta)

        return rel * steepness, grad

    return ls


def storm_erosivity(law="brown_foster", minutes=5):
    """Build the EI30 of a set of storms.

    Parameters
    ----------
    law : {"brown_foster", "wischmeier"}
        Unit energy of rain, MJ / (ha mm).
    minutes : int
        Length of a step; must divide 30.

    Returns
    -------
    callable
        ``ei30(intensity, valid)`` with intensity ``(storms, steps)`` in mm/h
        (0 to 300) and ``valid`` a boolean array of that shape, False where
        the gauge was out; such steps count as dry.
    """
    hours = minutes / 60.0
    span = 30 // minutes

    def unit_energy(i):
        if law == "brown_foster":
            fall = 0.72 * tf.exp(-0.05 * i)
            return 0.29 * (1.0 - fall), 0.29 * 0.05 * fall
        wet = i > DRY
        safe = tf.where(wet, i, tf.ones_like(i))
        e = tf.where(i > HEAVY, 0.283 * tf.ones_like(i), 0.119 + 0.0873 * tf.math.log(safe) / LOG10)
        slope = 0.0873 / (safe * LOG10)
        zero = tf.zeros_like(i)
        return tf.where(wet, e, zero), tf.where(wet, slope, zero)

    @tf.custom_gradient
    def ei30(intensity, valid):
        keep = tf.cast(valid, intensity.dtype)
        i = intensity * keep
        e, slope = unit_energy(i)
        energy = tf.reduce_sum(e * i, axis=1) * hours
        depths = tf.reduce_sum(tf.signal.frame(i, span, 1, pad_end=True), axis=-1) * hours
        peak = 2.0 * tf.reduce_max(depths, axis=1)
        first = tf.argmax(depths, axis=1, output_type=tf.int32)

        def grad(dy):
            pos = tf.range(tf.shape(i)[1])[None, :] - first[:, None]
            inside = tf.cast((pos >= 0) & (pos < span), i.dtype)
            di = (dy * peak)[:, None] * (e + i * slope) * hours
            di += 2.0 * hours * (dy * energy)[:, None] * inside
            return di * keep, None

        return energy * peak, grad

    return ei30


def make_router(receiver):
    """Route sediment down a field-to-channel network.

    Parameters
    ----------
    receiver : sequence of int
        Node that takes the outflow of each node, -1 at an outlet. Nodes may
        come in any order and several may share a receiver; no loops.

    Returns
    -------
    callable
        ``route(local, delivery)`` with local supply ``(events, nodes)`` and
        delivery ratios ``(nodes,)`` or ``(events, nodes)``; gives the outflow
        of every node.
    """
    receiver = np.asarray(receiver)
    n = len(receiver)
    depth = 0
    for node in range(n):
        steps = 0
        while receiver[node] >= 0:
            node, steps = receiver[node], steps + 1
        depth = max(depth, steps)
    seat = tf.constant(np.where(receiver < 0, n, receiver), tf.int32)

    def arrive(out):
        return tf.transpose(tf.math.unsorted_segment_sum(tf.transpose(out), seat, n + 1)[:n])

    def below(a):
        return tf.gather(tf.pad(a, [[0, 0], [0, 1]]), seat, axis=1)

    @tf.custom_gradient
    def route(local, delivery):
        out = delivery * local
        for _ in range(depth):
            out = delivery * (local + arrive(out))
        supply = local + arrive(out)

        def grad(dy):
            adj = dy
            for _ in range(depth):
                adj = dy + below(delivery * adj)
            return delivery * adj, _sum_like(adj * supply, delivery)

        return out, grad

    return route


class PlotSoilLoss(tf.Module):
    """A = R K LS C for a catchment of fields, routed to its outlets."""

    def __init__(self, receiver, rilling="moderate", law="brown_foster", minutes=5):
        super().__init__()
        n = len(receiver)
        self.log_k = tf.Variable(tf.fill([n], tf.math.log(0.03)), name="log_k")
        self.logit_delivery = tf.Variable(tf.ones([n]), name="logit_delivery")
        self.ls = topographic_factor(rilling)
        self.ei30 = storm_erosivity(law, minutes)
        self.route = make_router(receiver)

    def __call__(self, intensity, valid, length, theta, cover):
        # intensity (storms, steps); length, theta, cover (nodes,)
        r = self.ei30(intensity, valid)[:, None]
        local = r * tf.exp(self.log_k) * self.ls(length, theta) * cover
        return self.route(local, tf.sigmoid(self.logit_delivery))


def calibrate(model, batch, observed, steps=50, rate=1e-2):
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.math.log1p(model(*batch)) - tf.math.log1p(observed)))
        for v, g in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
            v.assign_sub(rate * g)
    return float(loss)
