"""Detector-free image matching head: assignment confidences, bins and the coarse loss."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

NEG = -1e9


class MatchConfig(NamedTuple):
    temperature: float = 0.1
    focal_alpha: float = 0.25
    focal_gamma: float = 2.0


def similarity(feat0, feat1):
    """(B, L, C), (B, S, C) -> (B, L, S), scaled by the channel count."""
    c = feat0.shape[-1]
    return jnp.einsum("blc,bsc->bls", feat0 / c**0.5, feat1 / c**0.5)


def _valid(mask0, mask1):
    return mask0[:, :, None] & mask1[:, None, :]


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def dual_softmax_match(scores, mask0, mask1, temperature=0.1):
    """Dual-softmax assignment confidence.

    scores: (B, L, S) similarities.  mask0: (B, L) bool, mask1: (B, S) bool, True where the coarse cell lies inside the
    unpadded image.  Returns (B, L, S): the product of the softmax over rows and the softmax over columns of
    scores / temperature among valid cells; exactly zero at padded cells.
    """
    out, _ = _dsm_fwd(scores, mask0, mask1, temperature)
    return out


def _dsm_fwd(scores, mask0, mask1, temperature):
    ok = _valid(mask0, mask1)
    z = jnp.where(ok, scores / temperature, NEG)
    p = jnp.where(ok, jax.nn.softmax(z, axis=1), 0.0)
    q = jnp.where(ok, jax.nn.softmax(z, axis=2), 0.0)
    return p * q, (p, q)


def _dsm_bwd(temperature, res, g):
    p, q = res
    w = g * p * q
    dz = 2.0 * w - p * w.sum(axis=1, keepdims=True) - q * w.sum(axis=2, keepdims=True)
    return dz / temperature, None, None


dual_softmax_match.defvjp(_dsm_fwd, _dsm_bwd)


@jax.custom_vjp
def append_bins(scores, alpha):
    """Border the (B, L, S) scores with one bin row and one bin column, all equal to the learned scalar alpha."""
    return jnp.pad(scores - alpha, ((0, 0), (0, 1), (0, 1))) + alpha


def _bins_fwd(scores, alpha):
    return append_bins(scores, alpha), None


def _bins_bwd(_, g):
    d_alpha = g[:, -1, :].sum() + g[:, :, -1].sum()
    return g[:, :-1, :-1], d_alpha


append_bins.defvjp(_bins_fwd, _bins_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def coarse_focal(conf, match_ids, cfg=MatchConfig()):
    b, i, j = match_ids
    p = conf[b, i, j]
    return -(cfg.focal_alpha * (1 - p) ** cfg.focal_gamma * jnp.log(p)).mean()


def _cf_fwd(conf, match_ids, cfg):
    return coarse_focal(conf, match_ids, cfg), (conf, match_ids)


def _cf_bwd(cfg, res, g):
    conf, (b, i, j) = res
    p = conf[b, i, j]
    a, gamma = cfg.focal_alpha, cfg.focal_gamma
    dp = a * (gamma * (1 - p) ** (gamma - 1) * jnp.log(p) - (1 - p) ** gamma / p)
    d_conf = jnp.zeros_like(conf).at[b, i, j].set(g * dp / p.shape[0])
    return d_conf, None


coarse_focal.defvjp(_cf_fwd, _cf_bwd)


def matching_head(params, feat0, feat1, mask0, mask1, cfg=MatchConfig()):
    s = append_bins(similarity(feat0, feat1), params["bin_score"])
    return dual_softmax_match(s[:, :-1, :-1], mask0, mask1, cfg.temperature), s
