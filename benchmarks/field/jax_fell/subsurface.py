"""Building blocks for differentiable subsurface and glacier models.

Everything here works on plain arrays and is meant to be called from inside
larger jitted inversions, so the derivatives are spelled out by hand where the
automatic ones would be slow (ray tracing) or produce NaN (retention curves).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

ICE_WEIGHT = 9.0e-3  # rho * g for ice, MPa / m
NEWTON_ITERATIONS = 40


# ---------------------------------------------------------------------------
# seismic rays
# ---------------------------------------------------------------------------


def _ray_variable(thickness, velocity, offset):
    """Tangent of the ray angle in the fastest layer.

    ``X(q)`` is increasing and concave in ``q >= 0``, so Newton's iteration
    started at zero approaches the root from the left without overshooting.
    """
    ratio = velocity / jnp.max(velocity)
    slack = 1.0 - ratio**2

    def body(_, q):
        stretch = 1.0 + q[..., None] ** 2 * slack
        reach = jnp.sum(thickness * ratio * q[..., None] / jnp.sqrt(stretch), axis=-1)
        slope = jnp.sum(thickness * ratio / stretch**1.5, axis=-1)
        return q + (offset - reach) / slope

    return jax.lax.fori_loop(0, NEWTON_ITERATIONS, body, jnp.zeros_like(offset))


def _cosines(q, velocity):
    ratio = velocity / jnp.max(velocity)
    q2 = q[..., None] ** 2
    return jnp.sqrt((1.0 + q2 * (1.0 - ratio**2)) / (1.0 + q2))


@jax.custom_gradient
def two_point_traveltime(thickness, velocity, offset):
    """One-way travel time of the direct ray through a stack of flat layers.

    Parameters
    ----------
    thickness : (L,) array
        Layer thicknesses, positive.
    velocity : (L,) array
        Layer velocities, positive, in any order.
    offset : (...,) array
        Horizontal distance between source (top of the stack) and receiver
        (bottom of the stack), non-negative.

    Returns
    -------
    (...,) array
        Travel times, one for each offset.

    Notes
    -----
    The ray is found by Newton's method. By Fermat's principle the path does
    not have to be differentiated.
    """
    q = _ray_variable(thickness, velocity, offset)
    cosine = _cosines(q, velocity)
    times = jnp.sum(thickness / (velocity * cosine), axis=-1)

    def vjp(g):
        spread = g[..., None]
        batch = tuple(range(offset.ndim))
        slowness = q / jnp.sqrt(1.0 + q**2) / jnp.max(velocity)
        d_thickness = jnp.sum(spread * cosine / velocity, axis=batch)
        d_velocity = -jnp.sum(spread * thickness / (velocity**2 * cosine), axis=batch)
        return d_thickness, d_velocity, g * slowness

    return times, vjp


# ---------------------------------------------------------------------------
# unsaturated flow
# ---------------------------------------------------------------------------


def _suction_power(psi, alpha, n):
    # psi >= 0 is replaced so that the logarithms below stay finite
    head = jnp.where(psi < 0, -psi, 1.0)
    return head, (alpha * head) ** n


@jax.custom_jvp
def mualem_conductivity(psi, k_sat, alpha, n, ell=0.5):
    """Mualem - van Genuchten hydraulic conductivity.

    Parameters
    ----------
    psi : array
        Pressure head [m]. Negative in unsaturated soil; soil at zero or
        positive head is saturated and conducts with ``k_sat``.
    k_sat, alpha, n : array
        Saturated conductivity (> 0), inverse air entry head (> 0), pore size
        index (> 1). Scalars or arrays that broadcast against ``psi``. The
        usual ``m = 1 - 1 / n`` is implied.
    ell : float or array, optional
        Tortuosity exponent.
    """
    _, u = _suction_power(psi, alpha, n)
    m = 1.0 - 1.0 / n
    saturation = (1.0 + u) ** (-m)
    bracket = 1.0 - (u / (1.0 + u)) ** m
    return jnp.where(psi < 0, k_sat * saturation**ell * bracket**2, k_sat + 0.0 * u)


@mualem_conductivity.defjvp
def _mualem_conductivity_jvp(primals, tangents):
    psi, k_sat, alpha, n, ell = primals
    d_psi, d_k_sat, d_alpha, d_n, d_ell = tangents

    conductivity = mualem_conductivity(psi, k_sat, alpha, n, ell)
    head, u = _suction_power(psi, alpha, n)
    m = 1.0 - 1.0 / n
    d_m = d_n / n**2

    # everything relative: d log(.)
    dlog_u = d_n * jnp.log(alpha * head) + n * (d_alpha / alpha - d_psi / head)
    log_se = -m * jnp.log1p(u)
    dlog_se = -d_m * jnp.log1p(u) - m * dlog_u * u / (1.0 + u)

    log_w = jnp.log(u) - jnp.log1p(u)
    w_m = jnp.exp(m * log_w)
    d_w_m = w_m * (d_m * log_w + m * dlog_u / (1.0 + u))

    relative = d_k_sat / k_sat + ell * dlog_se + d_ell * log_se - 2.0 * d_w_m / (1.0 - w_m)
    return conductivity, jnp.where(psi < 0, conductivity * relative, 0.0)


def richards_flux(psi, dz, soil):
    """Darcy-Buckingham flux between the nodes of a column (positive upwards)."""
    k = mualem_conductivity(psi, soil["k_sat"], soil["alpha"], soil["n"], soil.get("ell", 0.5))
    k_face = 0.5 * (k[1:] + k[:-1])
    return -k_face * ((psi[1:] - psi[:-1]) / dz + 1.0)


# ---------------------------------------------------------------------------
# shallow ice
# ---------------------------------------------------------------------------


def _to_shape(x, shape):
    """Sum ``x`` down to ``shape`` (the transpose of broadcasting)."""
    extra = x.ndim - len(shape)
    x = jnp.sum(x, axis=tuple(range(extra)))
    stretched = tuple(i for i, s in enumerate(shape) if s == 1 and x.shape[i] != 1)
    return jnp.sum(x, axis=stretched, keepdims=True)


def _face_terms(thickness, surface, dx, n):
    h = 0.5 * (thickness[..., 1:] + thickness[..., :-1])
    slope = (surface[..., 1:] - surface[..., :-1]) / dx
    gamma = 2.0 * ICE_WEIGHT**n / (n + 2.0)
    return h, slope, gamma


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def ice_flux(thickness, surface, rate, dx, n=3.0):
    """Shallow-ice flux on the faces of a flowline.

    Args:
        thickness: ``(..., N)`` ice thickness at the nodes, non-negative.
        surface: ``(..., N)`` surface elevation at the nodes.
        rate: Glen rate factor, scalar or anything that broadcasts against
            the ``(..., N - 1)`` faces.
        dx: node spacing (Python float).
        n: Glen exponent, ``n >= 1`` (Python float).

    Returns:
        ``(..., N - 1)`` volume flux per unit width, positive downstream.
    """
    h, slope, gamma = _face_terms(thickness, surface, dx, n)
    return -gamma * rate * h ** (n + 2.0) * jnp.abs(slope) ** (n - 1.0) * slope


def _ice_flux_fwd(thickness, surface, rate, dx, n):
    return ice_flux(thickness, surface, rate, dx, n), (thickness, surface, rate)


def _ice_flux_bwd(dx, n, residuals, g):
    thickness, surface, rate = residuals
    h, slope, gamma = _face_terms(thickness, surface, dx, n)
    steep = jnp.abs(slope) ** (n - 1.0)

    g_rate = -g * gamma * h ** (n + 2.0) * steep * slope
    g_h = -g * gamma * rate * (n + 2.0) * h ** (n + 1.0) * steep * slope
    g_slope = -g * gamma * rate * h ** (n + 2.0) * n * steep

    edge = [(0, 0)] * (g.ndim - 1)
    right = edge + [(1, 0)]
    left = edge + [(0, 1)]
    g_thickness = 0.5 * (jnp.pad(g_h, right) + jnp.pad(g_h, left))
    g_surface = (jnp.pad(g_slope, right) - jnp.pad(g_slope, left)) / dx
    return g_thickness, g_surface, _to_shape(g_rate, np.shape(rate))


ice_flux.defvjp(_ice_flux_fwd, _ice_flux_bwd)


def thickness_tendency(thickness, bed, rate, mass_balance, dx, n=3.0):
    """dH/dt with no flux through the ends of the flowline."""
    q = ice_flux(thickness, bed + thickness, rate, dx, n)
    q = jnp.pad(q, [(0, 0)] * (q.ndim - 1) + [(1, 1)])
    return mass_balance - (q[..., 1:] - q[..., :-1]) / dx
