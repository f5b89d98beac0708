"""Solver steps of diffusion and flow samplers with hand-written derivatives.

Used for *schedule learning*: the noise levels visited by a short sampler
(4 to 12 network calls) are themselves trained so that the last image matches
a many-step reference. That takes derivatives of each step with respect to the
noise levels as well as to the network outputs, and the composed graph of
``log``/``expm1`` calls is both slow and touchy in half precision.

Conventions: ``sigma`` is the noise standard deviation of the variance
exploding parametrisation, large at the start; ``t`` is flow-matching time,
1 for pure noise.
"""

import functools
from typing import Callable, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

SIGMA_MIN = 0.03
SIGMA_MAX = 15.0

# Token counts between which the timestep shift of the released image models
# is interpolated, and the shifts there.
SHIFT_TOKENS = (256, 4096)
SHIFT_VALUES = (0.5, 1.15)


class SigmaTriple(NamedTuple):
    """Noise levels of three consecutive solver nodes, each of shape [batch]."""

    prev: jax.Array
    now: jax.Array
    next: jax.Array


def karras_grid(steps: int, rho: float = 7.0) -> jax.Array:
    """Noise levels equally spaced in sigma ** (1 / rho)."""
    ramp = jnp.linspace(0.0, 1.0, steps)
    hi, lo = SIGMA_MAX ** (1.0 / rho), SIGMA_MIN ** (1.0 / rho)
    return (hi + ramp * (lo - hi)) ** rho


def log_grid(steps: int) -> jax.Array:
    return jnp.exp(jnp.linspace(np.log(SIGMA_MAX), np.log(SIGMA_MIN), steps))


def _expand(v, like):
    """[batch] -> [batch, 1, ..., 1]."""
    return v.reshape(v.shape + (1,) * (like.ndim - v.ndim))


def _inner(a, b):
    """Per-sample inner product."""
    return jnp.sum((a * b).reshape(a.shape[0], -1), axis=1)


# ---------------------------------------------------------------------------
# second-order multistep update
# ---------------------------------------------------------------------------

def _multistep_terms(sigmas):
    step = jnp.log(sigmas.now) - jnp.log(sigmas.next)
    last = jnp.log(sigmas.prev) - jnp.log(sigmas.now)
    decay = sigmas.next / sigmas.now
    lead = step / (2.0 * last)
    return step, last, decay, lead


@jax.custom_vjp
def dpm_multistep(x, denoised, previous, sigmas: SigmaTriple):
    """One step of the second-order multistep data-prediction solver.

    Parameters
    ----------
    x : [batch, ...]
        Current sample at ``sigmas.now``.
    denoised, previous : [batch, ...]
        Network predictions of the clean image at ``sigmas.now`` and at
        ``sigmas.prev``.
    sigmas : SigmaTriple
        Strictly decreasing and positive. The closing jump to zero noise is
        not made here.

    Returns
    -------
    Sample at ``sigmas.next``.
    """
    _, _, decay, lead = _multistep_terms(sigmas)
    decay, lead = _expand(decay, x), _expand(lead, x)
    extrapolated = (1.0 + lead) * denoised - lead * previous
    return decay * x + (1.0 - decay) * extrapolated


def _multistep_fwd(x, denoised, previous, sigmas):
    return dpm_multistep(x, denoised, previous, sigmas), (x, denoised, previous, sigmas)


def _multistep_bwd(res, g):
    x, denoised, previous, sigmas = res
    step, last, decay, lead = _multistep_terms(sigmas)
    a, c = _expand(decay, x), _expand(lead, x)
    b = 1.0 - a

    d_x = a * g
    d_denoised = b * (1.0 + c) * g
    d_previous = -b * c * g

    change = denoised - previous
    extrapolated = denoised + c * change
    d_decay = _inner(g, x - extrapolated)
    d_lead = _inner(g, b * change)
    d_step = d_lead / (2.0 * last)
    d_last = -d_lead / (2.0 * last)

    d_sigmas = SigmaTriple(
        prev=d_last / sigmas.prev,
        now=(d_step - d_last - d_decay * decay) / sigmas.now,
        next=d_decay / sigmas.now - d_step / sigmas.next,
    )
    return d_x, d_denoised, d_previous, d_sigmas


