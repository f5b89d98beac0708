import functools

import jax
import jax.numpy as jnp
from jax import lax


# ---------------------------------------------------------------------------
# sparse probabilities
# ---------------------------------------------------------------------------

@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def sparsemax(z, axis=-1):
    """Euclidean projection onto the simplex along `axis`."""
    z = jnp.moveaxis(z, axis, -1)
    s = -jnp.sort(-z, axis=-1)
    k = jnp.arange(1, z.shape[-1] + 1, dtype=z.dtype)
    css = jnp.cumsum(s, axis=-1) - 1.0
    size = jnp.sum(s * k > css, axis=-1, keepdims=True)
    tau = jnp.take_along_axis(css, size - 1, axis=-1) / size
    return jnp.moveaxis(jnp.maximum(z - tau, 0.0), -1, axis)


@sparsemax.defjvp
def _sparsemax_jvp(axis, primals, tangents):
    (z,), (dz,) = primals, tangents
    p = sparsemax(z, axis)
    on = (p > 0).astype(p.dtype)
    mean = jnp.sum(on * dz, axis=axis, keepdims=True) / jnp.sum(on, axis=axis, keepdims=True)
    return p, on * (dz - mean)


# ---------------------------------------------------------------------------
# learning to rank
# ---------------------------------------------------------------------------

def _rev_logcumsumexp(x):
    return lax.cumlogsumexp(x, axis=x.ndim - 1, reverse=True)


@jax.custom_vjp
def listmle(scores, relevance, mask):
    """ListMLE over padded lists.

    :param scores: (batch, list) model scores
    :param relevance: (batch, list) integer grades; ties keep their input order
    :param mask: (batch, list) bool, False for padding
    :return: (batch,) negative log-likelihood of the ideal order
    """
    return _listmle(scores, relevance, mask)[0]


def _listmle(scores, relevance, mask):
    order = jnp.argsort(jnp.where(mask, -relevance, jnp.iinfo(jnp.int32).max), axis=-1, stable=True)
    m = jnp.take_along_axis(mask, order, -1)
    s = jnp.where(m, jnp.take_along_axis(scores, order, -1), -1e9)
    tail = _rev_logcumsumexp(s)
    return jnp.sum(jnp.where(m, tail - s, 0.0), -1), (order, m, s, tail)


def _listmle_bwd(res, g):
    order, m, s, tail = res
    # sum over positions i <= k of exp(s_k - tail_i)
    n = s.shape[-1]
    upto = jnp.tril(jnp.ones((n, n), bool))
    ratio = jnp.where(upto & m[:, None, :], s[:, :, None] - tail[:, None, :], -jnp.inf)
    inner = jnp.sum(jnp.exp(ratio), -1)
    d_sorted = jnp.where(m, inner - 1.0, 0.0) * g[:, None]
    back = jnp.argsort(order, axis=-1)
    return jnp.take_along_axis(d_sorted, back, -1), None, None


listmle.defvjp(_listmle, _listmle_bwd)


def train_loss(params, features, relevance, mask):
    hidden = jax.nn.relu(features @ params["w0"] + params["b0"])
    return listmle((hidden @ params["w1"])[..., 0], relevance, mask).mean()


# ---------------------------------------------------------------------------
# optimal transport
# ---------------------------------------------------------------------------

@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def sliced_wasserstein(x, y, p=2):
    """p-th power of W_p between the two samples in each row.

    :param x: (slices, n) projected points
    :param y: (slices, n) projected points
    :param p: exponent, >= 1
    :return: (slices,)
    """
    gap = jnp.sort(x, -1) - jnp.sort(y, -1)
    return jnp.mean(jnp.abs(gap) ** p, -1)


def _sw_fwd(x, y, p):
    ix, iy = jnp.argsort(x, -1), jnp.argsort(y, -1)
    gap = jnp.take_along_axis(x, ix, -1) - jnp.take_along_axis(y, iy, -1)
    return jnp.mean(jnp.abs(gap) ** p, -1), (gap, ix)


def _sw_bwd(p, res, g):
    gap, ix = res
    d = p * jnp.abs(gap) ** (p - 1) * jnp.sign(gap) * g[:, None] / gap.shape[-1]
    rank = jnp.argsort(ix, -1)
    dx = jnp.take_along_axis(d, rank, -1)
    return dx, -dx


sliced_wasserstein.defvjp(_sw_fwd, _sw_bwd)


def _potentials(cost, eps, iters):
    n, m = cost.shape
    la, lb = -jnp.log(n), -jnp.log(m)

    def body(_, fg):
        f, g = fg
        f = -eps * jax.scipy.special.logsumexp((g[None, :] - cost) / eps + lb, axis=1)
        g = -eps * jax.scipy.special.logsumexp((f[:, None] - cost) / eps + la, axis=0)
        return f, g

    zero = (jnp.zeros((n,), cost.dtype), jnp.zeros((m,), cost.dtype))
    f, g = lax.fori_loop(0, iters, body, zero)
    return jnp.exp((f[:, None] + g[None, :] - cost) / eps + la + lb)


def sinkhorn_cost(eps=0.1, iters=500):
    """Entropic transport between uniform marginals.

    :return: function cost (n, m) -> <P, cost>, P being the converged Sinkhorn plan.
        By the envelope theorem no gradient has to go through the iterations.
    """

    @jax.custom_vjp
    def transport(cost):
        return jnp.sum(_potentials(cost, eps, iters) * cost)

    def fwd(cost):
        plan = _potentials(cost, eps, iters)
        return jnp.sum(plan * cost), plan

    def bwd(plan, g):
        return (g * plan,)

    transport.defvjp(fwd, bwd)
    return transport


# ---------------------------------------------------------------------------
# optimisation layer
# ---------------------------------------------------------------------------

@jax.custom_vjp
def ridge_head(x, y, lam):
    """argmin_W |x W - y|^2 + lam |W|^2.

    :param x: (shots, d) support features
    :param y: (shots, k) targets
    :param lam: positive scalar
    :return: (d, k) weights
    """
    return jax.scipy.linalg.cho_solve(_gram(x, lam), x.T @ y)


def _gram(x, lam):
    return jax.scipy.linalg.cho_factor(x.T @ x + lam * jnp.eye(x.shape[1], dtype=x.dtype))


def _ridge_fwd(x, y, lam):
    chol, lower = _gram(x, lam)
    w = jax.scipy.linalg.cho_solve((chol, lower), x.T @ y)
    return w, (x, y, w, chol)


def _ridge_bwd(res, g):
    x, y, w, chol = res
    z = jax.scipy.linalg.cho_solve((chol, False), g)
    d_x = (y - x @ w) @ z.T - (x @ z) @ w.T
    return d_x, x @ z, -jnp.sum(z * w)


ridge_head.defvjp(_ridge_fwd, _ridge_bwd)
