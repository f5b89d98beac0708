"""Snow avalanche terms used in our hazard-mapping fits.

Angles are in radians, lengths in metres, densities in kg m-3, stresses in Pa.
"""

import functools

import jax
import jax.numpy as jnp

GRAVITY = 9.81


# ---------------------------------------------------------------- flow speed
@functools.partial(jax.custom_jvp, nondiff_argnums=(5,))
def voellmy_terminal_speed(xi, mu, psi, depth, width, channelled=False):
    """Steady speed of a Voellmy flow.

    Parameters
    ----------
    xi : array_like
        Turbulent friction (m s-2), positive.
    mu : array_like
        Dry friction.
    psi : array_like
        Slope angle.
    depth, width : array_like
        Flow depth and width; all arguments broadcast.
    channelled : bool, static
        Use the hydraulic radius ``h w / (w + 2 h)`` instead of the depth.

    Returns
    -------
    array
        ``sqrt(xi R (sin psi - mu cos psi))``, and 0 where friction holds the snow.
    """
    radius = _radius(depth, width, channelled)
    drive = jnp.sin(psi) - mu * jnp.cos(psi)
    moving = drive > 0
    return jnp.where(moving, jnp.sqrt(xi * radius * jnp.where(moving, drive, 1.0)), 0.0)


def _radius(depth, width, channelled):
    if channelled:
        return depth * width / (width + 2.0 * depth)
    return depth + jnp.zeros_like(width)


@voellmy_terminal_speed.defjvp
def _voellmy_jvp(channelled, primals, tangents):
    xi, mu, psi, depth, width = primals
    dxi, dmu, dpsi, ddepth, dwidth = tangents
    speed = voellmy_terminal_speed(xi, mu, psi, depth, width, channelled)
    drive = jnp.sin(psi) - mu * jnp.cos(psi)
    moving = drive > 0
    radius = _radius(depth, width, channelled)
    if channelled:
        wetted = width + 2.0 * depth
        dradius = (width / wetted) ** 2 * ddepth + 2.0 * (depth / wetted) ** 2 * dwidth
    else:
        dradius = ddepth + jnp.zeros_like(dwidth)
    ddrive = (jnp.cos(psi) + mu * jnp.sin(psi)) * dpsi - jnp.cos(psi) * dmu
    dsquare = dxi * radius * drive + xi * dradius * drive + xi * radius * ddrive
    dspeed = jnp.where(moving, dsquare / (2.0 * jnp.where(moving, speed, 1.0)), 0.0)
    return speed, dspeed


# ------------------------------------------------------ PCM along a profile
def _segment_law(square, theta, length, mu, mass_to_drag):
    """Squared speed at the end of a segment, with the pieces of its derivative."""
    decay = jnp.exp(-2.0 * length / mass_to_drag)
    pull = GRAVITY * (jnp.sin(theta) - mu * jnp.cos(theta))
    limit = pull * mass_to_drag
    return limit * (1.0 - decay) + square * decay, decay, pull, limit


def _bend_loss(theta_from, theta_to):
    """Share of the squared speed kept at the bend between two segments."""
    turn = jnp.maximum(theta_from - theta_to, 0.0)
    return jnp.cos(turn) ** 2


@jax.custom_jvp
def pcm_segment_speeds(v0, theta, length, mu, mass_to_drag):
    """Speeds at the segment ends of a path (Perla, Cheng and McClung, 1980).

    :param v0: speed at the head of the path, ``[B]``.
    :param theta: segment slopes, ``[B, S]``.
    :param length: segment lengths, ``[B, S]``.
    :param mu: sliding friction, ``[B]``.
    :param mass_to_drag: M/D in metres, ``[B]``.
    :returns: ``[B, S]``; once the snow has stopped it stays at rest. Where the path
        gets flatter only the speed along the new segment is kept.
    """
    square, alive, out = v0**2, jnp.ones(v0.shape, bool), []
    for s in range(theta.shape[-1]):
        if s > 0:
            square = square * _bend_loss(theta[:, s - 1], theta[:, s])
        square, _, _, _ = _segment_law(square, theta[:, s], length[:, s], mu, mass_to_drag)
        alive = alive & (square > 0)
        square = jnp.where(alive, square, 0.0)
        out.append(jnp.where(alive, jnp.sqrt(jnp.where(alive, square, 1.0)), 0.0))
    return jnp.stack(out, axis=-1)


