"""Forward models for solid earth inversions.

The models are called a few million times inside samplers and Gauss-Newton
loops, so each carries its own derivative instead of relying on the tape.
Quantities are SI unless the name says otherwise.
"""

import functools
from typing import Dict, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

MU0 = 4e-7 * np.pi
SECONDS_PER_MYR = 3.15576e13

# plate model
N_TERMS = 40
EXPANSIVITY = 3.28e-5
MANTLE_DENSITY = 3330.0
WATER_DENSITY = 1030.0
DIFFUSIVITY = 8.04e-7

# ground motion model
HINGE_MAGNITUDE = 6.5
REFERENCE_MAGNITUDE = 4.5
REFERENCE_DISTANCE = 1.0
REFERENCE_VS30 = 760.0
CAP_VS30 = 1500.0


# ---------------------------------------------------------------------------
# Magnetotellurics
# ---------------------------------------------------------------------------


def _impedance(periods, log_resistivity, log_thickness):
    """Surface impedance and what the recursion met on the way up."""
    omega = 2.0 * np.pi / jnp.asarray(periods, log_resistivity.dtype)
    iwm = 1j * omega * MU0
    intrinsic = jnp.sqrt(iwm[None, :] * jnp.exp(log_resistivity)[:, None])
    kh = iwm[None, :] / intrinsic[:-1] * jnp.exp(log_thickness)[:, None]
    decay = jnp.exp(-2.0 * kh)
    th = (1.0 - decay) / (1.0 + decay)

    def upward(below, layer):
        z, t = layer
        return z * (below + z * t) / (z + below * t), below

    top, below = lax.scan(upward, intrinsic[-1], (intrinsic[:-1], th), reverse=True)
    return omega, top, (intrinsic, kh, th, below)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def magnetotelluric_response(
    periods: Sequence[float],
    log_resistivity: jax.Array,
    log_thickness: jax.Array,
) -> Tuple[jax.Array, jax.Array]:
    """Plane wave response of a stack of horizontal layers.

    The surface impedance follows from Wait's recursion, starting in the
    basement. The time dependence is exp(+i omega t), so that the phase of a
    half space is +45 degrees.

    Args:
      periods: Periods in seconds, a tuple of positive floats. Static.
      log_resistivity: Natural logarithm of the resistivity (ohm m) of each
        layer from the top, shape ``(layers,)``. The last one is the basement.
      log_thickness: Natural logarithm of the thickness (m), shape
        ``(layers - 1,)``. Empty for a half space.

    Returns:
      A pair ``(log_rho_a, phase)``, both of shape ``(len(periods),)``: the
      natural logarithm of the apparent resistivity, and the phase of the
      impedance in radians.
    """
    omega, top, _ = _impedance(periods, log_resistivity, log_thickness)
    return _respond(omega, top)


def _respond(omega, top):
    log_z = jnp.log(top)
    return 2.0 * log_z.real - jnp.log(MU0 * omega), log_z.imag


def _mt_fwd(periods, log_resistivity, log_thickness):
    omega, top, tape = _impedance(periods, log_resistivity, log_thickness)
    return _respond(omega, top), (top, tape, log_resistivity, log_thickness)


def _mt_bwd(periods, res, cotangents):
    del periods
    top, (intrinsic, kh, th, below), log_resistivity, log_thickness = res
    g_rho, g_phase = cotangents
    # The recursion is holomorphic: carry the multiplier of dZ downwards and
    # take the real part where it meets a real parameter.
    seed = (2.0 * g_rho + 1j * g_phase) / top

    def downward(lam, layer):
        z, t, a = layer
        num = a + z * t
        den = z + a * t
        sech2 = 1.0 - t * t
        dz = num / den - z * a * sech2 / den**2
        dt = z * (z * z - a * a) / den**2
        da = z * z * sech2 / den**2
        return lam * da, (lam * dz, lam * dt * sech2)

    base, (g_z, g_kh) = lax.scan(downward, seed, (intrinsic[:-1], th, below))
    g_z = jnp.concatenate([g_z, base[None]], axis=0)

    d_res = 0.5 * jnp.sum((g_z * intrinsic).real, axis=1)
    through_kh = jnp.sum((g_kh * kh).real, axis=1)
    d_res = d_res.at[:-1].add(-0.5 * through_kh)
    return d_res.astype(log_resistivity.dtype), through_kh.astype(log_thickness.dtype)


