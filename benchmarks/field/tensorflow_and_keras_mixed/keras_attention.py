"""Backend-agnostic attention and normalisation ops (TensorFlow, JAX, PyTorch)."""

import keras
from keras import ops


def rms_norm(x, gain, epsilon=1e-6):
    """y = gain * x / rms(x) over the last axis.

    Args:
        x: tensor of shape `(..., dim)`.
        gain: tensor of shape `(dim,)`.
    """

    @ops.custom_gradient
    def _rms(x, gain):
        inv = ops.rsqrt(ops.mean(ops.square(x), axis=-1, keepdims=True) + epsilon)
        xhat = x * inv

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            gx = upstream * gain
            dx = inv * (gx - xhat * ops.mean(gx * xhat, axis=-1, keepdims=True))
            lead = list(range(len(x.shape) - 1))
            return dx, ops.sum(upstream * xhat, axis=lead)

        return xhat * gain, grad

    return _rms(x, gain)


def partial_rotary(x, positions, rotary_dim=None, base=10000.0):
    """Rotary position embedding on the first `rotary_dim` features (all by default).

    Args:
        x: `(batch, time, heads, head_dim)`.
        positions: int `(batch, time)`.
        rotary_dim: even int <= head_dim; the remaining features pass through.
    """
    head_dim = x.shape[-1]
    rotary_dim = rotary_dim or head_dim
    half = rotary_dim // 2

    def turn(y, cos, sin):
        a, b = y[..., :half], y[..., half:rotary_dim]
        return ops.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)

    @ops.custom_gradient
    def _rotate(x, positions):
        freq = ops.power(
            ops.cast(base, x.dtype), -ops.cast(ops.arange(half), x.dtype) / half
        )
        angle = ops.cast(positions, x.dtype)[:, :, None, None] * freq
        cos, sin = ops.cos(angle), ops.sin(angle)
        out = ops.concatenate([turn(x, cos, sin), x[..., rotary_dim:]], axis=-1)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            dx = turn(upstream, cos, -sin)
            missing = head_dim - rotary_dim
            if missing:
                dx = ops.pad(dx, [[0, 0], [0, 0], [0, 0], [0, missing]])
            return dx, None

        return out, grad

    return _rotate(x, positions)


def grouped_query_attention(query, key, value, scale=None):
    """Attention with fewer key/value heads than query heads.

    query `(B, T, H, D)`, key and value `(B, S, K, D)`, H a multiple of K; query head
    h reads key/value head `h // (H // K)`.
    """
    heads, kv_heads = query.shape[2], key.shape[2]
    group = heads // kv_heads
    scale = scale or query.shape[-1] ** -0.5

    def fold(d_rep):
        b, s, _, d = d_rep.shape
        return ops.sum(ops.reshape(d_rep, (b, s, group, kv_heads, d)), axis=2)

    @ops.custom_gradient
    def _attend(q, k, v):
        k_rep = ops.repeat(k, group, axis=2)
        v_rep = ops.repeat(v, group, axis=2)
        prob = ops.softmax(scale * ops.einsum("bthd,bshd->bhts", q, k_rep), axis=-1)
        out = ops.einsum("bhts,bshd->bthd", prob, v_rep)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_prob = ops.einsum("bthd,bshd->bhts", upstream, v_rep)
            d_logit = prob * (d_prob - ops.sum(d_prob * prob, axis=-1, keepdims=True))
            d_logit = scale * d_logit
            dq = ops.einsum("bhts,bshd->bthd", d_logit, k_rep)
            dk = ops.einsum("bhts,bthd->bshd", d_logit, q)
            dv = ops.einsum("bhts,bthd->bshd", prob, upstream)
            return dq, fold(dk), fold(dv)

        return out, grad

    return _attend(query, key, value)


@ops.custom_gradient
def attention_pool(scores, values, mask):
    """Weighted average of a padded sequence, zero for a sequence without tokens.

    scores `(B, T)`, values `(B, T, D)`, mask `(B, T)` int (1 = token).
    """
    keep = ops.cast(mask, scores.dtype)
    top = ops.max(ops.where(keep > 0, scores, -1e9), axis=1, keepdims=True)
    e = ops.exp(ops.minimum(scores - top, 0.0)) * keep
    z = ops.sum(e, axis=1, keepdims=True)
    p = e / ops.where(z > 0, z, ops.ones_like(z))
    pooled = ops.sum(p[:, :, None] * values, axis=1)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        dp = ops.sum(values * upstream[:, None, :], axis=-1)
        ds = p * (dp - ops.sum(p * dp, axis=1, keepdims=True))
        return ds, p[:, :, None] * upstream[:, None, :], None

    return pooled, grad


@ops.custom_gradient
def soft_cap(logits, cap):
    """cap * tanh(logits / cap) with one learnable cap per head.

    logits (B, H, T, S); cap (H,) positive.
    """
    c = cap[None, :, None, None]
    th = ops.tanh(logits / c)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        sech2 = 1.0 - th * th
        d_cap = ops.sum(upstream * (th - sech2 * logits / c), axis=(0, 2, 3))
        return upstream * sech2, d_cap

    return c * th, grad


class RMSNormalization(keras.layers.Layer):
    def __init__(self, epsilon=1e-6, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        self.gain = self.add_weight(shape=(input_shape[-1],), initializer="ones", name="gain")

    def call(self, inputs):
        return rms_norm(inputs, 1.0 * self.gain, self.epsilon)
