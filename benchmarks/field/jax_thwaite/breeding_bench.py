"""Genetic maps, sequence distances and selection indices of the breeding programme."""
from functools import partial

import jax
import jax.numpy as jnp

_UNITS = {"morgan": 1.0, "cM": 0.01}


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def map_function(distance, kind="kosambi", unit="morgan"):
    """Recombination fraction at a map distance.

    Args:
      distance: any shape, non-negative.
      kind: "haldane", "kosambi", or an integer N for Karlin's binomial map function with at most N crossovers
        (a fraction of one half from N / 2 morgan on).
      unit: "morgan" or "cM".
    """
    d = distance * _UNITS[unit]
    if kind == "haldane":
        return -0.5 * jnp.expm1(-2.0 * d)
    if kind == "kosambi":
        return 0.5 * jnp.tanh(2.0 * d)
    base = jnp.maximum(1.0 - 2.0 * d / kind, 0.0)
    return 0.5 * (1.0 - base**kind)


@map_function.defjvp
def _map_function_jvp(kind, unit, primals, tangents):
    (distance,), (t,) = primals, tangents
    step = _UNITS[unit]
    d = distance * step
    if kind == "haldane":
        slope = jnp.exp(-2.0 * d)
    elif kind == "kosambi":
        slope = 1.0 / jnp.cosh(2.0 * d) ** 2
    else:
        base = 1.0 - 2.0 * d / kind
        slope = jnp.where(base > 0.0, jnp.maximum(base, 0.0) ** (kind - 1), 0.0)
    return map_function(distance, kind, unit), slope * step * t


def _fractions(weights, transitions, transversions):
    total = jnp.sum(weights)
    return transitions @ weights / total, transversions @ weights / total, total


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def kimura_distance(weights, transitions, transversions, shape=None):
    """Kimura's two-parameter distance of sequence pairs; `shape` is the gamma shape of the rates among sites."""
    p, q, _ = _fractions(weights, transitions, transversions)
    u, v = 1.0 - 2.0 * p - q, 1.0 - 2.0 * q
    if shape is None:
        return -0.5 * jnp.log(u) - 0.25 * jnp.log(v)
    return 0.5 * shape * (u ** (-1.0 / shape) + 0.5 * v ** (-1.0 / shape) - 1.5)


def _kimura_fwd(weights, transitions, transversions, shape):
    out = kimura_distance(weights, transitions, transversions, shape)
    p, q, total = _fractions(weights, transitions, transversions)
    return out, (weights, transitions, transversions, p, q, total)


def _kimura_bwd(shape, res, g):
    weights, transitions, transversions, p, q, total = res
    u, v = 1.0 - 2.0 * p - q, 1.0 - 2.0 * q
    if shape is None:
        d_u, d_v = -0.5 / u, -0.25 / v
    else:
        d_u, d_v = -0.5 * u ** (-1.0 / shape), -0.25 * v ** (-1.0 / shape)
    g_p = -2.0 * d_u * g
    g_q = -(d_u + 2.0 * d_v) * g
    g_weights = (g_p @ transitions + g_q @ transversions - jnp.sum(g_p * p + g_q * q)) / total
    g_ts = g_p[:, None] * weights / total
    g_tv = g_q[:, None] * weights / total
    return g_weights, g_ts, g_tv


kimura_distance.defvjp(_kimura_fwd, _kimura_bwd)


def _fit(grad, like):
    shape = jnp.shape(like)
    grad = jnp.sum(grad, axis=tuple(range(grad.ndim - len(shape))))
    ones = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    return jnp.sum(grad, axis=ones, keepdims=True) if ones else grad


def _bend(phenotypic, bending):
    n = phenotypic.shape[-1]
    level = jnp.trace(phenotypic, axis1=-2, axis2=-1) / n
    return (1.0 - bending) * phenotypic + bending * level[..., None, None] * jnp.eye(n, dtype=phenotypic.dtype)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def index_response(phenotypic, genetic, economic, intensity=1.4, bending=0.0):
    b = jnp.linalg.solve(_bend(phenotypic, bending), (genetic @ economic[..., None]))[..., 0]
    merit = jnp.einsum("...nm,...m->...n", genetic, economic)
    return b, intensity * jnp.sqrt(jnp.sum(merit * b, axis=-1))


def _index_fwd(phenotypic, genetic, economic, intensity, bending):
    bent = _bend(phenotypic, bending)
    merit = jnp.einsum("...nm,...m->...n", genetic, economic)
    b = jnp.linalg.solve(bent, merit[..., None])[..., 0]
    sigma = jnp.sqrt(jnp.sum(merit * b, axis=-1))
    return (b, intensity * sigma), (phenotypic, bent, genetic, economic, merit, b, sigma)


def _index_bwd(intensity, bending, res, cots):
    phenotypic, bent, genetic, economic, merit, b, sigma = res
    g_b, g_response = cots
    half = (0.5 * intensity * g_response / sigma)[..., None]
    through = jnp.linalg.solve(jnp.swapaxes(bent, -1, -2), (g_b + half * merit)[..., None])[..., 0]
    g_merit = through + half * b
    g_bent = -through[..., :, None] * b[..., None, :]
    n = bent.shape[-1]
    mean_trace = jnp.trace(g_bent, axis1=-2, axis2=-1)[..., None, None] / n
    g_phenotypic = (1.0 - bending) * g_bent + bending * mean_trace * jnp.eye(n, dtype=bent.dtype)
    g_genetic = g_merit[..., :, None] * economic[..., None, :]
    g_economic = jnp.einsum("...nm,...n->...m", genetic, g_merit)
    return _fit(g_phenotypic, phenotypic), _fit(g_genetic, genetic), _fit(g_economic, economic)


index_response.defvjp(_index_fwd, _index_bwd)


class SelectionPlan:
    """Keeps the options of one breeding goal."""

    def __init__(self, economic, intensity=1.4, bending=0.05):
        self.economic = jnp.asarray(economic)
        self.intensity = intensity
        self.bending = bending

    def gain(self, phenotypic, genetic, generations=1.0):
        _, response = index_response(phenotypic, genetic, self.economic, self.intensity, self.bending)
        return response / generations
