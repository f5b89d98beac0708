"""Front end and tube model for articulatory speech inversion."""
from dataclasses import dataclass
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class FrontEnd:
    n_ceps: int = 13
    lifter: int = 22
    span: int = 2


# ------------------------------------------------------------ tube model


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def junction_coefficients(tract, log_areas=False, mouth_area=None):
    """Kelly-Lochbaum reflection at each junction of a tube.

    Parameters
    ----------
    tract : (..., n)
        Cross sections from glottis to lips (n >= 2), or their logarithms.
    log_areas : bool
        Whether `tract` is logarithmic.
    mouth_area : float or None
        Area of an extra section beyond the lips; adds one junction.
    """
    return _junction_fwd(tract, log_areas, mouth_area)[0]


def _junction_fwd(tract, log_areas, mouth_area):
    x = tract
    if mouth_area is not None:
        end = np.log(mouth_area) if log_areas else mouth_area
        x = jnp.concatenate([x, jnp.full(x.shape[:-1] + (1,), end, x.dtype)], -1)
    left, right = x[..., :-1], x[..., 1:]
    if log_areas:
        k = jnp.tanh(0.5 * (left - right))
    else:
        k = (left - right) / (left + right)
    return k, (left, right, k)


def _junction_bwd(log_areas, mouth_area, res, g):
    left, right, k = res
    if log_areas:
        d_left = 0.5 * g * (1.0 - k * k)
        d_right = -d_left
    else:
        w = 2.0 * g / (left + right) ** 2
        d_left, d_right = w * right, -w * left
    widths = [(0, 0)] * (g.ndim - 1)
    d = jnp.pad(d_left, widths + [(0, 1)]) + jnp.pad(d_right, widths + [(1, 0)])
    return (d if mouth_area is None else d[..., :-1],)


junction_coefficients.defvjp(_junction_fwd, _junction_bwd)


# ------------------------------------------------------------ cepstra


@lru_cache(maxsize=None)
def _dct_matrix(n_mel, n_ceps, lifter):
    n = np.arange(n_ceps)[:, None]
    m = np.arange(n_mel)[None, :]
    mat = np.sqrt(2.0 / n_mel) * np.cos(np.pi * n * (m + 0.5) / n_mel)
    mat[0] /= np.sqrt(2.0)
    if lifter > 0:
        mat = mat * (1.0 + 0.5 * lifter * np.sin(np.pi * n / lifter))
    return mat


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def liftered_cepstra(log_mel, lengths, n_ceps=13, lifter=22, centre=True):
    """Cepstra of padded utterances.

    Parameters
    ----------
    log_mel : (batch, frames, n_mel)
    lengths : (batch,) int
        Valid frames; an utterance may be empty.
    n_ceps, lifter : int
        Kept coefficients; liftering parameter, 0 for none.
    centre : bool
        Subtract the mean over the valid frames. Padding comes out as zero.
    """
    return _cepstra_fwd(log_mel, lengths, n_ceps, lifter, centre)[0]


def _project(x, lengths, centre):
    """Zero the padding and, if asked, remove the mean over valid frames."""
    valid = (jnp.arange(x.shape[1]) < lengths[:, None])[..., None]
    x = jnp.where(valid, x, 0.0)
    if centre:
        count = jnp.maximum(jnp.minimum(lengths, x.shape[1]), 1).astype(x.dtype)
        mean = x.sum(1, keepdims=True) / count[:, None, None]
        x = jnp.where(valid, x - mean, 0.0)
    return x


def _cepstra_fwd(log_mel, lengths, n_ceps, lifter, centre):
    mat = jnp.asarray(_dct_matrix(log_mel.shape[-1], n_ceps, lifter), log_mel.dtype)
    return _project(log_mel @ mat.T, lengths, centre), (lengths, mat)


def _cepstra_bwd(n_ceps, lifter, centre, res, g):
    lengths, mat = res
    return _project(g, lengths, centre) @ mat, None


liftered_cepstra.defvjp(_cepstra_fwd, _cepstra_bwd)


# ------------------------------------------------------------ dynamics


def _slope_filter(x, span):
    """Least squares slope over 2 * span + 1 frames, the ends held."""
    frames = x.shape[-2]
    t = jnp.arange(frames)
    norm = 2.0 * sum(n * n for n in range(1, span + 1))
    out = jnp.zeros_like(x)
    for n in range(1, span + 1):
        ahead = jnp.take(x, jnp.minimum(t + n, frames - 1), axis=-2)
        behind = jnp.take(x, jnp.maximum(t - n, 0), axis=-2)
        out = out + n * (ahead - behind)
    return out / norm


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def frame_slopes(feats, span=2):
    """Delta features as in HTK.

    Parameters
    ----------
    feats : (..., frames, channels)
    span : int
        Frames to either side; beyond the ends the outermost frame is repeated.
    """
    return _slope_filter(feats, span)


def _slopes_fwd(feats, span):
    return _slope_filter(feats, span), None


def _slopes_bwd(span, _, g):
    return (-_slope_filter(g, span),)


frame_slopes.defvjp(_slopes_fwd, _slopes_bwd)


def stack_features(cfg: FrontEnd, log_mel, lengths):
    """Static, delta and delta-delta features side by side."""
    static = liftered_cepstra(log_mel, lengths, cfg.n_ceps, cfg.lifter)
    first = frame_slopes(static, cfg.span)
    return jnp.concatenate([static, first, frame_slopes(first, cfg.span)], -1)
