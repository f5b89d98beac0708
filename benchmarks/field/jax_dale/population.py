"""Life history and community ecology terms used by the stock assessment and trait models."""
from functools import partial

import jax
import jax.numpy as jnp

GAS = 8.314462618
T_REF = 298.15


@jax.custom_vjp
def beverton_holt(spawners, alpha, beta, site):
    a, b = alpha[site], beta[site]
    return a * spawners / (1.0 + b * spawners)


def _bh_fwd(spawners, alpha, beta, site):
    a, b = alpha[site], beta[site]
    den = 1.0 + b * spawners
    return a * spawners / den, (spawners, alpha, beta, site, a, den)


def _bh_bwd(res, g):
    spawners, alpha, beta, site, a, den = res
    d_alpha = g * spawners / den
    d_beta = -g * a * (spawners / den) ** 2
    # back to the per-site tables
    g_alpha = jnp.zeros_like(alpha).at[site].set(d_alpha)
    g_beta = jnp.zeros_like(beta).at[site].set(d_beta)
    return g * a / den**2, g_alpha, g_beta, None


beverton_holt.defvjp(_bh_fwd, _bh_bwd)


@jax.custom_jvp
def sharpe_schoolfield(temp_c, rate25, e_act, e_high, t_half):
    """Developmental rate with high temperature inactivation; temp_c in Celsius, t_half in K, energies in J/mol, all broadcast."""
    temp = temp_c + 273.15
    up = rate25 * (temp / T_REF) * jnp.exp(e_act / GAS * (1.0 / T_REF - 1.0 / temp))
    return up * jax.nn.sigmoid(-e_high / GAS * (1.0 / t_half - 1.0 / temp))


@sharpe_schoolfield.defjvp
def _sharpe_jvp(primals, tangents):
    temp_c, rate25, e_act, e_high, t_half = primals
    dT, dr, dea, deh, dth = tangents
    temp = temp_c + 273.15
    arr = 1.0 / T_REF - 1.0 / temp
    hot = 1.0 / t_half - 1.0 / temp
    inactive = jax.nn.sigmoid(e_high / GAS * hot)
    per_rate = (temp / T_REF) * jnp.exp(e_act / GAS * arr) * jax.nn.sigmoid(-e_high / GAS * hot)
    rate = rate25 * per_rate
    dlog = dT / temp + (dea * arr + e_act * dT / temp**2) / GAS
    dlog = dlog - inactive * (deh * hot + e_high * (dT / temp**2 - dth / t_half**2)) / GAS
    return rate, rate * dlog + per_rate * dr


@jax.custom_gradient
def von_bertalanffy(age, l_inf: float, k: float, t0: float):
    """Length at age [n] for scalar parameters; fish younger than ``t0`` have length zero."""
    dt = jnp.maximum(age - t0, 0.0)
    decay = jnp.exp(-k * dt)
    length = l_inf * (1.0 - decay)

    def grad(g):
        g_dt = g * l_inf * k * decay
        return g_dt, jnp.sum(g * (1.0 - decay)), jnp.sum(g * l_inf * dt * decay), -jnp.sum(g_dt)

    return length, grad


@jax.custom_vjp
def community_trait_moments(abundance: jax.Array, traits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Community weighted mean and variance of species traits.

    The relative abundance of species ``p`` at plot ``s`` is
    ``abundance[s, p] / sum_p abundance[s, p]``. Both outputs are differentiable in both
    inputs.

    Parameters
    ----------
    abundance : (plots, species) array
        Non-negative cover or biomass. Need not be normalised; every plot holds at least
        one individual, single species plots (variance zero) included.
    traits : (species, traits) array
        Trait values, of any sign.

    Returns
    -------
    mean, var : (plots, traits) arrays
        The weighted mean and the weighted (population) variance about it.
    """
    out, _ = _moments_fwd(abundance, traits)
    return out


def _moments_fwd(abundance, traits):
    total = jnp.sum(abundance, axis=1, keepdims=True)
    p = abundance / total
    mean = p @ traits
    var = p @ traits**2 - mean**2
    return (mean, var), (p, total, traits, mean)


def _moments_bwd(res, g):
    p, total, traits, mean = res
    g_mean, g_var = g
    g_first = g_mean - 2.0 * mean * g_var
    g_p = g_first @ traits.T + g_var @ (traits**2).T
    g_abundance = (g_p - jnp.sum(p * g_p, axis=1, keepdims=True)) / total
    g_traits = p.T @ g_first + 2.0 * traits * (p.T @ g_var)
    return g_abundance, g_traits


community_trait_moments.defvjp(_moments_fwd, _moments_bwd)


@partial(jax.jit, static_argnames="steps")
def fit_growth(age, length, steps: int = 200, lr: float = 1e-3):
    def loss(theta):
        return jnp.mean((von_bertalanffy(age, theta[0], theta[1], theta[2]) - length) ** 2)

    def step(_, theta):
        return theta - lr * jax.grad(loss)(theta)

    return jax.lax.fori_loop(0, steps, step, jnp.array([1.0, 0.3, 0.0]))
