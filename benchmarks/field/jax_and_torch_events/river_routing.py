"""Routing and scoring kernels for the catchment calibration pipeline.

The forward models are cheap, but calibrating some thousand sub-basins over forty years of hourly
forcing makes the tape of a plain scan the dominant memory cost.  The kernels here keep only what the
adjoint needs.

Conventions
-----------
* time is always the leading axis of forcings (``n_steps``), space the trailing one;
* scores take gauges first (``n_gauges, n_steps``), as they come from the archive reader;
* all kernels keep the dtype of their floating inputs.
"""
from __future__ import annotations

import dataclasses
from functools import partial
from typing import NamedTuple, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = [
    "Reach", "RoutingConfig", "RiverNetwork", "route_unit_hydrograph", "muskingum",
    "kling_gupta", "accumulate", "gamma_ordinates", "calibration_loss",
]


@dataclasses.dataclass(frozen=True)
class RoutingConfig:
    """Settings of the lumped routing chain."""

    n_lags: int = 12
    report_every: int = 1
    dt_hours: float = 1.0
    kge_scales: tuple = (1.0, 1.0, 1.0)


class Reach(NamedTuple):
    """Muskingum parameters, one per reach: storage constant ``k`` in hours (> 0) and the
    weighting factor ``x`` (0 to 0.5)."""

    k: jax.Array
    x: jax.Array


# --------------------------------------------------------------------------- unit hydrograph
def gamma_ordinates(shape, scale, n_lags):
    """Ordinates of a gamma unit hydrograph for each basin, normalised to unit volume."""
    lag = jnp.arange(1, n_lags + 1, dtype=shape.dtype)[:, None] - 0.5
    log_u = (shape - 1.0) * jnp.log(lag) - lag / scale
    return jax.nn.softmax(log_u, axis=0)


def _lagged(series, n_lags):
    """Stack of the series delayed by 0 .. n_lags-1 steps, shape (n_lags,) + series.shape."""
    n = series.shape[0]
    front = jnp.pad(series, ((n_lags - 1, 0), (0, 0)))
    return jnp.stack([front[n_lags - 1 - l: n_lags - 1 - l + n] for l in range(n_lags)])


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def route_unit_hydrograph(rain, uh, every=1):
    """Convolve effective rain with a unit hydrograph and report every ``every``-th step.

    Args:
        rain: effective rain, ``(n_steps, n_basins)``.
        uh: ordinates of the unit hydrograph, ``(n_lags, n_basins)``.
        every: reporting interval in steps; the last step of each interval is kept.

    Returns:
        Discharge, ``(n_steps // every, n_basins)``.
    """
    flow = jnp.einsum("ltb,lb->tb", _lagged(rain, uh.shape[0]), uh)
    return flow[every - 1::every]


def _route_fwd(rain, uh, every):
    return route_unit_hydrograph(rain, uh, every), (rain, uh)


def _route_bwd(every, res, g):
    rain, uh = res
    full = jnp.zeros(rain.shape, g.dtype).at[every - 1::every].set(g)
    n, n_lags = rain.shape[0], uh.shape[0]
    tail = jnp.pad(full, ((0, n_lags - 1), (0, 0)))
    ahead = jnp.stack([tail[l: l + n] for l in range(n_lags)])
    d_rain = jnp.einsum("ltb,lb->tb", ahead, uh)
    d_uh = jnp.einsum("ltb,tb->lb", _lagged(rain, n_lags), full)
    return d_rain, d_uh


route_unit_hydrograph.defvjp(_route_fwd, _route_bwd)


# --------------------------------------------------------------------------- Muskingum channel
def _coefficients(reach, dt):
    k, x = reach
    den = 2.0 * k * (1.0 - x) + dt
    c0 = (dt - 2.0 * k * x) / den
    c1 = (dt + 2.0 * k * x) / den
    c2 = (2.0 * k * (1.0 - x) - dt) / den
    return c0, c1, c2, den


