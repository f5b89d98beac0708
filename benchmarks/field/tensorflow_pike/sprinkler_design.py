"""Solid-set sprinkler irrigation: wetting patterns, emitter discharge, catch-can uniformity.

Units: metres, metres of head, millimetres, litres per hour. Written with keras.ops, any backend.
"""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops


class Nozzle(NamedTuple):
    rate: float = 9.0  # mm/h at the riser
    radius: float = 13.5  # m
    coeff: float = 620.0  # l/h at the rated head
    exponent: float = 0.5
    rated_head: float = 30.0  # m


def _upstream(args, upstream):
    # torch hands the inputs over and names the cotangent, the others give the cotangent alone
    return args[-1] if upstream is None else upstream


@ops.custom_gradient
def christiansen_uniformity(depth):
    """Christiansen coefficient of catch-can depths.

    Parameters
    ----------
    depth : (..., cans)
        Positive caught depth in mm; the leading axes are trials.

    Returns
    -------
    (...,)
        ``1 - mean(|depth - mean(depth)|) / mean(depth)``.
    """
    mean = ops.mean(depth, axis=-1, keepdims=True)
    side = ops.sign(depth - mean)
    spread = ops.mean(ops.abs(depth - mean), axis=-1, keepdims=True)

    def grad(*args, upstream=None):
        g = _upstream(args, upstream)
        n = depth.shape[-1]
        lean = side - ops.mean(side, axis=-1, keepdims=True)
        return ops.expand_dims(g, -1) * (spread / mean - lean) / (n * mean)

    return 1.0 - ops.squeeze(spread / mean, axis=-1), grad


def make_emitter(rated_head=1.0):
    """Discharge law of a pressure-driven emitter, ``q = coeff * (head / rated_head) ** exponent``.

    Parameters
    ----------
    rated_head : float
        Head at which `coeff` was measured, m. The catalogues of drip tape give it at 1 m, those of impact
        sprinklers at 20 to 35 m.

    Returns
    -------
    callable
        ``discharge(head, coeff, exponent)`` with head (laterals, emitters), coeff (emitters,) and
        exponent (emitters,); heads are positive. Gives (laterals, emitters).
    """

    @ops.custom_gradient
    def discharge(head, coeff, exponent):
        shape = ops.power(head / rated_head, exponent)
        flow = coeff * shape

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            d_head = g * exponent * flow / head
            d_coeff = ops.sum(g * shape, axis=0)
            d_exponent = ops.sum(g * flow * ops.log(head), axis=0)
            return d_head, d_coeff, d_exponent

        return flow, grad

    return discharge


@ops.custom_gradient
def wetted_depth(distance, radius, rate):
    """Depth rate at each can from all sprinklers, with a domed pattern that ends at the wetted radius.

    Parameters
    ----------
    distance : (cans, sprinklers)
        Non-negative.
    radius : (sprinklers,)
    rate : (sprinklers,)
        Application rate at the riser, mm/h.

    Returns
    -------
    (cans,)
        ``sum_j rate_j * max(0, 1 - (distance_j / radius_j)**2) ** 1.5``
    """
    reach = distance / radius
    dome = ops.relu(1.0 - reach * reach)
    root = ops.sqrt(dome)

    def grad(*args, upstream=None):
        g = ops.expand_dims(_upstream(args, upstream), -1)
        slope = 3.0 * rate * root * reach / radius
        d_rate = ops.sum(g * dome * root, axis=0)
        return -g * slope, ops.sum(g * slope * reach, axis=0), d_rate

    return ops.sum(rate * dome * root, axis=-1), grad


def lateral_heads(inlet, emitters, spacing, loss_per_metre):
    """Head along a lateral, with a third of the full-flow friction at the end (Christiansen's F for many outlets)."""
    run = ops.arange(1, emitters + 1, dtype="float32") * spacing
    share = 1.0 - (1.0 - run / run[-1]) ** 2.85
    return ops.expand_dims(inlet, -1) - loss_per_metre * run[-1] * 0.35 * share


def _read(weight):
    # a plain tensor: tensorflow won't take variables inside a custom gradient
    return weight * 1.0


def grid(rows, cols, pitch):
    y, x = np.meshgrid(np.arange(rows) * pitch, np.arange(cols) * pitch, indexing="ij")
    return np.stack([x.ravel(), y.ravel()], -1).astype("float32")


class SolidSet(keras.layers.Layer):
    """Learns radii, rates and emitter constants of a field's sprinklers from catch-can trials."""

    def __init__(self, positions, nozzle=Nozzle(), **kwargs):
        super().__init__(**kwargs)
        self.positions = np.asarray(positions, "float32")
        self.nozzle = nozzle
        self.discharge = make_emitter(nozzle.rated_head)

    def build(self, input_shape=None):
        n = len(self.positions)
        const = keras.initializers.Constant
        self.radius = self.add_weight(
            shape=(n,), initializer=const(self.nozzle.radius), name="radius"
        )
        self.rate = self.add_weight(shape=(n,), initializer=const(self.nozzle.rate), name="rate")
        self.coeff = self.add_weight(shape=(n,), initializer=const(self.nozzle.coeff), name="coeff")
        self.exponent = self.add_weight(
            shape=(n,), initializer=const(self.nozzle.exponent), name="exponent"
        )

    def call(self, cans):
        gap = ops.expand_dims(cans, 1) - self.positions
        far = ops.sqrt(ops.sum(gap * gap, axis=-1) + 1e-12)
        return wetted_depth(far, _read(self.radius), _read(self.rate))

    def flows(self, heads):
        return self.discharge(heads, _read(self.coeff), _read(self.exponent))


def trial_loss(layer, cans, caught, hours, uniformity_weight=0.1):
    depth = layer(cans) * hours
    miss = ops.mean(ops.square(depth - caught))
    return miss + uniformity_weight * (1.0 - christiansen_uniformity(depth + 1e-3))
