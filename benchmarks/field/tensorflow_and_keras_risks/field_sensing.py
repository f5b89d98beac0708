"""Operators of the field-sensing stack, independent of the Keras backend.

Four sensors feed the same models: a telescope camera (light profiles), a
hydrophone array (framed analysis of the signal), the arm of the rover (poses)
and the observation planner (ranking of candidate targets).
"""

import math

import keras
import numpy as np
from keras import ops


def _upstream(args, upstream):
    # TensorFlow and JAX hand over the cotangent alone; PyTorch hands it over by name.
    return args[-1] if upstream is None else upstream


def _reduce_like(grad, ref):
    """Sum `grad` back to the shape of the broadcast operand `ref`."""
    extra = len(grad.shape) - len(ref.shape)
    if extra > 0:
        grad = ops.sum(grad, axis=tuple(range(extra)))
    axes = tuple(
        i
        for i, (have, want) in enumerate(zip(grad.shape, ref.shape))
        if want == 1 and have != 1
    )
    return ops.sum(grad, axis=axes, keepdims=True) if axes else grad


# -- camera -------------------------------------------------------------------


def _sersic_b(n):
    """Ciotti & Bertin expansion of b_n and its slope."""
    return 2.0 * n - 1.0 / 3.0 + 4.0 / (405.0 * n), 2.0 - 4.0 / (405.0 * n * n)


@ops.custom_gradient
def sersic_profile(radius, amplitude, r_eff, index):
    """Sersic surface brightness.

    I(r) = amplitude * exp(-b_n * ((r / r_eff) ** (1 / n) - 1))

    Parameters
    ----------
    radius : (..., pixels), positive
    amplitude, r_eff, index : broadcastable to ``radius``, positive; typically
        (galaxies, 1) or a value shared by the whole field, (1,)
    """
    b, slope = _sersic_b(index)
    log_x = ops.log(radius / r_eff)
    z = ops.exp(log_x / index)
    shape = ops.exp(-b * (z - 1.0))
    light = amplitude * shape

    def grad(*args, upstream=None):
        g = _upstream(args, upstream)
        gl = g * light
        steep = b * z / index
        g_index = gl * (steep * log_x / index - slope * (z - 1.0))
        return (
            _reduce_like(-gl * steep / radius, radius),
            _reduce_like(g * shape, amplitude),
            _reduce_like(gl * steep / r_eff, r_eff),
            _reduce_like(g_index, index),
        )

    return light, grad


class GalaxyRenderer(keras.layers.Layer):
    """Renders galaxies on a square stamp from (logA, logRe, logN, axis ratio)."""

    def __init__(self, size=32, soften=0.05, **kwargs):
        super().__init__(**kwargs)
        line = np.linspace(-1.0, 1.0, size)
        yy, xx = np.meshgrid(line, line, indexing="ij")
        self.xx2 = (xx**2).reshape(1, -1)
        self.yy2 = (yy**2).reshape(1, -1)
        self.soften2 = soften**2
        self.size = size

    def call(self, params):
        log_a, log_re, log_n, ratio = ops.split(params, 4, axis=-1)
        xx2 = ops.cast(self.xx2, params.dtype)
        yy2 = ops.cast(self.yy2, params.dtype)
        radius = ops.sqrt(xx2 + yy2 / ops.square(ratio) + self.soften2)
        light = sersic_profile(radius, ops.exp(log_a), ops.exp(log_re), ops.exp(log_n))
        return ops.reshape(light, (-1, self.size, self.size))


# -- hydrophone ---------------------------------------------------------------


def make_frame_analysis(length, frame, hop=None, window="sine"):
    """Analysis front end of the codec.

    Cuts a signal ``(batch, length)`` into frames of ``frame`` samples that start
    every ``hop`` samples (default: one frame after the other), applies the window
    and projects each frame on the columns of ``basis`` ``(frame, bands)``.

    Returns ``analysis(signal, basis) -> (batch, frames, bands)``.
    """
    hop = frame if hop is None else int(hop)
    if not 0 < hop <= frame <= length:
        raise ValueError("need 0 < hop <= frame <= length")
    count = 1 + (length - frame) // hop
    index = hop * np.arange(count)[:, None] + np.arange(frame)[None, :]
    phase = (np.arange(frame) + 0.5) / frame
    taper = {
        "sine": np.sin(math.pi * phase),
        "hann": 0.5 - 0.5 * np.cos(2.0 * math.pi * phase),
        "rect": np.ones(frame),
    }[window]

    @ops.custom_gradient
    def analysis(signal, basis):
        w = ops.cast(taper, signal.dtype)
        frames = w * ops.take(signal, index, axis=1)
        bands = ops.einsum("bfn,nk->bfk", frames, basis)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            g_basis = ops.einsum("bfn,bfk->nk", frames, g)
            g_frames = w * ops.einsum("bfk,nk->bfn", g, basis)
            g_signal = ops.zeros_like(signal)
            for f in range(count):
                g_signal = ops.slice_update(g_signal, (0, f * hop), g_frames[:, f])
            return g_signal, g_basis

        return bands, grad

    return analysis


