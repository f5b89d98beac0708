"""Pieces of our image tagger: channel gates, cross-covariance attention, robust loss.

All functions run on whichever backend Keras was started with.
"""
import math

import keras
from keras import ops


def make_channel_gate(mode: str = "l2", eps: float = 1e-5):
    """Gated channel transformation.

    Args:
        mode: ``"l2"`` embeds a channel by the root of its energy, ``"l1"`` by the
            sum of its magnitudes.
        eps: added below the roots and to the divisor.

    Returns:
        A function of ``x`` (batch, height, width, channels) and ``alpha``,
        ``gamma``, ``beta``, each (channels,) and of either sign.
    """
    if mode not in ("l1", "l2"):
        raise ValueError(f"unknown mode: {mode}")

    @ops.custom_gradient
    def channel_gate(x, alpha, gamma, beta):
        channels = x.shape[-1]
        if mode == "l2":
            size = ops.sqrt(ops.sum(x * x, axis=(1, 2)) + eps)
        else:
            size = ops.sum(ops.abs(x), axis=(1, 2))
        emb = alpha * size
        if mode == "l2":
            inv = 1.0 / ops.sqrt(ops.sum(emb * emb, axis=-1, keepdims=True) / channels + eps)
        else:
            inv = 1.0 / (ops.sum(ops.abs(emb), axis=-1, keepdims=True) / channels + eps)
        unit = emb * inv
        th = 2.0 * ops.sigmoid(2.0 * (gamma * unit + beta)) - 1.0   # tanh
        gate = (1.0 + th)[:, None, None, :]

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            dz = ops.sum(upstream * x, axis=(1, 2)) * (1.0 - th * th)
            du = dz * gamma
            along = ops.sum(du * emb, axis=-1, keepdims=True) / channels
            if mode == "l2":
                demb = inv * du - inv * inv * inv * along * emb
            else:
                demb = inv * du - inv * inv * along
            dsize = (demb * alpha)[:, None, None, :]
            if mode == "l2":
                dx = dsize * x / size[:, None, None, :]
            else:
                dx = dsize * ops.sign(x)
            return (
                upstream * gate + dx,
                ops.sum(demb * size, axis=0),
                ops.sum(dz * unit, axis=0),
                ops.sum(dz, axis=0),
            )

        return x * gate, grad

    return channel_gate


def make_cross_covariance(valid=None, eps: float = 1e-6):
    """Attention between channels rather than tokens.

    Args:
        valid: boolean (batch, tokens), False for padding, or None. Padding has no
            part in the covariance; its output rows are zero.
        eps: added to the energy of a channel below the root.

    Returns:
        ``attend(q, k, v, log_tau)`` with ``q``, ``k``, ``v`` (B, H, N, D) and
        ``log_tau`` (H,); gives (B, H, N, D).
    """

    @ops.custom_gradient
    def attend(q, k, v, log_tau):
        if valid is not None:
            keep = ops.convert_to_tensor(valid, dtype=q.dtype)[:, None, :, None]
            q, k, v = q * keep, k * keep, v * keep
        rq = 1.0 / ops.sqrt(ops.sum(q * q, axis=2, keepdims=True) + eps)
        rk = 1.0 / ops.sqrt(ops.sum(k * k, axis=2, keepdims=True) + eps)
        qn, kn = q * rq, k * rk
        tau = ops.exp(log_tau)[:, None, None]
        cov = ops.einsum("bhnd,bhne->bhde", qn, kn)
        p = ops.softmax(cov * tau, axis=-1)
        out = ops.einsum("bhde,bhne->bhnd", p, v)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            if valid is not None:
                upstream = upstream * keep
            dp = ops.einsum("bhnd,bhne->bhde", upstream, v)
            dl = p * (dp - ops.sum(dp * p, axis=-1, keepdims=True))
            dv = ops.einsum("bhde,bhnd->bhne", p, upstream)
            dc = dl * tau
            dqn = ops.einsum("bhde,bhne->bhnd", dc, kn)
            dkn = ops.einsum("bhde,bhnd->bhne", dc, qn)
            dq = rq * (dqn - qn * ops.sum(dqn * qn, axis=2, keepdims=True))
            dk = rk * (dkn - kn * ops.sum(dkn * kn, axis=2, keepdims=True))
            return dq, dk, dv, ops.sum(dc * cov, axis=(0, 2, 3))

        return out, grad

    return attend


def heavy_tailed_probs(a, t, iterations=40):
    """exp_t(a - norm) with the norm by Newton's method, t >= 1."""
    if t == 1.0:
        return ops.softmax(a, axis=-1)
    c = t - 1.0
    norm = ops.max(a, axis=-1, keepdims=True)
    for _ in range(iterations):
        p = (1.0 + c * (norm - a)) ** (-1.0 / c)
        norm = norm + (ops.sum(p, -1, keepdims=True) - 1.0) / ops.sum(p**t, -1, keepdims=True)
    return (1.0 + c * (norm - a)) ** (-1.0 / c)


def make_bi_tempered(t1: float = 0.8, t2: float = 1.2, smoothing: float = 0.0):
    """Bi-tempered logistic loss per example, 0 <= t1 < 1 <= t2 < 2.

    The function made takes activations and label probabilities, both
    (..., classes), and returns (...).
    """

    @ops.custom_gradient
    def bi_tempered(activations, labels):
        y = (1.0 - smoothing) * labels + smoothing / labels.shape[-1]
        p = heavy_tailed_probs(activations, t2)
        a, b = 1.0 - t1, 2.0 - t1
        loss = (y**b - y * p**a) / a - (y**b - p**b) / b

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g = ops.expand_dims(upstream, -1)
            escort = p**t2
            escort = escort / ops.sum(escort, axis=-1, keepdims=True)
            r = (p - y) * p ** (t2 - t1)
            da = r - escort * ops.sum(r, axis=-1, keepdims=True)
            dy = (y**a - p**a) / a
            return g * da, g * (1.0 - smoothing) * dy

        return ops.sum(loss, axis=-1), grad

    return bi_tempered


class TaggerHead(keras.layers.Layer):
    def __init__(self, classes, gate="l2", **kwargs):
        super().__init__(**kwargs)
        self.classes = classes
        self.gate = make_channel_gate(gate)

    def build(self, shape):
        c = shape[-1]
        self.alpha = self.add_weight(shape=(c,), initializer="ones", name="alpha")
        self.gamma = self.add_weight(shape=(c,), initializer="zeros", name="gamma")
        self.beta = self.add_weight(shape=(c,), initializer="zeros", name="beta")
        self.kernel = self.add_weight(shape=(c, self.classes), name="kernel")

    def call(self, x):
        x = self.gate(x, 1.0 * self.alpha, 1.0 * self.gamma, 1.0 * self.beta)
        return ops.matmul(ops.mean(x, axis=(1, 2)), self.kernel)
