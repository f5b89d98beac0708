"""Plant canopy and forest demography building blocks."""
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array


def _sum_to(x: Array, shape: tuple[int, ...]) -> Array:
    """Undo broadcasting: sum ``x`` until it has ``shape``."""
    lead = x.ndim - len(shape)
    x = jnp.sum(x, axis=tuple(range(lead)))
    ones = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return jnp.sum(x, axis=ones, keepdims=True)


@jax.custom_jvp
def light_response(par: Array, phi: Array, amax: Array, theta: Array, rd: Array = 0.0) -> Array:
    """Net assimilation from the non-rectangular hyperbola.

    The gross rate ``A`` is the smaller root of

        theta A^2 - (phi par + amax) A + phi par amax = 0

    :param par: photosynthetically active radiation, >= 0
    :param phi: quantum yield, > 0
    :param amax: light-saturated gross rate, > 0
    :param theta: curvature in [0, 1); 0 is the Michaelis-Menten curve
    :param rd: dark respiration
    :return: ``A - rd``; all arguments broadcast
    """
    return _gross(par, phi, amax, theta) - rd


def _gross(par, phi, amax, theta):
    b = phi * par + amax
    c = phi * par * amax
    # 2c / (b + sqrt) rather than (b - sqrt) / 2 theta: fine at theta = 0
    return 2.0 * c / (b + jnp.sqrt(b * b - 4.0 * theta * c))


@light_response.defjvp
def _light_response_jvp(primals, tangents):
    par, phi, amax, theta, rd = primals
    par_t, phi_t, amax_t, theta_t, rd_t = tangents
    a = _gross(par, phi, amax, theta)
    j = phi * par
    j_t = phi_t * par + phi * par_t
    slope = j + amax - 2.0 * theta * a
    # differentiate the quadratic, a is a root of it
    a_t = (a * a * theta_t + (amax - a) * j_t + (j - a) * amax_t) / slope
    return a - rd, a_t - rd_t


Level = Literal["top", "middle", "bottom"]


def _depth(lai: Array, at: Level) -> Array:
    below = jnp.cumsum(lai, axis=-1)
    if at == "bottom":
        return below
    if at == "middle":
        return below - 0.5 * lai
    if at == "top":
        return below - lai
    raise ValueError(at)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def canopy_light(lai: Array, k: Array, i0: Array, at: Level = "top") -> Array:
    """Beer-Lambert light in every canopy layer.

    :param lai: (..., L) leaf area index of the layers, uppermost first
    :param k: extinction coefficient, a scalar or one per site (...)
    :param i0: (...) light above the canopy
    :param at: where in a layer the light is taken: its ``"top"``, its
        ``"middle"`` or its ``"bottom"``
    :return: (..., L)
    """
    return i0[..., None] * jnp.exp(-jnp.asarray(k)[..., None] * _depth(lai, at))


def _canopy_light_fwd(lai, k, i0, at):
    k = jnp.asarray(k)
    depth = _depth(lai, at)
    through = jnp.exp(-k[..., None] * depth)
    return i0[..., None] * through, (k, i0, depth, through)


def _canopy_light_bwd(at, res, g):
    k, i0, depth, through = res
    d_i0 = jnp.sum(g * through, axis=-1)
    g_exponent = g * i0[..., None] * through
    d_k = -jnp.sum(g_exponent * depth, axis=-1)
    g_depth = -k[..., None] * g_exponent
    # a layer shades all the layers under it
    d_lai = jnp.flip(jnp.cumsum(jnp.flip(g_depth, -1), axis=-1), -1)
    if at != "bottom":
        d_lai = d_lai - g_depth
    return d_lai, _sum_to(d_k, k.shape), d_i0


canopy_light.defvjp(_canopy_light_fwd, _canopy_light_bwd)


def canopy_assimilation(params: dict, lai: Array, i0: Array, at: Level = "top") -> Array:
    """Whole-canopy net assimilation per ground area, shape (...)."""
    light = canopy_light(lai, params["k"], i0, at)
    leaf = light_response(params["k"] * light, params["phi"], params["amax"], params["theta"], params["rd"])
    return jnp.sum(leaf * lai, axis=-1)


# --- seed rain --------------------------------------------------------------

@jax.custom_vjp
def seed_shadow(fecundity: Array, trees: Array, traps: Array, scale: Array, alive: Array) -> Array:
    """Expected seed rain in traps, summed 2Dt dispersal kernels.

    The density at distance ``d`` is ``(1 + d^2/scale^2)^-2 / (pi scale^2)``.

    :param fecundity: (N,) seeds per tree
    :param trees: (N, 2) stem positions in metres
    :param traps: (M, 2) trap positions
    :param scale: scalar, metres
    :param alive: (N,) bool, stems that were dead in the survey year do not
        contribute
    :return: (M,) seeds per square metre
    """
    return _seed_shadow_fwd(fecundity, trees, traps, scale, alive)[0]


def _seed_shadow_fwd(fecundity, trees, traps, scale, alive):
    delta = traps[:, None, :] - trees[None, :, :]
    q = 1.0 + jnp.sum(delta**2, axis=-1) / scale**2
    kern = 1.0 / (jnp.pi * scale**2 * q**2)
    seeds = jnp.where(alive, fecundity, 0.0)
    return kern @ seeds, (kern, q, delta, seeds, scale)


def _seed_shadow_bwd(res, g):
    kern, q, delta, seeds, scale = res
    d_fec = g @ kern
    w = g[:, None] * kern * seeds
    d_scale = jnp.sum(w * (4.0 * (q - 1.0) / q - 2.0)) / scale
    d_delta = (-4.0 * w / (q * scale**2))[..., None] * delta
    return d_fec, -jnp.sum(d_delta, axis=0), jnp.sum(d_delta, axis=1), d_scale, None


seed_shadow.defvjp(_seed_shadow_fwd, _seed_shadow_bwd)


def fit_dispersal(counts, trees, traps, alive, trap_area=0.5, steps=200, lr=1e-2):
    """Poisson fit of per-tree log fecundity and log scale, plain gradient descent."""

    def nll(p):
        mu = trap_area * seed_shadow(jnp.exp(p["f"]), trees, traps, jnp.exp(p["s"]), alive)
        return jnp.sum(mu - counts * jnp.log(mu + 1e-9))

    p = {"f": jnp.zeros(trees.shape[0]), "s": jnp.log(jnp.asarray(10.0))}
    step = jax.jit(lambda p: jax.tree.map(lambda a, b: a - lr * b, p, jax.grad(nll)(p)))
    for _ in range(steps):
        p = step(p)
    return p
