"""Input layers for tables of numeric features."""

import dataclasses
import math

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class TableSpec:
    features: int
    frequencies: int = 8
    bins: int = 6
    sigma: float = 0.5

    def init(self, key):
        k1, k2 = jax.random.split(key)
        return {
            "freq": self.sigma * jax.random.normal(k1, (self.features, self.frequencies)),
            "cross": {
                "kernel": jax.random.normal(k2, (self.features, self.features))
                / math.sqrt(self.features),
                "bias": jnp.zeros(self.features),
            },
            "edges": jnp.tile(jnp.linspace(-2.0, 2.0, self.bins + 1), (self.features, 1)),
        }


@jax.custom_vjp
def periodic_embed(x, freq):
    # x [..., F], freq [F, K] -> [..., F, 2K]
    angle = 2.0 * math.pi * x[..., None] * freq
    return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], axis=-1)


def _periodic_fwd(x, freq):
    out = periodic_embed(x, freq)
    return out, (x, freq, out)


def _periodic_bwd(res, g):
    x, freq, out = res
    cos, sin = jnp.split(out, 2, axis=-1)
    g_cos, g_sin = jnp.split(g, 2, axis=-1)
    d_angle = 2.0 * math.pi * (g_sin * cos - g_cos * sin)
    return jnp.sum(d_angle * freq, axis=-1), jnp.einsum("...fk,...f->fk", d_angle, x)


periodic_embed.defvjp(_periodic_fwd, _periodic_bwd)


@jax.custom_vjp
def feature_cross(params, x0, x):
    return x0 * (x @ params["kernel"] + params["bias"]) + x


def _cross_fwd(params, x0, x):
    proj = x @ params["kernel"] + params["bias"]
    return x0 * proj + x, (params["kernel"], x0, x, proj)


def _cross_bwd(res, g):
    kernel, x0, x, proj = res
    g_proj = g * x0
    d_params = {
        "kernel": jnp.einsum("...i,...o->io", x, g_proj),
        "bias": jnp.sum(g_proj, axis=tuple(range(g_proj.ndim - 1))),
    }
    return d_params, g * proj, g + jnp.einsum("...i,io->...o", g_proj, kernel)


feature_cross.defvjp(_cross_fwd, _cross_bwd)


def make_piecewise_encoder(open_ends=True):
    """Piecewise-linear encoding with learned edges.

    x [..., F] and strictly increasing edges [F, T + 1] give [..., F, T]: how far x is through each
    bin, clipped to [0, 1]. With ``open_ends`` the first bin is not clipped below and the last not
    above, so the code goes on linearly outside of the table's range.
    """

    def pieces(x, edges):
        low, high = edges[:, :-1], edges[:, 1:]
        width = high - low
        frac = (x[..., None] - low) / width
        t = jnp.arange(width.shape[-1])
        below = frac < 0.0
        above = frac > 1.0
        if open_ends:
            below = below & (t > 0)
            above = above & (t < width.shape[-1] - 1)
        return frac, width, below, above

    @jax.custom_vjp
    def encode(x, edges):
        frac, _, below, above = pieces(x, edges)
        return jnp.where(below, 0.0, jnp.where(above, 1.0, frac))

    def fwd(x, edges):
        frac, width, below, above = pieces(x, edges)
        out = jnp.where(below, 0.0, jnp.where(above, 1.0, frac))
        return out, (frac, width, ~(below | above))

    def bwd(res, g):
        frac, width, live = res
        slope = jnp.where(live, g / width, 0.0)
        lead = tuple(range(g.ndim - 2))
        d_low = jnp.sum(slope * (frac - 1.0), axis=lead)
        d_high = -jnp.sum(slope * frac, axis=lead)
        d_edges = jnp.pad(d_low, ((0, 0), (0, 1))) + jnp.pad(d_high, ((0, 0), (1, 0)))
        return slope.sum(-1), d_edges

    encode.defvjp(fwd, bwd)
    return encode


piecewise_encode = make_piecewise_encoder()


def embed_table(params, x, layers=2):
    h = x
    for _ in range(layers):
        h = feature_cross(params["cross"], x, h)
    flat = x.shape[:-1] + (-1,)
    return jnp.concatenate(
        [
            h,
            periodic_embed(x, params["freq"]).reshape(flat),
            piecewise_encode(x, params["edges"]).reshape(flat),
        ],
        axis=-1,
    )
