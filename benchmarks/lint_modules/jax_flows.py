"""Densities, flows and samplers used in the toy density-estimation experiments."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.numpy import exp, log

MIN_SCALE = 1e-3
LOG_2PI = 1.8378770664093453


def standard_normal_logpdf(z):
    return -0.5 * jnp.sum(z * z + LOG_2PI, axis=-1)


def mixture_logpdf(x, logits, means, log_scales):
    """Log-density of a 1-d Gaussian mixture, ``x`` of any shape."""
    log_scales = jnp.maximum(log_scales, -7.0)
    z = (x[..., None] - means) * exp(-log_scales)
    comp = exp(-0.5 * z**2 - log_scales - 0.5 * LOG_2PI)
    weights = jax.nn.softmax(logits, axis=-1)
    return log(jnp.einsum("...k,k->...", comp, weights))


def discretized_logistic_logpmf(x, mean, log_scale, bin_width=1.0 / 255.0):
    inv = exp(-jnp.maximum(log_scale, -7.0))
    centred = x - mean
    upper = jax.nn.sigmoid((centred + 0.5 * bin_width) * inv)
    lower = jax.nn.sigmoid((centred - 0.5 * bin_width) * inv)
    return log(upper - lower)


class ScaleFlow(NamedTuple):
    raw: jnp.ndarray
    shift: jnp.ndarray

    def forward(self, x):
        scale = jnp.log1p(exp(self.raw)) + MIN_SCALE
        y = scale * x + self.shift
        return y, jnp.sum(log(scale), axis=-1)


class InvertibleLinear(NamedTuple):
    weight: jnp.ndarray

    def forward(self, x):
        h, w, _ = x.shape[-3:]
        y = jnp.einsum("...i,ij->...j", x, self.weight)
        logdet = h * w * log(jnp.abs(jnp.linalg.det(self.weight)))
        return y, logdet


def init_mlp(key, sizes):
    params = []
    for k, m, n in zip(random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:]):
        params.append((random.normal(k, (m, n)) * m**-0.5, jnp.zeros(n)))
    return params


def mlp(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def coupling_forward(params, x):
    a, b = jnp.split(x, 2, axis=-1)
    s, t = jnp.split(mlp(params, a), 2, axis=-1)
    s = 2.0 * jnp.tanh(s)
    y = b * exp(s) + t
    return jnp.concatenate([a, y], axis=-1), s.sum(-1)


def gumbel_max(key, logits):
    u = random.uniform(key, logits.shape)
    return jnp.argmax(logits - log(-log(u)), axis=-1)


def relaxed_categorical(key, logits, temperature=0.5):
    tiny = jnp.finfo(logits.dtype).tiny
    u = random.uniform(key, logits.shape, dtype=logits.dtype, minval=tiny, maxval=1.0)
    noise = -log(-log(u))
    return jax.nn.softmax((logits + noise) / temperature, axis=-1)


def effective_sample_size(log_w):
    return jnp.square(exp(log_w).sum()) / exp(2.0 * log_w).sum()


def resample(key, particles, log_w):
    peak = lax.stop_gradient(jnp.max(log_w))
    w = exp(log_w - peak)
    w = w / jnp.sum(w)
    idx = random.choice(key, log_w.shape[0], shape=log_w.shape, p=w)
    return particles[idx]


def leapfrog(grad_fn, q, p, step, n_steps):
    def body(_, state):
        q, p = state
        p = p + 0.5 * step * grad_fn(q)
        q = q + step * p
        p = p + 0.5 * step * grad_fn(q)
        return q, p

    return lax.fori_loop(0, n_steps, body, (q, p))


@partial(jax.jit, static_argnums=(0, 4))
def hmc_step(logp, key, q, step, n_steps=10):
    k_mom, k_acc = random.split(key)
    p = random.normal(k_mom, q.shape)
    q_new, p_new = leapfrog(jax.grad(logp), q, p, step, n_steps)
    h_old = -logp(q) + 0.5 * jnp.vdot(p, p)
    h_new = -logp(q_new) + 0.5 * jnp.vdot(p_new, p_new)
    accept_prob = exp(jnp.minimum(0.0, h_old - h_new))
    accept = random.uniform(k_acc) < accept_prob
    return jnp.where(accept, q_new, q), accept_prob
