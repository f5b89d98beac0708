"""Projections onto convex sets, and soft sorting operators built on them."""

from typing import Any, Callable, NamedTuple

import jax
import jax.numpy as jnp


# -- simplex -----------------------------------------------------------------


@jax.custom_jvp
def _projection_unit_simplex(values):
    n = values.shape[0]
    ordered = jnp.sort(values)[::-1]
    sums = jnp.cumsum(ordered)
    count = jnp.arange(1, n + 1)
    active = ordered - (sums - 1.0) / count > 0
    k = jnp.sum(active)
    theta = (sums[k - 1] - 1.0) / k
    return jnp.maximum(values - theta, 0.0)


@_projection_unit_simplex.defjvp
def _projection_unit_simplex_jvp(primals, tangents):
    (values,), (dvalues,) = primals, tangents
    out = _projection_unit_simplex(values)
    support = (out > 0).astype(dvalues.dtype)
    mean = jnp.vdot(support, dvalues) / jnp.sum(support)
    return out, support * (dvalues - mean)


def projection_simplex(values: jax.Array, scale: float = 1.0) -> jax.Array:
    """Euclidean projection of a vector onto the simplex.

    .. math::
      \\mathrm{argmin}_p \\|p - v\\|^2 \\quad p \\ge 0, \\; \\sum_i p_i = s

    Args:
      values: vector to project, of shape ``(n,)``.
      scale: what the projection sums to, positive.

    Returns:
      The projection, of the same shape.
    """
    return scale * _projection_unit_simplex(values / scale)


# -- balls -------------------------------------------------------------------


@jax.custom_jvp
def _l2_ball(x, radius):
    norm = jnp.sqrt(jnp.sum(jnp.square(x)))
    inside = norm <= radius
    return jnp.where(inside, x, x * (radius / jnp.where(inside, 1.0, norm)))


@_l2_ball.defjvp
def _l2_ball_jvp(primals, tangents):
    x, radius = primals
    dx, dradius = tangents
    norm = jnp.sqrt(jnp.sum(jnp.square(x)))
    inside = norm <= radius
    norm = jnp.where(inside, 1.0, norm)
    outer = (radius * dx + x * dradius) / norm
    return _l2_ball(x, radius), jnp.where(inside, dx, outer)


def projection_l2_ball(x: jax.Array, radius: float = 1.0) -> jax.Array:
    return _l2_ball(x, jnp.asarray(radius, dtype=x.dtype))


# -- isotonic regression -----------------------------------------------------


def _minimax_fit(y, w):
    """Increasing weighted fit by the max-min formula over interval means."""
    n = y.shape[0]
    zero = jnp.zeros((1,), y.dtype)
    cw = jnp.concatenate([zero, jnp.cumsum(w)])
    cy = jnp.concatenate([zero, jnp.cumsum(w * y)])
    start = jnp.arange(n)[:, None]
    stop = jnp.arange(n)[None, :]
    valid = start <= stop
    mass = jnp.where(valid, cw[None, 1:] - cw[:-1, None], 1.0)
    mean = jnp.where(valid, (cy[None, 1:] - cy[:-1, None]) / mass, jnp.inf)
    # low[j, i] is the least mean of an interval that starts at j and ends at or after i.
    low = jax.lax.cummin(mean, axis=1, reverse=True)
    return jnp.max(jnp.where(valid, low, -jnp.inf), axis=0)


def _block_ids(fit):
    step = jnp.concatenate([jnp.zeros((1,), bool), fit[1:] != fit[:-1]])
    return jnp.cumsum(step)


@jax.custom_jvp
def isotonic_regression(y, weights):
    """Weighted isotonic regression.

    Finds the non-decreasing vector nearest to ``y`` in the norm
    ``sum(weights * (y - fit)**2)``.

    Parameters
    ----------
    y : jax.Array
        Observations, shape ``(n,)``.
    weights : jax.Array
        Positive weights, shape ``(n,)``.

    Returns
    -------
    jax.Array
        The fit, shape ``(n,)``.
    """
    return _minimax_fit(y, weights)


@isotonic_regression.defjvp
def _isotonic_regression_jvp(primals, tangents):
    y, weights = primals
    dy, dweights = tangents
    fit = isotonic_regression(y, weights)
    ids = _block_ids(fit)
    n = y.shape[0]

    def total(v):
        return jax.ops.segment_sum(v, ids, num_segments=n)[ids]

    from_y = total(dy) / total(jnp.ones_like(dy))
    from_w = total((y - fit) * dweights) / total(weights)
    return fit, from_y + from_w


# -- permutahedron -----------------------------------------------------------


class _PermResiduals(NamedTuple):
    order: Any
    ids: Any


@jax.custom_vjp
def projection_permutahedron(z, w):
    """Projects ``z`` onto the permutahedron whose vertices permute ``w``.

    ``w`` is in descending order; both are vectors of one length.
    """
    return _permutahedron_fwd(z, w)[0]


def _permutahedron_fwd(z, w):
    order = jnp.argsort(-z)
    s = z[order]
    dual = -_minimax_fit(w - s, jnp.ones_like(s))
    out = jnp.zeros_like(s).at[order].set(s - dual)
    return out, _PermResiduals(order, _block_ids(dual))


def _permutahedron_bwd(res, g):
    g_sorted = g[res.order]
    n = g.shape[0]
    sums = jax.ops.segment_sum(g_sorted, res.ids, num_segments=n)
    size = jax.ops.segment_sum(jnp.ones_like(g_sorted), res.ids, num_segments=n)
    shared = (sums / jnp.maximum(size, 1.0))[res.ids]
    dz = jnp.zeros_like(g).at[res.order].set(g_sorted - shared)
    return dz, shared


projection_permutahedron.defvjp(_permutahedron_fwd, _permutahedron_bwd)


def soft_rank(values, strength=1.0):
    """Ranks (1 for the smallest) along the last axis, softened by ``strength``."""
    n = values.shape[-1]
    w = jnp.arange(n, 0, -1, dtype=values.dtype)
    flat = values.reshape(-1, n) / strength
    ranks = jax.vmap(projection_permutahedron, in_axes=(0, None))(flat, w)
    return ranks.reshape(values.shape)


# -- perturbation ------------------------------------------------------------


def make_perturbed_max(
    num_samples: int = 64, sigma: float = 0.5, seed: int = 0
) -> Callable[[jax.Array], jax.Array]:
    """Builds a smoothed maximum over the last axis.

    The noise is Gumbel, drawn from ``seed``, and the same at every call, so that
    what is built is an ordinary function.

    Args:
      num_samples: number of noisy copies that are averaged.
      sigma: amplitude of the noise.
      seed: seed of the noise.

    Returns:
      A function from ``[..., n]`` to ``[...]``.
    """

    def perturbed(inputs):
        key = jax.random.PRNGKey(seed)
        noise = jax.random.gumbel(key, (num_samples,) + inputs.shape, inputs.dtype)
        return inputs + sigma * noise

    @jax.custom_jvp
    def forward(inputs):
        return jnp.mean(jnp.max(perturbed(inputs), axis=-1), axis=0)

    @forward.defjvp
    def forward_jvp(primals, tangents):
        (inputs,), (dinputs,) = primals, tangents
        noisy = perturbed(inputs)
        n = inputs.shape[-1]
        pick = jax.nn.one_hot(jnp.argmax(noisy, axis=-1), n, dtype=inputs.dtype)
        out = jnp.mean(jnp.max(noisy, axis=-1), axis=0)
        return out, jnp.sum(jnp.mean(pick, axis=0) * dinputs, axis=-1)

    return forward