class FrameEncoder(keras.layers.Layer):
    def __init__(self, frame=64, hop=None, bands=24, window="sine", **kwargs):
        super().__init__(**kwargs)
        self.frame, self.hop, self.bands, self.window = frame, hop, bands, window

    def build(self, input_shape):
        self.basis = self.add_weight(
            shape=(self.frame, self.bands), initializer="orthogonal", name="basis"
        )
        self.analysis = make_frame_analysis(
            input_shape[-1], self.frame, self.hop, self.window
        )

    def call(self, signal):
        basis = ops.normalize(self.basis, axis=0)  # unit-norm analysis vectors
        return self.analysis(signal, basis)


# -- arm ----------------------------------------------------------------------


def _cross(a, b):
    ax, ay, az = a[..., 0], a[..., 1], a[..., 2]
    bx, by, bz = b[..., 0], b[..., 1], b[..., 2]
    return ops.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)


def _dot(a, b):
    return ops.sum(a * b, axis=-1, keepdims=True)


@ops.custom_gradient
def rotate_points(quat, points):
    """Rotate ``points`` (poses, n, 3) by ``quat`` (poses, 4), scalar part first.

    The quaternion need not have unit norm (it is normalised on the way), but it
    must not vanish.
    """
    q = ops.expand_dims(quat, 1)
    w, u = q[..., :1], q[..., 1:]
    norm2 = _dot(q, q)
    along = _dot(u, points)
    turn = _cross(u * ops.ones_like(points), points)
    moved = ((w * w - _dot(u, u)) * points + 2.0 * along * u + 2.0 * w * turn) / norm2

    def grad(*args, upstream=None):
        g = _upstream(args, upstream)
        gv = _dot(g, points)
        gu = _dot(g, u)
        u_full = u * ops.ones_like(g)
        # inverse rotation of the cotangent
        back = (w * w - _dot(u, u)) * g + 2.0 * gu * u - 2.0 * w * _cross(u_full, g)
        d_w = 2.0 * (w * gv + _dot(g, turn))
        d_u = 2.0 * (gu * points + along * g - gv * u + w * _cross(points, g))
        d_q = ops.concatenate([d_w, d_u], axis=-1) - 2.0 * q * _dot(g, moved)
        return ops.sum(d_q / norm2, axis=1), back / norm2

    return moved, grad


class RigidAlign(keras.layers.Layer):
    """Applies a predicted pose (quaternion and translation) to a point cloud."""

    def call(self, pose, cloud):
        quat, shift = pose[:, :4], pose[:, 4:]
        return rotate_points(quat, cloud) + ops.expand_dims(shift, 1)


# -- planner ------------------------------------------------------------------


def ranknet_loss(scores, grades, present):
    """Pairwise logistic ranking loss, averaged over the ordered pairs of a list.

    scores (lists, candidates); grades (lists, candidates), higher is better;
    present (lists, candidates) bool, False where a list is padded.  Pairs are
    formed among the candidates that are present.  Returns (lists,).
    """
    here = ops.cast(present, scores.dtype)
    better = ops.cast(
        ops.expand_dims(grades, 2) > ops.expand_dims(grades, 1), scores.dtype
    )
    pairs = better * ops.expand_dims(here, 2) * ops.expand_dims(here, 1)
    count = ops.maximum(ops.sum(pairs, axis=(1, 2)), 1.0)

    @ops.custom_gradient
    def pairwise(s):
        margin = ops.expand_dims(s, 2) - ops.expand_dims(s, 1)
        loss = ops.sum(pairs * ops.softplus(-margin), axis=(1, 2)) / count

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            push = better * ops.sigmoid(-margin)
            force = (ops.sum(push, axis=1) - ops.sum(push, axis=2)) * here
            return ops.expand_dims(g / count, 1) * force

        return loss, grad

    return pairwise(scores)


class PlannerHead(keras.layers.Layer):
    """Scores candidate targets and adds the ranking loss in training."""

    def __init__(self, hidden=32, **kwargs):
        super().__init__(**kwargs)
        self.mlp = keras.layers.Dense(hidden, activation="gelu")
        self.out = keras.layers.Dense(1)

    def call(self, features, grades=None, present=None):
        scores = ops.squeeze(self.out(self.mlp(features)), axis=-1)
        if grades is not None:
            if present is None:
                present = ops.ones_like(grades, dtype="bool")
            self.add_loss(ops.mean(ranknet_loss(scores, grades, present)))
        return scores
