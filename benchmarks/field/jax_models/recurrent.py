"""Sequence cells and linear scans, time-major ([T, B, ...])."""
from typing import Mapping, Tuple
import functools

import jax
import jax.numpy as jnp
from jax import lax

# pylint: disable=invalid-name


def _shift_in(first, seq):
    return jnp.concatenate([first[None], seq[:-1]], axis=0)


@jax.custom_vjp
def linear_recurrence(a, x, h0):
    """Diagonal linear recurrence  h_t = a_t * h_{t-1} + x_t.

    Parameters
    ----------
    a, x : array, shape (T, B, D)
    h0 : array, shape (B, D)

    Returns
    -------
    h : array, shape (T, B, D)
        All the states h_1 .. h_T.
    """
    def step(h, ax):
        h = ax[0] * h + ax[1]
        return h, h

    return lax.scan(step, h0, (a, x))[1]


def _linear_recurrence_fwd(a, x, h0):
    h = linear_recurrence(a, x, h0)
    return h, (a, h, h0)


def _linear_recurrence_bwd(res, g):
    a, h, h0 = res

    def step(carry, inp):
        a_t, g_t = inp
        lam = g_t + carry
        return a_t * lam, lam

    dh0, lam = lax.scan(step, jnp.zeros_like(h0), (a, g), reverse=True)
    return lam * _shift_in(h0, h), lam, dh0


linear_recurrence.defvjp(_linear_recurrence_fwd, _linear_recurrence_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def ema(x, decay, reverse=False):
    """Exponential moving average along time.

    y_t = decay * y_{t-1} + (1 - decay) * x_t, started from zero.

    x: [T, B, D], decay: [D] in (0, 1). If `reverse`, the average runs from the
    last step to the first.
    """
    def step(y, x_t):
        y = decay * y + (1.0 - decay) * x_t
        return y, y

    return lax.scan(step, jnp.zeros_like(x[0]), x, reverse=reverse)[1]


def _ema_fwd(x, decay, reverse):
    y = ema(x, decay, reverse)
    return y, (x, y, decay)


def _ema_bwd(reverse, res, g):
    x, y, decay = res

    def step(lam, g_t):
        lam = decay * lam + g_t
        return lam, lam

    _, lam = lax.scan(step, jnp.zeros_like(g[0]), g, reverse=True)
    y_prev = _shift_in(jnp.zeros_like(y[0]), y)
    d_decay = jnp.sum(lam * (y_prev - x), axis=(0, 1))
    return (1.0 - decay) * lam, d_decay


ema.defvjp(_ema_fwd, _ema_bwd)


# GRU. The parameters are a mapping with
#   w_i  [I, 3H]   input to (z, r, a)
#   w_h  [H, 3H]   state to (z, r, a)
#   b    [3H]

def _gru_gates(params, x, h):
    n = h.shape[-1]
    xi = x @ params["w_i"] + params["b"]
    zr = jax.nn.sigmoid(xi[..., : 2 * n] + h @ params["w_h"][:, : 2 * n])
    z, r = zr[..., :n], zr[..., n:]
    cand = jnp.tanh(xi[..., 2 * n:] + (r * h) @ params["w_h"][:, 2 * n:])
    return z, r, cand


@jax.custom_vjp
def gru_cell(params: Mapping[str, jnp.ndarray], x, h):
    r"""One step of a GRU, x [B, I] and h [B, H] -> next state [B, H].

    .. math::
       z = \sigma(W_{iz} x + W_{hz} h + b_z), \quad
       r = \sigma(W_{ir} x + W_{hr} h + b_r)

       a = \tanh(W_{ia} x + W_{ha} (r \odot h) + b_a), \quad
       h' = (1 - z) \odot h + z \odot a
    """
    z, _, cand = _gru_gates(params, x, h)
    return (1.0 - z) * h + z * cand


def _gru_fwd(params, x, h):
    z, r, cand = _gru_gates(params, x, h)
    return (1.0 - z) * h + z * cand, (params, x, h, z, r, cand)


def _gru_bwd(res, g):
    params, x, h, z, r, cand = res
    n = h.shape[-1]
    w_h = params["w_h"]

    d_cand = g * z * (1.0 - cand ** 2)
    d_rh = d_cand @ w_h[:, 2 * n:].T
    d_z = g * (cand - h) * z * (1.0 - z)
    d_r = d_rh * h * r * (1.0 - r)
    d_zr = jnp.concatenate([d_z, d_r], axis=-1)
    d_gates = jnp.concatenate([d_zr, d_cand], axis=-1)

    d_params = {
        "w_i": x.T @ d_gates,
        "w_h": h.T @ d_gates,
        "b": d_gates.sum(axis=0),
    }
    d_x = d_gates @ params["w_i"].T
    d_h = g * (1.0 - z) + d_rh * r + d_zr @ w_h[:, : 2 * n].T
    return d_params, d_x, d_h


gru_cell.defvjp(_gru_fwd, _gru_bwd)


def gru(params, xs, h0) -> Tuple[jnp.ndarray, jnp.ndarray]:
    """Unrolls `gru_cell` over time-major inputs."""
    def step(h, x):
        h = gru_cell(params, x, h)
        return h, h

    return lax.scan(step, h0, xs)


class LRULayer:
    """Real diagonal recurrence with input dependent decay."""

    def __init__(self, key, dim):
        k1, k2 = jax.random.split(key)
        self.params = {
            "w_a": jax.random.normal(k1, (dim, dim)) / jnp.sqrt(dim),
            "w_x": jax.random.normal(k2, (dim, dim)) / jnp.sqrt(dim),
        }

    def __call__(self, params, x):
        a = jax.nn.sigmoid(x @ params["w_a"])
        u = jnp.sqrt(1.0 - a ** 2 + 1e-6) * (x @ params["w_x"])
        return linear_recurrence(a, u, jnp.zeros_like(x[0]))


if __name__ == "__main__":
    layer = LRULayer(jax.random.PRNGKey(0), 4)
    xs = jax.random.normal(jax.random.PRNGKey(1), (10, 2, 4))
    loss = lambda p: jnp.mean(layer(p, xs) ** 2)
    print(jax.tree_util.tree_map(jnp.shape, jax.grad(loss)(layer.params)))