def _muskingum_run(inflow, reach, dt):
    c0, c1, c2, _ = _coefficients(reach, dt)

    def step(out, pair):
        now, before = pair
        out = c0 * now + c1 * before + c2 * out
        return out, out

    _, rest = lax.scan(step, inflow[0], (inflow[1:], inflow[:-1]))
    return jnp.concatenate([inflow[:1], rest])


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def muskingum(inflow: jax.Array, reach: Reach, dt: float = 1.0) -> jax.Array:
    """Muskingum routing of ``inflow`` ``(n_steps, n_reaches)`` through parallel reaches.

    ``reach`` holds ``k`` and ``x`` of shape ``(n_reaches,)``; ``dt`` is the step in hours.  The
    channel starts in steady state, so the first outflow equals the first inflow.
    """
    return _muskingum_run(inflow, reach, dt)


def _muskingum_fwd(inflow, reach, dt):
    out = _muskingum_run(inflow, reach, dt)
    return out, (inflow, reach, out)


def _muskingum_bwd(dt, res, g):
    inflow, reach, out = res
    k, x = reach
    c0, c1, c2, den = _coefficients(reach, dt)

    def back(lam, g_t):
        lam = g_t + c2 * lam
        return lam, lam

    _, lam = lax.scan(back, jnp.zeros_like(g[0]), g, reverse=True)
    later = lam[1:]
    d_inflow = jnp.concatenate([lam[:1], c0 * later])
    d_inflow = d_inflow.at[:-1].add(c1 * later)

    # sensitivities of the three coefficients, then the chain to k and x
    s0 = jnp.sum(later * inflow[1:], axis=0)
    s1 = jnp.sum(later * inflow[:-1], axis=0)
    s2 = jnp.sum(later * out[:-1], axis=0)
    d_k = (-2.0 * s0 + (4.0 * x - 2.0) * s1 + 4.0 * (1.0 - x) * s2) / den ** 2
    d_x = 4.0 * k * (-k * s0 + (k + dt) * s1 - dt * s2) / den ** 2
    return d_inflow, Reach(d_k, d_x)


muskingum.defvjp(_muskingum_fwd, _muskingum_bwd)


# --------------------------------------------------------------------------- Kling-Gupta score
def _moments(sim, obs, valid):
    n = jnp.sum(valid, axis=1, keepdims=True).astype(sim.dtype)
    s = jnp.where(valid, sim, 0.0)
    o = jnp.where(valid, obs, 0.0)
    ms, mo = s.sum(1, keepdims=True) / n, o.sum(1, keepdims=True) / n
    ds, do = jnp.where(valid, s - ms, 0.0), jnp.where(valid, o - mo, 0.0)
    ss = jnp.sqrt(jnp.sum(ds * ds, 1, keepdims=True) / n)
    so = jnp.sqrt(jnp.sum(do * do, 1, keepdims=True) / n)
    r = jnp.sum(ds * do, 1, keepdims=True) / (n * ss * so)
    return n, ms, mo, ds, do, ss, so, r


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def kling_gupta(sim, obs, valid, scales=(1.0, 1.0, 1.0)):
    """Kling-Gupta efficiency of each gauge.

    Parameters
    ----------
    sim, obs : (n_gauges, n_steps) positive discharge; not identical to one another
    valid : (n_gauges, n_steps) bool, False at gaps of the record (at least three valid a gauge)
    scales : weights of the correlation, variability and bias terms

    Returns
    -------
    (n_gauges,)
    """
    return _kge_fwd(sim, obs, valid, scales)[0]


def _kge_fwd(sim, obs, valid, scales):
    m = _moments(sim, obs, valid)
    _, ms, mo, _, _, ss, so, r = m
    terms = (r - 1.0, ss / so - 1.0, ms / mo - 1.0)
    dist = jnp.sqrt(sum((w * t) ** 2 for w, t in zip(scales, terms)))
    return 1.0 - dist[:, 0], (m, dist, valid)


