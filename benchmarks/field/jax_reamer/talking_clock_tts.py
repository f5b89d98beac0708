"""Layers of the speech synthesiser in a talking clock.

Vocabulary of sixty words, 12 kB of weights.  Phonemes are spread over frames,
normalised with the speaker's style, and the activations are kept in a few bits.
"""
import dataclasses
from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def spread_phonemes(tokens, ramp, lengths, n_frames):
    """Repeat each phoneme vector for its number of frames.

    tokens   [P, C]
    ramp     [C]     added in proportion to how far into its phoneme a frame is (0 at its first frame)
    lengths  [P]     ints, zero is allowed
    n_frames         static; frames after the last phoneme are zero, phonemes that do not fit are cut
    """
    return _spread_fwd(tokens, ramp, lengths, n_frames)[0]


def _frame_table(lengths, n_frames):
    ends = jnp.cumsum(lengths)
    frame = jnp.arange(n_frames)
    owner = jnp.searchsorted(ends, frame, side="right")
    live = owner < lengths.shape[0]
    owner = jnp.where(live, owner, 0)
    into = frame - (ends - lengths)[owner]
    return owner, live, into


def _spread_fwd(tokens, ramp, lengths, n_frames):
    owner, live, into = _frame_table(lengths, n_frames)
    part = (into / jnp.maximum(lengths, 1)[owner]).astype(tokens.dtype)
    out = jnp.where(live[:, None], tokens[owner] + part[:, None] * ramp, 0.0)
    return out, (owner, live, part, tokens)


def _spread_bwd(n_frames, res, g):
    owner, live, part, tokens = res
    g = jnp.where(live[:, None], g, 0.0)
    return jax.ops.segment_sum(g, owner, tokens.shape[0]), part @ g, None


spread_phonemes.defvjp(_spread_fwd, _spread_bwd)


VAR_FLOOR = 1e-5


@jax.custom_vjp
def speaker_norm(x, scale, shift, voiced):
    """Normalise each channel over the voiced frames, then apply the speaker's style.

    x [B, T, C]; scale, shift [B, C]; voiced [B, T] bool.  Statistics are taken
    over voiced frames only and the other frames come out as zero.
    """
    return _norm_fwd(x, scale, shift, voiced)[0]


def _norm_fwd(x, scale, shift, voiced):
    m = voiced[..., None].astype(x.dtype)
    count = jnp.maximum(m.sum(1, keepdims=True), 1)
    mean = (x * m).sum(1, keepdims=True) / count
    centred = (x - mean) * m
    inv = jax.lax.rsqrt((centred**2).sum(1, keepdims=True) / count + VAR_FLOOR)
    hat = centred * inv
    return (hat * scale[:, None] + shift[:, None]) * m, (hat, inv, scale, m)


def _norm_bwd(res, g):
    hat, inv, scale, m = res
    g = g * m
    d_shift = g.sum(1)
    d_scale = (g * hat).sum(1)
    gh = g * scale[:, None]
    d_x = inv * (gh - gh.mean(1, keepdims=True) - hat * (gh * hat).mean(1, keepdims=True)) * m
    return d_x, d_scale, d_shift, None


speaker_norm.defvjp(_norm_fwd, _norm_bwd)


@jax.custom_vjp
def draw_duration(mass, edges, u):
    """Inverse-CDF draw from a histogram over phoneme durations.

    mass: (bins,) positive and not necessarily normalised, edges: (bins + 1,)
    ascending in ms, u: (draws,) uniforms in [0, 1).  Inside a bin the density is
    flat.  Pathwise differentiable in all three.
    """
    return _draw_fwd(mass, edges, u)[0]


def _draw_fwd(mass, edges, u):
    below = jnp.concatenate([jnp.zeros(1, mass.dtype), jnp.cumsum(mass)])
    goal = u * below[-1]
    k = jnp.clip(jnp.searchsorted(below, goal, side="right") - 1, 0, mass.shape[0] - 1)
    frac = (goal - below[k]) / mass[k]
    width = edges[k + 1] - edges[k]
    return edges[k] + frac * width, (mass, edges, k, frac, width)


def _draw_bwd(res, g):
    mass, edges, k, frac, width = res
    per_mass = g * width / mass[k]
    earlier = (jnp.arange(mass.shape[0]) < k[:, None]).astype(mass.dtype)
    d_mass = -(per_mass[:, None] * earlier).sum(0)
    d_mass = d_mass.at[k].add(-per_mass * frac)
    d_edges = jnp.zeros_like(edges).at[k].add(g * (1 - frac)).at[k + 1].add(g * frac)
    return d_mass, d_edges, per_mass * mass.sum()


draw_duration.defvjp(_draw_fwd, _draw_bwd)


def make_token_levels(bits=4):
    """Symmetric integer levels with one step size per token.

    ``levels(x)`` on x [..., C]: the token's largest magnitude (its first one, if
    several are equal) maps to the top level, everything is rounded to the grid
    and scaled back.  There is no straight-through trick here: the integers are
    constant between two rounding points, and what moves is the step size.  A
    token of zeros stays zero and has no gradient.
    """
    top = 2 ** (bits - 1) - 1

    @jax.custom_gradient
    def levels(x):
        at = jnp.argmax(jnp.abs(x), axis=-1, keepdims=True)
        peak = jnp.take_along_axis(x, at, axis=-1)
        step = jnp.abs(peak) / top
        codes = jnp.round(x / jnp.where(step > 0, step, 1.0))

        def pull(g):
            d_step = (g * codes).sum(-1, keepdims=True)
            hit = jnp.arange(x.shape[-1]) == at
            return jnp.where(hit, jnp.sign(peak) * d_step / top, 0.0)

        return codes * step, pull

    return levels


@dataclasses.dataclass
class FrameDecoder:
    """One decoder step: spread, norm, squeeze to few bits, project to mel bins."""

    n_frames: int = 40
    bits: int = 6

    def init(self, key, channels, mels):
        k1, k2 = jax.random.split(key)
        return {"ramp": 0.1 * jax.random.normal(k1, (channels,)),
                "out": jax.random.normal(k2, (channels, mels)) / channels**0.5}

    def __call__(self, params, tokens, lengths, style):
        x = spread_phonemes(tokens, params["ramp"], lengths, self.n_frames)
        voiced = jnp.arange(self.n_frames) < lengths.sum()
        y = speaker_norm(x[None], style["scale"][None], style["shift"][None], voiced[None])[0]
        return make_token_levels(self.bits)(y) @ params["out"]
