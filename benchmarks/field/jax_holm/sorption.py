"""Sorption and rate expressions, SI units."""
import jax
import jax.numpy as jnp

R = 8.31446261815324
F = 96485.33212
KB_OVER_H = 2.083661912e10


def _sum_to(x, shape):
    lead = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(lead)))
    keep = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=keep, keepdims=True) if keep else x


@jax.custom_jvp
def sips_isotherm(p, q_max, b, n):
    """Sips (Langmuir-Freundlich) loading at pressure p > 0 with heterogeneity n > 0."""
    t = jnp.power(b * p, 1.0 / n)
    return q_max * t / (1.0 + t)


@sips_isotherm.defjvp
def _sips_jvp(primals, tangents):
    p, q_max, b, n = primals
    dp, dq, db, dn = tangents
    log_bp = jnp.log(b * p)
    theta = jax.nn.sigmoid(log_bp / n)
    bell = q_max * theta * (1.0 - theta) / n
    tangent = theta * dq + bell * (dp / p + db / b - log_bp * dn / n)
    return q_max * theta, tangent


@jax.custom_jvp
def eyring_rate(temperature, enthalpy, entropy, transmission=1.0):
    """Eyring rate constant (1/s); transmission is the coefficient kappa in (0, 1]."""
    return (
        transmission * KB_OVER_H * temperature
        * jnp.exp(entropy / R - enthalpy / (R * temperature))
    )


@eyring_rate.defjvp
def _eyring_jvp(primals, tangents):
    temp, dh, ds, kappa = primals
    t_dot, h_dot, s_dot, k_dot = tangents
    rate = eyring_rate(temp, dh, ds, kappa)
    log_rate_dot = (
        (1.0 + dh / (R * temp)) * t_dot / temp
        - h_dot / (R * temp)
        + s_dot / R
        + k_dot
    )
    return rate, rate * log_rate_dot


@jax.custom_gradient
def donnan_potential(fixed_charge, ionic_strength, temperature):
    """Donnan potential (V) of a gel in a 1:1 salt; arguments broadcast against each other."""
    ratio = fixed_charge / (2.0 * ionic_strength)
    volts = R * temperature / F
    psi = volts * jnp.arcsinh(ratio)

    def grad(g):
        core = g * volts / jnp.sqrt(1.0 + ratio**2)
        d_charge = core / (2.0 * ionic_strength)
        d_ionic = -core * ratio / ionic_strength
        d_temp = g * psi / temperature
        return (
            _sum_to(d_charge, jnp.shape(fixed_charge)),
            _sum_to(d_ionic, jnp.shape(ionic_strength)),
            _sum_to(d_temp, jnp.shape(temperature)),
        )

    return psi, grad


def _free(c0, dose, q_max, b):
    # b c^2 + (1 + b (dose q_max - c0)) c - c0 = 0, the root without cancellation
    h = 1.0 + b * (dose * q_max - c0)
    disc = jnp.sqrt(h * h + 4.0 * b * c0)
    return jnp.where(h > 0, 2.0 * c0 / jnp.where(h > 0, h + disc, 1.0), (disc - h) / (2.0 * b))


@jax.custom_vjp
def batch_equilibrium(c0, dose, q_max, b):
    """Free concentration c solving c + dose * q_max * b c / (1 + b c) = c0 (all of one shape, b > 0)."""
    return _free(c0, dose, q_max, b)


def _batch_fwd(c0, dose, q_max, b):
    c = _free(c0, dose, q_max, b)
    return c, (c, dose, q_max, b)


def _batch_bwd(res, g):
    c, dose, q_max, b = res
    occ = 1.0 + b * c
    u = g / (1.0 + dose * q_max * b / occ**2)
    return (
        u,
        -u * q_max * b * c / occ,
        -u * dose * b * c / occ,
        -u * dose * q_max * c / occ**2,
    )


batch_equilibrium.defvjp(_batch_fwd, _batch_bwd)


def isotherm_misfit(params, p, q_obs):
    q = sips_isotherm(p, params["q_max"], params["b"], params["n"])
    return jnp.sum((q - q_obs) ** 2)
