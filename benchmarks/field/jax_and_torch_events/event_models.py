"""Likelihoods and simulators for event data: self-exciting processes, time-to-event, epidemics."""
from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax


# ------------------------------------------------------------------ self-exciting point process
def _excitation(times, mask, beta):
    """Pairwise decays exp(-beta (t_i - t_j)) for j < i among real events, and the gaps."""
    n = times.shape[1]
    earlier = jnp.tril(jnp.ones((n, n), bool), -1)
    live = earlier & mask[:, :, None] & mask[:, None, :]
    gap = jnp.where(live, times[:, :, None] - times[:, None, :], 0.0)
    kern = jnp.where(live, jnp.exp(-beta[:, None, None] * gap), 0.0)
    return kern, gap


@jax.custom_vjp
def hawkes_loglik(times, mask, mu, alpha, beta, horizon):
    """Log-likelihood of exponential Hawkes processes, one a row.

    The intensity is ``mu + alpha * beta * sum_j exp(-beta (t - t_j))`` over earlier events, observed
    on ``[0, horizon]``.

    Shapes:
        times: (B, N) increasing in each row, padded at the end with anything
        mask: (B, N) bool, True for real events
        mu, alpha, beta, horizon: (B,) positive; horizon not before the last event
        returns: (B,)
    """
    return _hawkes_fwd(times, mask, mu, alpha, beta, horizon)[0]


def _hawkes_fwd(times, mask, mu, alpha, beta, horizon):
    kern, gap = _excitation(times, mask, beta)
    a = kern.sum(-1)
    lam = mu[:, None] + (alpha * beta)[:, None] * a
    left = jnp.where(mask, horizon[:, None] - times, 0.0)
    tail = jnp.where(mask, jnp.exp(-beta[:, None] * left), 0.0)
    n = mask.sum(1).astype(times.dtype)
    ll = jnp.where(mask, jnp.log(lam), 0.0).sum(1) - mu * horizon - alpha * (n - tail.sum(1))
    return ll, (mask, kern, gap, a, lam, left, tail, n, mu, alpha, beta, horizon)


def _hawkes_bwd(res, g):
    mask, kern, gap, a, lam, left, tail, n, mu, alpha, beta, horizon = res
    w = jnp.where(mask, 1.0 / lam, 0.0)
    ab = alpha * beta
    d_mu = w.sum(1) - horizon
    d_alpha = beta * (w * a).sum(1) - (n - tail.sum(1))
    d_beta = alpha * (w * (a - beta[:, None] * (gap * kern).sum(-1))).sum(1) - alpha * (left * tail).sum(1)
    d_horizon = -mu - ab * tail.sum(1)
    own = -beta[:, None] * w * a
    others = beta[:, None] * jnp.einsum("bi,bij->bj", w, kern)
    d_times = ab[:, None] * (own + others + tail)
    gb = g[:, None]
    return gb * d_times, None, g * d_mu, g * d_alpha, g * d_beta, g * d_horizon


hawkes_loglik.defvjp(_hawkes_fwd, _hawkes_bwd)


class HawkesModel:
    """Shared background and branching ratio, used with a batch of padded sequences."""

    def __init__(self, log_mu=0.0, logit_branching=-1.0, log_beta=0.0):
        self.init = {"log_mu": jnp.asarray(log_mu), "logit": jnp.asarray(logit_branching),
                     "log_beta": jnp.asarray(log_beta)}

    @staticmethod
    def nll(params, times, lengths, horizon):
        rows, width = times.shape
        mask = jnp.arange(width) < lengths[:, None]
        full = lambda v: jnp.broadcast_to(v, (rows,)).astype(times.dtype)
        return -jnp.mean(hawkes_loglik(
            times, mask, full(jnp.exp(params["log_mu"])), full(jax.nn.sigmoid(params["logit"])),
            full(jnp.exp(params["log_beta"])), full(horizon)))


# ------------------------------------------------------------------ proportional hazards
def _risk_order(months):
    """Longest follow-up first, and for every sorted row the last row of its risk set."""
    order = jnp.argsort(-months)
    key = -months[order]
    last = jnp.searchsorted(key, key, side="right") - 1
    return order, last


