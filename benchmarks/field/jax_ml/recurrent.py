from typing import NamedTuple

import jax
import jax.numpy as jnp


class LSTMParams(NamedTuple):
    wx: jax.Array  # (input, 4 * hidden)
    wh: jax.Array  # (hidden, 4 * hidden)
    b: jax.Array   # (4 * hidden,)


def init_lstm(key, n_in, n_hidden):
    k1, k2 = jax.random.split(key)
    return LSTMParams(jax.random.normal(k1, (n_in, 4 * n_hidden)) * 0.1,
                      jax.random.normal(k2, (n_hidden, 4 * n_hidden)) * 0.1,
                      jnp.zeros((4 * n_hidden,)))


@jax.custom_vjp
def lstm_cell(params, carry, x):
    """One LSTM step, gates in the order i, f, g, o. carry is (h, c), both (batch, hidden)."""
    return _lstm_fwd(params, carry, x)[0]


def _lstm_fwd(params, carry, x):
    h, c = carry
    z = x @ params.wx + h @ params.wh + params.b
    i, f, u, o = jnp.split(z, 4, axis=-1)
    i, f, o = map(jax.nn.sigmoid, (i, f, o))
    u = jnp.tanh(u)
    c_new = f * c + i * u
    tc = jnp.tanh(c_new)
    h_new = o * tc
    return (h_new, c_new), (params, h, c, x, i, f, u, o, tc)


def _lstm_bwd(res, ct):
    params, h, c, x, i, f, u, o, tc = res
    dh, _ = ct
    do = dh * tc
    dc = dh * o * (1 - tc**2)
    dz = jnp.concatenate([
        dc * u * i * (1 - i),
        dc * c * f * (1 - f),
        dc * i * (1 - u**2),
        do * o * (1 - o),
    ], axis=-1)
    dparams = LSTMParams(x.T @ dz, h.T @ dz, dz.sum(0))
    return dparams, (dz @ params.wh.T, dc * f), dz @ params.wx.T


lstm_cell.defvjp(_lstm_fwd, _lstm_bwd)


def run_lstm(params, xs):
    # xs: (time, batch, input)
    n = params.wh.shape[0]
    zeros = jnp.zeros((xs.shape[1], n), xs.dtype)

    def step(carry, x):
        carry = lstm_cell(params, carry, x)
        return carry, carry[0]

    return jax.lax.scan(step, (zeros, zeros), xs)


@jax.custom_vjp
def gru_cell(p, h, x):
    return _gru_fwd(p, h, x)[0]


# reset gate applied after the recurrent matmul (cuDNN convention)
def _gru_fwd(p, h, x):
    xr, xz, xn = jnp.split(x @ p["wi"] + p["bi"], 3, axis=-1)
    hr, hz, hn = jnp.split(h @ p["wh"] + p["bh"], 3, axis=-1)
    r = jax.nn.sigmoid(xr + hr)
    z = jax.nn.sigmoid(xz + hz)
    n = jnp.tanh(xn + r * hn)
    return (1 - z) * n + z * h, (p, h, x, r, z, n, hn)


def _gru_bwd(res, g):
    p, h, x, r, z, n, hn = res
    dn = g * (1 - z) * (1 - n * n)
    dz = g * (h - n) * z * (1 - z)
    dr = dn * hn * r * (1 - r)
    di = jnp.concatenate([dr, dz, dn], axis=-1)
    dh = jnp.concatenate([dr, dz, dn * r], axis=-1)
    grads = {
        "wi": x.T @ di,
        "wh": h.T @ dh,
        "bi": di.sum(axis=0),
        "bh": dh.sum(axis=0),
    }
    return grads, dh @ p["wh"].T + g * z, di @ p["wi"].T


gru_cell.defvjp(_gru_fwd, _gru_bwd)


@jax.custom_vjp
def ema(x, decay):
    """Exponential moving average along time.

    Args:
      x: [batch, time, channels]
      decay: [channels], learned, each in (0, 1).

    Returns:
      [batch, time, channels], with y_t = decay * y_{t-1} + (1 - decay) * x_t and y_{-1} = 0.
    """
    return _ema_fwd(x, decay)[0]


def _ema_fwd(x, decay):
    def step(y, xt):
        y = decay * y + (1 - decay) * xt
        return y, y

    xs = jnp.swapaxes(x, 0, 1)
    _, ys = jax.lax.scan(step, jnp.zeros_like(xs[0]), xs)
    ys = jnp.swapaxes(ys, 0, 1)
    return ys, (x, decay, ys)


def _ema_bwd(res, g):
    x, decay, ys = res

    def step(lam, gt):
        lam = gt + decay * lam
        return lam, lam

    gs = jnp.swapaxes(g, 0, 1)
    _, lam = jax.lax.scan(step, jnp.zeros_like(gs[0]), gs, reverse=True)
    lam = jnp.swapaxes(lam, 0, 1)
    prev = jnp.pad(ys, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    ddecay = jnp.sum(lam * (prev - x), axis=1).mean(axis=0)
    return (1 - decay) * lam, ddecay


ema.defvjp(_ema_fwd, _ema_bwd)
