"""Neural speech codec built on state space and retention blocks (JAX).

Layout convention: batch first, time second; heads before time in the retention block.
"""
from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Optional

import jax
import jax.numpy as jnp
from jax import lax

@dataclass(frozen=True)
class CodecConfig:
    width: int = 64
    state: int = 16
    heads: int = 4
    kv_heads: int = 4
    lpc_order: int = 16
    hop: int = 160
    frame: int = 320
    codebooks: int = 2
    codes: int = 256
    temperature: float = 1.0
    dt_softplus: bool = True

# -- selective scan ------------------------------------------------------------------------------------------

def _time_major(a):
    return jnp.swapaxes(a, 0, 1)

def _scan_states(x, step, a, b):
    """States h_t, time major: (T, B, D, N)."""

    def body(h, inp):
        x_t, s_t, b_t = inp
        h = jnp.exp(s_t[..., None] * a) * h + (s_t * x_t)[..., None] * b_t[:, None, :]
        return h, h

    h0 = jnp.zeros((x.shape[0],) + a.shape, x.dtype)
    _, hs = lax.scan(body, h0, (_time_major(x), _time_major(step), _time_major(b)))
    return hs

@functools.partial(jax.custom_vjp, nondiff_argnums=(6,))
def selective_scan(x, dt, a, b, c, skip, dt_softplus=False):
    """y_t = C_t h_t + skip * x_t,  h_t = exp(dt_t A) h_{t-1} + dt_t B_t x_t.

    x, dt: [batch, time, channels];  a: [channels, state];  b, c: [batch, time, state];  skip: [channels].
    With ``dt_softplus`` the step is softplus(dt).
    """
    step = jax.nn.softplus(dt) if dt_softplus else dt
    hs = _scan_states(x, step, a, b)
    return jnp.einsum("tbdn,btn->btd", hs, c) + skip * x

def _selective_scan_fwd(x, dt, a, b, c, skip, dt_softplus):
    step = jax.nn.softplus(dt) if dt_softplus else dt
    hs = _scan_states(x, step, a, b)
    y = jnp.einsum("tbdn,btn->btd", hs, c) + skip * x
    return y, (x, dt, step, a, b, c, skip, hs)

def _selective_scan_bwd(dt_softplus, res, gy):
    x, dt, step, a, b, c, skip, hs = res
    prev = jnp.concatenate([jnp.zeros_like(hs[:1]), hs[:-1]], axis=0)

    def body(carry, inp):
        gh_next, ga = carry
        g_t, x_t, s_t, b_t, c_t, h_prev = inp
        gh = gh_next + g_t[..., None] * c_t[:, None, :]
        decay = jnp.exp(s_t[..., None] * a)
        g_exp = gh * h_prev * decay
        drive = jnp.einsum("bdn,bn->bd", gh, b_t)
        gs = jnp.sum(g_exp * a, axis=-1) + drive * x_t
        gx = drive * s_t
        gb = jnp.einsum("bdn,bd->bn", gh, s_t * x_t)
        ga = ga + jnp.einsum("bdn,bd->dn", g_exp, s_t)
        return (gh * decay, ga), (gx, gs, gb)

    seq = tuple(map(_time_major, (gy, x, step, b, c))) + (prev,)
    init = (jnp.zeros_like(hs[0]), jnp.zeros_like(a))
    (_, ga), (gx, gs, gb) = lax.scan(body, init, seq, reverse=True)
    gx, gs, gb = map(_time_major, (gx, gs, gb))
    gdt = gs * jax.nn.sigmoid(dt) if dt_softplus else gs
    gc = jnp.einsum("tbdn,btd->btn", hs, gy)
    return gx + skip * gy, gdt, ga, gb, gc, jnp.sum(gy * x, axis=(0, 1))

selective_scan.defvjp(_selective_scan_fwd, _selective_scan_bwd)

# -- retention -----------------------------------------------------------------------------------------------

def _decay_mask(log_decay, length):
    pos = jnp.arange(length)
    lag = pos[:, None] - pos[None, :]
    causal = lag >= 0
    lag = jnp.where(causal, lag, 0).astype(log_decay.dtype)
    return jnp.where(causal, jnp.exp(log_decay[:, None, None] * lag), 0.0), lag

