"""Life tables and pension values."""
from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, gammaln


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def lee_carter_loglik(rates, deaths, exposure, observed, reduction="sum"):
    """Poisson log-likelihood of the Lee-Carter model.

    Args:
      rates: tuple (alpha (ages,), beta (ages,), kappa (years,)); log m[x, t] = alpha[x] + beta[x] * kappa[t].
      deaths: (ages, years) counts, as floats, not negative.
      exposure: (ages, years) person-years, positive where observed.
      observed: (ages, years) bool; other cells may hold anything finite.
      reduction: "sum", or "mean" over the observed cells.
    """
    return _lee_carter(rates, deaths, exposure, observed, reduction)[0]


def _lee_carter(rates, deaths, exposure, observed, reduction):
    alpha, beta, kappa = rates
    deaths = jnp.where(observed, deaths, 0.0)
    exposure = jnp.where(observed, exposure, 1.0)
    eta = alpha[:, None] + beta[:, None] * kappa[None, :]
    force = jnp.exp(eta)
    cells = deaths * (eta + jnp.log(exposure)) - exposure * force - gammaln(deaths + 1.0)
    scale = 1.0 if reduction == "sum" else 1.0 / jnp.maximum(jnp.sum(observed), 1)
    return scale * jnp.sum(jnp.where(observed, cells, 0.0)), (deaths, exposure, eta, force)


def _lee_carter_fwd(rates, deaths, exposure, observed, reduction):
    out, (deaths, exposure, eta, force) = _lee_carter(rates, deaths, exposure, observed, reduction)
    return out, (rates, deaths, exposure, observed, eta, force)


def _lee_carter_bwd(reduction, res, g):
    (_, beta, kappa), deaths, exposure, observed, eta, force = res
    if reduction == "mean":
        g = g / jnp.maximum(jnp.sum(observed), 1)
    live = g * observed
    resid = live * (deaths - exposure * force)
    g_rates = (jnp.sum(resid, axis=1), resid @ kappa, beta @ resid)
    g_deaths = live * (eta + jnp.log(exposure) - digamma(deaths + 1.0))
    g_exposure = live * (deaths / exposure - force)
    return g_rates, g_deaths, g_exposure, None


lee_carter_loglik.defvjp(_lee_carter_fwd, _lee_carter_bwd)


def _exclusive_cumprod(a):
    return jnp.concatenate([jnp.ones_like(a[..., :1]), jnp.cumprod(a[..., :-1], axis=-1)], axis=-1)


def _later(a):
    """Sum over the strictly later periods."""
    return jnp.flip(jnp.cumsum(jnp.flip(a, -1), axis=-1), -1) - a


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def two_life_annuity(q_first, q_second, forward, status="joint"):
    """Annuity-due of 1 on two lives, paid while both ("joint") or either ("last") of them live; q < 1."""
    p1, p2 = _exclusive_cumprod(1.0 - q_first), _exclusive_cumprod(1.0 - q_second)
    v = _exclusive_cumprod(1.0 / (1.0 + forward))
    alive = p1 * p2 if status == "joint" else p1 + p2 - p1 * p2
    return jnp.sum(v * alive, axis=-1)


def _two_life_fwd(q_first, q_second, forward, status):
    p1, p2 = _exclusive_cumprod(1.0 - q_first), _exclusive_cumprod(1.0 - q_second)
    v = _exclusive_cumprod(1.0 / (1.0 + forward))
    alive = p1 * p2 if status == "joint" else p1 + p2 - p1 * p2
    return jnp.sum(v * alive, axis=-1), (q_first, q_second, forward, p1, p2, v, alive)


def _two_life_bwd(status, res, g):
    q_first, q_second, forward, p1, p2, v, alive = res
    g = g[..., None]
    if status == "joint":
        w1 = w2 = g * v * p1 * p2
    else:
        w1 = g * v * p1 * (1.0 - p1)
        w2 = g * v * p2 * (1.0 - p2)
    g_first = -_later(w1) / (1.0 - q_first)
    g_second = -_later(w2) / (1.0 - q_second)
    g_forward = -_later(g * v * alive) / (1.0 + forward)
    if g_forward.ndim > forward.ndim:
        g_forward = jnp.sum(g_forward, axis=tuple(range(g_forward.ndim - forward.ndim)))
    return g_first, g_second, g_forward


two_life_annuity.defvjp(_two_life_fwd, _two_life_bwd)

_SMALL = 0.05


def _phi(z):
    """(exp(z) - 1) / z and its derivative."""
    near = jnp.abs(z) < _SMALL
    safe = jnp.where(near, 1.0, z)
    far = jnp.expm1(safe) / safe
    value = 1.0 + z / 2 * (1 + z / 3 * (1 + z / 4 * (1 + z / 5 * (1 + z / 6 * (1 + z / 7)))))
    slope = 0.5 + z / 3 + z**2 / 8 + z**3 / 30 + z**4 / 144 + z**5 / 840 + z**6 / 5760 + z**7 / 45360
    return jnp.where(near, value, far), jnp.where(near, slope, (jnp.exp(safe) - far) / safe)


@jax.custom_jvp
def makeham_survival(age, term, accident, level, growth):
    hazard = accident * term + level * jnp.exp(growth * age) * term * _phi(growth * term)[0]
    return jnp.exp(-hazard)


@makeham_survival.defjvp
def _makeham_jvp(primals, tangents):
    age, term, accident, level, growth = primals
    d_age, d_term, d_accident, d_level, d_growth = tangents
    phi, slope = _phi(growth * term)
    now = jnp.exp(growth * age)
    alive = jnp.exp(-(accident * term + level * now * term * phi))
    d_hazard = (
        term * d_accident
        + now * term * phi * d_level
        + (accident + level * jnp.exp(growth * (age + term))) * d_term
        + level * now * term * phi * growth * d_age
        + level * now * term * (age * phi + term * slope) * d_growth
    )
    return alive, -alive * d_hazard


def life_expectancy(age, params, horizon=60, steps=241):
    """Trapezoid over the survival curve."""
    grid = jnp.linspace(0.0, float(horizon), steps)
    curve = makeham_survival(jnp.full_like(grid, age), grid, params["accident"], params["level"], params["growth"])
    return jnp.trapezoid(curve, grid)


if __name__ == "__main__":
    print(life_expectancy(65.0, {"accident": 2e-4, "level": 3e-5, "growth": 0.1}))
