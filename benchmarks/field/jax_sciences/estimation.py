# Sequential models: filters, regulators, epidemics, genealogies, option pricing.
from functools import partial
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import logsumexp, ndtr


# ------------------------------------------------------------------ local level

def _filter_step(q, r, carry, inp):
    m, p = carry
    y, seen = inp
    P = p + q
    S = P + r
    v = jnp.where(seen, y - m, 0.0)
    K = jnp.where(seen, P / S, 0.0)
    ll = jnp.where(seen, -0.5 * (jnp.log(2 * jnp.pi * S) + v * v / S), 0.0)
    return (m + K * v, jnp.where(seen, P * r / S, P)), (ll, (P, S, v))


@jax.custom_vjp
def local_level_loglik(params, y, observed):
    """Log likelihood of the local level model by the Kalman filter.

    params: {"q": (), "r": (), "m0": (), "p0": ()}  variances q, r, p0 are positive
    y: (T,) series
    observed: (T,) bool, False where y is missing
    """
    step = partial(_filter_step, params["q"], params["r"])
    _, (ll, _) = lax.scan(step, (params["m0"], params["p0"]), (y, observed))
    return jnp.sum(ll)


def _llm_fwd(params, y, observed):
    step = partial(_filter_step, params["q"], params["r"])
    _, (ll, hist) = lax.scan(step, (params["m0"], params["p0"]), (y, observed))
    return jnp.sum(ll), (params["r"], hist, observed)


def _llm_bwd(res, g):
    r, hist, observed = res

    def back(carry, inp):
        gm, gp, gq, gr = carry
        (P, S, v), seen = inp
        gv = -g * v / S + gm * P / S
        gK = gm * v
        gS = g * (0.5 * v * v / S ** 2 - 0.5 / S) - gp * P * r / S ** 2 - gK * P / S ** 2
        gP = jnp.where(seen, gp * r / S + gK / S + gS, gp)
        gr = gr + jnp.where(seen, gp * P / S + gS, 0.0)
        gv = jnp.where(seen, gv, 0.0)
        return (gm - gv, gP, gq + gP, gr), gv

    zero = jnp.zeros_like(r)
    (gm, gp, gq, gr), gy = lax.scan(back, (zero, zero, zero, zero), (hist, observed), reverse=True)
    return {"q": gq, "r": gr, "m0": gm, "p0": gp}, gy, None


local_level_loglik.defvjp(_llm_fwd, _llm_bwd)


# ------------------------------------------------------------------ LQR

def _sym(x):
    return 0.5 * (x + x.T)


def _gain(P, A, B, R):
    return jnp.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)


def _riccati(A, B, Q, R, iters=400):
    Q, R = _sym(Q), _sym(R)

    def body(_, P):
        return _sym(A.T @ P @ (A - B @ _gain(P, A, B, R)) + Q)

    return lax.fori_loop(0, iters, body, Q)


@jax.custom_vjp
def dare(A, B, Q, R):
    """Stabilising solution P of the discrete algebraic Riccati equation.

    A: (n, n), B: (n, m) stabilisable; Q: (n, n) and R: (m, m) symmetric positive definite.
    """
    return _riccati(A, B, Q, R)


def _dare_fwd(A, B, Q, R):
    P = _riccati(A, B, Q, R)
    return P, (P, A, B, R)


def _dare_bwd(res, G):
    P, A, B, R = res
    n = A.shape[0]
    K = _gain(P, A, B, _sym(R))
    Acl = A - B @ K
    # adjoint Lyapunov equation  S = G + Acl S Acl'
    lhs = jnp.eye(n * n, dtype=A.dtype) - jnp.kron(Acl, Acl)
    S = jnp.linalg.solve(lhs, _sym(G).reshape(-1)).reshape(n, n)
    dA = 2 * P @ Acl @ S
    return dA, -dA @ K.T, S, K @ S @ K.T


dare.defvjp(_dare_fwd, _dare_bwd)


