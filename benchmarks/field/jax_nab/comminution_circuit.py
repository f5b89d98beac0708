"""Steady state pieces of a grinding circuit: mill, hydrocyclone, recycle.

Size classes run from coarse (index 0) to fine. Streams are mass flows per
class, shape ``(batch, k)``.
"""
import dataclasses
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class CycloneSettings:
    """:param sizes: geometric mean size of every class
    :param hindered: let the cut size grow with the solids fraction of the slurry
    :param crowding: exponent of that growth
    """
    sizes: tuple
    hindered: bool = False
    crowding: float = 2.0


# ---------------------------------------------------------------- mill


def _appearance(breakage, conserve):
    lower = jnp.tril(breakage, -1)
    col = lower.sum(0)
    if not conserve:
        return lower, jnp.ones_like(col), jnp.ones_like(col)
    active = (col > 0).astype(lower.dtype)
    col = jnp.where(col > 0, col, 1.0)
    return lower / col, col, active


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def ground_product(feed, selection, breakage, conserve=False):
    """One pass of selection and breakage.

    :param feed: (batch, k)
    :param selection: fraction of each class that breaks, (k,) or (batch, k)
    :param breakage: (k, k), column j says where broken class j goes; only the
        part strictly below the diagonal is read
    :param conserve: scale each column to one, the finest class then never
        breaks; entries below the diagonal must be positive
    """
    return _ground_fwd(feed, selection, breakage, conserve)[0]


def _ground_fwd(feed, selection, breakage, conserve):
    b, col, active = _appearance(breakage, conserve)
    broken = selection * active * feed
    return feed - broken + broken @ b.T, (feed, selection, b, col, active, broken)


def _ground_bwd(conserve, res, g):
    feed, selection, b, col, active, broken = res
    d_broken = (g @ b - g) * active
    d_sel = d_broken * feed
    if selection.ndim == 1:
        d_sel = d_sel.sum(0)
    db = g.T @ broken
    if conserve:
        db = (db - (db * b).sum(0)) / col * active
    return g + d_broken * selection, d_sel, jnp.tril(db, -1)


ground_product.defvjp(_ground_fwd, _ground_bwd)


# ---------------------------------------------------------------- cyclone


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def cyclone_underflow(cfg, feed, water, d50, sharpness, bypass):
    """Solids reporting to the underflow, Plitt's partition with bypass.

    :param cfg: CycloneSettings
    :param feed: (batch, k) solids
    :param water: (batch,) water flow
    :param d50: cut size at infinite dilution
    :param sharpness: Plitt's m
    :param bypass: fraction that short-circuits with the water
    """
    return _cyclone_fwd(cfg, feed, water, d50, sharpness, bypass)[0]


def _cyclone_fwd(cfg, feed, water, d50, sharpness, bypass):
    sizes = jnp.asarray(np.array(cfg.sizes), feed.dtype)
    mass = feed.sum(-1)
    solids = mass / (mass + water)
    cut = d50 * (jnp.exp(cfg.crowding * solids) if cfg.hindered else jnp.ones_like(solids))
    ratio = sizes / cut[:, None]
    u = math.log(2.0) * ratio ** sharpness
    classified = -jnp.expm1(-u)
    recovery = bypass + (1.0 - bypass) * classified
    return recovery * feed, (feed, water, d50, sharpness, bypass, ratio, u, recovery, solids)


def _cyclone_bwd(cfg, res, g):
    feed, water, d50, sharpness, bypass, ratio, u, recovery, solids = res
    d_rec = g * feed
    tail = jnp.exp(-u)
    d_u = d_rec * (1.0 - bypass) * tail
    d_logcut = -(d_u * u).sum(-1) * sharpness
    d_sharp = (d_u * u * jnp.log(ratio)).sum()
    d_bypass = (d_rec * tail).sum()
    d_feed = g * recovery
    if cfg.hindered:
        mass = feed.sum(-1)
        d_water = -d_logcut * cfg.crowding * solids / (mass + water)
    else:
        d_water = jnp.zeros_like(water)
    return d_feed, d_water, d_logcut.sum() / d50, d_sharp, d_bypass


cyclone_underflow.defvjp(_cyclone_fwd, _cyclone_bwd)


class Hydrocyclone:
    """Splits a slurry into underflow and overflow."""

    def __init__(self, sizes, hindered=False, crowding=2.0):
        self.cfg = CycloneSettings(tuple(float(s) for s in sizes), hindered, crowding)

    def __call__(self, params, feed, water):
        under = cyclone_underflow(self.cfg, feed, water, params["d50"],
                                  params["sharpness"], params["bypass"])
        return under, feed - under


# ---------------------------------------------------------------- sieving


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def rosin_rammler_fractions(d63, spread, apertures):
    """Retained mass fractions of a Rosin-Rammler powder on a stack of sieves.

    :param d63: size passed by 63.2 %, any shape
    :param spread: uniformity index, broadcasts with ``d63``
    :param apertures: ascending tuple of apertures, zero allowed
    :returns: last axis ``len(apertures) + 1``, from the pan to the top sieve
    """
    return _rr_fwd(d63, spread, apertures)[0]


def _rr_parts(d63, spread, apertures):
    x = np.array(apertures, float)
    log_x = jnp.asarray(np.log(np.where(x > 0, x, 1.0)), d63.dtype)
    log_r = log_x - jnp.log(d63)[..., None]
    u = jnp.where(x > 0, jnp.exp(jnp.minimum(spread[..., None] * log_r, 80.0)), 0.0)
    return log_r, u


def _rr_fwd(d63, spread, apertures):
    log_r, u = _rr_parts(d63, spread, apertures)
    over = jnp.exp(-u)
    out = jnp.concatenate(
        [-jnp.expm1(-u[..., :1]), over[..., :-1] - over[..., 1:], over[..., -1:]], -1)
    return out, (d63, spread)


def _reduce_like(x, ref):
    lead = x.ndim - ref.ndim
    x = x.sum(tuple(range(lead)))
    ones = tuple(i for i in range(ref.ndim) if ref.shape[i] == 1)
    return x.sum(ones, keepdims=True)


def _rr_bwd(apertures, res, g):
    d63, spread = res
    log_r, u = _rr_parts(d63, spread, apertures)
    d_over = g[..., 1:] - g[..., :-1]
    w = d_over * jnp.exp(-u) * u
    d_d63 = w.sum(-1) * spread / d63
    d_spread = -(w * log_r).sum(-1)
    return _reduce_like(d_d63, d63), _reduce_like(d_spread, spread)


rosin_rammler_fractions.defvjp(_rr_fwd, _rr_bwd)


# ---------------------------------------------------------------- recycle


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def circulating_load(fresh, recycle, passes=5):
    """Mill feed after a number of passes round the circuit, started on new feed alone.

    :param fresh: (batch, k) new feed
    :param recycle: (k, k) transfer of one pass through mill and classifier
    :param passes: how often the returned stream joins the new feed
    """
    return _load_fwd(fresh, recycle, passes)[0]


def _load_fwd(fresh, recycle, passes):
    load = jax.lax.fori_loop(0, passes, lambda _, x: fresh + x @ recycle.T, fresh)
    return load, (load, recycle)


def _load_bwd(passes, res, g):
    load, recycle = res

    def step(_, carry):
        lam, total = carry
        return lam @ recycle, total + lam

    lam, total = jax.lax.fori_loop(0, passes, step, (g, jnp.zeros_like(g)))
    return total + lam, total.T @ load


circulating_load.defvjp(_load_fwd, _load_bwd)
