"""Temporal deformable attention: every query reads a few learned instants of the track.

Shapes: B batch, T frames, Q queries, H heads, P points, D head width.
"""
import functools
import math

import jax
import jax.numpy as jnp


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def place_points(reference, offsets, radius, lengths, border="clip"):
    """Instants (B, Q, H, P), in frames, around reference (B, Q) in [0, 1].

    The raw instant is ``reference * (length - 1) + radius[h] * tanh(offset)``; it is then brought back
    into [0, length - 1] by clipping or by one reflection (0 <= radius <= length - 1).
    """
    return _place_fwd(reference, offsets, radius, lengths, border)[0]


def _place_fwd(reference, offsets, radius, lengths, border):
    last = (lengths - 1).astype(offsets.dtype)[:, None, None, None]
    bend = jnp.tanh(offsets)
    raw = reference[:, :, None, None] * last + radius[:, None] * bend
    if border == "clip":
        out = jnp.clip(raw, 0.0, last)
        turn = ((raw >= 0.0) & (raw <= last)).astype(raw.dtype)
    elif border == "reflect":
        out = last - jnp.abs(last - jnp.abs(raw))
        turn = jnp.where((raw < 0.0) | (raw > last), -1.0, 1.0)
    else:
        raise ValueError(border)
    return out, (bend, radius, last, turn)


def _place_bwd(border, res, g):
    bend, radius, last, turn = res
    g = g * turn
    d_reference = jnp.sum(g * last, axis=(2, 3))
    d_radius = jnp.einsum("bqhp,bqhp->h", g, bend)
    return d_reference, g * radius[:, None] * (1.0 - bend * bend), d_radius, None


place_points.defvjp(_place_fwd, _place_bwd)


def _gather(values, index):
    # (B, T, H, D), (B, Q, H, P) -> (B, Q, H, P, D); indices outside the track read zeros
    b = jnp.arange(values.shape[0])[:, None, None, None]
    h = jnp.arange(values.shape[2])[None, None, :, None]
    inside = (index >= 0) & (index < values.shape[1])
    safe = jnp.clip(index, 0, values.shape[1] - 1)
    return jnp.where(inside[..., None], values[b, safe, h], 0.0), (b, safe, h), inside


@jax.custom_vjp
def sample_track(values, instants):
    left = jnp.floor(instants).astype(jnp.int32)
    frac = (instants - left)[..., None]
    return (1.0 - frac) * _gather(values, left)[0] + frac * _gather(values, left + 1)[0]


def _sample_fwd(values, instants):
    return sample_track(values, instants), (values, instants)


def _sample_bwd(res, g):
    values, instants = res
    left = jnp.floor(instants).astype(jnp.int32)
    frac = (instants - left)[..., None]
    low, where_low, in_low = _gather(values, left)
    high, where_high, in_high = _gather(values, left + 1)
    d_values = jnp.zeros_like(values)
    d_values = d_values.at[where_low].add(jnp.where(in_low[..., None], (1.0 - frac) * g, 0.0))
    d_values = d_values.at[where_high].add(jnp.where(in_high[..., None], frac * g, 0.0))
    return d_values, jnp.sum(g * (high - low), axis=-1)


sample_track.defvjp(_sample_fwd, _sample_bwd)


@jax.custom_vjp
def mix_points(samples, logits, temperature, keep):
    """samples (B, Q, H, P, D), logits (B, Q, H, P), temperature (H,), keep bool (B, Q, 1, P) -> (B, Q, H, D).

    Points that are not kept get no weight; a query without any point reads zeros.
    """
    return _mix_fwd(samples, logits, temperature, keep)[0]


def _mix_fwd(samples, logits, temperature, keep):
    z = logits / temperature[:, None]
    floor = jnp.finfo(z.dtype).min
    top = jnp.max(jnp.where(keep, z, floor), axis=-1, keepdims=True)
    e = jnp.where(keep, jnp.exp(jnp.where(keep, z - top, 0.0)), 0.0)
    total = jnp.sum(e, axis=-1, keepdims=True)
    w = e / jnp.where(total > 0.0, total, 1.0)
    return jnp.einsum("bqhp,bqhpd->bqhd", w, samples), (samples, z, w, temperature, keep)


def _mix_bwd(res, g):
    samples, z, w, temperature, keep = res
    gw = jnp.einsum("bqhd,bqhpd->bqhp", g, samples)
    dz = w * (gw - jnp.sum(gw * w, axis=-1, keepdims=True))
    d_logits = dz / temperature[:, None]
    d_temperature = -jnp.sum(dz * z, axis=(0, 1, 3)) / temperature ** 2
    return w[..., None] * g[..., None, :], d_logits, d_temperature, None


mix_points.defvjp(_mix_fwd, _mix_bwd)


class DeformableReader:
    def __init__(self, width, heads=4, points=3, border="reflect"):
        assert width % heads == 0
        self.width, self.heads, self.points, self.border = width, heads, points, border

    def init(self, key):
        k1, k2, k3, k4 = jax.random.split(key, 4)
        hp = self.heads * self.points
        scale = 1.0 / math.sqrt(self.width)
        return {
            "offset": scale * jax.random.normal(k1, (self.width, hp)),
            "logit": scale * jax.random.normal(k2, (self.width, hp)),
            "value": scale * jax.random.normal(k3, (self.width, self.width)),
            "out": scale * jax.random.normal(k4, (self.width, self.width)),
            "radius": jnp.arange(1.0, self.heads + 1.0),
            "temperature": jnp.ones((self.heads,)),
        }

    def __call__(self, params, queries, reference, track, lengths):
        b, q, _ = queries.shape
        shape = (b, q, self.heads, self.points)
        offsets = (queries @ params["offset"]).reshape(shape)
        logits = (queries @ params["logit"]).reshape(shape)
        values = (track @ params["value"]).reshape(b, track.shape[1], self.heads, -1)
        instants = place_points(reference, offsets, params["radius"], lengths, self.border)
        keep = jnp.broadcast_to((lengths > 0)[:, None, None, None], (b, q, 1, self.points))
        mixed = mix_points(sample_track(values, instants), logits, params["temperature"], keep)
        return mixed.reshape(b, q, self.width) @ params["out"]


def main(steps=20, seed=0):
    reader = DeformableReader(16)
    key = jax.random.key(seed)
    params = reader.init(key)
    k1, k2, k3 = jax.random.split(key, 3)
    track = jax.random.normal(k1, (2, 24, 16))
    queries = jax.random.normal(k2, (2, 5, 16))
    reference = jax.random.uniform(k3, (2, 5))
    lengths = jnp.array([24, 17])

    def loss(p):
        return jnp.mean((reader(p, queries, reference, track, lengths) - 1.0) ** 2)

    for _ in range(steps):
        params = jax.tree.map(lambda p, g: p - 0.05 * g, params, jax.grad(loss)(params))
    return params


if __name__ == "__main__":
    main()
