"""Likelihood kernels for a phylogenetics package.

Conventions
-----------
S : alignment sites, U : unique site patterns, K : rate categories,
n : character states, B : branches, L : loci.
"""

from functools import partial
from typing import Optional

import jax
import jax.numpy as jnp
from jax.nn import logsumexp


# -- substitution model ------------------------------------------------------

@jax.custom_vjp
def stationary_distribution(rates: jax.Array) -> jax.Array:
    """Stationary frequencies of a continuous-time Markov chain.

    Parameters
    ----------
    rates : (n, n) array of positive jump rates from row to column.  The
        diagonal is not read; it is set such that the rows sum to zero.

    Returns
    -------
    (n,) array ``pi`` with ``pi @ Q = 0`` and ``pi.sum() = 1``.
    """
    return _solve_stationary(rates)[0]


def _generator(rates):
    off = rates - jnp.diag(jnp.diag(rates))
    return off - jnp.diag(off.sum(axis=1))


def _solve_stationary(rates):
    n = rates.shape[0]
    system = _generator(rates).T.at[-1].set(1.0)
    rhs = jnp.zeros((n,), rates.dtype).at[-1].set(1.0)
    return jnp.linalg.solve(system, rhs), system


def _stationary_fwd(rates):
    pi, system = _solve_stationary(rates)
    return pi, (pi, system)


def _stationary_bwd(res, g):
    pi, system = res
    lam = jnp.linalg.solve(system.T, g)
    lam = lam.at[-1].set(0.0)           # that row is the normalisation
    g_q = -pi[:, None] * lam[None, :]
    return (g_q - jnp.diag(g_q)[:, None],)


stationary_distribution.defvjp(_stationary_fwd, _stationary_bwd)


def gtr_eigensystem(exchange, freqs):
    """Eigenvalues, right and left eigenvectors of a normalised GTR model."""
    q = _generator(exchange * freqs[None, :])
    q = q / -jnp.sum(freqs * jnp.diag(q))
    root = jnp.sqrt(freqs)
    sym = root[:, None] * q / root[None, :]
    evals, u = jnp.linalg.eigh(0.5 * (sym + sym.T))
    return evals, u / root[:, None], u.T * root[None, :]


@jax.custom_jvp
def transition_probabilities(evals, right, left, lengths, rates):
    """``P[b, k] = right @ diag(exp(evals * lengths[b] * rates[k])) @ left``.

    evals (n,), right (n, n), left (n, n), lengths (B,), rates (K,);
    result (B, K, n, n).
    """
    decay = jnp.exp(lengths[:, None, None] * rates[None, :, None] * evals)
    return jnp.einsum("ia,bka,aj->bkij", right, decay, left)


@transition_probabilities.defjvp
def _transition_jvp(primals, tangents):
    evals, right, left, lengths, rates = primals
    d_evals, d_right, d_left, d_lengths, d_rates = tangents
    t = lengths[:, None, None]
    r = rates[None, :, None]
    decay = jnp.exp(t * r * evals)
    d_exponent = (
        d_lengths[:, None, None] * evals
        + t * d_rates[None, :, None] * evals
        + t * r * d_evals
    )
    out = jnp.einsum("ia,bka,aj->bkij", right, decay, left)
    d_out = (
        jnp.einsum("ia,bka,aj->bkij", right, decay * d_exponent, left)
        + jnp.einsum("ia,bka,aj->bkij", d_right, decay, left)
        + jnp.einsum("ia,bka,aj->bkij", right, decay, d_left)
    )
    return out, d_out


class GTRGamma:
    """Reversible model with optional among-site rate variation."""

    def __init__(self, exchange, rates: Optional[jax.Array] = None):
        self.exchange = exchange
        self.rates = jnp.ones((1,)) if rates is None else rates

    def __call__(self, freqs, lengths):
        return transition_probabilities(*gtr_eigensystem(self.exchange, freqs), lengths, self.rates)


# -- pruning -----------------------------------------------------------------

@jax.custom_vjp
def merge_children(p_left, p_right, lik_left, lik_right):
    """Felsenstein step at an inner node with two children.

    ``p_*`` are (n, n) transition matrices, ``lik_*`` (S, n) partial
    likelihoods.  Returns the partials of the node, scaled to sum to one at
    each site, (S, n), and the log of the scale, (S,).
    """
    out, _ = _merge_fwd(p_left, p_right, lik_left, lik_right)
    return out


def _merge_fwd(p_left, p_right, lik_left, lik_right):
    a = lik_left @ p_left.T
    b = lik_right @ p_right.T
    joint = a * b
    scale = joint.sum(axis=-1)
    partial_ = joint / scale[:, None]
    return (partial_, jnp.log(scale)), (p_left, p_right, lik_left, lik_right, a, b, partial_, scale)