def _kge_bwd(scales, res, g):
    (n, ms, mo, ds, do, ss, so, r), dist, valid = res
    wr, wa, wb = (w * w for w in scales)
    lead = -g[:, None] / dist
    g_r = lead * wr * (r - 1.0)
    g_a = lead * wa * (ss / so - 1.0)
    g_b = lead * wb * (ms / mo - 1.0)
    zs, zo = ds / ss, do / so
    d_sim = (g_r * (zo - r * zs) / ss + g_a * zs / so + g_b / mo) / n
    d_obs = (g_r * (zs - r * zo) / so - g_a * ss * zo / so ** 2 - g_b * ms / mo ** 2) / n
    return jnp.where(valid, d_sim, 0.0), jnp.where(valid, d_obs, 0.0), None


kling_gupta.defvjp(_kge_fwd, _kge_bwd)


# --------------------------------------------------------------------------- network accumulation
def _accumulate_run(runoff, transmit, downstream):
    n = runoff.shape[0]
    target = jnp.where(downstream < 0, n, downstream)
    flow = jnp.concatenate([runoff, jnp.zeros_like(runoff[:1])])

    def push(i, flow):
        return flow.at[target[i]].add(transmit[i] * flow[i])

    return lax.fori_loop(0, n, push, flow)[:n]


@jax.custom_vjp
def accumulate(runoff, transmit, downstream):
    """Accumulate local runoff down a river network with transmission losses.

    ``flow[i] = runoff[i] + sum(transmit[j] * flow[j] for j draining into i)``

    runoff : (n_nodes, n_tracers);  transmit : (n_nodes,), share that reaches the next node;
    downstream : (n_nodes,) int, node that each node drains into, -1 at an outlet.  Nodes are
    numbered from the headwaters down, so ``downstream[i] > i`` wherever it is not -1.
    """
    return _accumulate_run(runoff, transmit, downstream)


def _accumulate_fwd(runoff, transmit, downstream):
    return _accumulate_run(runoff, transmit, downstream), (runoff, transmit, downstream)


def _accumulate_bwd(res, g):
    runoff, transmit, downstream = res
    n = runoff.shape[0]
    target = jnp.where(downstream < 0, n, downstream)
    lam = jnp.concatenate([g, jnp.zeros_like(g[:1])])

    def pull(step, lam):
        i = n - 1 - step
        return lam.at[i].add(transmit[i] * lam[target[i]])

    lam = lax.fori_loop(0, n, pull, lam)
    d_transmit = jnp.sum(runoff * lam[target], axis=1)
    return lam[:n], d_transmit, None


accumulate.defvjp(_accumulate_fwd, _accumulate_bwd)


class RiverNetwork:
    """Topology of a basin; ``edges`` are (upstream, downstream) pairs of topologically ordered ids."""

    def __init__(self, n_nodes: int, edges: Sequence[tuple[int, int]]):
        down = np.full(n_nodes, -1, dtype=np.int32)
        for up, to in edges:
            if not up < to < n_nodes:
                raise ValueError(f"edge {up}->{to} is not in downstream order")
            down[up] = to
        self.downstream = jnp.asarray(down)

    def __call__(self, runoff, loss_logit):
        return accumulate(runoff, jax.nn.sigmoid(loss_logit), self.downstream)


def calibration_loss(params, rain, obs, valid, config: RoutingConfig = RoutingConfig()):
    """Mean KGE deficit of the chain unit hydrograph -> channel -> gauge."""
    uh = gamma_ordinates(params["shape"], params["scale"], config.n_lags)
    flow = route_unit_hydrograph(rain, uh, config.report_every)
    flow = muskingum(flow, Reach(params["k"], params["x"]), config.dt_hours)
    return jnp.mean(1.0 - kling_gupta(flow.T, obs, valid, config.kge_scales))
