"""Steady hydraulics of weirs, channels and pipes, in SI units.

All routines are elementwise over arrays of sections and can be jitted and
vmapped.  The depth and friction solvers run a fixed number of Newton steps;
their derivatives come from the residual and not from the iterations.
"""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

_LN10 = 2.302585092994046
RE_LAMINAR = 2300.0
GRAVITY = 9.80665


# --------------------------------------------------------------------------
# weirs
# --------------------------------------------------------------------------
def rehbock_coefficient(head, crest_height):
    """Rehbock discharge coefficient in m^0.5/s (2/3 sqrt(2 g) Ce)."""
    ce = 0.602 + 0.083 * head / crest_height
    return 2.0 / 3.0 * jnp.sqrt(2.0 * GRAVITY) * ce


@jax.custom_jvp
def villemonte_weir(head_up, head_down, width, coef):
    """Discharge over a sharp crested weir, free or submerged.

    Villemonte's reduction is applied when the tailwater stands above the crest,

        Q = C b h1**1.5 * (1 - (h2 / h1)**1.5)**0.385

    Parameters
    ----------
    head_up : array
        Upstream head over the crest [m].  Zero or below: the weir is dry, Q = 0.
    head_down : array
        Tailwater level relative to the crest [m], below ``head_up`` wherever the weir runs.
        Negative values are free overfall.
    width, coef : array or float
        Crest width [m] and discharge coefficient [m^0.5/s]. They broadcast.

    Returns
    -------
    array
        Discharge [m3/s].
    """
    wet = head_up > 0
    h1 = jnp.where(wet, head_up, 1.0)
    r = jnp.where(wet, jnp.maximum(head_down, 0.0) / h1, 0.0)
    q = coef * width * h1**1.5 * (1.0 - r**1.5) ** 0.385
    return jnp.where(wet, q, 0.0)


@villemonte_weir.defjvp
def _villemonte_jvp(primals, tangents):
    head_up, head_down, width, coef = primals
    d_up, d_down, d_width, d_coef = tangents
    q = villemonte_weir(head_up, head_down, width, coef)

    wet = head_up > 0
    h1 = jnp.where(wet, head_up, 1.0)
    submerged = wet & (head_down > 0)
    r = jnp.where(submerged, head_down / h1, 0.0)
    base = 1.0 - r * jnp.sqrt(r)
    phi = base**0.385
    # derivative of the reduction with respect to h2 / h1; sqrt(r) makes it vanish for free overfall
    dphi = -0.385 * base**-0.615 * 1.5 * jnp.sqrt(r)

    per_unit = jnp.where(wet, h1 * jnp.sqrt(h1) * phi, 0.0)
    q_up = jnp.where(wet, coef * width * jnp.sqrt(h1) * (1.5 * phi - r * dphi), 0.0)
    q_down = jnp.where(submerged, coef * width * jnp.sqrt(h1) * dphi, 0.0)
    dq = q_up * d_up + q_down * d_down + per_unit * (coef * d_width + width * d_coef)
    return q, dq


# --------------------------------------------------------------------------
# uniform flow
# --------------------------------------------------------------------------
def _section(depth, width, side_slope):
    """Area, wetted perimeter and top width of a trapezoid with walls 1 : side_slope (V : H)."""
    area = (width + side_slope * depth) * depth
    wall = jnp.sqrt(1.0 + side_slope**2)
    return area, width + 2.0 * depth * wall, width + 2.0 * side_slope * depth


def _log_manning_slope(depth, width, side_slope):
    area, perimeter, top = _section(depth, width, side_slope)
    wall = jnp.sqrt(1.0 + side_slope**2)
    return 5.0 / 3.0 * top / area - 2.0 / 3.0 * 2.0 * wall / perimeter


def _solve_depth(flow, width, bed_slope, roughness, side_slope):
    target = jnp.log(flow * roughness) - 0.5 * jnp.log(bed_slope)

    def newton(_, log_y):
        y = jnp.exp(log_y)
        area, perimeter, _top = _section(y, width, side_slope)
        res = 5.0 / 3.0 * jnp.log(area) - 2.0 / 3.0 * jnp.log(perimeter) - target
        return log_y - res / (y * _log_manning_slope(y, width, side_slope))

    start = 0.6 * (target - jnp.log(width))
    return jnp.exp(lax.fori_loop(0, 30, newton, start))


