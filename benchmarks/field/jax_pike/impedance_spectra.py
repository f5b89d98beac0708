"""Equivalent-circuit elements for fitting electrochemical impedance spectra.

Angular frequencies are (F,); every element parameter is (B,), one entry per cell; an element
returns complex (B, F).
"""

from functools import partial

import jax
import jax.numpy as jnp


@jax.custom_vjp
def constant_phase(omega, q, n):
    return 1.0 / (q[:, None] * (1j * omega) ** n[:, None])


def _cpe_fwd(omega, q, n):
    z = constant_phase(omega, q, n)
    return z, (omega, q, n, z)


def _cpe_bwd(res, ct):
    omega, q, n, z = res
    cz = ct * z
    d_omega = -jnp.real(n @ cz) / omega
    d_q = -jnp.real(cz.sum(axis=1)) / q
    # log(j w) = log w + j pi/2
    d_n = -jnp.real(cz) @ jnp.log(omega) + 0.5 * jnp.pi * jnp.imag(cz).sum(axis=1)
    return d_omega, d_q, d_n


constant_phase.defvjp(_cpe_fwd, _cpe_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def finite_warburg(omega, r, tau, boundary="transmissive"):
    """Diffusion through a layer of finite thickness.

    boundary: "transmissive" -> r tanh(s)/s, "reflective" -> r coth(s)/s, with s = sqrt(j w tau).
    """
    s = jnp.sqrt(1j * omega * tau[:, None])
    t = jnp.tanh(s)
    shape = t / s if boundary == "transmissive" else 1.0 / (t * s)
    return r[:, None] * shape


def _warburg_fwd(omega, r, tau, boundary):
    return finite_warburg(omega, r, tau, boundary), (omega, r, tau)


def _warburg_bwd(boundary, res, ct):
    omega, r, tau = res
    s = jnp.sqrt(1j * omega * tau[:, None])
    t = jnp.tanh(s)
    if boundary == "transmissive":
        shape = t / s
        d_shape = (1.0 - t * t - shape) / s
    else:
        coth = 1.0 / t
        shape = coth / s
        d_shape = (coth * coth - 1.0 - shape) / s
    d_r = jnp.real(ct * shape).sum(axis=1)
    # s depends on the product w tau alone
    by_log = jnp.real(ct * r[:, None] * d_shape * 0.5 * s)
    return by_log.sum(axis=0) / omega, d_r, by_log.sum(axis=1) / tau


finite_warburg.defvjp(_warburg_fwd, _warburg_bwd)


@jax.custom_vjp
def parallel(z_a, z_b):
    """z_a z_b / (z_a + z_b) for two complex impedances of one shape."""
    return z_a * z_b / (z_a + z_b)


def _parallel_fwd(z_a, z_b):
    total = z_a + z_b
    share_a, share_b = z_b / total, z_a / total  # current dividers
    return z_a * share_a, (share_a, share_b)


def _parallel_bwd(res, ct):
    share_a, share_b = res
    return ct * jnp.conj(share_a) ** 2, ct * jnp.conj(share_b) ** 2


parallel.defvjp(_parallel_fwd, _parallel_bwd)


def series(*elements):
    return sum(elements[1:], elements[0])


def resistor(omega, r):
    return jnp.broadcast_to(r[:, None] + 0j, r.shape + omega.shape)


def make_misfit(weighting="observed"):
    """Complex least squares, mean over the points a spectrum really has.

    weighting
        "unit", "observed" (1/|z_obs|^2), "model" (1/|z|^2) or "parts" (real and imaginary part
        divided by their own observed value).
    """
    if weighting not in ("unit", "observed", "model", "parts"):
        raise ValueError(f"unknown weighting {weighting!r}")

    def pieces(z, z_obs):
        d = z - z_obs
        sq = jnp.real(d * jnp.conj(d))
        if weighting == "unit":
            return sq, 2 * jnp.conj(d), -2 * jnp.conj(d)
        if weighting == "parts":
            a, b = d.real / z_obs.real, d.imag / z_obs.imag
            value = a * a + b * b
            toward = 2 * (a / z_obs.real - 1j * b / z_obs.imag)
            # z / z_obs - 1, so z_obs sees z / z_obs**2
            away = -2 * (a * z.real / z_obs.real**2 - 1j * b * z.imag / z_obs.imag**2)
            return value, toward, away
        ref = z if weighting == "model" else z_obs
        mod = jnp.real(ref * jnp.conj(ref))
        value = sq / mod
        pull = 2 * value * jnp.conj(ref) / mod
        toward = 2 * jnp.conj(d) / mod
        if weighting == "model":
            return value, toward - pull, -toward
        return value, toward, -toward - pull

    @jax.custom_vjp
    def misfit(z, z_obs, valid):
        """z, z_obs complex (B, F); valid bool (B, F) -> (B,). A row without points costs 0."""
        return fwd(z, z_obs, valid)[0]

    def fwd(z, z_obs, valid):
        value, d_z, d_obs = pieces(z, z_obs)
        w = valid / jnp.maximum(valid.sum(axis=1, keepdims=True), 1)
        return jnp.sum(jnp.where(valid, value, 0.0) * w, axis=1), (d_z, d_obs, w)

    def bwd(res, g):
        d_z, d_obs, w = res
        scale = g[:, None] * w
        return tuple(jnp.where(w > 0, scale * d, 0.0) for d in (d_z, d_obs)) + (None,)

    misfit.defvjp(fwd, bwd)
    return misfit


class RandlesCell:
    """R_ohm in series with CPE || (R_ct + W)."""

    names = ("r_ohm", "q", "n", "r_ct", "r_w", "tau")

    def __init__(self, omega, boundary="transmissive", weighting="observed"):
        self.omega = jnp.asarray(omega)
        self.boundary = boundary
        self.misfit = make_misfit(weighting)

    def impedance(self, p):
        faradaic = series(
            resistor(self.omega, p["r_ct"]),
            finite_warburg(self.omega, p["r_w"], p["tau"], self.boundary),
        )
        layer = constant_phase(self.omega, p["q"], p["n"])
        return series(resistor(self.omega, p["r_ohm"]), parallel(layer, faradaic))

    def loss(self, log_p, z_obs, valid):
        p = {k: jnp.exp(v) for k, v in log_p.items()}
        return self.misfit(self.impedance(p), z_obs, valid).sum()

    def fit(self, log_p, z_obs, valid, lr=1e-3, steps=100):
        step = jax.jit(jax.grad(self.loss))
        for _ in range(steps):
            grads = step(log_p, z_obs, valid)
            log_p = {k: log_p[k] - lr * grads[k] for k in self.names}
        return log_p