def lqr_cost(A, B, Q, R, x0):
    return x0 @ dare(A, B, Q, R) @ x0


# ------------------------------------------------------------------ options

def _d12(spot, strike, tau, rate, vol):
    sd = vol * jnp.sqrt(tau)
    d1 = (jnp.log(spot / strike) + rate * tau) / sd + 0.5 * sd
    return d1, d1 - sd


@partial(jax.custom_jvp, nondiff_argnums=(5,))
def black_scholes(spot, strike, tau, rate, vol, kind="call"):
    """European option value. kind is "call" or "put"; the rest are arrays of one shape (or scalars)."""
    d1, d2 = _d12(spot, strike, tau, rate, vol)
    w = 1.0 if kind == "call" else -1.0
    return w * (spot * ndtr(w * d1) - strike * jnp.exp(-rate * tau) * ndtr(w * d2))


@black_scholes.defjvp
def _bs_jvp(kind, primals, tangents):
    spot, strike, tau, rate, vol = primals
    dspot, dstrike, dtau, drate, dvol = tangents
    d1, d2 = _d12(*primals)
    w = 1.0 if kind == "call" else -1.0
    disc = jnp.exp(-rate * tau)
    pdf = jnp.exp(-0.5 * d1 * d1) / jnp.sqrt(2 * jnp.pi)
    delta = w * ndtr(w * d1)
    dual = -w * disc * ndtr(w * d2)
    rho = w * strike * tau * disc * ndtr(w * d2)
    vega = spot * pdf * jnp.sqrt(tau)
    theta = 0.5 * spot * pdf * vol / jnp.sqrt(tau) + rate * strike * disc * ndtr(d2)
    out = black_scholes(spot, strike, tau, rate, vol, kind)
    return out, delta * dspot + dual * dstrike + theta * dtau + rho * drate + vega * dvol


# ------------------------------------------------------------------ epidemics

@dataclass(frozen=True)
class SIRConfig:
    n_steps: int = 40
    dt: float = 0.25


def make_sir(cfg: SIRConfig = SIRConfig()):
    """Returns prevalence(beta, gamma, s0, i0) -> (n_steps,) infected fraction after each Euler step."""
    dt = cfg.dt

    def simulate(beta, gamma, s0, i0):
        def step(x, _):
            s, i = x
            new = dt * beta * s * i
            x = (s - new, i + new - dt * gamma * i)
            return x, x
        return lax.scan(step, (s0, i0), None, length=cfg.n_steps)[1]

    @jax.custom_vjp
    def prevalence(beta, gamma, s0, i0):
        return simulate(beta, gamma, s0, i0)[1]

    def fwd(beta, gamma, s0, i0):
        s, i = simulate(beta, gamma, s0, i0)
        return i, (beta, gamma, s, i)

    def bwd(res, g):
        beta, gamma, s_hist, i_hist = res

        def back(carry, inp):
            gs, gi, gb, gg = carry
            s, i, g_t = inp
            gi = gi + g_t
            flow = gi - gs
            gb = gb + dt * s * i * flow
            gg = gg - dt * i * gi
            return (gs + dt * beta * i * flow, gi + dt * beta * s * flow - dt * gamma * gi, gb, gg), None

        zero = jnp.zeros_like(g[0])
        (gs, gi, gb, gg), _ = lax.scan(back, (zero,) * 4, (s_hist, i_hist, g), reverse=True)
        return gb, gg, gs, gi

    prevalence.defvjp(fwd, bwd)
    return prevalence


def fit_loss(theta, data, cfg=SIRConfig()):
    """Squared error of the reported prevalence, theta = log(beta, gamma, i0)."""
    beta, gamma, i0 = jnp.exp(theta)
    sir = make_sir(cfg)
    return jnp.sum((sir(beta, gamma, 1.0 - i0, i0) - data) ** 2)


# ------------------------------------------------------------------ coalescent

