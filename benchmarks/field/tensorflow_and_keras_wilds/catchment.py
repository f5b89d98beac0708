"""Differentiable building blocks for lumped and semi-distributed catchment models.

The operators of this module are the pieces of a rainfall--runoff model that we train end to end: snow and rain forcing
is sampled from a gridded product, infiltrates through a soil column, is routed through linear reservoirs and is turned
into stage at the gauges.  Autodiff through the time loops and the banded solves was both slow and memory hungry, hence
the hand-written adjoints.

Conventions
-----------
* basins (or gauges, reaches, columns) are the leading axis, time or depth the last one;
* all quantities are in SI units unless said otherwise;
* integer tensors (cell numbers) and boolean tensors (validity) carry no gradient.
"""
from __future__ import annotations

import dataclasses
from typing import Optional, Sequence

import tensorflow as tf

__all__ = [
    "ColumnConfig",
    "ForcingSampler",
    "RatingCurve",
    "SoilColumn",
    "implicit_head_step",
    "masked_nse",
    "mass_curve",
    "rating_curve",
    "route_linear_reservoir",
]


# ---- helpers -------------------------------------------------------------------------------------------------------


def _sum_to_shape(value: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Sum ``value`` down to the shape of ``like`` (the adjoint of numpy-style broadcasting)."""
    shape_v, shape_l = tf.shape(value), tf.shape(like)
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=shape_l, s1=shape_v)
    return tf.reshape(tf.reduce_sum(value, axis=axes), shape_l)


def _time_major(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x, [1, 0])


# ---- routing -------------------------------------------------------------------------------------------------------


@tf.custom_gradient
def route_linear_reservoir(inflow: tf.Tensor, retention: tf.Tensor, initial: tf.Tensor):
    """Route inflow through one linear reservoir per basin.

    The outflow follows ``Q[t] = k * Q[t-1] + (1 - k) * q[t]`` with ``Q[-1] = initial``.

    Args:
      inflow: ``[basins, steps]``, inflow ``q``.
      retention: ``[basins]``, recession constant ``k`` in (0, 1).
      initial: ``[basins]``, outflow before the first step.

    Returns:
      ``[basins, steps]`` outflow.
    """
    q = _time_major(inflow)
    outflow = tf.scan(lambda prev, now: retention * prev + (1.0 - retention) * now, q, initializer=initial)

    def grad(upstream):
        up = _time_major(upstream)
        # adjoint state, marched backwards in time
        adj = tf.scan(
            lambda later, now: now + retention * later, up, initializer=tf.zeros_like(initial), reverse=True
        )
        previous = tf.concat([initial[None, :], outflow[:-1]], axis=0)
        d_inflow = _time_major((1.0 - retention) * adj)
        d_retention = tf.reduce_sum(adj * (previous - q), axis=0)
        d_initial = retention * adj[0]
        return d_inflow, d_retention, d_initial

    return _time_major(outflow), grad


# ---- soil column ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class ColumnConfig:
    """Discretisation of the soil column."""

    layers: int = 6
    dt: float = 0.25
    capacity: Optional[Sequence[float]] = None  # specific moisture capacity, one a layer; 1 everywhere if not given


def _column_bands(conductance, capacity, dt):
    """Bands of ``I + dt * C^-1 * L`` where ``L`` is the no-flux Laplacian weighted by the interface conductances."""
    zero = tf.zeros_like(conductance[:1])
    above = tf.concat([zero, conductance], axis=0)  # interface to the layer above
    below = tf.concat([conductance, zero], axis=0)  # interface to the layer below
    scale = dt / capacity
    return -scale * below, 1.0 + scale * (above + below), -scale * above


def _solve_bands(bands, rhs):
    """Solve for every column of a batch, ``rhs`` being ``[columns, layers]``."""
    superdiag, diag, subdiag = bands
    stacked = tf.stack([superdiag, diag, subdiag], axis=0)
    solution = tf.linalg.tridiagonal_solve(stacked, tf.transpose(rhs), diagonals_format="compact")
    return tf.transpose(solution)


@tf.custom_gradient
def implicit_head_step(head, conductance, capacity, dt):
    """One backward-Euler step of vertical moisture redistribution.

    Solves ``C_i (h_i' - h_i) = dt * (flux in - flux out)`` for ``h'``, the flux over interface ``m`` being
    ``K_m (h'_m - h'_{m+1})`` and the column closed at the top and at the bottom.

    Args:
      head: [columns, layers] pressure head at the start of the step, two layers or more.
      conductance: [layers - 1] conductance ``K`` of the interfaces, shared by the columns.
      capacity: [layers] specific moisture capacity ``C``, shared by the columns.
      dt: [] length of the step.

    Returns:
      [columns, layers] pressure head at the end of the step.
    """
    bands = _column_bands(conductance, capacity, dt)
    new_head = _solve_bands(bands, head)

    def grad(upstream):
        lam = _solve_bands(bands, upstream)
        drop = new_head[:, :-1] - new_head[:, 1:]
        flux = conductance * drop
        pad = tf.zeros_like(new_head[:, :1])
        divergence = tf.concat([flux, pad], axis=1) - tf.concat([pad, flux], axis=1)

        weighted = lam / capacity
        d_conductance = -dt * tf.reduce_sum((weighted[:, :-1] - weighted[:, 1:]) * drop, axis=0)
        d_capacity = dt * tf.reduce_sum(weighted * divergence, axis=0) / capacity
        d_dt = -tf.reduce_sum(weighted * divergence)
        return lam, d_conductance, d_capacity, d_dt

    return new_head, grad


class SoilColumn(tf.Module):
    """A stack of layers with trainable interface conductances (log scale) and capacities."""

    def __init__(self, config: ColumnConfig, dtype=tf.float32, name=None):
        super().__init__(name=name)
        capacity = config.capacity if config.capacity is not None else [1.0] * config.layers
        if len(capacity) != config.layers:
            raise ValueError(f"{config.layers} layers but {len(capacity)} capacities")
        self.dt = tf.constant(config.dt, dtype)
        self.log_conductance = tf.Variable(tf.zeros([config.layers - 1], dtype), name="log_conductance")
        self.log_capacity = tf.Variable(tf.math.log(tf.constant(capacity, dtype)), name="log_capacity")

    def __call__(self, head, steps: int = 1):
        conductance, capacity = tf.exp(self.log_conductance), tf.exp(self.log_capacity)
        for _ in range(steps):
            head = implicit_head_step(head, conductance, capacity, self.dt)
        return head


# ---- forcing -------------------------------------------------------------------------------------------------------


@tf.custom_gradient
def _interpolate(grid, weights, cells):
    near = tf.gather(grid, cells, axis=1)
    out = tf.einsum("brk,rk->br", near, weights)

    def grad(upstream):
        d_weights = tf.einsum("br,brk->rk", upstream, near)
        share = tf.einsum("br,rk->rkb", upstream, weights)
        flat = tf.reshape(share, [-1, tf.shape(grid)[0]])
        rows = tf.reshape(cells, [-1, 1])
        d_grid = tf.tensor_scatter_nd_update(tf.zeros_like(tf.transpose(grid)), rows, flat)
        return tf.transpose(d_grid), d_weights, None

    return out, grad


class ForcingSampler(tf.Module):
    """Inverse-distance interpolation of a gridded product (flattened cells) to reach centroids.

    ``centroids`` is [reaches, 2], ``cell_xy`` [cells, 2]; the ``k`` nearest cells of every reach are used.  Called with
    a [batch, cells] field, gives [batch, reaches].
    """

    def __init__(self, centroids, cell_xy, k: int = 4, power: float = 2.0, name=None):
        super().__init__(name=name)
        centroids = tf.convert_to_tensor(centroids)
        cell_xy = tf.convert_to_tensor(cell_xy, dtype=centroids.dtype)
        distance = tf.norm(centroids[:, None, :] - cell_xy[None, :, :], axis=-1)
        negative, cells = tf.math.top_k(-distance, k=k)
        raw = tf.pow(1e-6 - negative, -power)
        self.cells = cells
        self.weights = tf.Variable(raw / tf.reduce_sum(raw, axis=1, keepdims=True), name="weights")

    def __call__(self, field):
        return _interpolate(field, tf.convert_to_tensor(self.weights), self.cells)


# ---- gauges --------------------------------------------------------------------------------------------------------


@tf.custom_gradient
def masked_nse(simulated, observed, valid):
    """Nash--Sutcliffe efficiency of every gauge over its valid steps.

    ``simulated`` and ``observed`` are ``[gauges, steps]``, ``valid`` is boolean of the same shape.  Gauges differ in
    how many steps they report.  Gives ``[gauges]``; a gauge without variance in its valid record scores 1.
    """
    m = tf.cast(valid, simulated.dtype)
    count = tf.reduce_sum(m, axis=1, keepdims=True)
    mean = tf.math.divide_no_nan(tf.reduce_sum(m * observed, axis=1, keepdims=True), count)
    residual = m * (simulated - observed)
    anomaly = m * (observed - mean)
    sse = tf.reduce_sum(tf.square(residual), axis=1)
    sst = tf.reduce_sum(tf.square(anomaly), axis=1)
    ratio = tf.math.divide_no_nan(sse, sst)

    def grad(upstream):
        per_sse = tf.math.divide_no_nan(-upstream, sst)[:, None]
        per_sst = tf.math.divide_no_nan(upstream * ratio, sst)[:, None]
        d_sim = 2.0 * per_sse * residual
        d_obs = -2.0 * per_sse * residual + 2.0 * per_sst * anomaly
        return d_sim, d_obs, None

    return 1.0 - ratio, grad


@tf.custom_gradient
def rating_curve(stage, scale, datum, exponent):
    """Discharge ``scale * (stage - datum) ** exponent`` above the datum, zero below it.

    The parameters broadcast against ``stage``: scalars, one a gauge as ``[gauges, 1]``, or one a step.  ``scale > 0``,
    ``exponent > 1``.
    """
    depth = stage - datum
    wet = depth > 0
    safe = tf.where(wet, depth, tf.ones_like(depth))
    power = tf.where(wet, tf.pow(safe, exponent), tf.zeros_like(safe))

    def grad(upstream):
        slope = tf.where(wet, exponent * tf.pow(safe, exponent - 1.0), tf.zeros_like(safe))
        d_depth = upstream * scale * slope
        d_scale = upstream * power
        d_exponent = upstream * scale * power * tf.math.log(safe)
        return (
            _sum_to_shape(d_depth, stage),
            _sum_to_shape(d_scale, scale),
            _sum_to_shape(-d_depth, datum),
            _sum_to_shape(d_exponent, exponent),
        )

    return scale * power, grad


class RatingCurve(tf.Module):
    """Trainable rating curve, one parameter set a gauge."""

    def __init__(self, gauges: int, dtype=tf.float32, name=None):
        super().__init__(name=name)
        self.scale = tf.Variable(tf.ones([gauges, 1], dtype))
        self.datum = tf.Variable(tf.zeros([gauges, 1], dtype))
        self.exponent = tf.Variable(tf.fill([gauges, 1], tf.cast(1.67, dtype)))

    def __call__(self, stage):
        args = [tf.convert_to_tensor(v) for v in (self.scale, self.datum, self.exponent)]
        return rating_curve(stage, *args)


def mass_curve(rate, seconds, reverse: bool = False):
    """Cumulative volume of a discharge or melt record.

    Args:
      rate: ``[gauges, steps]`` rate in m3/s.
      seconds: ``[steps]`` length of every step.
      reverse: give the volume still to come (this step included) rather than the volume so far.

    Returns:
      ``[gauges, steps]`` volume in m3.
    """

    @tf.custom_gradient
    def _accumulate(rate, seconds):
        volume = tf.cumsum(rate * seconds, axis=1, reverse=reverse)

        def grad(upstream):
            # every step feeds all the totals that come after it
            total = tf.cumsum(upstream, axis=1, reverse=True)
            return total * seconds, tf.reduce_sum(total * rate, axis=0)

        return volume, grad

    return _accumulate(rate, seconds)
