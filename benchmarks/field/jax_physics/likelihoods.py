"""Log-likelihoods with closed-form scores."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, gammaln, logsumexp

LOG_2PI = 1.8378770664093453


# ------------------------------------------------------------------ Gaussian mixture

class Mixture(NamedTuple):
    logits: jax.Array     # (K,)
    means: jax.Array      # (K, D)
    log_sd: jax.Array     # (K, D)


def _component_logpdf(x, mix):
    z = (x[:, None, :] - mix.means) * jnp.exp(-mix.log_sd)
    lp = -0.5 * (z**2 + LOG_2PI) - mix.log_sd
    return lp.sum(-1) + jax.nn.log_softmax(mix.logits), z


@jax.custom_vjp
def mixture_logpdf(x, mix):
    """Diagonal Gaussian mixture log density of each row of ``x`` (N, D) -> (N,)."""
    return logsumexp(_component_logpdf(x, mix)[0], axis=1)


def _mix_fwd(x, mix):
    lp, z = _component_logpdf(x, mix)
    out = logsumexp(lp, axis=1)
    return out, (mix, z, jnp.exp(lp - out[:, None]))


def _mix_bwd(res, g):
    mix, z, resp = res
    gr = g[:, None] * resp
    zs = z * jnp.exp(-mix.log_sd)
    gx = -jnp.einsum("nk,nkd->nd", gr, zs)
    g_logits = gr.sum(0) - g.sum() * jax.nn.softmax(mix.logits)
    g_means = jnp.einsum("nk,nkd->kd", gr, zs)
    g_log_sd = jnp.einsum("nk,nkd->kd", gr, z**2 - 1.0)
    return gx, Mixture(g_logits, g_means, g_log_sd)


mixture_logpdf.defvjp(_mix_fwd, _mix_bwd)


# ------------------------------------------------------------------------------ HMM

def _forward(log_pi, log_A, log_B, length):
    def step(alpha, inp):
        t, lb = inp
        new = logsumexp(alpha[:, None] + log_A, axis=0) + lb
        alpha = jnp.where(t < length, new, alpha)
        return alpha, alpha

    a0 = log_pi + log_B[0]
    ts = jnp.arange(1, log_B.shape[0])
    last, rest = jax.lax.scan(step, a0, (ts, log_B[1:]))
    return logsumexp(last), jnp.concatenate([a0[None], rest])


def _backward(log_A, log_B, length):
    def step(beta, inp):
        t, lb = inp
        new = logsumexp(log_A + lb + beta, axis=1)
        beta = jnp.where(t < length, new, beta)
        return beta, beta

    bT = jnp.zeros_like(log_B[0])
    ts = jnp.arange(1, log_B.shape[0])
    _, rest = jax.lax.scan(step, bT, (ts, log_B[1:]), reverse=True)
    return jnp.concatenate([rest, bT[None]])


@jax.custom_vjp
def hmm_loglik(log_pi, log_A, log_B, lengths):
    """Log evidence of padded observation sequences.

    Parameters
    ----------
    log_pi : (S,)
    log_A : (S, S)
        Row = from, column = to. Not renormalised here.
    log_B : (N, T, S)
        Emission log likelihoods of N sequences, padded to T steps.
    lengths : (N,) int
        True lengths, 1 <= length <= T.

    Returns
    -------
    (N,)
    """
    return jax.vmap(_forward, (None, None, 0, 0))(log_pi, log_A, log_B, lengths)[0]


def _hmm_fwd(log_pi, log_A, log_B, lengths):
    ll, alpha = jax.vmap(_forward, (None, None, 0, 0))(log_pi, log_A, log_B, lengths)
    return ll, (log_A, log_B, lengths, alpha, ll)


def _hmm_bwd(res, g):
    log_A, log_B, lengths, alpha, ll = res
    beta = jax.vmap(_backward, (None, 0, 0))(log_A, log_B, lengths)
    valid = jnp.arange(log_B.shape[1]) < lengths[:, None]
    gamma = jnp.exp(alpha + beta - ll[:, None, None]) * valid[..., None]
    xi = jnp.exp(alpha[:, :-1, :, None] + log_A
                 + (log_B + beta)[:, 1:, None, :] - ll[:, None, None, None])
    g_pi = g @ gamma[:, 0]
    g_A = jnp.einsum("n,ntij->ij", g, xi)
    g_B = g[:, None, None] * gamma
    return g_pi, g_A, g_B, None


hmm_loglik.defvjp(_hmm_fwd, _hmm_bwd)


# ------------------------------------------------------------------------------ Cox

@jax.custom_vjp
def cox_loglik(eta, time, event):
    """Breslow partial log-likelihood.

    Args:
        eta: linear predictors, (n,).
        time: follow-up times, (n,); ties allowed.
        event: 1.0 for an observed event, 0.0 for censoring, (n,).
    """
    at_risk = time[None, :] >= time[:, None]
    log_risk = logsumexp(jnp.where(at_risk, eta[None, :], -jnp.inf), axis=1)
    return jnp.sum(event * (eta - log_risk))


def _cox_fwd(eta, time, event):
    at_risk = time[None, :] >= time[:, None]
    masked = jnp.where(at_risk, eta[None, :], -jnp.inf)
    log_risk = logsumexp(masked, axis=1)
    share = jnp.exp(masked - log_risk[:, None])
    return jnp.sum(event * (eta - log_risk)), (share, event, eta - log_risk)


def _cox_bwd(res, g):
    share, event, term = res
    # piecewise constant in the times
    return g * (event - event @ share), jnp.zeros_like(term), g * term


cox_loglik.defvjp(_cox_fwd, _cox_bwd)


# ------------------------------------------------------------------------------- GP

def _rbf(params, X):
    ls = jnp.exp(params["log_lengthscale"])
    diff = (X[:, None, :] - X[None, :, :]) / ls
    return jnp.exp(2.0 * params["log_amplitude"] - 0.5 * jnp.sum(diff**2, -1)), diff


@jax.custom_vjp
def gp_log_marginal(params, X, y):
    """Marginal likelihood of a zero-mean GP with an ARD squared exponential kernel.

    ``params`` is a dict: log_lengthscale (d,), log_amplitude (), log_noise ().
    ``X`` is (n, d), ``y`` is (n,).
    """
    return _gp_fwd(params, X, y)[0]


def _gp_fwd(params, X, y):
    n = y.shape[0]
    Kf, diff = _rbf(params, X)
    K = Kf + jnp.exp(2.0 * params["log_noise"]) * jnp.eye(n, dtype=Kf.dtype)
    L = jnp.linalg.cholesky(K)
    alpha = jax.scipy.linalg.cho_solve((L, True), y)
    lml = -0.5 * y @ alpha - jnp.sum(jnp.log(jnp.diag(L))) - 0.5 * n * LOG_2PI
    return lml, (params, Kf, diff, L, alpha)


def _gp_bwd(res, g):
    params, Kf, diff, L, alpha = res
    n = alpha.shape[0]
    Kinv = jax.scipy.linalg.cho_solve((L, True), jnp.eye(n, dtype=L.dtype))
    Q = 0.5 * g * (jnp.outer(alpha, alpha) - Kinv)
    QK = Q * Kf
    ls = jnp.exp(params["log_lengthscale"])
    gparams = {
        "log_lengthscale": jnp.einsum("ij,ijd->d", QK, diff**2),
        "log_amplitude": 2.0 * jnp.sum(QK),
        "log_noise": 2.0 * jnp.exp(2.0 * params["log_noise"]) * jnp.trace(Q),
    }
    gX = -2.0 * jnp.einsum("ij,ijd->id", QK, diff) / ls
    return gparams, gX, -g * alpha


gp_log_marginal.defvjp(_gp_fwd, _gp_bwd)


# -------------------------------------------------------------------------- Weibull

def _weibull_terms(log_scale, log_shape, t, event):
    k = jnp.exp(log_shape)
    z = jnp.log(t) - log_scale
    H = jnp.exp(k * z)
    return H - event * (log_shape + k * z - jnp.log(t)), k, z, H


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def weibull_nll(log_scale, log_shape, t, event, reduction="sum"):
    """Right-censored Weibull negative log-likelihood.

    log_scale (n,), log_shape (), t (n,) positive, event (n,) bool;
    reduction is "none", "sum" or "mean".
    """
    nll = _weibull_terms(log_scale, log_shape, t, event)[0]
    if reduction == "none":
        return nll
    return nll.sum() if reduction == "sum" else nll.mean()


def _weibull_fwd(log_scale, log_shape, t, event, reduction):
    out = weibull_nll(log_scale, log_shape, t, event, reduction)
    return out, (log_scale, log_shape, t, event)


def _weibull_bwd(reduction, res, g):
    log_scale, log_shape, t, event = res
    _, k, z, H = _weibull_terms(log_scale, log_shape, t, event)
    d = event.astype(t.dtype)
    if reduction == "mean":
        g = g / jnp.maximum(d.sum(), 1.0)
    g = jnp.broadcast_to(g, t.shape)
    g_scale = g * k * (d - H)
    g_shape = jnp.sum(g * (k * z * H - d * (1.0 + k * z)))
    g_t = g * (k * H - d * (k - 1.0)) / t
    return g_scale, g_shape, g_t, None


weibull_nll.defvjp(_weibull_fwd, _weibull_bwd)


# ----------------------------------------------------------------- negative binomial

@jax.custom_vjp
def negbin_loglik(log_mu, log_r, weight, counts):
    return _negbin(log_mu, log_r, weight, counts)


def _negbin(log_mu, log_r, weight, counts):
    # (cells, genes), (genes,), (cells,), (cells, genes) int -> ()
    mu, r = jnp.exp(log_mu), jnp.exp(log_r)
    lp = (gammaln(counts + r) - gammaln(r) - gammaln(counts + 1.0)
          + r * (log_r - jnp.log(r + mu)) + counts * (log_mu - jnp.log(r + mu)))
    return jnp.sum(weight[:, None] * lp)


def _negbin_fwd(log_mu, log_r, weight, counts):
    return _negbin(log_mu, log_r, weight, counts), (log_mu, log_r, weight, counts)


def _negbin_bwd(res, g):
    log_mu, log_r, weight, counts = res
    mu, r = jnp.exp(log_mu), jnp.exp(log_r)
    g_mu = g * weight[:, None] * r * (counts - mu) / (r + mu)
    score_r = (digamma(counts + r) - digamma(r) + log_r - jnp.log(r + mu)
               + 1.0 - (counts + r) / (r + mu))
    g_r = g * jnp.sum(r * score_r, axis=0)
    lp = (gammaln(counts + r) - gammaln(r) - gammaln(counts + 1.0)
          + r * (log_r - jnp.log(r + mu)) + counts * (log_mu - jnp.log(r + mu)))
    return g_mu, g_r, g * lp.sum(axis=1), None


negbin_loglik.defvjp(_negbin_fwd, _negbin_bwd)


if __name__ == "__main__":
    key = jax.random.PRNGKey(3)
    x = jax.random.normal(key, (50, 2))
    mix = Mixture(jnp.zeros(3), jax.random.normal(key, (3, 2)), jnp.zeros((3, 2)))
    print(mixture_logpdf(x, mix).mean())