@jax.custom_vjp
def skyline_loglik(log_ne, intervals, lineages, epoch, is_coalescent):
    """Piecewise-constant coalescent log likelihood.

    log_ne: (E,) log effective size per epoch
    intervals: (N,) waiting times
    lineages: (N,) int number of lineages during the interval
    epoch: (N,) int epoch of the interval (an epoch may have none)
    is_coalescent: (N,) bool, False if the interval ends by sampling
    """
    pairs = 0.5 * lineages * (lineages - 1)
    rate = pairs * jnp.exp(-log_ne[epoch])
    log_pairs = jnp.log(jnp.maximum(pairs, 1.0))
    return jnp.sum(jnp.where(is_coalescent, log_pairs - log_ne[epoch], 0.0) - rate * intervals)


def _sky_fwd(log_ne, intervals, lineages, epoch, is_coalescent):
    out = skyline_loglik(log_ne, intervals, lineages, epoch, is_coalescent)
    rate = 0.5 * lineages * (lineages - 1) * jnp.exp(-log_ne[epoch])
    return out, (log_ne, rate, intervals, epoch, is_coalescent)


def _sky_bwd(res, g):
    log_ne, rate, intervals, epoch, is_coalescent = res
    per = rate * intervals - is_coalescent
    d_ne = jax.ops.segment_sum(per, epoch, num_segments=log_ne.shape[0])
    return g * d_ne, -g * rate, None, None, None


skyline_loglik.defvjp(_sky_fwd, _sky_bwd)


# ------------------------------------------------------------------ HMM

def _forward(log_pi, log_A, log_B, length):
    first = log_pi + log_B[0]

    def step(a, inp):
        t, b = inp
        nxt = logsumexp(a[:, None] + log_A, axis=0) + b
        nxt = jnp.where(t < length, nxt, a)
        return nxt, nxt

    ts = jnp.arange(1, log_B.shape[0])
    last, rest = lax.scan(step, first, (ts, log_B[1:]))
    return logsumexp(last), jnp.concatenate([first[None], rest])


@jax.custom_vjp
def hmm_loglik(log_pi, log_A, log_B, length):
    """Log likelihood of one padded sequence.

    log_pi: (K,), log_A: (K, K) from row to column, log_B: (T, K) emission scores.
    length: int scalar, 1 <= length <= T; steps beyond it are padding.
    Scores need not be normalised.
    """
    return _forward(log_pi, log_A, log_B, length)[0]


def _hmm_fwd(log_pi, log_A, log_B, length):
    ll, alpha = _forward(log_pi, log_A, log_B, length)
    return ll, (alpha, log_A, log_B, length, ll)


def _hmm_bwd(res, g):
    alpha, log_A, log_B, length, ll = res
    T, K = log_B.shape

    def step(beta, inp):
        t, b = inp                                       # from t to t - 1
        prev = logsumexp(log_A + (b + beta)[None, :], axis=1)
        prev = jnp.where(t < length, prev, beta)
        return prev, beta

    ts = jnp.arange(1, T)
    beta0, later = lax.scan(step, jnp.zeros_like(log_B[0]), (ts, log_B[1:]), reverse=True)
    beta = jnp.concatenate([beta0[None], later])
    valid = (jnp.arange(T) < length)[:, None]
    gamma = jnp.where(valid, jnp.exp(alpha + beta - ll), 0.0)
    xi = jnp.exp(alpha[:-1, :, None] + log_A + (log_B + beta)[1:, None, :] - ll)
    xi = jnp.sum(jnp.where(valid[1:, :, None], xi, 0.0), 0)
    return g * gamma[0], g * xi, g * gamma, None


hmm_loglik.defvjp(_hmm_fwd, _hmm_bwd)


def batch_nll(params, emissions, lengths):
    """emissions (N, T, K), lengths (N,)"""
    pi = jax.nn.log_softmax(params["pi"])
    A = jax.nn.log_softmax(params["A"], axis=-1)
    return -jnp.sum(jax.vmap(hmm_loglik, (None, None, 0, 0))(pi, A, emissions, lengths))
