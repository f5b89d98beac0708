"""Log densities and sequence likelihoods used by the regime-switching models.

Every function returns log densities per data point (or per sequence); sums and
means over the data are left to the caller.
"""
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jax.scipy.special import digamma, gammaln, logsumexp, ndtri

Array = jax.Array

LOG_2PI = math.log(2.0 * math.pi)
_LN2 = math.log(2.0)


# --------------------------------------------------------------------- scalars


@jax.custom_jvp
def log1mexp(x: Array) -> Array:
    """log(1 - exp(x)) for x < 0, accurate both near 0 and in the far tail."""
    return jnp.where(x > -_LN2, jnp.log(-jnp.expm1(x)), jnp.log1p(-jnp.exp(x)))


log1mexp.defjvps(lambda t, ans, x: -t / jnp.expm1(-x))


def log_diff_exp(a: Array, b: Array) -> Array:
    """log(exp(a) - exp(b)), a > b."""
    return a + log1mexp(b - a)


def discretized_logistic_log_prob(k: Array, loc: Array, log_scale: Array) -> Array:
    """Mass of a logistic between k - 1/2 and k + 1/2 (integer k)."""
    inv = jnp.exp(-log_scale)
    upper = jax.nn.log_sigmoid((k + 0.5 - loc) * inv)
    lower = jax.nn.log_sigmoid((k - 0.5 - loc) * inv)
    return log_diff_exp(upper, lower)


# --------------------------------------------------------------------- Student t


def _unbroadcast(g: Array, like: Array) -> Array:
    """Sum g down to the shape of `like`."""
    lead = g.ndim - like.ndim
    g = g.sum(axis=tuple(range(lead)))
    ones = tuple(i for i, n in enumerate(like.shape) if n == 1 and g.shape[i] != 1)
    return g.sum(axis=ones, keepdims=True)


@jax.custom_vjp
def student_t_logpdf(x: Array, df: Array, loc: Array, scale: Array) -> Array:
    """Student-t log density. All arguments broadcast; df, scale > 0."""
    z = (x - loc) / scale
    norm = gammaln(0.5 * (df + 1)) - gammaln(0.5 * df) - 0.5 * jnp.log(math.pi * df) - jnp.log(scale)
    return norm - 0.5 * (df + 1) * jnp.log1p(z * z / df)


def _student_fwd(x, df, loc, scale):
    args = tuple(jnp.asarray(a) for a in (x, df, loc, scale))
    return student_t_logpdf(*args), args


def _student_bwd(args, g):
    x, df, loc, scale = args
    z = (x - loc) / scale
    ratio = (df + 1) * z / (df + z * z)
    d_x = -ratio / scale
    d_scale = (ratio * z - 1) / scale
    d_df = 0.5 * (
        digamma(0.5 * (df + 1))
        - digamma(0.5 * df)
        - 1 / df
        - jnp.log1p(z * z / df)
        + ratio * z / df
    )
    grads = (d_x, d_df, -d_x, d_scale)
    return tuple(_unbroadcast(g * d, a) for d, a in zip(grads, args))


student_t_logpdf.defvjp(_student_fwd, _student_bwd)


# --------------------------------------------------------------------- mixtures


class MixtureParams(NamedTuple):
    """Gaussian mixture with diagonal or isotropic components."""

    logits: Array     # (K,)
    mean: Array       # (K, D)
    log_sigma: Array  # (K, D), or (K, 1) if the components are isotropic


@jax.custom_vjp
def mixture_log_prob(params: MixtureParams, x: Array) -> Array:
    """x: (N, D) -> (N,)."""
    return logsumexp(_component_log_joint(params, x)[0], axis=-1)


def _component_log_joint(params, x):
    z = (x[:, None, :] - params.mean) * jnp.exp(-params.log_sigma)  # (N, K, D)
    sigma = jnp.broadcast_to(params.log_sigma, params.mean.shape)
    comp = -0.5 * (z * z).sum(-1) - sigma.sum(-1) - 0.5 * x.shape[-1] * LOG_2PI
    return jax.nn.log_softmax(params.logits) + comp, z


def _mixture_fwd(params, x):
    joint, z = _component_log_joint(params, x)
    ll = logsumexp(joint, axis=-1)
    return ll, (params, z, jnp.exp(joint - ll[:, None]))


def _mixture_bwd(res, g):
    params, z, resp = res
    gr = g[:, None] * resp  # (N, K)
    pi = jax.nn.softmax(params.logits)
    inv_sigma = jnp.exp(-params.log_sigma)
    pull = z * inv_sigma  # d log N / d mean

    d_logits = gr.sum(0) - pi * g.sum()
    d_mean = jnp.einsum("nk,nkd->kd", gr, pull)
    if params.log_sigma.shape[-1] == params.mean.shape[-1]:
        d_log_sigma = jnp.einsum("nk,nkd->kd", gr, z * z - 1.0)
    else:
        d_log_sigma = jnp.einsum("nk,nk->k", gr, (z * z).sum(-1) - 1.0)[:, None]
    d_x = -jnp.einsum("nk,nkd->nd", gr, pull)
    return MixtureParams(d_logits, d_mean, d_log_sigma), d_x


mixture_log_prob.defvjp(_mixture_fwd, _mixture_bwd)


# --------------------------------------------------------------------- HMM


def _step(log_A: Array, alpha: Array) -> Array:
    """One forward prediction, alpha (B, S) -> (B, S)."""
    return logsumexp(alpha[:, :, None] + log_A[None], axis=1)


