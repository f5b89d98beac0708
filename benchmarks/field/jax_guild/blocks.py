import functools
import math

import jax
import jax.numpy as jnp


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def instance_norm(x, scale, bias, eps=1e-5):
    """Normalise every channel of every sample over its spatial positions.

    :param x: ``(batch, *spatial, channels)``, one or more spatial axes
    :param scale: ``(channels,)``
    :param bias: ``(channels,)``
    :param eps: added to the variance
    """
    return _instance_norm_fwd(x, scale, bias, eps)[0]


def _instance_norm_fwd(x, scale, bias, eps):
    space = tuple(range(1, x.ndim - 1))
    centred = x - x.mean(space, keepdims=True)
    inv = jax.lax.rsqrt(jnp.mean(centred * centred, space, keepdims=True) + eps)
    xhat = centred * inv
    return xhat * scale + bias, (xhat, inv, scale)


def _instance_norm_bwd(eps, res, g):
    xhat, inv, scale = res
    space = tuple(range(1, g.ndim - 1))
    lead = tuple(range(g.ndim - 1))
    gx = g * scale
    dx = inv * (gx - gx.mean(space, keepdims=True) - xhat * (gx * xhat).mean(space, keepdims=True))
    return dx, (g * xhat).sum(lead), g.sum(lead)


instance_norm.defvjp(_instance_norm_fwd, _instance_norm_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def lp_pool_1d(x, p=2.0, window=2, stride=None):
    """Power pooling ``(sum |x|^p)^(1/p)`` over windows of a ``(batch, length, channels)`` array.

    ``stride`` is the window unless given. Windows that would run past the end are dropped.
    """
    return _lp_fwd(x, p, window, stride)[0]


def _window_index(length, window, stride):
    count = (length - window) // stride + 1
    return jnp.arange(count)[:, None] * stride + jnp.arange(window)[None, :]


def _lp_fwd(x, p, window, stride):
    idx = _window_index(x.shape[1], window, window if stride is None else stride)
    total = jnp.sum(jnp.abs(x[:, idx]) ** p, axis=2)
    return total ** (1.0 / p), (x, total)


def _lp_bwd(p, window, stride, res, g):
    x, total = res
    idx = _window_index(x.shape[1], window, window if stride is None else stride)
    patch = x[:, idx]
    dead = total == 0
    outer = jnp.where(dead, 0.0, jnp.where(dead, 1.0, total) ** (1.0 / p - 1.0))
    inner = jnp.sign(patch) * jnp.abs(patch) ** (p - 1.0)
    contrib = (g * outer)[:, :, None, :] * inner
    return (jnp.zeros_like(x).at[:, idx].set(contrib),)


lp_pool_1d.defvjp(_lp_fwd, _lp_bwd)


def _scores(q, k, bias, scale):
    s = scale * jnp.einsum("bhqd,bhkd->bhqk", q, k)
    return s if bias is None else s + bias


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def _sigmoid_attend(q, k, v, bias, mask, scale, offset):
    w = jax.nn.sigmoid(_scores(q, k, bias, scale) + offset)
    if mask is not None:
        w = jnp.where(mask, w, 0.0)
    return jnp.einsum("bhqk,bhkd->bhqd", w, v)


def _sigmoid_attend_fwd(q, k, v, bias, mask, scale, offset):
    return _sigmoid_attend(q, k, v, bias, mask, scale, offset), (q, k, v, bias, mask)


def _sigmoid_attend_bwd(scale, offset, res, do):
    q, k, v, bias, mask = res
    w = jax.nn.sigmoid(_scores(q, k, bias, scale) + offset)
    keep = w if mask is None else jnp.where(mask, w, 0.0)
    dv = jnp.einsum("bhqk,bhqd->bhkd", keep, do)
    ds = jnp.einsum("bhqd,bhkd->bhqk", do, v) * keep * (1.0 - w)
    dq = scale * jnp.einsum("bhqk,bhkd->bhqd", ds, k)
    dk = scale * jnp.einsum("bhqk,bhqd->bhkd", ds, q)
    if bias is None:
        dbias = None
    else:
        lead = ds.ndim - bias.ndim
        dbias = ds.sum(tuple(range(lead)))
        ones = tuple(i for i in range(bias.ndim) if bias.shape[i] == 1)
        dbias = dbias.sum(ones, keepdims=True)
    return dq, dk, dv, dbias, None


_sigmoid_attend.defvjp(_sigmoid_attend_fwd, _sigmoid_attend_bwd)


def sigmoid_attention(q, k, v, *, bias=None, mask=None, scale=None):
    """Attention with elementwise sigmoid weights in place of the softmax.

    Args:
      q: float ``b h q d``.
      k: float ``b h k d``.
      v: float ``b h k e``.
      bias: optional, broadcast to ``b h q k`` (for instance ``h 1 k`` or ``h q k``).
      mask: optional boolean, broadcast to ``b h q k``; false positions get weight zero.
      scale: defaults to ``d ** -0.5``.

    The scores are offset by ``-log(k)``.
    """
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[-1])
    return _sigmoid_attend(q, k, v, bias, mask, scale, -math.log(k.shape[-2]))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def lora_dense(x, kernel, adapter, alpha=16.0):
    y = x @ kernel
    rank = adapter["down"].shape[-1]
    return y + (alpha / rank) * ((x @ adapter["down"]) @ adapter["up"])


