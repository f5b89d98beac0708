# Adjoints for the regional assimilation prototype (column mixing, observation operators, bulk thermodynamics,
# sea-surface-height misfit) and the 2-D acoustic model used for the streamer lines.
#
# Conventions follow the Fortran they were ported from: vertical index increases downwards, longitude is the
# last horizontal axis and periodic, SI units unless a name says otherwise.
import functools
import typing

import jax
import jax.numpy as jnp
import numpy as np

T0 = 273.16  # triple point, K
T_ICE = T0 - 23.0  # everything frozen below
E0 = 611.21  # Pa
A_LIQ, B_LIQ = 17.502, 32.19
A_ICE, B_ICE = 22.587, -0.7
EPSILON = 0.622


# ----------------------------------------------------------------------------------------------------------
# implicit vertical mixing
# ----------------------------------------------------------------------------------------------------------
def _thomas(lower, diag, upper, rhs):
    """Thomas sweep along the last axis; lower[..., 0] and upper[..., -1] are not referenced."""
    a, b, c, d = (jnp.moveaxis(v, -1, 0) for v in (lower, diag, upper, rhs))

    def forward(carry, row):
        cp, dp = carry
        a_i, b_i, c_i, d_i = row
        w = b_i - a_i * cp
        cp, dp = c_i / w, (d_i - a_i * dp) / w
        return (cp, dp), (cp, dp)

    zero = jnp.zeros_like(d[0])
    a = a.at[0].set(0.0)
    _, (cp, dp) = jax.lax.scan(forward, (zero, zero), (a, b, c, d))

    def backward(x_next, row):
        cp_i, dp_i = row
        x = dp_i - cp_i * x_next
        return x, x

    cp = cp.at[-1].set(0.0)
    _, x = jax.lax.scan(backward, zero, (cp, dp), reverse=True)
    return jnp.moveaxis(x, 0, -1)


@jax.custom_vjp
def tridiag_solve(lower, diag, upper, rhs):
    """Solve lower[k] x[k-1] + diag[k] x[k] + upper[k] x[k+1] = rhs[k] in every column."""
    return _thomas(lower, diag, upper, rhs)


def _tridiag_fwd(lower, diag, upper, rhs):
    x = _thomas(lower, diag, upper, rhs)
    return x, (lower, diag, upper, x)


def _tridiag_bwd(res, xbar):
    lower, diag, upper, x = res
    lam = _thomas(lower, diag, upper, xbar)
    above = jnp.concatenate([jnp.zeros_like(x[..., :1]), x[..., :-1]], axis=-1)
    below = jnp.concatenate([x[..., 1:], jnp.zeros_like(x[..., :1])], axis=-1)
    return -lam * above, -lam * x, -lam * below, lam


tridiag_solve.defvjp(_tridiag_fwd, _tridiag_bwd)


def mix_column(tracer, kappa, dz, dt):
    """One backward-Euler step of d_t C = d_z (kappa d_z C).

    tracer (..., nz) at centres, kappa (..., nz - 1) at the interfaces between them, dz (nz,) layer thickness.
    """
    spacing = 0.5 * (dz[1:] + dz[:-1])
    flux = dt * kappa / spacing
    pad = [(0, 0)] * (tracer.ndim - 1)
    lower = -jnp.pad(flux, pad + [(1, 0)]) / dz
    upper = -jnp.pad(flux, pad + [(0, 1)]) / dz
    diag = 1.0 - lower - upper
    return tridiag_solve(lower, diag, upper, tracer)