@pcm_segment_speeds.defjvp
def _pcm_jvp(primals, tangents):
    v0, theta, length, mu, md = primals
    dv0, dtheta, dlength, dmu, dmd = tangents
    speeds = pcm_segment_speeds(v0, theta, length, mu, md)
    square, dsquare = v0**2, 2.0 * v0 * dv0
    out = []
    for s in range(theta.shape[-1]):
        th, ln = theta[:, s], length[:, s]
        if s > 0:
            kept = _bend_loss(theta[:, s - 1], th)
            square, dsquare = square * kept, dsquare * kept
        _, decay, pull, limit = _segment_law(square, th, ln, mu, md)
        dpull = GRAVITY * ((jnp.cos(th) + mu * jnp.sin(th)) * dtheta[:, s] - jnp.cos(th) * dmu)
        dlimit = dpull * md + pull * dmd
        ddecay = decay * (-2.0 * dlength[:, s] / md + 2.0 * ln / md**2 * dmd)
        dsquare = dlimit * (1.0 - decay) + (square - limit) * ddecay + dsquare * decay
        alive = speeds[:, s] > 0
        square = speeds[:, s] ** 2
        dsquare = jnp.where(alive, dsquare, 0.0)
        out.append(dsquare / (2.0 * jnp.where(alive, speeds[:, s], 1.0)))
    return speeds, jnp.stack(out, axis=-1)


# -------------------------------------------------------------- slab release
@functools.partial(jax.custom_vjp, nondiff_argnums=(7,))
def layer_strength_ratio(
    density, thickness, cohesion, psi, friction, load, n_layers, ski_depth=0.1
):
    """Strength over stress at the base of every layer of a snow profile.

    density, thickness, cohesion are [B, L] from the surface down, psi is [B]; friction and
    load (N m-1, of a skier) are scalars; n_layers [B] counts the layers of each profile, the
    rest is padding, whose ratio is reported as 0.  ski_depth (m) is static.
    """
    return _ratio_fwd(density, thickness, cohesion, psi, friction, load, n_layers, ski_depth)[0]


def _ratio_fwd(density, thickness, cohesion, psi, friction, load, n_layers, ski_depth):
    inside = jnp.arange(density.shape[1]) < n_layers[:, None]
    sigma = GRAVITY * jnp.cumsum(density * thickness, axis=1)
    depth = jnp.cumsum(thickness, axis=1) + ski_depth
    sin, cos = jnp.sin(psi)[:, None], jnp.cos(psi)[:, None]
    strength = cohesion + friction * sigma * cos**2
    stress = sigma * sin * cos + load / depth
    ratio = jnp.where(inside, strength / jnp.where(inside, stress, 1.0), 0.0)
    return ratio, (density, thickness, psi, friction, load, inside, sigma, depth, stress, ratio)


def _from_below(x):
    return jnp.flip(jnp.cumsum(jnp.flip(x, 1), axis=1), 1)


def _ratio_bwd(ski_depth, res, g):
    density, thickness, psi, friction, load, inside, sigma, depth, stress, ratio = res
    sin, cos = jnp.sin(psi)[:, None], jnp.cos(psi)[:, None]
    g_strength = jnp.where(inside, g / jnp.where(inside, stress, 1.0), 0.0)
    g_stress = -g_strength * ratio
    g_sigma = g_strength * friction * cos**2 + g_stress * sin * cos
    g_mass = GRAVITY * _from_below(g_sigma)
    g_depth = -g_stress * load / depth**2
    d_thickness = g_mass * density + _from_below(g_depth)
    d_psi = jnp.sum(
        sigma * (g_stress * (cos**2 - sin**2) - g_strength * 2.0 * friction * sin * cos), axis=1
    )
    d_friction = jnp.sum(g_strength * sigma * cos**2)
    d_load = jnp.sum(g_stress / depth)
    return g_mass * thickness, d_thickness, g_strength, d_psi, d_friction, d_load, None


layer_strength_ratio.defvjp(_ratio_fwd, _ratio_bwd)


def _inclination(psi):
    """Thinning of the release depth on steep slopes, 1 at about 28 degrees, and its slope."""
    base = jnp.sin(psi) - 0.202 * jnp.cos(psi)
    factor = 0.291 / base
    return factor, -factor / base * (jnp.cos(psi) + 0.202 * jnp.sin(psi))


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def mean_release_depth(snow, psi, area, path_id, n_paths):
    """Mean release depth of each avalanche path, weighted with the true surface of its raster cells.

    snow, psi, area (map area) and path_id are [N]; cells come in any order, and a path
    without cells has depth 0.
    """
    return _release_fwd(snow, psi, area, path_id, n_paths)[0]


def _release_fwd(snow, psi, area, path_id, n_paths):
    factor, _ = _inclination(psi)
    surface = area / jnp.cos(psi)
    total = jax.ops.segment_sum(surface, path_id, n_paths)
    volume = jax.ops.segment_sum(surface * snow * factor, path_id, n_paths)
    mean = jnp.where(total > 0, volume / jnp.where(total > 0, total, 1.0), 0.0)
    return mean, (snow, psi, area, path_id, total, mean)


def _release_bwd(n_paths, res, g):
    snow, psi, area, path_id, total, mean = res
    factor, dfactor = _inclination(psi)
    cos = jnp.cos(psi)
    per_surface = (g / jnp.where(total > 0, total, 1.0))[path_id]
    share = per_surface * area / cos
    d_area = per_surface * (snow * factor - mean[path_id]) / cos
    return share * factor, share * snow * dfactor, d_area, None


mean_release_depth.defvjp(_release_fwd, _release_bwd)