def _merge_bwd(res, cts):
    p_left, p_right, lik_left, lik_right, a, b, partial_, scale = res
    g_partial, g_log = cts
    inner = jnp.sum(g_partial * partial_, axis=-1)
    g_joint = (g_partial + (g_log - inner)[:, None]) / scale[:, None]
    g_a, g_b = g_joint * b, g_joint * a
    return g_a.T @ lik_left, g_b.T @ lik_right, g_a @ p_left, g_b @ p_right


merge_children.defvjp(_merge_fwd, _merge_bwd)


# -- site patterns -----------------------------------------------------------

@jax.custom_vjp
def expand_patterns(pattern_ll, log_scale, site_to_pattern):
    """(U, K) pattern values plus their (U,) scale, laid out per site (S, K)."""
    return pattern_ll[site_to_pattern] + log_scale[site_to_pattern, None]


def _expand_fwd(pattern_ll, log_scale, site_to_pattern):
    out = expand_patterns(pattern_ll, log_scale, site_to_pattern)
    return out, (jnp.zeros_like(pattern_ll), jnp.zeros_like(log_scale), site_to_pattern)


def _expand_bwd(res, g):
    zero_ll, zero_scale, ids = res
    return zero_ll.at[ids].set(g), zero_scale.at[ids].set(g.sum(axis=-1)), None


expand_patterns.defvjp(_expand_fwd, _expand_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def mixture_loglik(pattern_ll, logits, counts, per_site=False):
    """Log-likelihood of an alignment under a mixture of rate categories.

    pattern_ll : (U, K) log-likelihood of each pattern in each category
    logits     : (K,) unnormalised log weights of the categories
    counts     : (U,) how often each pattern occurs (float)
    per_site   : give the mean over the sites instead of the total
    """
    ll = logsumexp(pattern_ll + jax.nn.log_softmax(logits), axis=-1)
    total = jnp.sum(counts * ll)
    return total / jnp.sum(counts) if per_site else total


def _mixture_fwd(pattern_ll, logits, counts, per_site):
    joint = pattern_ll + jax.nn.log_softmax(logits)
    ll = logsumexp(joint, axis=-1)
    post = jnp.exp(joint - ll[:, None])
    total = jnp.sum(counts * ll)
    out = total / jnp.sum(counts) if per_site else total
    return out, (post, ll, jax.nn.softmax(logits), counts, out)


def _mixture_bwd(per_site, res, g):
    post, ll, weights, counts, out = res
    n_sites = jnp.sum(counts)
    if per_site:
        share = counts / n_sites
        g_counts = g * (ll - out) / n_sites
    else:
        share = counts
        g_counts = g * ll
    g_ll = g * share[:, None] * post
    g_logits = g * (counts @ post - n_sites * weights)
    return g_ll, g_logits, g_counts


mixture_loglik.defvjp(_mixture_fwd, _mixture_bwd)


def alignment_objective(params, pattern_ll, counts, *, per_site: bool = False):
    """Negative log-likelihood; ``params["mixture"]["logits"]`` is (K,)."""
    return -mixture_loglik(pattern_ll, params["mixture"]["logits"], counts, per_site)


# -- demography --------------------------------------------------------------

def _build_coalescent(ploidy: int = 2):
    scale = float(ploidy)

    def terms(log_size, durations, lineages, epoch):
        pairs = 0.5 * lineages * (lineages - 1)
        size = scale * jnp.exp(log_size)[epoch]
        return pairs.astype(durations.dtype) / size

    @jax.custom_vjp
    def loglik(log_size, durations, lineages, epoch, coalesced):
        hazard = terms(log_size, durations, lineages, epoch)
        log_n = (log_size + jnp.log(scale))[epoch]
        return jnp.sum(-hazard * durations - jnp.where(coalesced, log_n, 0.0), axis=-1)

    def fwd(log_size, durations, lineages, epoch, coalesced):
        out = loglik(log_size, durations, lineages, epoch, coalesced)
        return out, (log_size, durations, lineages, epoch, coalesced)

    def bwd(res, g):
        log_size, durations, lineages, epoch, coalesced = res
        hazard = terms(log_size, durations, lineages, epoch)
        per_interval = g[:, None] * (hazard * durations - coalesced)
        g_size = jnp.zeros_like(log_size).at[epoch].add(per_interval)
        return g_size, -g[:, None] * hazard, None, None, None

    loglik.defvjp(fwd, bwd)
    return loglik


#: ``coalescent_loglik(log_size, durations, lineages, epoch, coalesced) -> (L,)``
#:
#: Skyline likelihood of L genealogies.  ``log_size`` (E,) is the log effective
#: size per epoch; the rest is (L, I) over the intervals of each genealogy:
#: float durations, integer lineage counts, integer epoch of the interval, and
#: a boolean that is true where the interval ends in a coalescence.  Short
#: genealogies are filled up with one lineage and ``coalesced`` false.
coalescent_loglik = _build_coalescent()


def skyline_penalty(log_size, strength=1.0):
    return strength * jnp.sum(jnp.diff(log_size) ** 2)
