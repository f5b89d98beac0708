"""Deposit cups that wander between cafes, festival stalls and the wash depot.

The scheme's planner needs three quantities and how they react to its levers:
the drawer stock of a cafe over the days, the steady flow of cups through the
network, and where the stains found by the inspectors come from.
"""
from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class Scheme:
    sites: tuple = ("depot", "station", "campus", "harbour")
    loss_per_trip: float = 0.04
    drawer_limit: int = 400


def uniform_routing(scheme: Scheme) -> tf.Tensor:
    """Every site sends its returned cups evenly to all the others."""
    n = len(scheme.sites)
    off = 1.0 - tf.eye(n)
    return (1.0 - scheme.loss_per_trip) * off / (n - 1)


@tf.custom_gradient
def drawer_stock(opening, kept, delivered):
    """Cups in the drawer at the end of each day.

    Of the cups of the evening before, the share ``kept[t]`` is still there on
    the evening of day ``t``; the van brings ``delivered[t]`` in between:

        stock[t] = kept[t] * stock[t - 1] + delivered[t],   stock[-1] = opening

    Parameters
    ----------
    opening : tensor (cafes,)
        Stock before the first day.
    kept, delivered : tensor (days, cafes)

    Returns
    -------
    tensor (days, cafes)
    """
    days = kept.shape[0]
    path = []
    stock = opening
    for t in range(days):
        stock = kept[t] * stock + delivered[t]
        path.append(stock)

    def grad(upstream):
        d_kept = [None] * days
        d_delivered = [None] * days
        worth = tf.zeros_like(opening)
        for t in reversed(range(days)):
            worth = upstream[t] + (kept[t + 1] * worth if t + 1 < days else 0.0)
            d_kept[t] = worth * (path[t - 1] if t > 0 else opening)
            d_delivered[t] = worth
        return worth, tf.stack(d_kept), tf.stack(d_delivered)

    return tf.stack(path), grad


@tf.custom_gradient
def cup_throughput(routing, issued):
    """Cups that pass each site per week once the network is in balance.

    ``routing[i, j]`` is the share of the cups at site i that goes to site j next
    (rows sum to less than one, cups get lost) and ``issued[..., j]`` the new cups
    put into circulation at j, for one plan (sites,) or several (plans, sites).
    The throughput ``x`` satisfies ``x_j = issued_j + sum_i x_i routing_ij``.
    """
    n = routing.shape[0]
    eye = tf.eye(n, dtype=routing.dtype)
    flat = tf.reshape(issued, [-1, n])
    system = eye - tf.transpose(routing)
    through = tf.transpose(tf.linalg.solve(system, tf.transpose(flat)))

    def grad(upstream):
        up = tf.reshape(upstream, [-1, n])
        value = tf.transpose(tf.linalg.solve(system, tf.transpose(up), adjoint=True))
        d_routing = tf.matmul(through, value, transpose_a=True)
        return d_routing, tf.reshape(value, tf.shape(issued))

    return tf.reshape(through, tf.shape(issued)), grad


@tf.custom_gradient
def stain_components(score):
    """Split the spread of the inspectors' stain scores.

    score: (weeks, sites), one score per weekly visit and site.

    Gives three scalars, the sample variances (n - 1) of the weekly means and of
    the site means, and the mean squared residual that neither explains.
    """
    weeks = tf.cast(tf.shape(score)[0], score.dtype)
    sites = tf.cast(tf.shape(score)[1], score.dtype)
    grand = tf.reduce_mean(score)
    week_effect = tf.reduce_mean(score, axis=1, keepdims=True) - grand
    site_effect = tf.reduce_mean(score, axis=0, keepdims=True) - grand
    rest = score - grand - week_effect - site_effect
    dof = (weeks - 1.0) * (sites - 1.0)
    between_weeks = tf.reduce_sum(week_effect**2) / (weeks - 1.0)
    between_sites = tf.reduce_sum(site_effect**2) / (sites - 1.0)
    residual = tf.reduce_sum(rest**2) / dof

    def grad(up_weeks, up_sites, up_rest):
        by_week = 2.0 * week_effect / ((weeks - 1.0) * weeks)
        by_site = 2.0 * site_effect / ((sites - 1.0) * sites)
        return up_weeks * by_week + up_sites * by_site + up_rest * 2.0 * rest / dof

    return (between_weeks, between_sites, residual), grad


def main():
    scheme = Scheme()
    issued = tf.constant([120.0, 10.0, 0.0, 25.0])
    with tf.GradientTape() as tape:
        routing = uniform_routing(scheme)
        tape.watch(routing)
        washed = cup_throughput(routing, issued)[0]
    print("washed per week:", float(washed))
    print("by route:", tape.gradient(washed, routing).numpy().round(1))


if __name__ == "__main__":
    main()
