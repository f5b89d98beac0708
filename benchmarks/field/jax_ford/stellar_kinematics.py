"""Cluster potentials, astrometry and time series."""
import dataclasses
import functools

import jax
import jax.numpy as jnp

G_PC = 4.30091e-3  # pc (km/s)^2 / Msun


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def plummer_acceleration(pos, centre, mass, scale, grav=G_PC):
    r"""Field of a superposition of Plummer spheres.

    .. math::

        \Phi(x) = -\sum_j \frac{G m_j}{\sqrt{|x - c_j|^2 + b_j^2}}, \qquad a = -\nabla\Phi

    Parameters
    ----------
    pos : (N, 3) array
        Test particle positions.
    centre : (M, 3) array
        Cluster centres.
    mass, scale : (M,) array
        Cluster masses and Plummer radii (positive).
    grav : float
        Gravitational constant, fixes the units.

    Returns
    -------
    acc : (N, 3) array
        Acceleration.
    pot : (N,) array
        Potential.

    Notes
    -----
    Gradients with respect to all arrays are propagated from both outputs. The
    (N, M) separation table is rebuilt in the backward pass.
    """
    d = pos[:, None, :] - centre[None, :, :]
    s2 = jnp.sum(d * d, axis=-1) + scale**2
    pot = -grav * jnp.sum(mass * s2**-0.5, axis=1)
    acc = -grav * jnp.einsum("nm,nmk->nk", mass * s2**-1.5, d)
    return acc, pot


def _plummer_fwd(pos, centre, mass, scale, grav):
    return plummer_acceleration(pos, centre, mass, scale, grav), (pos, centre, mass, scale)


def _plummer_bwd(grav, res, cot):
    pos, centre, mass, scale = res
    g_acc, g_pot = cot
    d = pos[:, None, :] - centre[None, :, :]
    s2 = jnp.sum(d * d, axis=-1) + scale**2
    i1, i3, i5 = s2**-0.5, s2**-1.5, s2**-2.5
    proj = jnp.einsum("nk,nmk->nm", g_acc, d)

    from_acc = 1.5 * grav * mass * i5 * proj
    from_pot = 0.5 * grav * mass * i3 * g_pot[:, None]
    g_d = 2.0 * (from_acc + from_pot)[..., None] * d - grav * (mass * i3)[..., None] * g_acc[:, None, :]
    g_mass = -grav * jnp.sum(i3 * proj + i1 * g_pot[:, None], axis=0)
    g_scale = 2.0 * scale * jnp.sum(from_acc, axis=0)
    return g_d.sum(axis=1), -g_d.sum(axis=0), g_mass, g_scale


plummer_acceleration.defvjp(_plummer_fwd, _plummer_bwd)


def _triad(ra, dec):
    ca, sa, cd, sd = jnp.cos(ra), jnp.sin(ra), jnp.cos(dec), jnp.sin(dec)
    p = jnp.stack([cd * ca, cd * sa, sd], -1)
    e = jnp.stack([-sa, ca, jnp.zeros_like(sa)], -1)
    n = jnp.stack([-sd * ca, -sd * sa, cd], -1)
    return p, e, n


@jax.custom_jvp
def proper_motion_step(ra, dec, pmra, pmdec, dt):
    p, e, n = _triad(ra, dec)
    u = p + dt[..., None] * (pmra[..., None] * e + pmdec[..., None] * n)
    x, y, z = u[..., 0], u[..., 1], u[..., 2]
    return jnp.arctan2(y, x), jnp.arctan2(z, jnp.hypot(x, y))


@proper_motion_step.defjvp
def _pm_jvp(primals, tangents):
    ra, dec, pmra, pmdec, dt = primals
    da, dd, dmu, dnu, ddt = (t[..., None] for t in tangents)
    p, e, n = _triad(ra, dec)
    mu, nu, tau = pmra[..., None], pmdec[..., None], dt[..., None]
    u = p + tau * (mu * e + nu * n)

    cd, sd = jnp.cos(dec)[..., None], jnp.sin(dec)[..., None]
    dp = da * cd * e + dd * n
    de = da * (sd * n - cd * p)
    dn = -da * sd * e - dd * p
    du = dp + ddt * (mu * e + nu * n) + tau * (dmu * e + mu * de + dnu * n + nu * dn)

    x, y, z = u[..., 0], u[..., 1], u[..., 2]
    dx, dy, dz = du[..., 0], du[..., 1], du[..., 2]
    rho2 = x * x + y * y
    rho = jnp.sqrt(rho2)
    drho = (x * dx + y * dy) / rho
    out = jnp.arctan2(y, x), jnp.arctan2(z, rho)
    return out, ((x * dy - y * dx) / rho2, (rho * dz - z * drho) / (rho2 + z * z))