@jax.custom_vjp
def breslow_loss(risk, months, event):
    """Negative Cox partial log-likelihood per event, with Breslow's treatment of tied follow-up.

    Args:
        risk: (n,) linear predictor of each patient.
        months: (n,) int, follow-up in whole months; many patients share a month.
        event: (n,) bool, True where the event was seen, False where censored.
    """
    return _breslow_fwd(risk, months, event)[0]


def _breslow_fwd(risk, months, event):
    order, last = _risk_order(months)
    eta, seen = risk[order], event[order].astype(risk.dtype)
    log_s = lax.cumlogsumexp(eta)[last]
    count = jnp.maximum(seen.sum(), 1.0)
    loss = -jnp.sum(seen * (eta - log_s)) / count
    return loss, (order, eta, seen, log_s, count)


def _breslow_bwd(res, g):
    order, eta, seen, log_s, count = res
    top = jnp.max(eta)
    share = seen * jnp.exp(top - log_s)
    # a patient is at risk for every event up to the own follow-up
    hazard = lax.cumsum(share, reverse=True)
    d_eta = (jnp.exp(eta - top) * hazard - seen) / count
    return jnp.zeros_like(eta).at[order].set(g * d_eta), None, None


breslow_loss.defvjp(_breslow_fwd, _breslow_bwd)


def cox_objective(weights, covariates, months, event, ridge=0.0):
    """Ridge-penalised Cox regression, ``covariates`` (n, p) and ``weights`` (p,)."""
    return breslow_loss(covariates @ weights, months, event) + 0.5 * ridge * jnp.sum(weights ** 2)


# ------------------------------------------------------------------ renewal epidemic
@dataclass(frozen=True)
class RenewalConfig:
    generation_days: int = 5
    column_mixing: bool = False   # read mixing[i, j] as "from i to j" instead of "into i from j"


def make_renewal(config: RenewalConfig = RenewalConfig()):
    """Build a renewal-equation simulator over coupled regions.

    The returned function maps ``params`` and ``imports`` to incidence, both per day and region:

        incidence[t] = rt[t] * (mixing @ sum_s generation[s - 1] * incidence[t - s]) + imports[t]

    ``params`` is a dict with ``rt`` (T, G), ``generation`` (S,) with S = ``config.generation_days``
    and ``mixing`` (G, G); ``imports`` is (T, G).
    """
    n_lags = config.generation_days

    def mixer(m):
        return m.T if config.column_mixing else m

    def simulate(params, imports):
        m, w = mixer(params["mixing"]), params["generation"]

        def day(past, inputs):
            rt, seed = inputs
            force = m @ (w @ past)
            new = rt * force + seed
            return jnp.concatenate([new[None], past[:-1]]), (new, past, force)

        start = jnp.zeros((n_lags, imports.shape[1]), imports.dtype)
        return lax.scan(day, start, (params["rt"], imports))[1]

    @jax.custom_jvp
    def renewal(params, imports):
        return simulate(params, imports)[0]

    @renewal.defjvp
    def renewal_jvp(primals, tangents):
        params, imports = primals
        d_params, d_imports = tangents
        out, past, force = simulate(params, imports)
        m, w, rt = mixer(params["mixing"]), params["generation"], params["rt"]
        pressure = jnp.einsum("s,tsg->tg", w, past)
        drive = (d_params["rt"] * force + d_imports
                 + rt * (pressure @ mixer(d_params["mixing"]).T)
                 + rt * (jnp.einsum("s,tsg->tg", d_params["generation"], past) @ m.T))

        def day(d_past, inputs):
            rt_t, drive_t = inputs
            d_new = drive_t + rt_t * (m @ (w @ d_past))
            return jnp.concatenate([d_new[None], d_past[:-1]]), d_new

        start = jnp.zeros((n_lags, imports.shape[1]), imports.dtype)
        return out, lax.scan(day, start, (rt, drive))[1]

    return renewal


def poisson_fit(params, cases, imports, config=RenewalConfig()):
    """Poisson deviance (up to a constant) of daily case counts (T, G)."""
    mean = make_renewal(config)(params, imports) + 1e-3
    return jnp.sum(mean - cases * jnp.log(mean))