dpm_multistep.defvjp(_multistep_fwd, _multistep_bwd)


# ---------------------------------------------------------------------------
# ancestral noise split
# ---------------------------------------------------------------------------

@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def ancestral_split(sigma, sigma_next, eta):
    """Splits a move to `sigma_next` in a deterministic part and fresh noise.

    Args:
      sigma: current noise level.
      sigma_next: target level, smaller than `sigma`; zero is allowed.
      eta: share of fresh noise, a Python float. 0 is the plain ODE step; above
        1 the fresh noise is limited to `sigma_next`.

    Returns:
      (down, up) with ``down ** 2 + up ** 2 == sigma_next ** 2``.
    """
    ratio = sigma_next / sigma
    left = jnp.maximum((1.0 - eta ** 2) + (eta * ratio) ** 2, 0.0)
    share = jnp.minimum(eta * jnp.sqrt(1.0 - ratio ** 2), 1.0)
    return sigma_next * jnp.sqrt(left), sigma_next * share


@ancestral_split.defjvp
def _ancestral_jvp(eta, primals, tangents):
    sigma, sigma_next = primals
    d_sigma, d_next = tangents
    ratio = sigma_next / sigma
    d_ratio = (d_next - ratio * d_sigma) / sigma

    root = jnp.sqrt(1.0 - ratio ** 2)
    fresh = eta * root
    left = jnp.sqrt(jnp.maximum((1.0 - eta ** 2) + (eta * ratio) ** 2, 0.0))
    free = left > 0.0

    d_fresh = -eta * ratio / root * d_ratio
    d_left = jnp.where(free, eta ** 2 * ratio * d_ratio / jnp.where(free, left, 1.0), 0.0)
    d_share = jnp.where(fresh < 1.0, d_fresh, 0.0)
    share = jnp.minimum(fresh, 1.0)

    out = (sigma_next * left, sigma_next * share)
    return out, (d_next * left + sigma_next * d_left,
                 d_next * share + sigma_next * d_share)


# ---------------------------------------------------------------------------
# resolution-dependent timestep shift
# ---------------------------------------------------------------------------

def shift_for_tokens(tokens):
    """Linear in the number of image tokens, as in the released models."""
    (t0, t1), (v0, v1) = SHIFT_TOKENS, SHIFT_VALUES
    return v0 + (v1 - v0) * (tokens - t0) / (t1 - t0)


def make_time_shift(power: float = 1.0) -> Callable:
    """Builds the exponential shift ``e^mu / (e^mu + (1/t - 1)^power)``.

    `power` sharpens (> 1) or flattens (< 1) the schedule around its middle;
    the released image models use 1, video models something above.
    """

    @jax.custom_gradient
    def time_shift(t, mu):
        scale = jnp.exp(mu)
        odds = (1.0 / t - 1.0) ** power
        shifted = scale / (scale + odds)

        def grad(g):
            spread = shifted * (1.0 - shifted)
            d_t = g * spread / (t * (1.0 - t))
            d_mu = jnp.sum(g * spread)
            return d_t, d_mu

        return shifted, grad

    return time_shift


# ---------------------------------------------------------------------------
# stochastic interpolants
# ---------------------------------------------------------------------------

