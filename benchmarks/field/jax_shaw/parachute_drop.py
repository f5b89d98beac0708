import dataclasses
from functools import partial

import jax
import jax.numpy as jnp

G0 = 9.80665
V_REF = 10.0  # m/s


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Canopy:
    reef_area: jax.Array   # m2, area while reefed
    full_area: jax.Array   # m2
    t_line: jax.Array      # s, line stretch
    reef_fill: jax.Array   # s
    t_cut: jax.Array       # s, reefing line cut
    full_fill: jax.Array   # s


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layers:
    edges: jax.Array  # (K+1,) m, rising, edges[0] is the ground
    wind: jax.Array   # (K, 2) m/s east, north


def _ramp(t, start, length):
    u = (t - start) / length
    return jnp.clip(u, 0.0, 1.0), (u > 0.0) & (u < 1.0)


# drag area against time; n = 1 solid cloth, n = 2 ribbon
@partial(jax.custom_jvp, nondiff_argnums=(2,))
def open_area(t, canopy, n):
    u, _ = _ramp(t, canopy.t_line, canopy.reef_fill)
    v, _ = _ramp(t, canopy.t_cut, canopy.full_fill)
    return canopy.reef_area * u**n + (canopy.full_area - canopy.reef_area) * v**n


@open_area.defjvp
def _open_area_jvp(n, primals, tangents):
    t, c = primals
    dt, dc = tangents
    u, u_moves = _ramp(t, c.t_line, c.reef_fill)
    v, v_moves = _ramp(t, c.t_cut, c.full_fill)
    du = jnp.where(u_moves, (dt - dc.t_line - u * dc.reef_fill) / c.reef_fill, 0.0)
    dv = jnp.where(v_moves, (dt - dc.t_cut - v * dc.full_fill) / c.full_fill, 0.0)
    gap = c.full_area - c.reef_area
    out = c.reef_area * u**n + gap * v**n
    dout = dc.reef_area * (u**n - v**n) + dc.full_area * v**n
    dout = dout + n * (c.reef_area * u ** (n - 1) * du + gap * v ** (n - 1) * dv)
    return out, dout


def _cd(v, cd0, kappa):
    return cd0 * (1.0 + kappa * (v / V_REF) ** 2)


# steady descent speed of the load, elastic cloth stretches with the dynamic pressure (kappa >= 0)
@jax.custom_jvp
def sink_rate(mass, area, cd0, kappa, rho):
    v = jnp.sqrt(2.0 * mass * G0 / (rho * area * cd0))
    for _ in range(30):
        f = 0.5 * rho * area * _cd(v, cd0, kappa) * v**2 - mass * G0
        s = rho * area * cd0 * v * (1.0 + 2.0 * kappa * (v / V_REF) ** 2)
        v = v - f / s
    return v


@sink_rate.defjvp
def _sink_rate_jvp(primals, tangents):
    mass, area, cd0, kappa, rho = primals
    dm, da, dcd, dk, drho = tangents
    v = sink_rate(*primals)
    cd = _cd(v, cd0, kappa)
    half = 0.5 * v**2
    df = half * cd * (area * drho + rho * da) - G0 * dm
    df = df + half * rho * area * (cd / cd0 * dcd + cd0 * (v / V_REF) ** 2 * dk)
    slope = rho * area * cd * v
    return v, -df / slope


def _crossed(release, edges):
    low, high = edges[:-1], edges[1:]
    h = release[:, None]
    return jnp.clip(jnp.minimum(h, high) - low, 0.0), h > low, h > high


# where the load comes down, (B, 2) m; the fall is faster aloft, v = ground * exp(z / 2H)
@jax.custom_vjp
def ground_offset(layers, release, ground_speed, scale_height):
    return _offset_fwd(layers, release, ground_speed, scale_height)[0]


def _offset_fwd(layers, release, ground_speed, scale_height):
    mid = 0.5 * (layers.edges[:-1] + layers.edges[1:])
    slow = jnp.exp(-0.5 * mid / scale_height)
    dz, inside, above = _crossed(release, layers.edges)
    stay = dz * slow / ground_speed[:, None]
    out = stay @ layers.wind
    return out, (layers, ground_speed, scale_height, mid, slow, stay, inside, above, out)


def _offset_bwd(res, g):
    layers, speed, H, mid, slow, stay, inside, above, out = res
    d_wind = stay.T @ g
    d_stay = g @ layers.wind.T
    d_dz = d_stay * slow / speed[:, None]
    d_release = jnp.sum(jnp.where(inside & ~above, d_dz, 0.0), axis=1)
    d_low = -jnp.sum(jnp.where(inside, d_dz, 0.0), axis=0)
    d_high = jnp.sum(jnp.where(above, d_dz, 0.0), axis=0)
    tilt = jnp.sum(d_stay * stay, axis=0)
    d_mid = -0.5 * tilt / H
    d_edges = jnp.zeros_like(layers.edges)
    d_edges = d_edges.at[:-1].add(d_low + 0.5 * d_mid)
    d_edges = d_edges.at[1:].add(d_high + 0.5 * d_mid)
    d_speed = -jnp.sum(g * out, axis=1) / speed
    d_H = jnp.sum(0.5 * tilt * mid) / H**2
    return Layers(edges=d_edges, wind=d_wind), d_release, d_speed, d_H


ground_offset.defvjp(_offset_fwd, _offset_bwd)


def miss(design, drop, target):
    v = sink_rate(drop["mass"], design["area"], design["cd0"], drop["kappa"], drop["rho"])
    hit = ground_offset(drop["layers"], drop["release"], v, drop["scale_height"])
    return jnp.mean(jnp.sum((hit - target) ** 2, axis=-1))


def opening_load(t, canopy, speed, rho, n=2):
    return 0.5 * rho * speed**2 * open_area(t, canopy, n)


def example_drop():
    return dict(
        mass=jnp.array([90.0, 110.0, 240.0]),
        kappa=0.2,
        rho=1.19,
        release=jnp.array([900.0, 1500.0, 2600.0]),
        scale_height=8400.0,
        layers=Layers(edges=jnp.array([0.0, 500.0, 1200.0, 2000.0, 3000.0]),
                      wind=jnp.array([[2.0, 1.0], [5.0, 3.0], [8.0, 2.0], [11.0, -1.0]])),
    )