# ----------------------------------------------------------------------------------------------------------
# observation operator
# ----------------------------------------------------------------------------------------------------------
def make_obs_operator(lat0, dlat, dlon, grid_shape, obs_lat, obs_lon):
    """Bilinear sampling of a (nlat, nlon) field at the observation points; longitude wraps around.

    Returns H with H(field) -> (nobs,). The stencils are fixed numpy tables.
    """
    nlat, nlon = grid_shape
    y = np.clip((np.asarray(obs_lat) - lat0) / dlat, 0, nlat - 1 - 1e-9)
    x = np.asarray(obs_lon) % 360.0 / dlon
    j0, i0 = np.floor(y).astype(np.int32), np.floor(x).astype(np.int32)
    fy, fx = y - j0, x - i0
    jj = np.stack([j0, j0, j0 + 1, j0 + 1])
    ii = np.stack([i0, i0 + 1, i0, i0 + 1]) % nlon
    ww = np.stack([(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx])

    @jax.custom_vjp
    def observe(field):
        return (jnp.asarray(ww, field.dtype) * field[jj, ii]).sum(axis=0)

    def observe_fwd(field):
        return observe(field), None

    def observe_bwd(_, ybar):
        fbar = jnp.zeros((nlat, nlon), ybar.dtype)
        for c in range(4):
            patch = jnp.zeros_like(fbar).at[jj[c], ii[c]].set(jnp.asarray(ww[c], ybar.dtype) * ybar)
            fbar = fbar + patch
        return (fbar,)

    observe.defvjp(observe_fwd, observe_bwd)
    return observe


# ----------------------------------------------------------------------------------------------------------
# bulk thermodynamics
# ----------------------------------------------------------------------------------------------------------
def _tetens(t, a, b):
    return E0 * jnp.exp(a * (t - T0) / (t - b))


def _liquid_fraction(t):
    s = jnp.clip((t - T_ICE) / (T0 - T_ICE), 0.0, 1.0)
    return s * s


@jax.custom_jvp
def saturation_pressure(t):
    """Saturation vapour pressure (Pa), IFS mixed phase: liquid above T0, ice below T_ICE, blended between."""
    f = _liquid_fraction(t)
    return f * _tetens(t, A_LIQ, B_LIQ) + (1.0 - f) * _tetens(t, A_ICE, B_ICE)


@saturation_pressure.defjvp
def _saturation_pressure_jvp(primals, tangents):
    (t,), (dt,) = primals, tangents
    f = _liquid_fraction(t)
    e_liq, e_ice = _tetens(t, A_LIQ, B_LIQ), _tetens(t, A_ICE, B_ICE)
    slope_liq = e_liq * A_LIQ * (T0 - B_LIQ) / (t - B_LIQ) ** 2
    slope_ice = e_ice * A_ICE * (T0 - B_ICE) / (t - B_ICE) ** 2
    slope = f * slope_liq + (1.0 - f) * slope_ice
    return f * e_liq + (1.0 - f) * e_ice, slope * dt


def specific_humidity_deficit(q, t, p):
    e = saturation_pressure(t)
    return EPSILON * e / (p - (1.0 - EPSILON) * e) - q


# ----------------------------------------------------------------------------------------------------------
# misfit
# ----------------------------------------------------------------------------------------------------------
def _reduce_to(shape, g):
    """Undo numpy broadcasting."""
    extra = g.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(extra + i for i, n in enumerate(shape) if n == 1 and g.shape[extra + i] != 1)
    return g.sum(axis=axes).reshape(shape) if axes else g


def _pseudo_residual(model, obs, sigma, wet):
    return jnp.where(wet, (model - jnp.where(wet, obs, 0.0)) / sigma, 0.0)


def _huber(r, delta):
    a = jnp.abs(r)
    return jnp.where(a <= delta, 0.5 * r * r, delta * (a - 0.5 * delta))


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def ssh_misfit(model, obs, sigma, wet, delta=1.5, reduction="sum"):
    """Huber misfit of (model - obs) / sigma over wet points; reduction 'sum', 'mean' (wet points) or 'none'.

    model (ntime, nlat, nlon); obs likewise (NaN on land allowed); sigma and wet broadcast against them.
    """
    rho = _huber(_pseudo_residual(model, obs, sigma, wet), delta)
    if reduction == "none":
        return rho
    total = rho.sum()
    if reduction == "mean":
        total = total / jnp.maximum(jnp.broadcast_to(wet, rho.shape).sum(), 1)
    elif reduction != "sum":
        raise ValueError(reduction)
    return total


def _ssh_fwd(model, obs, sigma, wet, delta, reduction):
    return ssh_misfit(model, obs, sigma, wet, delta, reduction), (model, obs, sigma, wet)


def _ssh_bwd(delta, reduction, res, g):
    model, obs, sigma, wet = res
    r = _pseudo_residual(model, obs, sigma, wet)
    if reduction == "mean":
        g = g / jnp.maximum(jnp.broadcast_to(wet, r.shape).sum(), 1)
    psi = g * jnp.clip(r, -delta, delta)
    dmodel = jnp.where(wet, psi / sigma, 0.0)
    dsigma = jnp.where(wet, -psi * r / sigma, 0.0)
    return _reduce_to(model.shape, dmodel), _reduce_to(obs.shape, -dmodel), _reduce_to(sigma.shape, dsigma), None


ssh_misfit.defvjp(_ssh_fwd, _ssh_bwd)


# ----------------------------------------------------------------------------------------------------------
# acoustic modelling
# ----------------------------------------------------------------------------------------------------------
class Survey(typing.NamedTuple):
    dx: float
    dt: float
    source: tuple  # (iz, ix)
    receivers: np.ndarray  # (nrec, 2)
    sponge: int = 4


def _laplacian(u, dx):
    p = jnp.pad(u, 1)
    return (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4.0 * u) / dx**2


def _sponge_taper(shape, width):
    edge = np.minimum.outer(
        np.minimum(np.arange(shape[0]), np.arange(shape[0])[::-1]),
        np.minimum(np.arange(shape[1]), np.arange(shape[1])[::-1]),
    )
    return np.where(edge < width, np.exp(-((0.15 * (width - edge)) ** 2)), 1.0)


def make_propagator(survey):
    """Leapfrog u[n+1] = taper * (2 u[n] - u[n-1] + (c dt)^2 lap u[n]) + dt^2 s[n] at the source.

    Returns propagate(c, wavelet) -> traces (nt, nrec), where traces[n] samples u[n+1].
    """
    dx, dt = survey.dx, survey.dt
    sz, sx = survey.source
    rz, rx = np.asarray(survey.receivers).T

    def step(c, taper, u, um, s):
        un = taper * (2.0 * u - um + (c * dt) ** 2 * _laplacian(u, dx))
        return un.at[sz, sx].add(dt**2 * s)

    def run(c, wavelet):
        taper = jnp.asarray(_sponge_taper(c.shape, survey.sponge), c.dtype)

        def body(carry, s):
            u, um = carry
            un = step(c, taper, u, um, s)
            return (un, u), (un[rz, rx], u)

        quiet = jnp.zeros_like(c)
        _, (traces, history) = jax.lax.scan(body, (quiet, quiet), wavelet)
        return traces, history

    @jax.custom_vjp
    def propagate(c, wavelet):
        return run(c, wavelet)[0]

    def propagate_fwd(c, wavelet):
        traces, history = run(c, wavelet)
        return traces, (c, history)

    def propagate_bwd(res, traces_bar):
        c, history = res
        taper = jnp.asarray(_sponge_taper(c.shape, survey.sponge), c.dtype)

        def body(carry, inp):
            # lam: adjoint of u[n+1] from later steps, mu: what u[n] receives as their "u[n-1]"
            lam, mu, cbar = carry
            tbar, u = inp
            lam = lam.at[rz, rx].add(tbar)
            sbar = dt**2 * lam[sz, sx]
            tl = taper * lam
            cbar = cbar + 2.0 * c * dt**2 * _laplacian(u, dx) * tl
            lam_prev = mu + 2.0 * tl + _laplacian((c * dt) ** 2 * tl, dx)
            return (lam_prev, -tl, cbar), sbar

        quiet = jnp.zeros_like(c)
        (_, _, cbar), sbar = jax.lax.scan(body, (quiet, quiet, quiet), (traces_bar, history), reverse=True)
        return cbar, sbar

    propagate.defvjp(propagate_fwd, propagate_bwd)
    return propagate


def ricker(nt, dt, freq):
    t = jnp.arange(nt) * dt - 1.0 / freq
    a = (jnp.pi * freq * t) ** 2
    return (1.0 - 2.0 * a) * jnp.exp(-a)


# ----------------------------------------------------------------------------------------------------------
def demo_assimilation(seed=0):
    rng = np.random.default_rng(seed)
    nlat, nlon, nz = 10, 18, 8
    h = make_obs_operator(-45.0, 10.0, 20.0, (nlat, nlon), rng.uniform(-40, 40, 60), rng.uniform(-180, 180, 60))
    dz = jnp.asarray(10.0 * 1.3 ** np.arange(nz))
    kappa = jnp.asarray(10.0 ** rng.uniform(-5, -2, (nlat, nlon, nz - 1)))
    truth = jnp.asarray(rng.normal(15, 3, (nlat, nlon, nz)))
    sst = h(mix_column(truth, kappa, dz, 86400.0)[..., 0])

    def cost(temp):
        d = h(mix_column(temp, kappa, dz, 86400.0)[..., 0]) - sst
        return 0.5 * jnp.vdot(d, d)

    return jax.value_and_grad(cost)(truth + 0.5)


def demo_fwi():
    receivers = np.stack([np.full(8, 3), np.arange(4, 20, 2)], axis=1)
    shot = make_propagator(Survey(10.0, 1e-3, (3, 12), receivers))
    wavelet = ricker(120, 1e-3, 20.0) * 1e6
    observed = shot(jnp.full((24, 24), 2000.0).at[12:].set(2400.0), wavelet)
    misfit = lambda c: 0.5 * jnp.sum((shot(c, wavelet) - observed) ** 2)
    return jax.value_and_grad(misfit)(jnp.full((24, 24), 2000.0))


if __name__ == "__main__":
    print("assimilation", demo_assimilation()[0])
    print("fwi", demo_fwi()[0])
