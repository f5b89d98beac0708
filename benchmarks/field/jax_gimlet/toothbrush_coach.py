"""On-device coach of an electric toothbrush (motion sensor, 50 Hz).

Pipeline: raw axis -> framewise log energy -> normalised strokes -> zone classifier -> which zones were brushed too short.
The weights are stored on a companded grid; training runs on a desktop in JAX with this file.
"""
from functools import partial

import jax
import jax.numpy as jnp

FLOOR = 1e-6
TAU = 0.5                                                   # seconds
ZONE_SECONDS = (7.5, 7.5, 5.0, 7.5, 7.5, 5.0)               # upper left, right, front; lower left, right, front


def make_companded_grid(scale, levels, limit):
    """Weights on a grid that is fine near zero and coarse far out: round(asinh(w / scale) * levels) / levels, expanded again.

    The derivative is deliberately not that of the staircase (which is zero): it is straight-through, i.e. the incoming gradient is
    passed unchanged where ``|w| <= limit`` and stopped where the weight is clipped.
    """

    @jax.custom_vjp
    def quantize(w):
        w = jnp.clip(w, -limit, limit)
        code = jnp.round(jnp.arcsinh(w / scale) * levels)
        return scale * jnp.sinh(code / levels)

    def fwd(w):
        return quantize(w), jnp.abs(w) <= limit

    def bwd(inside, g):
        return (jnp.where(inside, g, 0.0),)

    quantize.defvjp(fwd, bwd)
    return quantize


# ----------------------------------------------------------------------------------------------------------------------------

def _frame_index(samples, width, hop):
    count = 1 + (samples - width) // hop
    return hop * jnp.arange(count)[:, None] + jnp.arange(width)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def window_log_energy(signal, taps, hop, pad=False):
    """log(FLOOR + sum_k (taps_k x_{f hop + k})^2) for every whole frame f.

    signal [batch, samples], taps [width], hop a positive int (frames overlap when it is smaller than the width, and skip samples
    when it is larger).  With ``pad`` half a window of zeros is put on both sides.  Returns [batch, frames].
    """
    return _energy_fwd(signal, taps, hop, pad)[0]


def _energy_fwd(signal, taps, hop, pad):
    half = taps.shape[0] // 2 if pad else 0
    padded = jnp.pad(signal, ((0, 0), (half, half)))
    frames = padded[:, _frame_index(padded.shape[1], taps.shape[0], hop)]
    power = FLOOR + jnp.sum((frames * taps) ** 2, axis=-1)
    return jnp.log(power), (frames, taps, power, signal)


def _energy_bwd(hop, pad, res, g):
    frames, taps, power, signal = res
    width = taps.shape[0]
    half = width // 2 if pad else 0
    samples = signal.shape[1]
    pull = 2.0 * (g / power)[..., None] * frames
    d_taps = jnp.sum(pull * frames, axis=(0, 1)) * taps
    index = _frame_index(samples + 2 * half, width, hop)
    d_padded = jnp.zeros((signal.shape[0], samples + 2 * half), signal.dtype).at[:, index].add(pull * taps**2)
    return d_padded[:, half:half + samples], d_taps


window_log_energy.defvjp(_energy_fwd, _energy_bwd)


# ----------------------------------------------------------------------------------------------------------------------------

def _stroke_stats(x, lengths, eps):
    inside = (jnp.arange(x.shape[1]) < lengths[:, None])[..., None]
    n = lengths[:, None, None].astype(x.dtype)
    centred = jnp.where(inside, x - jnp.sum(jnp.where(inside, x, 0.0), axis=1, keepdims=True) / n, 0.0)
    spread = jnp.sum(jnp.abs(centred), axis=1, keepdims=True) / n + eps
    return inside, n, centred, spread


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def stroke_normalize(x, lengths, eps=1e-5):
    """Centre each channel over time and divide by its mean absolute deviation (robust to the knock at switching on).

    Args:
      x: [batch, time, channels].
      lengths: int [batch], frames that count (at least one); frames behind them come out as zero.
      eps: added to the deviation.
    """
    _, _, centred, spread = _stroke_stats(x, lengths, eps)
    return centred / spread


def _stroke_fwd(x, lengths, eps):
    _, _, centred, spread = _stroke_stats(x, lengths, eps)
    return centred / spread, (x, lengths)


def _stroke_bwd(eps, res, g):
    x, lengths = res
    inside, n, centred, spread = _stroke_stats(x, lengths, eps)
    g = jnp.where(inside, g, 0.0)
    along = jnp.sum(g * centred, axis=1, keepdims=True) / spread**2
    dx = (g - jnp.sum(g, axis=1, keepdims=True) / n) / spread - along * jnp.sign(centred) / n
    return jnp.where(inside, dx, 0.0), None


stroke_normalize.defvjp(_stroke_fwd, _stroke_bwd)


# ----------------------------------------------------------------------------------------------------------------------------

@jax.custom_gradient
def zone_shortfall(params, feats, dwell):
    """Soft seconds that are missing over all zones.

    params: {"kernel": [features, zones], "bias": [zones]}; feats: [frames, features]; dwell: [frames] seconds that each frame
    stands for.
    """
    aim = jnp.asarray(ZONE_SECONDS, feats.dtype)
    probs = jax.nn.softmax(feats @ params["kernel"] + params["bias"], axis=-1)
    gap = (aim - dwell @ probs) / TAU
    value = TAU * jnp.sum(jax.nn.softplus(gap))

    def pullback(g):
        d_covered = -g * jax.nn.sigmoid(gap)
        d_dwell = probs @ d_covered
        d_logits = dwell[:, None] * probs * (d_covered - d_dwell[:, None])
        d_params = {"kernel": feats.T @ d_logits, "bias": jnp.sum(d_logits, axis=0)}
        return d_params, d_logits @ params["kernel"].T, d_dwell

    return value, pullback


class Coach:
    def __init__(self, taps, hop=10):
        self.taps, self.hop = jnp.asarray(taps), hop
        self.grid = make_companded_grid(0.05, 8, 1.0)

    def loss(self, params, axes, lengths):
        """axes [channels, samples] of one session -> seconds missing."""
        energy = window_log_energy(axes, self.taps, self.hop)
        feats = stroke_normalize(energy.T[None], lengths)[0]
        stored = {"kernel": self.grid(params["kernel"]), "bias": params["bias"]}
        return zone_shortfall(stored, feats, jnp.full((feats.shape[0],), self.hop / 50.0, feats.dtype))
