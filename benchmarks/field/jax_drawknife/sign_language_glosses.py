# Isolated-sign recognition from hand landmarks.
#
# The network sees 21 landmarks of a hand per frame (0 = wrist, 9 = knuckle of the middle finger), filters them in time,
# adapts them to the signer and scores a vocabulary of glosses.

from functools import partial

import jax
import jax.numpy as jnp

WRIST = 0
KNUCKLE = 9
MIN_PALM = 1e-2   # palms that look shorter than this (hand seen edge-on) are not used as a yardstick
IGNORE = -1


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def wrist_frame(joints, rescale=True):
    """Express landmarks relative to the wrist, in palm lengths.

    :param joints: ``(..., 21, 3)`` landmarks
    :param rescale: divide by the distance wrist-knuckle, but never by less than ``MIN_PALM``
    """
    return _wrist_frame(joints, rescale)[0]


def _wrist_frame(joints, rescale):
    rel = joints - joints[..., WRIST:WRIST + 1, :]
    if not rescale:
        return rel, None
    palm = rel[..., KNUCKLE, :]
    sq = jnp.sum(palm ** 2, -1)
    long = sq > MIN_PALM ** 2
    length = jnp.where(long, jnp.sqrt(jnp.where(long, sq, 1.0)), MIN_PALM)[..., None, None]
    return rel / length, (length, jnp.where(long[..., None], palm, 0.0))


def _wrist_frame_fwd(joints, rescale):
    y, extra = _wrist_frame(joints, rescale)
    return y, (y, extra)


def _wrist_frame_bwd(rescale, res, g):
    y, extra = res
    if rescale:
        length, palm = extra
        g_length = -jnp.sum(g * y, axis=(-2, -1)) / length[..., 0, 0]
        g = g / length
        pull = g_length[..., None] * palm / length[..., 0]
        g = g.at[..., KNUCKLE, :].add(pull)
    return (g.at[..., WRIST, :].add(-jnp.sum(g, axis=-2)),)


wrist_frame.defvjp(_wrist_frame_fwd, _wrist_frame_bwd)


def _shift(x, by):
    """x[:, t + by] with zeros beyond the ends of the clip."""
    if by == 0:
        return x
    if abs(by) >= x.shape[1]:
        return jnp.zeros_like(x)
    zeros = jnp.zeros_like(x[:, :abs(by)])
    if by > 0:
        return jnp.concatenate([x[:, by:], zeros], axis=1)
    return jnp.concatenate([zeros, x[:, :by]], axis=1)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def finger_tempo_filter(x, kernel, dilation=1):
    """Centred temporal filter, one per channel.

    x: [clips, frames, channels]; kernel: [taps, channels], taps odd. Stacked with dilations 1, 2, 4 in TempoStack.
    """
    half = kernel.shape[0] // 2
    return sum(kernel[k] * _shift(x, (k - half) * dilation) for k in range(kernel.shape[0]))


def _tempo_fwd(x, kernel, dilation):
    return finger_tempo_filter(x, kernel, dilation), (x, kernel)


def _tempo_bwd(dilation, res, g):
    x, kernel = res
    taps = kernel.shape[0]
    offsets = [k - taps // 2 for k in range(taps)]
    dx = sum(kernel[k] * _shift(g, -o * dilation) for k, o in enumerate(offsets))
    dk = jnp.stack([jnp.sum(g * _shift(x, o), axis=(0, 1)) for o in offsets])
    return dx, dk


finger_tempo_filter.defvjp(_tempo_fwd, _tempo_bwd)


class TempoStack:
    """Residual stack of tempo filters."""

    def __init__(self, dilations=(1, 2, 4), taps=3):
        self.dilations = dilations
        self.taps = taps

    def init(self, key, channels):
        keys = jax.random.split(key, len(self.dilations))
        return [0.3 * jax.random.normal(k, (self.taps, channels)) for k in keys]

    def __call__(self, kernels, x):
        for kernel, d in zip(kernels, self.dilations):
            x = x + jnp.tanh(finger_tempo_filter(x, kernel, d))
        return x


def signer_film(signer):
    """Feature-wise modulation by the signer of each clip.

    signer: (clips,) integer rows of the signer tables. A batch usually holds a few clips of each of a few signers.
    """

    @jax.custom_gradient
    def modulate(x, gain, shift):
        # x (clips, frames, channels); gain and shift (signers, channels)
        scale = 1.0 + gain[signer]
        y = x * scale[:, None, :] + shift[signer][:, None, :]

        def vjp(g):
            dx = g * scale[:, None, :]
            dgain = jnp.zeros_like(gain).at[signer].set(jnp.sum(g * x, axis=1))
            dshift = jnp.zeros_like(shift).at[signer].set(jnp.sum(g, axis=1))
            return dx, dgain, dshift

        return y, vjp

    return modulate


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def gloss_hinge(scores, gloss, costs, squared=False):
    """Cost-sensitive multiclass hinge, averaged over the labelled clips.

    For a clip with label y every other gloss j should score at least ``costs[y, j]`` less than y; shortfalls are
    summed over j (or their squares, if ``squared``). ``gloss`` is (clips,), IGNORE marks unlabelled clips; ``costs`` is a
    learned (glosses, glosses) table whose diagonal isn't used.
    """
    short, labelled = _shortfall(scores, gloss, costs)
    per_clip = jnp.sum(short ** 2 if squared else short, axis=1)
    return jnp.sum(per_clip) / jnp.maximum(jnp.sum(labelled), 1)


def _shortfall(scores, gloss, costs):
    labelled = gloss != IGNORE
    y = jnp.where(labelled, gloss, 0)
    own = jnp.take_along_axis(scores, y[:, None], axis=1)
    other = jnp.arange(scores.shape[1])[None, :] != y[:, None]
    short = jnp.maximum(costs[y] + scores - own, 0.0)
    return jnp.where(other & labelled[:, None], short, 0.0), labelled


def _hinge_fwd(scores, gloss, costs, squared):
    return gloss_hinge(scores, gloss, costs, squared), (scores, gloss, costs)


def _hinge_bwd(squared, res, g):
    scores, gloss, costs = res
    short, labelled = _shortfall(scores, gloss, costs)
    slope = 2.0 * short if squared else (short > 0).astype(scores.dtype)
    slope = slope * (g / jnp.maximum(jnp.sum(labelled), 1))
    y = jnp.where(labelled, gloss, 0)
    rows = jnp.arange(scores.shape[0])
    dscores = slope.at[rows, y].add(-jnp.sum(slope, axis=1))
    dcosts = jnp.zeros_like(costs).at[y].add(slope)
    return dscores, None, dcosts


gloss_hinge.defvjp(_hinge_fwd, _hinge_bwd)
