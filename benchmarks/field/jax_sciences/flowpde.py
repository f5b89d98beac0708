"""Building blocks of a toy dynamical core."""
import functools
import jax
import jax.numpy as jnp
import numpy as np

T0 = 273.15


# Advection ------------------------------------------------------------------

def _faces(q, u):
    """Donor-cell flux; face i sits between the cells i-1 and i (periodic)."""
    return jnp.maximum(u, 0) * jnp.roll(q, 1) + jnp.minimum(u, 0) * q


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def upwind_step(q, u, dt, dx):
    """One explicit first-order finite-volume step of a tracer.

    Args:
      q: cell averages, shape (n,), periodic.
      u: face velocities of either sign, shape (n,). u[i] is at the left face of cell i.
      dt: time step (python float).
      dx: cell width (python float).

    Returns:
      the new cell averages, shape (n,).
    """
    F = _faces(q, u)
    return q - dt / dx * (jnp.roll(F, -1) - F)


def _upwind_fwd(q, u, dt, dx):
    return upwind_step(q, u, dt, dx), (q, u)


def _upwind_bwd(dt, dx, res, g):
    q, u = res
    gF = dt / dx * (g - jnp.roll(g, 1))
    gq = g + jnp.minimum(u, 0) * gF + jnp.roll(jnp.maximum(u, 0) * gF, -1)
    gu = gF * jnp.roll(q, 1)
    return gq, gu


upwind_step.defvjp(_upwind_fwd, _upwind_bwd)


def advect(q0, u, nsteps, dt, dx):
    return jax.lax.fori_loop(0, nsteps, lambda _, q: upwind_step(q, u, dt, dx), q0)


@jax.custom_jvp
def van_leer(r):
    """van Leer slope limiter, elementwise."""
    a = jnp.abs(r)
    return (r + a) / (1 + a)


@van_leer.defjvp
def _van_leer_jvp(p, t):
    r, = p
    dr, = t
    slope = jnp.where(r > 0, 2 / (1 + jnp.abs(r)) ** 2, 0)
    return van_leer(r), slope * dr


# Spectral -------------------------------------------------------------------

def _wavenumbers(n, length):
    return 2 * np.pi / length * np.arange(n // 2 + 1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def hyperdiffuse(q, nu, dt, length):
    """Exact integration of  dq/dt = -nu d^4q/dx^4  over one step on a periodic line.

    Args:
      q: (..., n) samples, n even.
      nu: scalar hyperviscosity.
      dt: step.
      length: domain length.
    """
    n = q.shape[-1]
    k4 = jnp.asarray(_wavenumbers(n, length) ** 4, q.dtype)
    return jnp.fft.irfft(jnp.fft.rfft(q) * jnp.exp(-nu * dt * k4), n)


def _hyper_fwd(q, nu, dt, length):
    n = q.shape[-1]
    k4 = jnp.asarray(_wavenumbers(n, length) ** 4, q.dtype)
    damp = jnp.exp(-nu * dt * k4)
    spec = jnp.fft.rfft(q) * damp
    return jnp.fft.irfft(spec, n), (spec, damp, k4)


def _hyper_bwd(dt, length, res, g):
    spec, damp, k4 = res
    n = g.shape[-1]
    gspec = jnp.fft.rfft(g)
    gq = jnp.fft.irfft(gspec * damp, n)
    # Parseval: no need to go back to grid space for the scalar
    gnu = -dt / n * jnp.sum(k4 * jnp.real(jnp.conj(gspec) * spec))
    return gq, gnu


hyperdiffuse.defvjp(_hyper_fwd, _hyper_bwd)


# Vertical mixing --------------------------------------------------------------

def _tridiag(kappa, r):
    zero = jnp.zeros_like(kappa[..., :1])
    below = jnp.concatenate([zero, kappa], -1) * r
    above = jnp.concatenate([kappa, zero], -1) * r
    return -below, 1 + below + above, -above


def _solve(kappa, r, rhs):
    lo, di, up = _tridiag(kappa, r)
    return jax.lax.linalg.tridiagonal_solve(lo, di, up, rhs[..., None])[..., 0]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def implicit_diffusion(temp, kappa, dt, dz):
    """Backward-Euler vertical diffusion with no flux through top and bottom.

    Args:
      temp: (ncol, nz) temperature.
      kappa: (ncol, nz - 1) diffusivity at the interior interfaces, >= 0.
      dt, dz: floats.
    """
    return _solve(kappa, dt / dz ** 2, temp)


def _imp_fwd(temp, kappa, dt, dz):
    new = _solve(kappa, dt / dz ** 2, temp)
    return new, (new, kappa)


def _imp_bwd(dt, dz, res, g):
    new, kappa = res
    r = dt / dz ** 2
    lam = _solve(kappa, r, g)      # the operator is symmetric
    return lam, -r * jnp.diff(lam, axis=-1) * jnp.diff(new, axis=-1)


implicit_diffusion.defvjp(_imp_fwd, _imp_bwd)


# Thermodynamics and diagnostics -----------------------------------------------

@jax.custom_jvp
def saturation_vapor_pressure(T):
    """Magnus formula, Pa; over liquid water at and above 273.15 K, over ice below."""
    Tc = T - T0
    water = 611.2 * jnp.exp(17.62 * Tc / (243.12 + Tc))
    ice = 611.2 * jnp.exp(22.46 * Tc / (272.62 + Tc))
    return jnp.where(Tc >= 0, water, ice)


@saturation_vapor_pressure.defjvp
def _es_jvp(primals, tangents):
    T, = primals
    dT, = tangents
    es = saturation_vapor_pressure(T)
    Tc = T - T0
    b = jnp.where(Tc >= 0, 243.12, 272.62)
    return es, es * 17.62 * b / (b + Tc) ** 2 * dT


def relative_humidity(qv, p, T):
    e = qv * p / (0.622 + 0.378 * qv)
    return e / saturation_vapor_pressure(T)


@jax.custom_vjp
def area_mean(field, lat, mask):
    """cos(lat)-weighted mean over the unmasked cells.

    Args:
      field: (..., nlat, nlon)
      lat: (nlat,) radians
      mask: (nlat, nlon) bool, True where the cell counts. If nothing counts the mean is 0.

    Returns:
      (...,)
    """
    return _area_fwd(field, lat, mask)[0]


def _area_fwd(field, lat, mask):
    w = jnp.cos(lat)[:, None] * mask
    total = jnp.sum(w)
    inv = jnp.where(mask.any(), 1 / jnp.where(mask.any(), total, 1), 0)
    mean = jnp.sum(field * w, (-2, -1)) * inv
    return mean, (field, lat, mask, mean, inv)


def _area_bwd(res, g):
    field, lat, mask, mean, inv = res
    gg = g[..., None, None] * inv
    gfield = gg * (jnp.cos(lat)[:, None] * mask)
    per_cell = gg * (field - mean[..., None, None]) * mask
    lead = tuple(range(field.ndim - 2))
    glat = -jnp.sin(lat) * jnp.sum(per_cell, lead + (field.ndim - 1,))
    return gfield, glat, None


area_mean.defvjp(_area_fwd, _area_bwd)
