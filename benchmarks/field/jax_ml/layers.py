"""Small functional layer library: dense, adapters, convolutions, pooling, embedding, dropout."""
from functools import partial

import jax
import jax.numpy as jnp
import equinox as eqx

_ACT = {
    "linear": (lambda z: z, lambda y: jnp.ones_like(y)),
    "relu": (jax.nn.relu, lambda y: (y > 0).astype(y.dtype)),
    "tanh": (jnp.tanh, lambda y: 1 - y * y),
    "sigmoid": (jax.nn.sigmoid, lambda y: y * (1 - y)),
}


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def dense(params, x, activation="linear"):
    """Affine map and activation; the activation derivative is computed from the output.

    params: {"kernel": (in, out), "bias": (out,)}, the bias being optional.
    x: (..., in)
    """
    return _dense_fwd(params, x, activation)[0]


def _dense_fwd(params, x, activation):
    z = x @ params["kernel"]
    if "bias" in params:
        z = z + params["bias"]
    y = _ACT[activation][0](z)
    return y, (params, x, y)


def _dense_bwd(activation, res, g):
    params, x, y = res
    dz = g * _ACT[activation][1](y)
    lead = tuple(range(dz.ndim - 1))
    grads = {"kernel": jnp.tensordot(x, dz, axes=(lead, lead))}
    if "bias" in params:
        grads["bias"] = dz.sum(axis=lead)
    return grads, dz @ params["kernel"].T