def _share(kv, heads):
    return jnp.repeat(kv, heads // kv.shape[1], axis=1)

def _unshare(g, kv_heads):
    batch, heads, length, dim = g.shape
    return g.reshape(batch, heads // kv_heads, kv_heads, length, dim).sum(axis=1)

@jax.custom_vjp
def retention(q, k, v, log_decay):
    """Causal retention with a decay per query head; neighbouring query heads share a key/value head.

    q: (batch, heads, time, d_k)
    k: (batch, kv_heads, time, d_k), heads a multiple of kv_heads
    v: (batch, kv_heads, time, d_v)
    log_decay: (heads,), negative
    returns (batch, heads, time, d_v)
    """
    mask, _ = _decay_mask(log_decay, q.shape[2])
    heads = q.shape[1]
    scores = jnp.einsum("bhid,bhjd->bhij", q, _share(k, heads)) * mask
    return jnp.einsum("bhij,bhjd->bhid", scores, _share(v, heads))

def _retention_fwd(q, k, v, log_decay):
    return retention(q, k, v, log_decay), (q, k, v, log_decay)

def _retention_bwd(res, g):
    q, k, v, log_decay = res
    heads, groups = q.shape[1], k.shape[1]
    mask, lag = _decay_mask(log_decay, q.shape[2])
    kk, vv = _share(k, heads), _share(v, heads)
    raw = jnp.einsum("bhid,bhjd->bhij", q, kk)
    g_scores = jnp.einsum("bhid,bhjd->bhij", g, vv)
    g_raw = g_scores * mask
    gq = jnp.einsum("bhij,bhjd->bhid", g_raw, kk)
    gk = _unshare(jnp.einsum("bhij,bhid->bhjd", g_raw, q), groups)
    gv = _unshare(jnp.einsum("bhij,bhid->bhjd", raw * mask, g), groups)
    g_decay = jnp.sum(g_raw * raw * lag, axis=(0, 2, 3))
    return gq, gk, gv, g_decay

retention.defvjp(_retention_fwd, _retention_bwd)

class RetentionBlock:
    def __init__(self, cfg: CodecConfig):
        self.cfg = cfg

    def init(self, key):
        c = self.cfg
        kq, kk, kv = jax.random.split(key, 3)
        d = c.width // c.heads
        s = 1.0 / math.sqrt(c.width)
        return {
            "q": s * jax.random.normal(kq, (c.width, c.heads, d)),
            "k": s * jax.random.normal(kk, (c.width, c.kv_heads, d)),
            "v": s * jax.random.normal(kv, (c.width, c.kv_heads, d)),
            "log_decay": jnp.log1p(-(2.0 ** (-5.0 - jnp.arange(c.heads)))),
        }

    def __call__(self, p, x):
        q, k, v = (jnp.einsum("btw,whd->bhtd", x, p[n]) for n in "qkv")
        y = retention(q, k, v, p["log_decay"])
        return jnp.swapaxes(y, 1, 2).reshape(x.shape[0], x.shape[1], -1)

# -- synthesis windowing -------------------------------------------------------------------------------------

def _frame_index(n_frames, frame, hop):
    return jnp.arange(n_frames)[:, None] * hop + jnp.arange(frame)[None, :]

def _lay(frames, idx, total):
    return jnp.zeros((frames.shape[0], total), frames.dtype).at[:, idx].add(frames)

@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def overlap_synthesis(frames, window, hop):
    """Weighted overlap-add with a trained synthesis window; hop <= len(window)."""
    return _synthesis(frames, window, hop)[0]

def _synthesis(frames, window, hop):
    _, n, w = frames.shape
    idx = _frame_index(n, w, hop)
    total = (n - 1) * hop + w
    power = _lay(jnp.broadcast_to(window**2, (1, n, w)), idx, total) + 1e-3
    return _lay(frames * window, idx, total) / power, power, idx

def _overlap_fwd(frames, window, hop):
    y, power, idx = _synthesis(frames, window, hop)
    return y, (frames, window, y, power, idx)

def _overlap_bwd(hop, res, g):
    frames, window, y, power, idx = res
    u = g / power
    u_frames = u[:, idx]
    g_window = jnp.sum(u_frames * frames, axis=(0, 1))
    g_window = g_window - 2.0 * window * jnp.sum((u * y)[:, idx], axis=(0, 1))
    return u_frames * window, g_window

overlap_synthesis.defvjp(_overlap_fwd, _overlap_bwd)

# -- codebook mixing -----------------------------------------------------------------------------------------

def codebook_mixer(temperature: float = 1.0):
    """Soft product quantiser used in the annealing stage.

    The returned function takes z [batch, time, groups, dim], codes [groups, size, dim] and frame_mask
    [batch, time] (1 for speech, 0 for padding) and returns the masked expected code, shaped like z.
    """

    def assign(z, codes):
        dist = jnp.sum((z[..., None, :] - codes) ** 2, axis=-1)
        return jax.nn.softmax(-dist / temperature, axis=-1)

    @jax.custom_vjp
    def mix(z, codes, frame_mask):
        p = assign(z, codes)
        return frame_mask[:, :, None, None] * jnp.einsum("btgk,gkd->btgd", p, codes)

    def mix_fwd(z, codes, frame_mask):
        p = assign(z, codes)
        mean = jnp.einsum("btgk,gkd->btgd", p, codes)
        return frame_mask[:, :, None, None] * mean, (z, codes, frame_mask, p, mean)

    def mix_bwd(res, g):
        z, codes, frame_mask, p, mean = res
        g_mean = g * frame_mask[:, :, None, None]
        g_p = jnp.einsum("btgd,gkd->btgk", g_mean, codes)
        g_logit = p * (g_p - jnp.sum(p * g_p, axis=-1, keepdims=True))
        g_dist = -g_logit / temperature
        pull = 2.0 * g_dist[..., None] * (z[..., None, :] - codes)
        gz = jnp.sum(pull, axis=-2)
        g_codes = jnp.einsum("btgk,btgd->gkd", p, g) - jnp.sum(pull, axis=(0, 1))
        g_mask = jnp.sum(g * mean, axis=(2, 3))
        return gz, g_codes, g_mask

    mix.defvjp(mix_fwd, mix_bwd)
    return mix

def quantise(cfg: CodecConfig, codes, features, lengths: Optional[jax.Array] = None):
    b, t, w = features.shape
    mask = jnp.ones((b, t), features.dtype)
    if lengths is not None:
        mask = (jnp.arange(t)[None, :] < lengths[:, None]).astype(features.dtype)
    z = features.reshape(b, t, cfg.codebooks, w // cfg.codebooks)
    return codebook_mixer(cfg.temperature)(z, codes, mask).reshape(b, t, w)

# -- linear prediction ---------------------------------------------------------------------------------------

@jax.custom_vjp
def lpc_synthesis(excitation, gain, coeffs):
    """Frame-wise all-pole filter, y[t] = gain * e[t] - sum_k coeffs[k] * y[t-1-k].

    excitation: [batch, frames * hop]; gain: [batch, frames]; coeffs: [batch, frames, order].  The filter memory
    is carried over frame borders.
    """
    return _all_pole(excitation, gain, coeffs)

def _hold(x, total):
    return jnp.repeat(x, total // x.shape[1], axis=1)

def _all_pole(excitation, gain, coeffs):
    t = excitation.shape[1]
    drive = _time_major(excitation * _hold(gain, t))
    taps = _time_major(_hold(coeffs, t))

    def body(memory, inp):
        d, a = inp
        y = d - jnp.sum(a * memory, axis=-1)
        return jnp.concatenate([y[:, None], memory[:, :-1]], axis=1), y

    memory = jnp.zeros((excitation.shape[0], coeffs.shape[2]), excitation.dtype)
    _, y = lax.scan(body, memory, (drive, taps))
    return _time_major(y)

def _lpc_fwd(excitation, gain, coeffs):
    y = _all_pole(excitation, gain, coeffs)
    return y, (excitation, gain, coeffs, y)

def _lpc_bwd(res, g):
    excitation, gain, coeffs, y = res
    batch, t = y.shape
    frames, order = coeffs.shape[1:]

    def body(pending, inp):
        # pending[:, k]: what later outputs ask of y[t-k] for the current t
        g_t, a = inp
        lam = g_t + pending[:, 0]
        shifted = jnp.concatenate([pending[:, 1:], jnp.zeros_like(pending[:, :1])], axis=1)
        return shifted - a * lam[:, None], lam

    pending = jnp.zeros((batch, order), y.dtype)
    taps = _time_major(_hold(coeffs, t))
    _, lam = lax.scan(body, pending, (_time_major(g), taps), reverse=True)
    lam = _time_major(lam)
    padded = jnp.pad(y, ((0, 0), (order, 0)))
    past = jnp.stack([padded[:, order - 1 - k : order - 1 - k + t] for k in range(order)], axis=-1)
    g_coeffs = -(lam[..., None] * past).reshape(batch, frames, -1, order).sum(axis=2)
    g_gain = (lam * excitation).reshape(batch, frames, -1).sum(axis=2)
    return lam * _hold(gain, t), g_gain, g_coeffs

lpc_synthesis.defvjp(_lpc_fwd, _lpc_bwd)