magnetotelluric_response.defvjp(_mt_fwd, _mt_bwd)


def mt_misfit(model, periods, log_rho_obs, phase_obs, rho_err=0.05, phase_err=0.02):
    """Chi squared of a layered model.

    Args:
      model: Dict with ``log_resistivity`` and ``log_thickness``.
      periods: Tuple of periods in seconds.
      log_rho_obs: Observed log apparent resistivity.
      phase_obs: Observed phase in radians.
      rho_err: Standard error of ``log_rho_obs``.
      phase_err: Standard error of ``phase_obs``.

    Returns:
      A scalar.
    """
    log_rho, phase = magnetotelluric_response(
        periods, model["log_resistivity"], model["log_thickness"]
    )
    return jnp.sum(((log_rho - log_rho_obs) / rho_err) ** 2) + jnp.sum(
        ((phase - phase_obs) / phase_err) ** 2
    )


# ---------------------------------------------------------------------------
# Oceanic lithosphere
# ---------------------------------------------------------------------------


def _plate_modes(age_myr, thickness):
    odd = 2.0 * jnp.arange(N_TERMS) + 1.0
    rate = DIFFUSIVITY * jnp.pi**2 * odd**2 * SECONDS_PER_MYR
    age = jnp.asarray(age_myr)[..., None]
    length = jnp.asarray(thickness)[..., None]
    return odd, rate, jnp.exp(-rate * age / length**2)


def _buoyancy(thickness, temperature):
    scale = EXPANSIVITY * MANTLE_DENSITY / (2.0 * (MANTLE_DENSITY - WATER_DENSITY))
    return scale * temperature * thickness


@jax.custom_jvp
def plate_subsidence(age_myr, thickness, temperature, ridge_depth):
    """Depth of the sea floor in the cooling plate model.

    A plate of fixed thickness is created hot at the ridge and cools to a
    linear profile. The depth is the ridge depth plus the isostatic response,
    summed over the first ``N_TERMS`` odd modes::

        d = d0 + B * (1 - 8 / pi**2 * sum_j exp(-k (2j+1)**2 pi**2 t / L**2) / (2j+1)**2)
        B = alpha rho_m T L / (2 (rho_m - rho_w))

    Args:
      age_myr: Age of the crust in million years, not negative.
      thickness: Plate thickness ``L`` in metres, positive.
      temperature: Basal temperature ``T`` above the surface in kelvin.
      ridge_depth: Depth of the ridge crest ``d0`` in metres.

    All four broadcast against each other.

    Returns:
      Depth in metres, in the broadcast shape.
    """
    odd, _, modes = _plate_modes(age_myr, thickness)
    relaxed = 1.0 - 8.0 / jnp.pi**2 * jnp.sum(modes / odd**2, axis=-1)
    return ridge_depth + _buoyancy(thickness, temperature) * relaxed


def _subsidence_age(t, ans, age_myr, thickness, temperature, ridge_depth):
    odd, rate, modes = _plate_modes(age_myr, thickness)
    slope = 8.0 / jnp.pi**2 * jnp.sum(rate * modes / odd**2, axis=-1) / thickness**2
    return jnp.broadcast_to(t * _buoyancy(thickness, temperature) * slope, ans.shape)


def _subsidence_thickness(t, ans, age_myr, thickness, temperature, ridge_depth):
    odd, rate, modes = _plate_modes(age_myr, thickness)
    weights = modes / odd**2
    relaxed = 1.0 - 8.0 / jnp.pi**2 * jnp.sum(weights, axis=-1)
    stretch = 16.0 / jnp.pi**2 * jnp.sum(rate * weights, axis=-1) * age_myr / thickness**2
    return jnp.broadcast_to(t * _buoyancy(1.0, temperature) * (relaxed - stretch), ans.shape)


def _subsidence_temperature(t, ans, age_myr, thickness, temperature, ridge_depth):
    odd, _, modes = _plate_modes(age_myr, thickness)
    relaxed = 1.0 - 8.0 / jnp.pi**2 * jnp.sum(modes / odd**2, axis=-1)
    return jnp.broadcast_to(t * _buoyancy(thickness, 1.0) * relaxed, ans.shape)