@jax.custom_vjp
def normal_depth(flow, width, bed_slope, roughness, side_slope=0.0):
    """Normal depth of uniform flow in a rectangular or trapezoidal channel.

    Solves Manning's equation ``Q = A**(5/3) P**(-2/3) sqrt(S) / n`` for the depth.

    Args:
        flow: discharge of each reach, shape ``[reach]``, positive.
        width: bottom width of the channel (scalar, m).
        bed_slope: bed slope (scalar, > 0).
        roughness: Manning's n (scalar).
        side_slope: horizontal run of the banks per metre of rise; 0 is rectangular.

    Returns:
        depths, shape ``[reach]``. Differentiable in all five arguments.
    """
    return _solve_depth(flow, width, bed_slope, roughness, side_slope)


def _normal_depth_fwd(flow, width, bed_slope, roughness, side_slope):
    depth = _solve_depth(flow, width, bed_slope, roughness, side_slope)
    return depth, (depth, flow, width, bed_slope, roughness, side_slope)


def _normal_depth_bwd(res, ct):
    depth, flow, width, bed_slope, roughness, side_slope = res
    area, perimeter, _ = _section(depth, width, side_slope)
    # implicit function theorem on log(Manning) - log(Q) = 0
    lam = ct / _log_manning_slope(depth, width, side_slope)
    d_flow = lam / flow
    d_width = -jnp.sum(lam * (5.0 / 3.0 * depth / area - 2.0 / 3.0 / perimeter))
    d_bed = -0.5 * jnp.sum(lam) / bed_slope
    d_rough = jnp.sum(lam) / roughness
    d_side = -jnp.sum(lam * 5.0 / 3.0 * depth**2 / area)
    return d_flow, d_width, d_bed, d_rough, d_side


normal_depth.defvjp(_normal_depth_fwd, _normal_depth_bwd)


# --------------------------------------------------------------------------
# pipes
# --------------------------------------------------------------------------
def _colebrook_x(re, rough):
    """x = 1/sqrt(f) by Newton, from Haaland's explicit value."""
    x = -1.8 * jnp.log10((rough / 3.7) ** 1.11 + 6.9 / re)

    def step(_, x):
        u = rough / 3.7 + 2.51 * x / re
        f = x + 2.0 / _LN10 * jnp.log(u)
        return x - f / (1.0 + 2.0 / _LN10 * 2.51 / (re * u))

    return lax.fori_loop(0, 8, step, x)


@jax.custom_jvp
def colebrook_friction(reynolds, rel_roughness):
    """Darcy friction factor.

    64/Re below Re = 2300, Colebrook-White from there on. ``rel_roughness`` is in [0, 0.1] (0 is a
    smooth pipe), Reynolds numbers are positive. The two arguments broadcast. The jump at the
    transition has no derivative; each side has its own.
    """
    laminar = reynolds < RE_LAMINAR
    re = jnp.where(laminar, RE_LAMINAR, reynolds)
    return jnp.where(laminar, 64.0 / reynolds, _colebrook_x(re, rel_roughness) ** -2)


@colebrook_friction.defjvp
def _colebrook_jvp(primals, tangents):
    reynolds, rough = primals
    d_re, d_rough = tangents
    laminar = reynolds < RE_LAMINAR
    re = jnp.where(laminar, RE_LAMINAR, reynolds)
    x = _colebrook_x(re, rough)
    f = jnp.where(laminar, 64.0 / reynolds, x**-2)

    u = rough / 3.7 + 2.51 * x / re
    k = 2.0 / _LN10 / u
    res_x = 1.0 + k * 2.51 / re
    res_re = -k * 2.51 * x / re**2
    res_rough = k / 3.7
    scale = 2.0 * x**-3 / res_x
    f_re = jnp.where(laminar, -64.0 / reynolds**2, scale * res_re)
    f_rough = jnp.where(laminar, 0.0, scale * res_rough)
    return f, f_re * d_re + f_rough * d_rough


def pipe_head_loss(flow, diameter, length, roughness, viscosity=1.0e-6):
    """Darcy-Weisbach head loss [m]."""
    area = 0.25 * jnp.pi * diameter**2
    v = flow / area
    f = colebrook_friction(jnp.abs(v) * diameter / viscosity, roughness / diameter)
    return f * length / diameter * v * jnp.abs(v) / (2.0 * GRAVITY)


@partial(jax.jit, static_argnames="steps")
def calibrate_roughness(flow, observed_depth, width, bed_slope, n0=0.03, steps=50, lr=1e-4):
    """Plain gradient descent on Manning's n for a rectangular reach."""

    def loss(n):
        return jnp.mean((normal_depth(flow, width, bed_slope, n, 0.0) - observed_depth) ** 2)

    return lax.fori_loop(0, steps, lambda _, n: n - lr * jax.grad(loss)(n), jnp.asarray(n0, flow.dtype))
