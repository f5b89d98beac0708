"""Suggest stickers for a chat message: encoder norm, set attention over the sticker library, and the relaxed slate."""
import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def grouped_rms(x: jax.Array, gain: jax.Array, groups: int = 1) -> jax.Array:
    """RMS norm of the last axis, separately in each of `groups` equal blocks of channels.

    The text tower uses one group, the picture tower one group per colour plane.
    """
    return _normalised(x, groups)[0] * gain


def _normalised(x, groups):
    blocks = x.reshape(x.shape[:-1] + (groups, -1))
    inv = jax.lax.rsqrt(jnp.mean(blocks * blocks, axis=-1, keepdims=True) + 1e-6)
    unit = (blocks * inv).reshape(x.shape)
    return unit, jnp.broadcast_to(inv, blocks.shape).reshape(x.shape)


def _rms_fwd(x, gain, groups):
    unit, inv = _normalised(x, groups)
    return unit * gain, (unit, inv, gain)


def _rms_bwd(groups, res, g):
    unit, inv, gain = res
    dgain = jnp.sum((g * unit).reshape(-1, gain.shape[0]), axis=0)
    h = g * gain
    dx = inv * (h - unit * jnp.mean(h * unit, axis=-1, keepdims=True))
    return dx, dgain


grouped_rms.defvjp(_rms_fwd, _rms_bwd)


# ----- attention over the library

def _rbf_weights(q, k, width, present):
    sq = (jnp.sum(q * q, -1)[..., :, None] + jnp.sum(k * k, -1)[..., None, :]
          - 2.0 * jnp.einsum("bhnd,bhmd->bhnm", q, k))
    logits = -0.5 * sq / (width * width)[:, None, None]
    keep = present[:, None, None, :]
    logits = jnp.where(keep, logits, -jnp.inf)
    top = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
    e = jnp.where(keep, jnp.exp(jnp.where(keep, logits - top, 0.0)), 0.0)
    total = jnp.sum(e, axis=-1, keepdims=True)
    return e / jnp.where(total > 0, total, 1.0), sq


@jax.custom_vjp
def rbf_attention(q, k, v, width, present):
    """Attention by distance: weights proportional to exp(-|q - k|^2 / (2 width^2)).

    Args:
        q: (batch, head, message token, dim)
        k: (batch, head, sticker, dim)
        v: (batch, head, sticker, value dim)
        width: (head,), the reach of each head
        present: (batch, sticker) bool; False where the user's library has no sticker. An empty library reads as zeros.
    """
    p, _ = _rbf_weights(q, k, width, present)
    return jnp.einsum("bhnm,bhme->bhne", p, v)


def _rbf_fwd(q, k, v, width, present):
    p, sq = _rbf_weights(q, k, width, present)
    return jnp.einsum("bhnm,bhme->bhne", p, v), (q, k, v, width, p, sq)


def _rbf_bwd(res, g):
    q, k, v, width, p, sq = res
    dv = jnp.einsum("bhnm,bhne->bhme", p, g)
    dp = jnp.einsum("bhne,bhme->bhnm", g, v)
    ds = p * (dp - jnp.sum(p * dp, axis=-1, keepdims=True))
    dwidth = jnp.sum(ds * sq, axis=(0, 2, 3)) / width ** 3
    ds = ds / (width ** 2)[:, None, None]
    dq = jnp.einsum("bhnm,bhmd->bhnd", ds, k) - jnp.sum(ds, -1)[..., None] * q
    dk = jnp.einsum("bhnm,bhnd->bhmd", ds, q) - jnp.sum(ds, -2)[..., None] * k
    return dq, dk, dv, dwidth, None


rbf_attention.defvjp(_rbf_fwd, _rbf_bwd)


# ----- slate

def _threshold(scores, temperature, slots, steps=40):
    """The t with sum_j sigmoid((s_j - t) / temperature) = slots: bisection, then two Newton steps."""
    reach = temperature * 20.0
    lo = jax.lax.stop_gradient(jnp.min(scores, -1, keepdims=True) - reach)
    hi = jax.lax.stop_gradient(jnp.max(scores, -1, keepdims=True) + reach)

    def halve(_, ends):
        lo, hi = ends
        mid = 0.5 * (lo + hi)
        many = jnp.sum(jax.nn.sigmoid((scores - mid) / temperature), -1, keepdims=True) > slots
        return jnp.where(many, mid, lo), jnp.where(many, hi, mid)

    lo, hi = jax.lax.fori_loop(0, steps, halve, (lo, hi))
    t = jax.lax.stop_gradient(0.5 * (lo + hi))
    for _ in range(2):
        p = jax.nn.sigmoid((scores - t) / temperature)
        slope = jnp.sum(p * (1.0 - p), -1, keepdims=True) / temperature
        t = t + (jnp.sum(p, -1, keepdims=True) - slots) / slope
    return t


@jax.custom_jvp
def budgeted_slate(scores, temperature, slots):
    """Chance of each sticker to be shown, adding up to `slots` along the last axis.

    `scores` is (..., stickers); `temperature` (annealed by a learned schedule) and `slots` (an average, so not
    necessarily whole) are scalars.
    """
    return jax.nn.sigmoid((scores - _threshold(scores, temperature, slots)) / temperature)


@budgeted_slate.defjvp
def _budgeted_slate_jvp(primals, tangents):
    scores, temperature, slots = primals
    ds, dtemp, dslots = tangents
    z = (scores - _threshold(scores, temperature, slots)) / temperature
    p = jax.nn.sigmoid(z)
    w = p * (1.0 - p)
    total = jnp.sum(w, -1, keepdims=True)
    dt = (jnp.sum(w * ds, -1, keepdims=True) - temperature * dslots) / total
    return p, w * (ds - dt - z * dtemp) / temperature


def expected_clicks(scores, click_rate, temperature=0.5, slots=3.0):
    return jnp.sum(budgeted_slate(scores, temperature, slots) * click_rate, axis=-1)
