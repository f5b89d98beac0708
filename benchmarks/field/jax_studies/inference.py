"""Solvers and likelihoods shared by the observational studies."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

_TWO_PI = 2.0 * np.pi


def _kepler_newton(mean_anomaly, ecc, steps=15):
    turns = jnp.round(mean_anomaly / _TWO_PI) * _TWO_PI
    m = mean_anomaly - turns
    guess = m + 0.85 * ecc * jnp.sign(m)

    def body(_, big_e):
        s, c = ecc * jnp.sin(big_e), ecc * jnp.cos(big_e)
        f, f1 = big_e - s - m, 1.0 - c
        step = f / f1
        step = f / (f1 - 0.5 * step * s)
        return big_e - step

    return jax.lax.fori_loop(0, steps, body, guess) + turns


@jax.custom_jvp
def solve_kepler(mean_anomaly, ecc):
    """Eccentric anomaly of an elliptic orbit.

    Solves ``E - ecc * sin(E) = mean_anomaly`` for ``0 <= ecc < 1``; the arguments
    broadcast against each other.
    """
    mean_anomaly, ecc = jnp.broadcast_arrays(mean_anomaly, ecc)
    return _kepler_newton(mean_anomaly, ecc)


@solve_kepler.defjvp
def _solve_kepler_jvp(primals, tangents):
    mean_anomaly, ecc = primals
    dm, de = tangents
    big_e = solve_kepler(mean_anomaly, ecc)
    half = jnp.sin(0.5 * big_e)
    slope = (1.0 - ecc) + 2.0 * ecc * half**2
    return big_e, (dm + jnp.sin(big_e) * de) / slope


@jax.custom_jvp
def _zip(counts, log_rate, gate_logits):
    rate = jnp.exp(log_rate)
    zero = jnp.logaddexp(gate_logits, -rate) - jax.nn.softplus(gate_logits)
    k = counts.astype(rate.dtype)
    some = k * log_rate - rate - gammaln(k + 1.0) - jax.nn.softplus(gate_logits)
    return jnp.where(counts == 0, zero, some)


@_zip.defjvp
def _zip_jvp(primals, tangents):
    counts, log_rate, gate_logits = primals
    _, d_rate, d_gate = tangents
    rate = jnp.exp(log_rate)
    sampled = jax.nn.sigmoid(-(gate_logits + rate))
    gate = jax.nn.sigmoid(gate_logits)
    excess = -jnp.expm1(-rate) * jnp.exp(jax.nn.log_sigmoid(gate_logits) - jnp.logaddexp(-rate, gate_logits))
    slope_rate = jnp.where(counts == 0, -rate * sampled, counts - rate)
    slope_gate = jnp.where(counts == 0, excess, -gate)
    return _zip(counts, log_rate, gate_logits), slope_rate * d_rate + slope_gate * d_gate


def zip_log_prob(counts, log_rate, gate_logits):
    """Log pmf of the zero-inflated Poisson law.

    Parameters
    ----------
    counts : int array
        Observations.
    log_rate : array
        Logarithm of the Poisson rate.
    gate_logits : array
        Logit of the probability of a structural zero.

    Returns
    -------
    array
        Of the broadcast shape.
    """
    return _zip(jnp.asarray(counts).astype(jnp.int32), jnp.asarray(log_rate), jnp.asarray(gate_logits))


def _renewal(reproduction, generation, seeds):
    reverse = generation[::-1]

    def step(history, r):
        new = r * jnp.dot(reverse, history)
        return jnp.concatenate([history[1:], new[None]]), new

    return jax.lax.scan(step, seeds, reproduction)[1]


@jax.custom_vjp
def renewal_infections(reproduction, generation, seeds):
    """Expected infections of a renewal process.

    ``I[t] = R[t] * sum_s generation[s] * I[t - 1 - s]``, begun from ``seeds``, the
    infections of the ``len(generation)`` days before the first (oldest first).
    Map over regions with ``jax.vmap``.
    """
    return _renewal(reproduction, generation, seeds)


def _renewal_fwd(reproduction, generation, seeds):
    infections = _renewal(reproduction, generation, seeds)
    return infections, (reproduction, generation, seeds, infections)


def _renewal_bwd(res, g):
    reproduction, generation, seeds, infections = res
    lag = generation.shape[0]
    steps = infections.shape[0]
    window = np.arange(steps)[:, None] + np.arange(lag)[None, :]
    reverse = generation[::-1]

    def step(adjoint, inputs):
        t, r = inputs
        total = adjoint[t + lag]
        past = jax.lax.dynamic_slice_in_dim(adjoint, t, lag)
        adjoint = jax.lax.dynamic_update_slice_in_dim(adjoint, past + total * r * reverse, t, axis=0)
        return adjoint, total

    start = jnp.concatenate([jnp.zeros_like(seeds), g])
    adjoint, total = jax.lax.scan(step, start, (jnp.arange(steps), reproduction), reverse=True)
    history = jnp.concatenate([seeds, infections])
    d_reproduction = total * (history[window] @ reverse)
    lagged = jnp.pad(infections, (lag, 0))[window]
    d_generation = jnp.einsum("t,ts->s", total * reproduction, lagged)[::-1]
    return d_reproduction, d_generation, adjoint[:lag]


renewal_infections.defvjp(_renewal_fwd, _renewal_bwd)


def _stein(a, q):
    n = a.shape[-1]
    system = jnp.eye(n * n, dtype=a.dtype) - jnp.kron(a, a)
    return jnp.linalg.solve(system, q.reshape(n * n)).reshape(n, n)


@jax.custom_vjp
def solve_discrete_lyapunov(a, q):
    return _stein(a, q)


def _lyapunov_fwd(a, q):
    x = _stein(a, q)
    return x, (a, x)


def _lyapunov_bwd(res, g):
    a, x = res
    s = _stein(a.T, g)
    return 2.0 * s @ a @ x, s


solve_discrete_lyapunov.defvjp(_lyapunov_fwd, _lyapunov_bwd)


class LinearStateModel:
    """x[t+1] = a @ x[t] + w, w ~ N(0, q)."""

    def __init__(self, params):
        self.a = params["transition"]
        self.q = params["noise"]

    def stationary_covariance(self):
        return solve_discrete_lyapunov(self.a, self.q)
