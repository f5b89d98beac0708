"""Shelf-space response terms for planogram optimisation.

Stores are rows, products are columns, everywhere.  The optimiser works on continuous facings, so each term
is differentiable and carries a hand-written gradient: the taped version of the spill step alone kept several
copies of the (stores, edges) arrays alive.
"""

from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf


@dataclass
class PlanogramSettings:
    category: np.ndarray
    n_categories: int
    share_floor: float = 1e-3
    share_scope: str = "store"
    substitutes: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int32))


def _sum_to(x, shape):
    """Undo broadcasting: reduce `x` to the static `shape`."""
    shape = tuple(shape)
    lead = len(x.shape) - len(shape)
    if lead:
        x = tf.reduce_sum(x, axis=list(range(lead)))
    axes = [i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1]
    return tf.reduce_sum(x, axis=axes, keepdims=True) if axes else x


@tf.custom_gradient
def space_demand(base, facings, beta, gamma):
    """Space-elastic demand with cross elasticities.

    ``d[s, i] = base[s, i] * f[s, i] ** beta[i] * prod_j f[s, j] ** gamma[i, j]``

    Parameters
    ----------
    base : (stores, products) demand at one facing of everything, positive
    facings : (stores, products), positive
    beta : (products,) own-space elasticity
    gamma : (products, products) effect of the space of product j on the demand of product i

    Returns
    -------
    (stores, products) demand
    """
    log_f = tf.math.log(facings)
    lift = tf.exp(beta * log_f + tf.matmul(log_f, gamma, transpose_b=True))
    demand = base * lift

    def grad(upstream):
        weighted = upstream * demand
        d_log_f = weighted * beta + tf.matmul(weighted, gamma)
        d_beta = tf.reduce_sum(weighted * log_f, axis=0)
        d_gamma = tf.matmul(log_f, weighted, transpose_a=True)
        return upstream * lift, d_log_f / facings, d_beta, d_gamma

    return demand, grad


@tf.custom_gradient
def substitute_spill(demand, stock, fraction, source, target):
    """Sales after one round of substitution.

    Demand above stock looks for substitutes along directed edges; the part ``fraction[e]`` of what product
    ``source[e]`` cannot serve asks for ``target[e]``.  A pair may be listed more than once (brand switch and
    size switch are separate edges) and products may have no edge at all.

    Args:
        demand: (stores, products).
        stock: (stores, products).
        fraction: (edges,).
        source: (edges,) integer.
        target: (edges,) integer.

    Returns:
        (stores, products) units sold, never above stock.
    """
    n_products = demand.shape[1]

    def collect(values, ids):
        return tf.transpose(tf.math.unsorted_segment_sum(tf.transpose(values), ids, n_products))

    short = demand > stock
    unmet = tf.nn.relu(demand - stock)
    total = demand + collect(fraction * tf.gather(unmet, source, axis=1), target)
    room = total < stock

    def grad(upstream):
        zero = tf.zeros_like(upstream)
        g_total = tf.where(room, upstream, zero)
        g_edge = tf.gather(g_total, target, axis=1)
        g_fraction = tf.reduce_sum(g_edge * tf.gather(unmet, source, axis=1), axis=0)
        g_unmet = tf.where(short, collect(fraction * g_edge, source), zero)
        return g_total + g_unmet, upstream - g_total - g_unmet, g_fraction, None, None

    return tf.minimum(total, stock), grad


@tf.custom_gradient
def eye_level_uplift(height, centre, width_below, width_above, amplitude):
    """1 + amplitude * bump, a bell with separate widths under and over the shopper's eye line.

    :param height: shelf heights in metres, any shape
    :param centre: eye line, broadcast against ``height`` (one per store, or a scalar)
    :param width_below: bell width for shelves under the eye line
    :param width_above: bell width for shelves over it
    :param amplitude: uplift at the eye line, broadcast too
    """
    below = height < centre
    z = (height - centre) / tf.where(below, width_below, width_above)
    bump = tf.exp(-0.5 * z * z)

    def grad(upstream):
        drop = centre - height
        width = tf.where(drop < 0, width_below, width_above)
        g_z = -upstream * amplitude * bump * z
        g_drop = -g_z / width
        g_width = -g_z * z / tf.where(below, width_below, width_above)
        zero = tf.zeros_like(g_width)
        return (
            _sum_to(-g_drop, height.shape),
            _sum_to(g_drop, centre.shape),
            _sum_to(tf.where(below, g_width, zero), width_below.shape),
            _sum_to(tf.where(below, zero, g_width), width_above.shape),
            _sum_to(upstream * bump, amplitude.shape),
        )

    return 1.0 + amplitude * bump, grad


def make_category_share(category, n_categories, floor=1e-3, scope="store"):
    """Share of a product in the appeal of its category.

    ``scope="store"`` normalises within each store, ``"chain"`` over all stores together.  Categories whose
    total is under ``floor`` are divided by ``floor``.
    """
    category = tf.constant(category, tf.int32)
    if scope not in ("store", "chain"):
        raise ValueError(scope)

    def per_category(values):
        sums = tf.math.unsorted_segment_sum(tf.transpose(values), category, n_categories)
        if scope == "chain":
            sums = tf.reduce_sum(sums, axis=1, keepdims=True)
        return tf.transpose(tf.gather(sums, category))

    @tf.custom_gradient
    def category_share(appeal):
        total = per_category(appeal)
        divisor = tf.maximum(total, tf.cast(floor, appeal.dtype))
        share = appeal / divisor

        def grad(upstream):
            pull = per_category(upstream * share) / divisor
            return upstream / divisor - tf.where(
                total > floor, pull, tf.zeros_like(pull)
            ) * tf.ones_like(appeal)

        return share, grad

    return category_share


class PlanogramModel(tf.Module):
    """Expected sales of a planogram; the parameters are variables so that a fit can train them."""

    def __init__(self, settings: PlanogramSettings, n_products: int):
        super().__init__()
        self.beta = tf.Variable(tf.fill([n_products], 0.2))
        self.gamma = tf.Variable(tf.zeros([n_products, n_products]))
        self.fraction = tf.Variable(tf.fill([len(settings.substitutes)], 0.3))
        self.edges = tf.constant(settings.substitutes, tf.int32)
        self.share = make_category_share(
            settings.category, settings.n_categories, settings.share_floor, settings.share_scope
        )

    def __call__(self, base, facings, stock, uplift):
        demand = space_demand(
            base, facings, tf.convert_to_tensor(self.beta), tf.convert_to_tensor(self.gamma)
        )
        demand = demand * uplift
        sales = substitute_spill(
            demand, stock, tf.convert_to_tensor(self.fraction), self.edges[:, 0], self.edges[:, 1]
        )
        return sales, self.share(demand)
