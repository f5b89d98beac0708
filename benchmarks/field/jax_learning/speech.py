"""Speech front ends and alignment losses."""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

NEG = -1e9


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def frame(signal, frame_length, hop):
    """(..., samples) -> (..., frames, frame_length). Tail samples which fill no frame are left out."""
    idx = _frame_index(signal.shape[-1], frame_length, hop)
    return signal[..., idx]


def _frame_index(n, frame_length, hop):
    count = 1 + (n - frame_length) // hop
    return hop * jnp.arange(count)[:, None] + jnp.arange(frame_length)


def _frame_fwd(signal, frame_length, hop):
    return frame(signal, frame_length, hop), jnp.zeros_like(signal)


def _frame_bwd(frame_length, hop, zeros, g):
    idx = _frame_index(zeros.shape[-1], frame_length, hop)
    return (zeros.at[..., idx].add(g),)


frame.defvjp(_frame_fwd, _frame_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def log_mel(power, filterbank, top_db=80.0, amin=1e-10):
    """Mel spectrogram in decibel.

    power: (batch, frames, bins), filterbank: (bins, mels). Every example is limited from
    below at `top_db` under its own peak.
    """
    return _log_mel(power, filterbank, top_db, amin)[0]


def _log_mel(power, filterbank, top_db, amin):
    mel = power @ filterbank
    db = 10.0 * jnp.log10(jnp.maximum(mel, amin))
    lowest = db.max(axis=(1, 2), keepdims=True) - top_db
    return jnp.maximum(db, lowest), (mel, db >= lowest)


def _log_mel_fwd(power, filterbank, top_db, amin):
    out, (mel, kept) = _log_mel(power, filterbank, top_db, amin)
    return out, (power, filterbank, mel, kept)


def _log_mel_bwd(top_db, amin, res, g):
    power, filterbank, mel, kept = res
    live = kept & (mel > amin)
    d_mel = jnp.where(live, g * (10.0 / jnp.log(10.0)) / jnp.maximum(mel, amin), 0.0)
    return d_mel @ filterbank.T, jnp.einsum("btf,btm->fm", power, d_mel)


log_mel.defvjp(_log_mel_fwd, _log_mel_bwd)


# ---- alignment -------------------------------------------------------------------------

def _forward_table(log_p):
    b, _, n = log_p.shape
    start = jnp.full((b, n), NEG, log_p.dtype).at[:, 0].set(log_p[:, 0, 0])

    def step(a, lp):
        moved = jnp.concatenate([jnp.full((b, 1), NEG, a.dtype), a[:, :-1]], 1)
        a = jnp.logaddexp(a, moved) + lp
        return a, a

    _, rest = lax.scan(step, start, jnp.swapaxes(log_p, 0, 1)[1:])
    return jnp.concatenate([start[None], rest], 0)  # (T, B, N)


@jax.custom_vjp
def forward_sum(log_p, token_lengths, frame_lengths):
    """Negative log-likelihood of all monotonic alignments (every frame one token, no skips).

    log_p:          (B, T, N) log-probability of token n at frame t
    token_lengths:  (B,) int, 1 <= token_lengths <= frame_lengths
    frame_lengths:  (B,) int
    returns         (B,)
    """
    table = _forward_table(log_p)
    return -table[frame_lengths - 1, jnp.arange(log_p.shape[0]), token_lengths - 1]


def _forward_sum_fwd(log_p, token_lengths, frame_lengths):
    table = _forward_table(log_p)
    nll = -table[frame_lengths - 1, jnp.arange(log_p.shape[0]), token_lengths - 1]
    return nll, (log_p, table, nll, token_lengths, frame_lengths)


def _forward_sum_bwd(res, g):
    log_p, table, nll, token_lengths, frame_lengths = res
    b, t, n = log_p.shape
    final = jnp.where(jnp.arange(n)[None, :] == token_lengths[:, None] - 1, 0.0, NEG)
    final = final.astype(log_p.dtype)

    def step(nxt, inp):
        # nxt: beta[t+1] + log_p[t+1]
        lp, i = inp
        moved = jnp.concatenate([nxt[:, 1:], jnp.full((b, 1), NEG, nxt.dtype)], 1)
        beta = jnp.logaddexp(nxt, moved)
        beta = jnp.where((frame_lengths - 1 == i)[:, None], final, beta)
        beta = jnp.where((frame_lengths - 1 < i)[:, None], NEG, beta)
        return beta + lp, beta

    _, beta = lax.scan(step, jnp.full((b, n), NEG, log_p.dtype),
                       (jnp.swapaxes(log_p, 0, 1), jnp.arange(t)), reverse=True)
    post = jnp.exp(table + beta + nll[None, :, None])
    return -g[:, None, None] * jnp.swapaxes(post, 0, 1), None, None


forward_sum.defvjp(_forward_sum_fwd, _forward_sum_bwd)


# ---- PCEN ------------------------------------------------------------------------------

def init_pcen(channels):
    one = jnp.ones((channels,))
    return {"alpha": 0.96 * one, "delta": 2.0 * one, "root": 0.5 * one, "smooth": 0.04 * one}


def _ema(energy, s):
    def step(m, e):
        m = (1.0 - s) * m + s * e
        return m, m
    _, rest = lax.scan(step, energy[0], energy[1:])
    return jnp.concatenate([energy[:1], rest])


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def pcen(energy, params, eps=1e-6):
    """Per-channel energy normalisation with trainable `params` (see init_pcen).

    energy: (frames, channels), positive.
    """
    m = _ema(energy, params["smooth"])
    gain = (eps + m) ** -params["alpha"]
    r, delta = params["root"], params["delta"]
    return (energy * gain + delta) ** r - delta**r


def _pcen_fwd(energy, params, eps):
    return pcen(energy, params, eps), (energy, params)


def _pcen_bwd(eps, res, g):
    energy, params = res
    alpha, delta, r, s = (params[k] for k in ("alpha", "delta", "root", "smooth"))
    m = _ema(energy, s)
    gain = (eps + m) ** -alpha
    base = energy * gain + delta
    d_base = g * r * base ** (r - 1)
    d_root = jnp.sum(g * (base**r * jnp.log(base) - delta**r * jnp.log(delta)), 0)
    d_delta = jnp.sum(d_base, 0)
    d_gain = d_base * energy
    d_alpha = -jnp.sum(d_gain * gain * jnp.log(eps + m), 0)
    d_m = -alpha * d_gain * gain / (eps + m)

    def back(acc, d):
        acc = d + (1.0 - s) * acc
        return acc, acc

    _, lam = lax.scan(back, jnp.zeros_like(d_m[0]), d_m, reverse=True)
    d_energy = d_base * gain + jnp.concatenate([lam[:1], s * lam[1:]])
    d_smooth = jnp.sum(lam[1:] * (energy[1:] - m[:-1]), 0)
    return d_energy, {"alpha": d_alpha, "delta": d_delta, "root": d_root, "smooth": d_smooth}


pcen.defvjp(_pcen_fwd, _pcen_bwd)


# ---- separation ------------------------------------------------------------------------

def si_sdr(estimate, reference, zero_mean=True):
    """Scale-invariant SDR in dB over the last axis; (..., samples) -> (...)."""

    @jax.custom_gradient
    def run(est, ref):
        if zero_mean:
            est = est - est.mean(-1, keepdims=True)
            ref = ref - ref.mean(-1, keepdims=True)
        dot = jnp.sum(est * ref, -1, keepdims=True)
        rr = jnp.sum(ref * ref, -1, keepdims=True)
        scale = dot / rr
        noise = est - scale * ref
        nn = jnp.sum(noise * noise, -1, keepdims=True)
        k = 10.0 / jnp.log(10.0)
        value = k * jnp.log(scale * dot / nn)

        def grad(g):
            g = 2.0 * k * g[..., None]
            d_est = g * (ref / dot - noise / nn)
            d_ref = g * (est / dot + scale * noise / nn - ref / rr)
            return d_est, d_ref

        return value[..., 0], grad

    return run(estimate, reference)


# ---- speaker embedding -----------------------------------------------------------------

@partial(jax.custom_vjp, nondiff_argnums=(3,))
def attentive_stats(x, weights, lengths, eps=1e-5):
    """Weighted mean and standard deviation over frames.

    x (B, T, D), weights (B, T) positive and not normalised, lengths (B,) int >= 1.
    Frames from lengths[b] on are padding. Returns (B, 2 D).
    """
    return _stats(x, weights, lengths, eps)[0]


def _stats(x, weights, lengths, eps):
    valid = jnp.arange(x.shape[1])[None] < lengths[:, None]
    w = jnp.where(valid, weights, 0.0)
    total = jnp.sum(w, 1, keepdims=True)
    p = w / total
    mu = jnp.einsum("bt,btd->bd", p, x)
    dev = x - mu[:, None]
    std = jnp.sqrt(jnp.einsum("bt,btd->bd", p, dev**2) + eps)
    return jnp.concatenate([mu, std], -1), (dev, x, p, total, std, valid)


def _stats_fwd(x, weights, lengths, eps):
    return _stats(x, weights, lengths, eps)


def _stats_bwd(eps, res, g):
    dev, x, p, total, std, valid = res
    g_mu, g_std = jnp.split(g, 2, -1)
    g_var = 0.5 * g_std / std
    d_x = p[..., None] * (g_mu[:, None] + 2.0 * g_var[:, None] * dev)
    d_p = jnp.einsum("bd,btd->bt", g_mu, x) + jnp.einsum("bd,btd->bt", g_var, dev**2)
    d_w = (d_p - jnp.sum(p * d_p, 1, keepdims=True)) / total
    return d_x, jnp.where(valid, d_w, 0.0), None


attentive_stats.defvjp(_stats_fwd, _stats_bwd)


class SpeakerHead:
    def __init__(self, eps=1e-5):
        self.eps = eps

    def __call__(self, params, x, lengths):
        score = jax.nn.softplus(jnp.tanh(x @ params["w"]) @ params["v"])
        return attentive_stats(x, score, lengths, self.eps) @ params["proj"]
