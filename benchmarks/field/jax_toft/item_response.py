"""Item response theory: graded items, conditional Rasch likelihood, EAP scoring."""
from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass
class ItemBank:
    slope: jax.Array        # (I,)
    thresholds: jax.Array   # (I, K-1), ascending

    def log_likelihood(self, answers, nodes, floor=1e-12):
        """(P, Q) log likelihood of answers (P, I) at quadrature nodes; negative answers are missing."""
        logp = jnp.log(graded_response(nodes, self.slope, self.thresholds) + floor)
        seen = answers >= 0
        picked = jnp.take_along_axis(
            logp[None], jnp.maximum(answers, 0)[:, None, :, None], axis=-1)[..., 0]
        return jnp.sum(jnp.where(seen[:, None, :], picked, 0.0), axis=-1)


def _fold(x, ref):
    """Sum `x` over the axes along which `ref` was broadcast."""
    x = x.sum(axis=tuple(range(x.ndim - ref.ndim)))
    ones = tuple(i for i, n in enumerate(ref.shape) if n == 1)
    return x.sum(axis=ones, keepdims=True)


def _boundary_logits(theta, slope, thresholds):
    return slope[:, None] * (theta[:, None, None] - thresholds)


@jax.custom_vjp
def graded_response(theta, slope, thresholds):
    """Samejima category probabilities (P, I, K) from theta (P,), slope (I,), thresholds (I, K-1) or (K-1,)."""
    above = jax.nn.sigmoid(_boundary_logits(theta, slope, thresholds))
    edge = jnp.ones_like(above[..., :1])
    return -jnp.diff(jnp.concatenate([edge, above, 0 * edge], axis=-1), axis=-1)


def _graded_fwd(theta, slope, thresholds):
    return graded_response(theta, slope, thresholds), (theta, slope, thresholds)


def _graded_bwd(res, g):
    theta, slope, thresholds = res
    z = _boundary_logits(theta, slope, thresholds)
    gz = (g[..., 1:] - g[..., :-1]) * jax.nn.sigmoid(z) * jax.nn.sigmoid(-z)
    d_theta = jnp.einsum("pik,i->p", gz, slope)
    d_slope = jnp.sum(gz * (theta[:, None, None] - thresholds), axis=(0, 2))
    d_thresholds = -slope[:, None] * gz.sum(axis=0)
    return d_theta, d_slope, _fold(d_thresholds, thresholds)


graded_response.defvjp(_graded_fwd, _graded_bwd)


def _esf(w):
    start = jnp.concatenate([jnp.ones_like(w[..., :1]), jnp.zeros_like(w)], axis=-1)

    def add_item(gamma, wi):
        shifted = jnp.concatenate([jnp.zeros_like(gamma[..., :1]), gamma[..., :-1]], axis=-1)
        return gamma + wi[..., None] * shifted, None

    return jax.lax.scan(add_item, start, jnp.moveaxis(w, -1, 0))[0]


@jax.custom_vjp
def elementary_symmetric(easiness, taken):
    """Elementary symmetric functions gamma_0 .. gamma_I of Rasch item parameters.

    Args:
      easiness: (..., I) item parameters on the multiplicative scale, exp(-difficulty); zeros
        are allowed.
      taken: (..., I) bool, which items the examinee took; the others do not count.

    Returns:
      (..., I + 1), gamma_r = sum over r-subsets of the taken items of the product of easiness.

    The derivative with respect to one item is gamma_{r-1} of the others.  It is recomputed by
    the summation algorithm and not by the difference algorithm, which cancels for long tests.
    """
    return _esf(jnp.where(taken, easiness, 0.0))


def _elementary_fwd(easiness, taken):
    return elementary_symmetric(easiness, taken), (easiness, taken)


def _elementary_bwd(res, g):
    easiness, taken = res
    w = jnp.where(taken, easiness, 0.0)
    items = w.shape[-1]
    others = jnp.where(jnp.eye(items, dtype=bool), 0.0, w[..., None, :])
    rest = _esf(others)[..., :-1]
    grad = jnp.einsum("...ir,...r->...i", rest, g[..., 1:])
    return _fold(jnp.where(taken, grad, 0.0), easiness), None


elementary_symmetric.defvjp(_elementary_fwd, _elementary_bwd)


def rasch_cml(difficulty, answers):
    """Conditional log likelihood (P,) of complete 0/1 answers."""
    gamma = elementary_symmetric(jnp.exp(-difficulty), jnp.ones_like(difficulty, dtype=bool))
    score = answers.sum(axis=-1)
    return -(answers @ difficulty) - jnp.log(gamma[score])


@jax.custom_vjp
def eap_ability(loglik, log_prior, nodes, group):
    # loglik (P, Q), log_prior (G, Q), nodes (Q,), group (P,) -> posterior mean and variance (P,)
    w = jax.nn.softmax(loglik + log_prior[group], axis=-1)
    mean = w @ nodes
    return mean, jnp.sum(w * (nodes - mean[:, None]) ** 2, axis=-1)


def _eap_fwd(loglik, log_prior, nodes, group):
    w = jax.nn.softmax(loglik + log_prior[group], axis=-1)
    mean = w @ nodes
    var = jnp.sum(w * (nodes - mean[:, None]) ** 2, axis=-1)
    return (mean, var), (w, mean, var, nodes, group, log_prior)


def _eap_bwd(res, cts):
    w, mean, var, nodes, group, log_prior = res
    g_mean, g_var = (c[:, None] for c in cts)
    dev = nodes - mean[:, None]
    d_logit = w * (g_mean * dev + g_var * (dev ** 2 - var[:, None]))
    d_nodes = jnp.sum(w * (g_mean + 2.0 * g_var * dev), axis=0)
    d_prior = jnp.zeros_like(log_prior).at[group].set(d_logit)
    return d_logit, d_prior, d_nodes, None


eap_ability.defvjp(_eap_fwd, _eap_bwd)
