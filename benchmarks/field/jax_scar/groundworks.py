"""Geotechnical pieces for site calibration."""
import functools

import jax
import jax.numpy as jnp

GAMMA_W = 9.81          # kN/m3
DEG = jnp.pi / 180.0


def _offsets(sources, points):
    d = points[:, None, :2] - sources[None, :, :]          # (N, S, 2)
    z = points[:, 2][:, None]
    r2 = jnp.sum(d * d, axis=-1) + z * z
    return d, z, r2


def _influence(z, r2):
    below = z > 0
    r2 = jnp.where(below, r2, 1.0)
    return jnp.where(below, 1.5 / jnp.pi * z**3 * r2**-2.5, 0.0)


@jax.custom_vjp
def point_load_stress(loads, sources, points):
    """Vertical stress in an elastic half space below surface point loads.

    Args:
        loads: (C, S) forces of C load cases, kN, positive down.
        sources: (S, 2) plan positions of the loads.
        points: (N, 3) positions x, y and depth z; nothing is carried at z <= 0.

    Returns:
        (C, N) stress, summed over the loads (Boussinesq).
    """
    _, z, r2 = _offsets(sources, points)
    return loads @ _influence(z, r2).T


def _pls_fwd(loads, sources, points):
    return point_load_stress(loads, sources, points), (loads, sources, points)


def _pls_bwd(res, g):
    loads, sources, points = res
    d, z, r2 = _offsets(sources, points)
    below = z > 0
    k = _influence(z, r2)
    safe_r2 = jnp.where(below, r2, 1.0)
    safe_z = jnp.where(below, z, 1.0)
    w = jnp.einsum("cn,cs->ns", g, loads)
    radial = -5.0 * k / safe_r2 * w
    d_xy = radial[..., None] * d                            # (N, S, 2)
    d_z = jnp.where(below, 3.0 * k / safe_z * w + radial * z, 0.0)
    d_points = jnp.concatenate([d_xy.sum(1), d_z.sum(1)[:, None]], axis=-1)
    return g @ k, -d_xy.sum(0), d_points


point_load_stress.defvjp(_pls_fwd, _pls_bwd)


def _slope_terms(soil, zone, slope, depth, wet):
    c = soil["cohesion"][zone]
    phi = soil["friction_deg"][zone] * DEG
    gam = soil["unit_weight"][zone]
    s, co, t = jnp.sin(slope), jnp.cos(slope), jnp.tan(phi)
    drive = gam * depth * s * co
    resist = c + (gam - wet * GAMMA_W) * depth * co**2 * t
    return c, phi, gam, s, co, t, drive, resist


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def infinite_slope_safety(soil, zone, slope, depth, wet, cap=None):
    """Factor of safety of an infinite slope, per cell.

    soil: {"cohesion", "friction_deg", "unit_weight"}, each (zones,);
    zone: (cells,) ids into them; slope in rad, depth in m, wet in 0..1: (cells,).
    cap: values above it are cut to it (flat cells run to infinity otherwise).
    """
    *_, drive, resist = _slope_terms(soil, zone, slope, depth, wet)
    fs = resist / drive
    return fs if cap is None else jnp.minimum(fs, cap)


def _iss_fwd(soil, zone, slope, depth, wet, cap):
    return infinite_slope_safety(soil, zone, slope, depth, wet, cap), (soil, zone, slope, depth, wet)


def _iss_bwd(cap, res, g):
    soil, zone, slope, depth, wet = res
    c, phi, gam, s, co, t, drive, resist = _slope_terms(soil, zone, slope, depth, wet)
    fs = resist / drive
    g_res = g / drive
    g_drv = -g * fs / drive
    eff = gam - wet * GAMMA_W
    per_zone = lambda v: jax.ops.segment_sum(v, zone, num_segments=soil["cohesion"].shape[0])
    d_soil = {
        "cohesion": per_zone(g_res),
        "friction_deg": per_zone(g_res * eff * depth * co**2 * (1 + t * t)) * DEG,
        "unit_weight": per_zone(g_res * depth * co**2 * t + g_drv * depth * s * co),
    }
    d_slope = -2 * g_res * eff * depth * co * s * t + g_drv * gam * depth * (co**2 - s**2)
    d_depth = g_res * eff * co**2 * t + g_drv * gam * s * co
    d_wet = -g_res * GAMMA_W * depth * co**2 * t
    return d_soil, None, d_slope, d_depth, d_wet


infinite_slope_safety.defvjp(_iss_fwd, _iss_bwd)


@jax.custom_jvp
def shaft_transfer(w, stiffness, limit):
    """Hyperbolic t-z curve of a pile shaft; w > 0 settlement, w < 0 uplift."""
    return stiffness * w / (1.0 + stiffness * jnp.abs(w) / limit)


@shaft_transfer.defjvp
def _shaft_transfer_jvp(primals, tangents):
    w, k, lim = primals
    dw, dk, dlim = tangents
    m = 1.0 / (1.0 + k * jnp.abs(w) / lim)
    t = k * w * m
    return t, m**2 * (k * dw + w * dk) + (t / lim) ** 2 * dlim


def pile_head_load(settlement, stiffness, limit, perimeter, seg):
    """Sum of the shaft springs along a rigid pile: settlement (), others (layers,)."""
    return jnp.sum(perimeter * seg * shaft_transfer(settlement, stiffness, limit))
