"""Pieces of a pulsar timing likelihood.

Times in seconds, frequencies in MHz, DM in pc cm^-3, masses in solar masses.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

K_DM = 4.148808e3  # s MHz^2 cm^3 / pc
T_SUN = 4.925490947e-6  # s


@jax.custom_vjp
def dispersion_delay(
    dm: jax.Array, dmx: jax.Array, freq: jax.Array, beta: jax.Array, bins: jax.Array
) -> jax.Array:
    """Cold-plasma delay of each arrival time.

    dm : ()   mean dispersion measure
    dmx : (E,) its offset in each epoch window
    freq : (N,) observing frequency at the telescope
    beta : (N,) radial velocity of the telescope over c
    bins : (N,) int, epoch window of each TOA
    """
    bary = freq * (1.0 - beta)
    return K_DM * (dm + dmx[bins]) / bary**2


def _disp_fwd(dm, dmx, freq, beta, bins):
    per_dm = K_DM / (freq * (1.0 - beta)) ** 2
    delay = (dm + dmx[bins]) * per_dm
    return delay, (delay, per_dm, dmx, freq, beta, bins)


def _disp_bwd(saved, g):
    delay, per_dm, dmx, freq, beta, bins = saved
    pull = g * per_dm
    twice = 2.0 * g * delay
    return (
        pull.sum(),
        jnp.zeros_like(dmx).at[bins].add(pull),
        -twice / freq,
        twice / (1.0 - beta),
        None,
    )


dispersion_delay.defvjp(_disp_fwd, _disp_bwd)


@jax.custom_jvp
def shapiro_delay(E, ecc, omega, sini, m2):
    """Shapiro delay of a binary pulsar at eccentric anomaly ``E``.

    ``omega`` is the longitude of periastron in radians, ``m2`` the mass of the
    companion. Elements may be scalars or carry one value per TOA.
    """
    root = jnp.sqrt(1.0 - ecc**2)
    depth = jnp.sin(omega) * (jnp.cos(E) - ecc) + root * jnp.cos(omega) * jnp.sin(E)
    return -2.0 * T_SUN * m2 * jnp.log(1.0 - ecc * jnp.cos(E) - sini * depth)


@shapiro_delay.defjvp
def _shapiro_jvp(primals, tangents):
    E, ecc, omega, sini, m2 = primals
    dE, decc, domega, dsini, dm2 = tangents
    cE, sE = jnp.cos(E), jnp.sin(E)
    cw, sw = jnp.cos(omega), jnp.sin(omega)
    root = jnp.sqrt(1.0 - ecc**2)
    depth = sw * (cE - ecc) + root * cw * sE
    arg = 1.0 - ecc * cE - sini * depth

    darg = (
        dE * (ecc * sE - sini * (root * cw * cE - sw * sE))
        - decc * (cE - sini * sw)
        - domega * sini * (cw * (cE - ecc) - root * sw * sE)
        - dsini * depth
    )
    log_arg = jnp.log(arg)
    return -2.0 * T_SUN * m2 * log_arg, -2.0 * T_SUN * (dm2 * log_arg + m2 * darg / arg)


@jax.custom_vjp
def subtract_model(res, design, weight):
    """Residuals after the linearised timing model has been fitted out.

    res : (N,) pre-fit residuals
    design : (N, P) full-rank design matrix, P < N
    weight : (N,) positive weights, usually 1 / sigma^2
    """
    return _subtract_fwd(res, design, weight)[0]


def _subtract_fwd(res, design, weight):
    wm = weight[:, None] * design
    normal = design.T @ wm
    coef = jnp.linalg.solve(normal, wm.T @ res)
    post = res - design @ coef
    return post, (post, coef, normal, wm, design, weight)


def _subtract_bwd(saved, g):
    post, coef, normal, wm, design, weight = saved
    a = jnp.linalg.solve(normal, design.T @ g)
    d_res = g - design @ jnp.linalg.solve(normal, wm.T @ g)
    d_design = -jnp.outer(g - wm @ a, coef) - jnp.outer(weight * post, a)
    d_weight = -post * (design @ a)
    return d_res, d_design, d_weight


subtract_model.defvjp(_subtract_fwd, _subtract_bwd)


def make_noise_nll(backend, n_backend, logdet=True):
    """White-noise likelihood with EFAC and EQUAD for each receiver backend.

    backend : (N,) int array
    logdet : leave the normalisation out when the noise is held fixed
    """
    backend = jnp.asarray(backend)

    def scatter(x):
        return jnp.zeros(n_backend, x.dtype).at[backend].add(x)

    @jax.custom_vjp
    def noise_nll(res, sigma, efac, equad):
        return forward(res, sigma, efac, equad)[0]

    def forward(res, sigma, efac, equad):
        base = sigma**2 + equad[backend] ** 2
        var = efac[backend] ** 2 * base
        nll = 0.5 * jnp.sum(res**2 / var)
        if logdet:
            nll = nll + 0.5 * jnp.sum(jnp.log(2.0 * jnp.pi * var))
        return nll, (res, sigma, efac, equad, base, var)

    def backward(saved, g):
        res, sigma, efac, equad, base, var = saved
        z2 = res**2 / var
        # half the derivative in log(var)
        pull = 0.5 * g * (jnp.where(logdet, 1.0, 0.0) - z2)
        d_efac = 2.0 * scatter(pull) / efac
        d_equad = 2.0 * equad * scatter(pull / base)
        return g * res / var, 2.0 * pull * sigma / base, d_efac, d_equad

    noise_nll.defvjp(forward, backward)
    return noise_nll


def kepler(mean_anomaly, ecc, n_iter=8):
    E = mean_anomaly + ecc * jnp.sin(mean_anomaly)
    for _ in range(n_iter):
        E = E - (E - ecc * jnp.sin(E) - mean_anomaly) / (1.0 - ecc * jnp.cos(E))
    return E


def prefit(pars, toas, nll):
    """Negative log-likelihood of a TOA table (a dict of arrays of length N)."""
    E = kepler(2 * jnp.pi * (toas["t"] / pars["pb"] % 1.0), pars["ecc"])
    delay = dispersion_delay(pars["dm"], pars["dmx"], toas["freq"], toas["beta"], toas["bins"])
    delay = delay + shapiro_delay(E, pars["ecc"], pars["om"], pars["sini"], pars["m2"])
    post = subtract_model(toas["res"] - delay, toas["design"], toas["sigma"] ** -2)
    return nll(post, toas["sigma"], pars["efac"], pars["equad"])