def _forward(log_pi, log_A, log_b, lengths):
    """Filtered log messages (T, B, S); frozen beyond the end of a sequence."""
    n_steps = log_b.shape[1]

    def body(alpha, inp):
        t, b_t = inp
        nxt = _step(log_A, alpha) + b_t
        alpha = jnp.where((t < lengths)[:, None], nxt, alpha)
        return alpha, alpha

    first = log_pi + log_b[:, 0]
    _, rest = jax.lax.scan(body, first, (jnp.arange(1, n_steps), jnp.swapaxes(log_b, 0, 1)[1:]))
    return jnp.concatenate([first[None], rest])


def _backward(log_A, log_b, lengths):
    """Backward log messages (T, B, S); zero from the last valid step on."""
    n_steps = log_b.shape[1]

    def body(beta, inp):
        t, b_next = inp
        prev = logsumexp(log_A[None] + (b_next + beta)[:, None, :], axis=2)
        beta = jnp.where((t + 1 < lengths)[:, None], prev, 0.0)
        return beta, beta

    last = jnp.zeros_like(log_b[:, 0])
    ts = jnp.arange(n_steps - 1)
    _, betas = jax.lax.scan(body, last, (ts, jnp.swapaxes(log_b, 0, 1)[1:]), reverse=True)
    return jnp.concatenate([betas, last[None]])


@jax.custom_vjp
def hmm_log_likelihood(log_pi: Array, log_A: Array, log_b: Array, lengths: Array) -> Array:
    """Marginal log likelihood of a padded batch of sequences.

    log_pi (S,) initial, log_A (S, S) transitions from row to column,
    log_b (B, T, S) emission log densities, lengths (B,) int, 1 <= lengths <= T.
    Returns (B,). Parameters need not be normalised.
    """
    return logsumexp(_forward(log_pi, log_A, log_b, lengths)[-1], axis=-1)


def _hmm_fwd(log_pi, log_A, log_b, lengths):
    alphas = _forward(log_pi, log_A, log_b, lengths)
    ll = logsumexp(alphas[-1], axis=-1)
    return ll, (log_A, log_b, lengths, alphas, ll)


def _hmm_bwd(res, g):
    # Fisher's identity: the score is the posterior expectation of the counts.
    log_A, log_b, lengths, alphas, ll = res
    betas = _backward(log_A, log_b, lengths)
    n_steps = log_b.shape[1]
    valid = jnp.arange(n_steps)[:, None] < lengths[None]  # (T, B)

    gamma = jnp.exp(alphas + betas - ll[:, None]) * valid[..., None] * g[:, None]
    emit = jnp.swapaxes(log_b, 0, 1)

    def add_counts(total, inp):
        alpha, b_next, beta_next = inp
        xi = jnp.exp(alpha[:, :, None] + log_A + (b_next + beta_next)[:, None, :] - ll[:, None, None])
        return total + jnp.einsum("bij,b->ij", xi, g), None

    d_A, _ = jax.lax.scan(add_counts, jnp.zeros_like(log_A), (alphas[:-1], emit[1:], betas[1:]))
    return gamma[0].sum(0), d_A, jnp.swapaxes(gamma, 0, 1), None


hmm_log_likelihood.defvjp(_hmm_fwd, _hmm_bwd)


# --------------------------------------------------------------------- copula


@jax.custom_vjp
def gaussian_copula_logpdf(u: Array, corr: Array) -> Array:
    """Log density of the Gaussian copula.

    u (N, D) in the open unit cube, corr (D, D) positive definite; only its
    symmetric part enters. Returns (N,).
    """
    return _copula_fwd(u, corr)[0]


def _copula_fwd(u, corr):
    z = ndtri(u)
    chol = jnp.linalg.cholesky(0.5 * (corr + corr.T))
    w = cho_solve((chol, True), z.T).T
    logdet = 2.0 * jnp.log(jnp.diagonal(chol)).sum()
    return -0.5 * logdet - 0.5 * (z * (w - z)).sum(-1), (z, w, chol)


def _copula_bwd(res, g):
    z, w, chol = res
    inv = cho_solve((chol, True), jnp.eye(chol.shape[0], dtype=chol.dtype))
    dz_du = jnp.exp(0.5 * (z * z + LOG_2PI))
    d_u = g[:, None] * (z - w) * dz_du
    d_corr = 0.5 * (jnp.einsum("n,ni,nj->ij", g, w, w) - g.sum() * inv)
    return d_u, d_corr


gaussian_copula_logpdf.defvjp(_copula_fwd, _copula_bwd)


# --------------------------------------------------------------------- model


class SwitchingReturns:
    """Hidden Markov regimes with Student-t returns."""

    def __init__(self, n_regimes: int):
        self.n_regimes = n_regimes

    def init(self, key: Array) -> dict:
        a, b = jax.random.split(key)
        s = self.n_regimes
        return {
            "pi": jnp.zeros(s),
            "A": 2.0 * jnp.eye(s) + 0.1 * jax.random.normal(a, (s, s)),
            "df": jnp.full((s,), 5.0),
            "loc": 0.3 * jax.random.normal(b, (s,)),
            "log_scale": jnp.linspace(-1.0, 0.5, s),
        }

    def log_likelihood(self, p: dict, returns: Array, lengths: Array) -> Array:
        """returns (B, T), zero padded beyond lengths (B,)."""
        log_b = student_t_logpdf(returns[..., None], p["df"], p["loc"], jnp.exp(p["log_scale"]))
        log_pi = jax.nn.log_softmax(p["pi"])
        log_A = jax.nn.log_softmax(p["A"], axis=-1)
        return hmm_log_likelihood(log_pi, log_A, log_b, lengths)
