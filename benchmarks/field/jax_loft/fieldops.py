# Column and map operators for the emulator.

import dataclasses

import jax
import jax.numpy as jnp

R_DRY = 287.04
GRAVITY = 9.80665
VIRTUAL = 0.608


def cos_latitude_weights(n_lat):
    edges = jnp.linspace(-jnp.pi / 2, jnp.pi / 2, n_lat + 1)
    return jnp.sin(edges[1:]) - jnp.sin(edges[:-1])


@jax.custom_gradient
def remove_area_mean(field, lat_weights):
    """field: [time, lat, lon] -> the same less its area mean at each time; lat_weights: [lat] > 0."""
    n_lon = field.shape[-1]
    total = jnp.sum(lat_weights) * n_lon
    share = (lat_weights / total)[:, None]
    mean = jnp.sum(field * share, axis=(-2, -1), keepdims=True)
    anomaly = field - mean

    def pullback(g):
        g_field = g - jnp.sum(g * share, axis=(-2, -1), keepdims=True)
        drop = jnp.sum(g, axis=(-2, -1), keepdims=True)
        g_weights = -jnp.sum(drop * anomaly, axis=(0, 2)) / total
        return g_field, g_weights

    return anomaly, pullback


def _layers(temp, humidity, p_half):
    tv = temp * (1.0 + VIRTUAL * humidity)
    dlnp = jnp.log(p_half[..., :-1] / p_half[..., 1:])
    return tv, dlnp, (R_DRY / GRAVITY) * tv * dlnp


@jax.custom_vjp
def level_heights(temp, humidity, p_half, z_surface):
    tv, dlnp, thick = _layers(temp, humidity, p_half)
    below = jnp.cumsum(thick, axis=-1) - thick
    return z_surface[..., None] + below + 0.5 * thick


def _level_heights_fwd(temp, humidity, p_half, z_surface):
    tv, dlnp, thick = _layers(temp, humidity, p_half)
    below = jnp.cumsum(thick, axis=-1) - thick
    return z_surface[..., None] + below + 0.5 * thick, (temp, humidity, tv, dlnp, p_half)


def _level_heights_bwd(res, g):
    temp, humidity, tv, dlnp, p_half = res
    upto = jnp.flip(jnp.cumsum(jnp.flip(g, -1), axis=-1), -1)
    g_thick = (upto - 0.5 * g) * (R_DRY / GRAVITY)
    g_tv = g_thick * dlnp
    g_dlnp = g_thick * tv
    pad = [(0, 0)] * (g.ndim - 1)
    g_p = (jnp.pad(g_dlnp, pad + [(0, 1)]) - jnp.pad(g_dlnp, pad + [(1, 0)])) / p_half
    return g_tv * (1.0 + VIRTUAL * humidity), g_tv * VIRTUAL * temp, g_p, upto[..., 0]


level_heights.defvjp(_level_heights_fwd, _level_heights_bwd)


@dataclasses.dataclass(frozen=True)
class HybridGrid:
    a: tuple
    b: tuple

    @property
    def n_layers(self):
        return len(self.a) - 1

    def half_pressure(self, p_surface):
        return jnp.asarray(self.a) + jnp.asarray(self.b) * p_surface[..., None]

    def heights(self, state):
        p = self.half_pressure(state["ps"])
        return level_heights(state["t"], state["q"], p, state["zs"])


SIX_LAYER = HybridGrid(
    a=(0.0, 0.0, 1500.0, 6000.0, 11000.0, 9000.0, 3000.0),
    b=(1.0, 0.9, 0.7, 0.4, 0.15, 0.03, 0.0),
)


def demo_state(n_col=4):
    k = jnp.arange(SIX_LAYER.n_layers)
    return {
        "t": 288.0 - 11.0 * k + jnp.zeros((n_col, 1)),
        "q": 0.012 * jnp.exp(-k / 1.5) + jnp.zeros((n_col, 1)),
        "ps": jnp.linspace(9.6e4, 1.02e5, n_col),
        "zs": jnp.linspace(0.0, 300.0, n_col),
    }


def z500_like(state, grid=SIX_LAYER):
    return grid.heights(state)[..., 3]


def anomaly_score(pred, target):
    w = cos_latitude_weights(pred.shape[-2])
    pa, ta = remove_area_mean(pred, w), remove_area_mean(target, w)
    num = jnp.sum(w[:, None] * pa * ta)
    return num / jnp.sqrt(jnp.sum(w[:, None] * pa**2) * jnp.sum(w[:, None] * ta**2))