def _design(t, freq):
    arg = 2.0 * jnp.pi * freq[:, None] * t[None, :]
    return jnp.stack([jnp.ones_like(arg), jnp.cos(arg), jnp.sin(arg)], axis=-1)


def _lomb_fit(t, y, w, freq):
    x = _design(t, freq)
    gram = jnp.einsum("ftk,t,ftl->fkl", x, w, x)
    rhs = jnp.einsum("ftk,t->fk", x, w * y)
    coef = jnp.linalg.solve(gram, rhs[..., None])[..., 0]
    fit = jnp.einsum("ftk,fk->ft", x, coef)
    mu = jnp.sum(w * y) / jnp.sum(w)
    ref = jnp.sum(w * (y - mu) ** 2)
    power = 1.0 - jnp.sum(w * (y - fit) ** 2, axis=1) / ref
    return power, (x, coef, fit, mu, ref)


@jax.custom_vjp
def lomb_power(t, y, w, freq):
    """Floating-mean Lomb-Scargle power in [0, 1] at freq (F,) > 0 for irregular samples t, y with positive weights w (T,), T > 3."""
    return _lomb_fit(t, y, w, freq)[0]


def _lomb_fwd(t, y, w, freq):
    power, aux = _lomb_fit(t, y, w, freq)
    return power, (t, y, w, freq, power, aux)


def _lomb_bwd(res, g):
    t, y, w, freq, power, (x, coef, fit, mu, ref) = res
    left = y - fit
    c = (g / ref)[:, None]
    keep = 1.0 - power[:, None]
    gy = jnp.sum(2.0 * c * w * (keep * (y - mu) - left), axis=0)
    gw = jnp.sum(c * (keep * (y - mu) ** 2 - left**2), axis=0)
    # envelope theorem: only the design moves, the coefficients stay
    phase = 2.0 * c * w * left * (coef[:, 2:3] * x[..., 1] - coef[:, 1:2] * x[..., 2])
    gt = 2.0 * jnp.pi * jnp.sum(phase * freq[:, None], axis=0)
    gf = 2.0 * jnp.pi * jnp.sum(phase * t[None, :], axis=1)
    return gt, gy, gw, gf


lomb_power.defvjp(_lomb_fwd, _lomb_bwd)


@dataclasses.dataclass(frozen=True)
class EpochStack:
    jitter: float = 0.0

    def _weights(self, sigma, mask):
        return mask / (sigma**2 + self.jitter**2)

    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def _combine(self, velocity, sigma, mask):
        w = self._weights(sigma, mask)
        total = jnp.sum(w, axis=-1)
        return jnp.sum(w * velocity, axis=-1) / total, total**-0.5

    def _combine_fwd(self, velocity, sigma, mask):
        mean, err = EpochStack._combine(self, velocity, sigma, mask)
        return (mean, err), (velocity, sigma, mask, mean, err)

    def _combine_bwd(self, res, cot):
        velocity, sigma, mask, mean, err = res
        g_mean, g_err = (c[..., None] for c in cot)
        mean, err = mean[..., None], err[..., None]
        w = self._weights(sigma, mask)
        g_v = g_mean * w * err**2
        g_w = g_mean * (velocity - mean) * err**2 - 0.5 * g_err * err**3
        g_s = -2.0 * sigma * g_w / (sigma**2 + self.jitter**2) ** 2
        return g_v, g_s, None

    _combine.defvjp(_combine_fwd, _combine_bwd)

    def combine(self, velocity, sigma, mask):
        return EpochStack._combine(self, velocity, sigma, mask)

    def chi2(self, velocity, sigma, mask):
        mean, _ = self.combine(velocity, sigma, mask)
        return jnp.sum(self._weights(sigma, mask) * (velocity - mean[..., None]) ** 2, axis=-1)