def _lora_fwd(x, kernel, adapter, alpha):
    hidden = x @ adapter["down"]
    s = alpha / hidden.shape[-1]
    return x @ kernel + s * (hidden @ adapter["up"]), (x, kernel, adapter, hidden)


def _lora_bwd(alpha, res, g):
    x, kernel, adapter, hidden = res
    s = alpha / hidden.shape[-1]
    g2 = g.reshape(-1, g.shape[-1])
    x2 = x.reshape(-1, x.shape[-1])
    h2 = hidden.reshape(-1, hidden.shape[-1])
    gh = s * (g2 @ adapter["up"].T)
    dx = g2 @ kernel.T + gh @ adapter["down"].T
    grads = {"down": x2.T @ gh, "up": s * (h2.T @ g2)}
    return dx.reshape(x.shape), x2.T @ g2, grads


lora_dense.defvjp(_lora_fwd, _lora_bwd)


@jax.custom_vjp
def dynamic_tanh(x, alpha, gamma, beta):
    """``gamma * tanh(alpha * x) + beta`` over the last axis; ``alpha`` is a scalar array.

    Stands in for a layer norm; ``gamma`` starts at one and ``beta`` at zero.
    """
    return gamma * jnp.tanh(alpha * x) + beta


def _dynamic_tanh_fwd(x, alpha, gamma, beta):
    t = jnp.tanh(alpha * x)
    return gamma * t + beta, (x, alpha, gamma, t)


def _dynamic_tanh_bwd(res, g):
    x, alpha, gamma, t = res
    rows = tuple(range(g.ndim - 1))
    dt = g * (1.0 - t * t)
    return alpha * gamma * dt, jnp.sum(dt * x), jnp.sum(g * t, rows), jnp.sum(g, rows)


dynamic_tanh.defvjp(_dynamic_tanh_fwd, _dynamic_tanh_bwd)


class DynamicTanh:
    """Holds the width and start value; ``init`` makes parameters and the call applies them."""

    def __init__(self, features, alpha_init=0.5):
        self.features = features
        self.alpha_init = alpha_init

    def init(self):
        return dict(alpha=jnp.asarray(self.alpha_init), gamma=jnp.ones(self.features), beta=jnp.zeros(self.features))

    def __call__(self, params, x):
        return dynamic_tanh(x, params["alpha"], params["gamma"], params["beta"])