dense.defvjp(_dense_fwd, _dense_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def lora_dense(params, x, alpha=8.0):
    """Frozen-style kernel plus low-rank update, ``x W + (alpha / r) x A B``.

    Args:
        params: dict with ``w`` [in, out], ``a`` [in, r], ``b`` [r, out].
        x: [batch, in].
        alpha: LoRA scaling numerator.

    Returns:
        [batch, out]
    """
    s = alpha / params["a"].shape[1]
    return x @ params["w"] + s * ((x @ params["a"]) @ params["b"])


def _lora_fwd(params, x, alpha):
    s = alpha / params["a"].shape[1]
    xa = x @ params["a"]
    return x @ params["w"] + s * (xa @ params["b"]), (params, x, xa)


def _lora_bwd(alpha, res, g):
    params, x, xa = res
    s = alpha / params["a"].shape[1]
    gb = g @ params["b"].T
    grads = {
        "w": x.T @ g,
        "a": x.T @ gb,
        "b": s * (xa.T @ g),
    }
    dx = g @ params["w"].T + s * (gb @ params["a"].T)
    return grads, dx


lora_dense.defvjp(_lora_fwd, _lora_bwd)


class LoRALinear(eqx.Module):
    w: jax.Array
    a: jax.Array
    b: jax.Array
    alpha: float = eqx.field(static=True)

    def __init__(self, n_in, n_out, rank, alpha=8.0, *, key):
        kw, ka = jax.random.split(key)
        self.w = jax.random.normal(kw, (n_in, n_out)) / n_in**0.5
        self.a = jax.random.normal(ka, (n_in, rank)) / n_in**0.5
        self.b = jnp.zeros((rank, n_out))
        self.alpha = alpha

    def __call__(self, x):
        return lora_dense({"w": self.w, "a": self.a, "b": self.b}, x, self.alpha)


@jax.custom_gradient
def swiglu(x, w_gate, w_up, w_down):
    zg = x @ w_gate
    up = x @ w_up
    sig = jax.nn.sigmoid(zg)
    act = zg * sig
    h = act * up

    def pullback(g):
        g2 = g.reshape(-1, g.shape[-1])
        h2 = h.reshape(-1, h.shape[-1])
        x2 = x.reshape(-1, x.shape[-1])
        dh = g2 @ w_down.T
        dup = dh * act.reshape(h2.shape)
        dgate = dh * (up * sig * (1 + zg * (1 - sig))).reshape(h2.shape)
        dx = dgate @ w_gate.T + dup @ w_up.T
        return dx.reshape(x.shape), x2.T @ dgate, x2.T @ dup, h2.T @ g2

    return h @ w_down, pullback


# ------------------------------------------------------------------ convolution

def _taps(length, k, stride, dilation):
    out = (length - (k - 1) * dilation - 1) // stride + 1
    return [slice(i * dilation, i * dilation + (out - 1) * stride + 1, stride) for i in range(k)]


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def conv1d(x, w, b, stride=1, dilation=1):
    """'VALID' 1-D convolution as a sum over taps.

    Parameters
    ----------
    x : (N, L, Cin)
    w : (K, Cin, Cout)
    b : (Cout,)
    stride, dilation : int
    """
    sl = _taps(x.shape[1], w.shape[0], stride, dilation)
    return sum(x[:, s] @ w[i] for i, s in enumerate(sl)) + b


def _conv1d_fwd(x, w, b, stride, dilation):
    return conv1d(x, w, b, stride, dilation), (x, w)


def _conv1d_bwd(stride, dilation, res, g):
    x, w = res
    dx = jnp.zeros_like(x)
    dw = []
    for i, s in enumerate(_taps(x.shape[1], w.shape[0], stride, dilation)):
        dx = dx.at[:, s].add(g @ w[i].T)
        dw.append(jnp.einsum("nlc,nlo->co", x[:, s], g))
    return dx, jnp.stack(dw), g.sum((0, 1))


conv1d.defvjp(_conv1d_fwd, _conv1d_bwd)


@jax.custom_vjp
def causal_depthwise_conv(x, w):
    """Depthwise causal convolution, as in the Mamba / Hyena short filters.

    x is (batch, length, channels), w is (width, channels); the last tap of w multiplies the
    current step.
    """
    k, t = w.shape[0], x.shape[1]
    xp = jnp.pad(x, ((0, 0), (k - 1, 0), (0, 0)))
    return sum(xp[:, i:i + t] * w[i] for i in range(k))


def _cdc_fwd(x, w):
    return causal_depthwise_conv(x, w), (x, w)


def _cdc_bwd(res, g):
    x, w = res
    k, t = w.shape[0], x.shape[1]
    xp = jnp.pad(x, ((0, 0), (k - 1, 0), (0, 0)))
    gp = jnp.pad(g, ((0, 0), (0, k - 1), (0, 0)))
    dx = sum(gp[:, i:i + t] * w[i] for i in range(k))
    dw = jnp.stack([jnp.sum(xp[:, i:i + t] * g, axis=(0, 1)) for i in range(k)])
    return dx, dw


causal_depthwise_conv.defvjp(_cdc_fwd, _cdc_bwd)


# ------------------------------------------------------------------ pooling

def _windows(length, window, stride):
    n = (length - window) // stride + 1
    return jnp.arange(n)[:, None] * stride + jnp.arange(window)[None, :]


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def avg_pool1d(x, window=2, stride=2):
    # (N, L, C) -> (N, L', C)
    return x[:, _windows(x.shape[1], window, stride)].mean(axis=2)


def _avg_pool_fwd(x, window, stride):
    return avg_pool1d(x, window, stride), jnp.zeros((0,) + x.shape[1:], x.dtype)


def _avg_pool_bwd(window, stride, like, g):
    idx = _windows(like.shape[1], window, stride)
    dx = jnp.zeros((g.shape[0],) + like.shape[1:], g.dtype)
    share = jnp.broadcast_to((g / window)[:, :, None, :], g.shape[:2] + (window,) + g.shape[2:])
    return (dx.at[:, idx].set(share),)


avg_pool1d.defvjp(_avg_pool_fwd, _avg_pool_bwd)


@jax.custom_vjp
def masked_mean_pool(x, lengths):
    """Mean over the valid steps of each sequence.

    Args:
      x: [batch, time, features], right-padded.
      lengths: [batch] int, number of valid steps (at least 1).
    """
    m = jnp.arange(x.shape[1])[None, :] < lengths[:, None]
    return jnp.sum(x * m[..., None], axis=1) / lengths[:, None]


def _mmp_fwd(x, lengths):
    return masked_mean_pool(x, lengths), (lengths, jnp.empty((x.shape[1], 0), x.dtype))


def _mmp_bwd(res, g):
    lengths, t_like = res
    t = t_like.shape[0]
    m = (jnp.arange(t)[None, :] < lengths[:, None]).astype(g.dtype)
    return m[..., None] * g[:, None, :] / t, None


masked_mean_pool.defvjp(_mmp_fwd, _mmp_bwd)


# ------------------------------------------------------------------ embedding, dropout

@partial(jax.custom_vjp, nondiff_argnums=(2,))
def embed(table, ids, padding_idx=None):
    """Look rows of ``table`` (vocab, dim) up; ``padding_idx`` gives a zero vector."""
    out = table[ids]
    if padding_idx is not None:
        out = jnp.where((ids == padding_idx)[..., None], 0, out)
    return out


def _embed_fwd(table, ids, padding_idx):
    return embed(table, ids, padding_idx), (table, ids)


def _embed_bwd(padding_idx, res, g):
    table, ids = res
    if padding_idx is not None:
        g = g * (ids != padding_idx)[..., None].astype(g.dtype)
    return jnp.zeros_like(table).at[ids].add(g), None


embed.defvjp(_embed_fwd, _embed_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def dropout(key, x, rate):
    return _dropout_fwd(key, x, rate)[0]


def _dropout_fwd(key, x, rate):
    keep = jax.random.bernoulli(key, 1.0 - rate, x.shape)
    return jnp.where(keep, x / (1.0 - rate), 0.0), keep


def _dropout_bwd(rate, keep, g):
    return None, jnp.where(keep, g / (1.0 - rate), 0.0)


dropout.defvjp(_dropout_fwd, _dropout_bwd)


if __name__ == "__main__":
    layer = LoRALinear(6, 4, 2, key=jax.random.PRNGKey(1))
    x = jax.random.normal(jax.random.PRNGKey(2), (3, 6))
    print(eqx.filter_grad(lambda m: jnp.sum(m(x) ** 2))(layer).b.shape)