def _subsidence_ridge(t, ans, age_myr, thickness, temperature, ridge_depth):
    return jnp.broadcast_to(t, ans.shape)


plate_subsidence.defjvps(
    _subsidence_age, _subsidence_thickness, _subsidence_temperature, _subsidence_ridge
)


# ---------------------------------------------------------------------------
# Ground motion
# ---------------------------------------------------------------------------


@jax.custom_vjp
def ground_motion_median(
    coeffs: Dict[str, jax.Array],
    magnitude: jax.Array,
    distance_km: jax.Array,
    vs30: jax.Array,
) -> jax.Array:
    """Median ground motion of a hinged magnitude, saturating distance model.

    Args:
      coeffs: Scalars by name. ``e0`` is the level at the hinge; ``e1`` and
        ``e2`` are slope and curvature below it, ``e3`` is the slope above;
        ``c1``, ``c2`` are the geometric spreading and its dependence on
        magnitude, ``c3`` the anelastic term, ``h`` the pseudo depth in km,
        positive; ``site`` is the site coefficient.
      magnitude: Moment magnitudes, shape ``(records,)``. The slope jumps at
        ``HINGE_MAGNITUDE`` and no record sits on the hinge.
      distance_km: Joyner-Boore distances in km, zero or more, same shape.
      vs30: Shear velocity of the upper 30 m in m/s, positive, same shape.
        Rock harder than ``CAP_VS30`` amplifies no less than rock at the cap:
        the site term is held constant beyond it.

    Returns:
      Natural logarithm of the median motion, shape ``(records,)``.
    """
    return _gmm_terms(coeffs, magnitude, distance_km, vs30)[0]


def _gmm_terms(coeffs, magnitude, distance_km, vs30):
    dm = magnitude - HINGE_MAGNITUDE
    below = dm <= 0.0
    source = coeffs["e0"] + jnp.where(
        below, coeffs["e1"] * dm + coeffs["e2"] * dm**2, coeffs["e3"] * dm
    )
    reach = jnp.sqrt(distance_km**2 + coeffs["h"] ** 2)
    log_reach = jnp.log(reach / REFERENCE_DISTANCE)
    spread = coeffs["c1"] + coeffs["c2"] * (magnitude - REFERENCE_MAGNITUDE)
    path = spread * log_reach + coeffs["c3"] * (reach - REFERENCE_DISTANCE)
    log_site = jnp.log(jnp.minimum(vs30, CAP_VS30) / REFERENCE_VS30)
    out = source + path + coeffs["site"] * log_site
    return out, (dm, below, reach, log_reach, spread, log_site)


def _gmm_fwd(coeffs, magnitude, distance_km, vs30):
    out, terms = _gmm_terms(coeffs, magnitude, distance_km, vs30)
    return out, (terms, coeffs, magnitude, distance_km, vs30)


def _gmm_bwd(res, g):
    (dm, below, reach, log_reach, spread, log_site), coeffs, magnitude, distance_km, vs30 = res
    g_below = jnp.where(below, g, 0.0)
    g_above = jnp.where(below, 0.0, g)
    g_reach = g * (spread / reach + coeffs["c3"])

    d_coeffs = {
        "e0": jnp.sum(g),
        "e1": jnp.sum(g_below * dm),
        "e2": jnp.sum(g_below * dm**2),
        "e3": jnp.sum(g_above * dm),
        "c1": jnp.sum(g * log_reach),
        "c2": jnp.sum(g * (magnitude - REFERENCE_MAGNITUDE) * log_reach),
        "c3": jnp.sum(g * (reach - REFERENCE_DISTANCE)),
        "h": jnp.sum(g_reach / reach) * coeffs["h"],
        "site": jnp.sum(g * log_site),
    }
    d_magnitude = (
        g_below * (coeffs["e1"] + 2.0 * coeffs["e2"] * dm)
        + g_above * coeffs["e3"]
        + g * coeffs["c2"] * log_reach
    )
    d_distance = g_reach * distance_km / reach
    d_vs30 = g * coeffs["site"] / vs30
    return d_coeffs, d_magnitude, d_distance, d_vs30


ground_motion_median.defvjp(_gmm_fwd, _gmm_bwd)