def _latent_scale(t, shape):
    """Scale of the latent noise with its first two derivatives in time."""
    if shape == "quadratic":
        return t * (1.0 - t), 1.0 - 2.0 * t, jnp.full_like(t, -2.0)
    if shape == "sine":
        return (jnp.sin(jnp.pi * t) ** 2,
                jnp.pi * jnp.sin(2.0 * jnp.pi * t),
                2.0 * jnp.pi ** 2 * jnp.cos(2.0 * jnp.pi * t))
    if shape == "none":
        return jnp.zeros_like(t), jnp.zeros_like(t), jnp.zeros_like(t)
    raise ValueError(f"unknown latent shape {shape!r}")


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def interpolate_pair(x0, x1, z, t, shape):
    """Point on a stochastic interpolant and its velocity target.

    x_t = (1 - t) x0 + t x1 + gamma(t) z and v = dx_t/dt; x0, x1 and z share
    the shape [batch, ...], t is [batch].
    """
    gamma, slope, _ = (_expand(v, x0) for v in _latent_scale(t, shape))
    tt = _expand(t, x0)
    return (1.0 - tt) * x0 + tt * x1 + gamma * z, x1 - x0 + slope * z


def _interpolate_fwd(x0, x1, z, t, shape):
    return interpolate_pair(x0, x1, z, t, shape), (x0, x1, z, t)


def _interpolate_bwd(shape, res, cotangents):
    x0, x1, z, t = res
    g_x, g_v = cotangents
    gamma, slope, bend = (_expand(v, x0) for v in _latent_scale(t, shape))
    tt = _expand(t, x0)
    d_t = _inner(g_x, x1 - x0 + slope * z) + _inner(g_v, bend * z)
    return ((1.0 - tt) * g_x - g_v,
            tt * g_x + g_v,
            gamma * g_x + slope * g_v,
            d_t)


interpolate_pair.defvjp(_interpolate_fwd, _interpolate_bwd)


# ---------------------------------------------------------------------------
# sampling loops and losses
# ---------------------------------------------------------------------------

class MultistepSampler:
    """Short sampler whose noise levels are trainable."""

    def __init__(self, denoiser, steps=8, eta=0.0):
        self.denoiser = denoiser
        self.steps = steps
        self.eta = eta

    def init(self):
        return {"log_sigma": jnp.log(karras_grid(self.steps))}

    def sample(self, params, noise, key=None):
        sigmas = jnp.exp(params["log_sigma"])
        batch = noise.shape[0]
        level = lambda i: jnp.broadcast_to(sigmas[i], (batch,))

        x = noise * sigmas[0]
        previous = self.denoiser(x, level(0))
        ratio = sigmas[1] / sigmas[0]
        x = ratio * x + (1.0 - ratio) * previous
        for i in range(1, self.steps - 1):
            now = self.denoiser(x, level(i))
            target = level(i + 1)
            up = None
            if self.eta > 0.0:
                target, up = ancestral_split(level(i), target, self.eta)
            x = dpm_multistep(x, now, previous, SigmaTriple(level(i - 1), level(i), target))
            if up is not None:
                key, sub = jax.random.split(key)
                x = x + _expand(up, x) * jax.random.normal(sub, x.shape, x.dtype)
            previous = now
        return self.denoiser(x, level(self.steps - 1))


def schedule_loss(params, sampler, noise, reference):
    return jnp.mean((sampler.sample(params, noise) - reference) ** 2)


def shifted_flow_times(steps, tokens, power=1.0):
    """Flow times of a sampler for an image with `tokens` patches."""
    t = jnp.linspace(1.0 - 1e-3, 1e-3, steps)
    return make_time_shift(power)(t, jnp.asarray(shift_for_tokens(tokens), t.dtype))


def interpolant_loss(params, network, x0, x1, t, key, shape="sine"):
    """Velocity matching on random pairs."""
    z = jax.random.normal(key, x0.shape, x0.dtype)
    x_t, velocity = interpolate_pair(x0, x1, z, t, shape)
    return jnp.mean((network(params, x_t, t) - velocity) ** 2)


if __name__ == "__main__":
    toy = lambda x, s: x / (1.0 + _expand(s, x) ** 2)
    sampler = MultistepSampler(toy, steps=6)
    p = sampler.init()
    start = jax.random.normal(jax.random.PRNGKey(1), (4, 8, 8, 3))
    print(jax.grad(schedule_loss)(p, sampler, start, jnp.zeros_like(start)))
    print(shifted_flow_times(5, 1024))
