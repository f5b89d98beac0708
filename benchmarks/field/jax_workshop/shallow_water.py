"""Finite-volume building blocks of the layered shallow-water core.

The model keeps prognostic variables at cell centres of an Arakawa C grid.  The
last array axis is always longitude ``x`` (index ``i``), the one before it
latitude ``y`` (index ``j``) or level ``k``.  The operators below carry explicit
adjoints: 4D-Var differentiates through some thousands of steps, and the
adjoint formulas are far cheaper in memory than what tracing leaves behind.

References
----------
.. [1] Durran, D. R., *Numerical Methods for Fluid Dynamics*, 2nd ed., ch. 5.
.. [2] Chow, V. T., *Open-Channel Hydraulics*, ch. 5 (Manning's law).
"""
from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

GRAVITY = 9.80616
H_DRY = 1.0e-3          # m, thinner films are treated as this thick
SPEED_FLOOR = 1.0e-6    # m/s


class FlowState(NamedTuple):
    """Depth and depth-averaged velocity, each of shape ``(ny, nx)``."""

    h: jax.Array
    u: jax.Array
    v: jax.Array


# --------------------------------------------------------------------------
# advection
# --------------------------------------------------------------------------
def _upwind_flux(q, u):
    return jnp.maximum(u, 0.0) * q + jnp.minimum(u, 0.0) * jnp.roll(q, -1, axis=-1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def advect_upwind(q, u, dx, dt):
    """One donor-cell step on a zonally periodic domain.

    Parameters
    ----------
    q : (nlev, nx) array
        Tracer at cell centres.
    u : (nx,) array
        Barotropic velocity at the eastern face of each cell, shared by all
        levels.
    dx, dt : float
        Cell width and time step.  ``max|u| * dt / dx`` should not exceed one.

    Returns
    -------
    (nlev, nx) array
        Tracer after the step; its sum over ``x`` is that of ``q``.
    """
    flux = _upwind_flux(q, u)
    return q - (dt / dx) * (flux - jnp.roll(flux, 1, axis=-1))


def _advect_upwind_fwd(q, u, dx, dt):
    return advect_upwind(q, u, dx, dt), (q, u)


def _advect_upwind_bwd(dx, dt, res, g):
    q, u = res
    g_flux = -(dt / dx) * (g - jnp.roll(g, -1, axis=-1))
    g_q = g + jnp.maximum(u, 0.0) * g_flux + jnp.roll(jnp.minimum(u, 0.0) * g_flux, 1, axis=-1)
    donor = jnp.where(u >= 0.0, q, jnp.roll(q, -1, axis=-1))
    return g_q, jnp.sum(donor * g_flux, axis=0)


advect_upwind.defvjp(_advect_upwind_fwd, _advect_upwind_bwd)


# --------------------------------------------------------------------------
# centre -> face interpolation
# --------------------------------------------------------------------------
def _neighbour(field, axis, boundary):
    """Value of the next cell along ``axis``."""
    shifted = jnp.roll(field, -1, axis=axis)
    if boundary == "periodic":
        return shifted
    if boundary == "wall":
        n = field.shape[axis]
        index = jnp.arange(n).reshape([-1 if a == axis % field.ndim else 1 for a in range(field.ndim)])
        return jnp.where(index == n - 1, field, shifted)
    raise ValueError(f"unknown boundary {boundary!r}")


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def face_average(field, axis=-1, boundary="periodic"):
    """Arithmetic mean of the two cells that share a face.

    Parameters
    ----------
    field : (..., ny, nx) array
    axis : int
        Axis along which faces are counted.
    boundary : {"periodic", "wall"}
        ``"periodic"`` wraps around; at a ``"wall"`` the last face takes the
        value of the last cell (zero normal gradient).

    Returns
    -------
    array of the shape of ``field``; entry ``i`` belongs to face ``i + 1/2``.
    """
    return 0.5 * (field + _neighbour(field, axis, boundary))


def _face_average_fwd(field, axis, boundary):
    return face_average(field, axis, boundary), None


def _face_average_bwd(axis, boundary, _, g):
    # Each cell feeds the face ahead of it and the face behind it.
    return (0.5 * (g + jnp.roll(g, 1, axis=axis)),)


face_average.defvjp(_face_average_fwd, _face_average_bwd)


# --------------------------------------------------------------------------
# diagnostics
# --------------------------------------------------------------------------
@jax.custom_vjp
def ocean_mean(field, cell_area, wet):
    """Area-weighted mean over the wet cells.

    Parameters
    ----------
    field : (nt, ny, nx) array
        Any cell-centred quantity; values on land are ignored.
    cell_area : (ny, nx) array
        Area of the cells in m^2.
    wet : (ny, nx) bool array
        True in the ocean.

    Returns
    -------
    (nt,) array
    """
    area = jnp.where(wet, cell_area, 0.0)
    return jnp.sum(field * area, axis=(-2, -1)) / jnp.sum(area)


def _ocean_mean_fwd(field, cell_area, wet):
    mean = ocean_mean(field, cell_area, wet)
    total = jnp.sum(jnp.where(wet, cell_area, 0.0))
    return mean, (field, cell_area, wet, mean, total)


def _ocean_mean_bwd(res, g):
    field, cell_area, wet, mean, total = res
    scaled = (g / total)[:, None, None]
    g_field = scaled * cell_area
    anomaly = field - mean[:, None, None]
    g_area = jnp.where(wet, jnp.sum(scaled * anomaly, axis=0), 0.0)
    return g_field, g_area, None


ocean_mean.defvjp(_ocean_mean_fwd, _ocean_mean_bwd)


# --------------------------------------------------------------------------
# vertical mixing
# --------------------------------------------------------------------------
class VerticalMixing:
    """Backward-Euler diffusion in columns of unequal layer thickness.

    Attributes
    ----------
    dz : (nlev,) layer thickness, top to bottom
    dt : time step in seconds
    step : callable ``(tracer, kappa) -> tracer``
        ``tracer`` has shape ``(nlev, ncol)`` and ``kappa`` (m^2/s, at the inner
        interfaces) ``(nlev - 1, ncol)``.  No flux passes the top or the bottom.
    """

    def __init__(self, dz, dt):
        self.dz = np.asarray(dz)
        self.dt = float(dt)
        self.step = self._build()

    def _build(self):
        dz = jnp.asarray(self.dz)[:, None]
        spacing = 0.5 * (dz[1:] + dz[:-1])
        dt = self.dt

        def bands(kappa):
            conduct = dt * kappa / spacing
            pad = jnp.zeros_like(conduct[:1])
            lower = jnp.concatenate([pad, -conduct / dz[1:]])
            upper = jnp.concatenate([-conduct / dz[:-1], pad])
            return lower, 1.0 - lower - upper, upper

        def tridiagonal(lower, diag, upper, rhs):
            sol = jax.lax.linalg.tridiagonal_solve(lower.T, diag.T, upper.T, rhs.T[..., None])
            return sol[..., 0].T

        @jax.custom_vjp
        def implicit_step(tracer, kappa):
            return tridiagonal(*bands(kappa), tracer)

        def fwd(tracer, kappa):
            new = implicit_step(tracer, kappa)
            return new, (new, kappa)

        def bwd(res, g):
            new, kappa = res
            lower, diag, upper = bands(kappa)
            # Transposing a tridiagonal matrix moves each band by one row.
            lower_t = jnp.roll(upper, 1, axis=0)
            upper_t = jnp.roll(lower, -1, axis=0)
            lam = tridiagonal(lower_t, diag, upper_t, g)
            per_mass = lam / dz
            g_kappa = -(dt / spacing) * (new[:-1] - new[1:]) * (per_mass[:-1] - per_mass[1:])
            return lam, g_kappa

        implicit_step.defvjp(fwd, bwd)
        return implicit_step

    def __call__(self, tracer, kappa):
        return self.step(tracer, kappa)


# --------------------------------------------------------------------------
# bottom friction
# --------------------------------------------------------------------------
@jax.custom_vjp
def manning_drag(state: FlowState, roughness):
    r"""Manning bottom friction, :math:`-g n^2 |U| U / h^{4/3}`.

    Parameters
    ----------
    state : FlowState
    roughness : (ny, nx) array
        Manning's ``n`` in s m^(-1/3).

    Returns
    -------
    du_dt, dv_dt : (ny, nx) arrays
        Acceleration of both components.  Below ``H_DRY`` the depth no longer
        matters.
    """
    depth = jnp.maximum(state.h, H_DRY)
    speed = jnp.sqrt(state.u**2 + state.v**2 + SPEED_FLOOR**2)
    drag = GRAVITY * roughness**2 * speed / depth ** (4.0 / 3.0)
    return -drag * state.u, -drag * state.v


def _manning_fwd(state, roughness):
    return manning_drag(state, roughness), (state, roughness)


def _manning_bwd(res, cotangents):
    (h, u, v), roughness = res
    gu, gv = cotangents
    depth = jnp.maximum(h, H_DRY)
    speed = jnp.sqrt(u**2 + v**2 + SPEED_FLOOR**2)
    per_speed = GRAVITY * roughness**2 / depth ** (4.0 / 3.0)
    work = gu * u + gv * v
    g_h = jnp.where(h > H_DRY, (4.0 / 3.0) * per_speed * speed * work / depth, 0.0)
    g_u = -per_speed * (speed + u**2 / speed) * gu
    g_v = -per_speed * (speed + v**2 / speed) * gv
    g_n = -2.0 * GRAVITY * roughness * speed / depth ** (4.0 / 3.0) * work
    return FlowState(g_h, g_u, g_v), g_n


manning_drag.defvjp(_manning_fwd, _manning_bwd)


def tracer_tendency_experiment(key, nlev=5, nx=12, nsteps=3):
    """Small closed experiment: advect, mix, and report the zonal mean."""
    k1, k2, k3 = jax.random.split(key, 3)
    q = jax.random.normal(k1, (nlev, nx))
    u = 8.0 * jax.random.normal(k2, (nx,))
    kappa = 1e-2 * jax.random.uniform(k3, (nlev - 1, nx))
    mixing = VerticalMixing(np.linspace(5.0, 40.0, nlev), dt=600.0)
    for _ in range(nsteps):
        q = mixing(advect_upwind(q, u, 1.0e4, 600.0), kappa)
    return face_average(q, axis=-1).mean(axis=-1)
