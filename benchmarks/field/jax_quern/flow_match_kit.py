"""Pieces of a flow-matching trainer and sampler.

Sits between the data pipeline and the backbone.  The backbone is any callable
``net(params, x_t, t, label) -> velocity`` whose output has the shape of
``x_t``; samples may be vectors ``(B, D)``, token grids ``(B, T, D)`` or images
``(B, H, W, C)``.

Times run from 0 (noise) to 1 (data).  The derivatives here are written out so
that the trainer can learn the times at which it trains and the guidance scale
of the sampler without storing another copy of the activations.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp

HALF_PI = 0.5 * math.pi
TINY = 1e-8


def expand_like(v, x):
    """Append axes to the (B,) vector ``v`` until it broadcasts against ``x``."""
    return v.reshape(v.shape + (1,) * (x.ndim - v.ndim))


def sum_rest(x):
    """Sum over everything but the batch axis."""
    return jnp.sum(x.reshape(x.shape[0], -1), axis=1)


# ----------------------------------------------------------------------------
# probability paths
# ----------------------------------------------------------------------------


def _linear(t):
    one, zero = jnp.ones_like(t), jnp.zeros_like(t)
    return (t, 1.0 - t), (one, -one), (zero, zero)


def _ease(t):
    a = t * t * (3.0 - 2.0 * t)
    da = 6.0 * t * (1.0 - t)
    dda = 6.0 - 12.0 * t
    return (a, 1.0 - a), (da, -da), (dda, -dda)


def _cosine(t):
    s, c = jnp.sin(HALF_PI * t), jnp.cos(HALF_PI * t)
    return (s, c), (HALF_PI * c, -HALF_PI * s), (-HALF_PI * s, -HALF_PI * c)


#: name -> function of t giving (level), (rate) and (curvature) of data and noise
PATHS = {"linear": _linear, "ease": _ease, "cosine": _cosine}


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def bridge_sample(data, noise, t, path="linear"):
    """Point on the path between noise and data, and the velocity there.

    Parameters
    ----------
    data, noise : (B, ...)
    t : (B,)
        Times in [0, 1].
    path : str
        A key of ``PATHS``.

    Returns
    -------
    x_t, velocity : (B, ...)
    """
    (a, s), (da, ds), _ = PATHS[path](t)
    e = partial(expand_like, x=data)
    return e(a) * data + e(s) * noise, e(da) * data + e(ds) * noise


def _bridge_fwd(data, noise, t, path):
    return bridge_sample(data, noise, t, path), (data, noise, t)


def _bridge_bwd(path, res, cts):
    data, noise, t = res
    g_x, g_v = cts
    (a, s), (da, ds), (dda, dds) = PATHS[path](t)
    e = partial(expand_like, x=data)
    g_data = e(a) * g_x + e(da) * g_v
    g_noise = e(s) * g_x + e(ds) * g_v
    x_data, x_noise = sum_rest(g_x * data), sum_rest(g_x * noise)
    v_data, v_noise = sum_rest(g_v * data), sum_rest(g_v * noise)
    g_t = da * x_data + ds * x_noise + dda * v_data + dds * v_noise
    return g_data, g_noise, g_t


bridge_sample.defvjp(_bridge_fwd, _bridge_bwd)


# ----------------------------------------------------------------------------
# loss
# ----------------------------------------------------------------------------


def make_velocity_loss(power=0.75, floor=1e-3):
    """Adaptively weighted squared error of the velocity, one value per sample.

    The weight ``(mse + floor) ** -power`` tames the samples with the largest
    error, as in consistency training.  It is a weight, not part of the
    objective: no gradient flows through it, by design (the derivative is that
    of ``stop_gradient(weight) * mse``).
    """

    def pieces(pred, target, keep):
        k = expand_like(keep.astype(pred.dtype), pred)
        k = jnp.broadcast_to(k, pred.shape)
        diff = (pred - target) * k
        count = jnp.maximum(sum_rest(k), 1.0)
        mse = sum_rest(diff**2) / count
        weight = (mse + floor) ** -power
        return diff, count, mse, weight

    @jax.custom_vjp
    def adaptive_l2(pred, target, keep):
        """pred, target (B, T, ...); keep: boolean (B, T) or (B,), False at padding.  Returns (B,)."""
        _, _, mse, weight = pieces(pred, target, keep)
        return weight * mse

    def fwd(pred, target, keep):
        diff, count, mse, weight = pieces(pred, target, keep)
        return weight * mse, (diff, count, weight)

    def bwd(res, g):
        diff, count, weight = res
        # the weight is detached, see above
        g_pred = expand_like(2.0 * g * weight / count, diff) * diff
        return g_pred, -g_pred, None

    adaptive_l2.defvjp(fwd, bwd)
    return adaptive_l2


def keep_from_lengths(lengths, total):
    return jnp.arange(total)[None, :] < lengths[:, None]


# ----------------------------------------------------------------------------
# guidance
# ----------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def guided_velocity(cond, uncond, scale, t, interval=(0.0, 1.0)):
    """Classifier-free guidance with the unconditional branch rescaled.

    Within ``interval`` of t the unconditional velocity is first projected onto
    the conditional one, sample by sample ("CFG-Zero*"):

        s = <cond, uncond> / |uncond|^2
        v = s uncond + scale (cond - s uncond)

    Outside it the conditional velocity is used alone.

    cond, uncond: (B, ...); scale: (B,); t: (B,).
    """
    v, _ = _guided_fwd(cond, uncond, scale, t, interval)
    return v


def _guided_fwd(cond, uncond, scale, t, interval):
    low, high = interval
    energy = sum_rest(uncond**2) + TINY
    match = sum_rest(cond * uncond) / energy
    base = expand_like(match, cond) * uncond
    active = (t >= low) & (t <= high)
    mixed = base + expand_like(scale, cond) * (cond - base)
    v = jnp.where(expand_like(active, cond), mixed, cond)
    return v, (cond, uncond, scale, t, energy, match, active)


def _guided_bwd(interval, res, g):
    cond, uncond, scale, t, energy, match, active = res
    e = partial(expand_like, x=cond)
    on = e(active).astype(g.dtype)
    gm = g * on
    rest = 1.0 - e(scale)
    s = e(match)
    g_scale = sum_rest(gm * (cond - s * uncond))
    g_match = jnp.sum(rest * gm * uncond, axis=-1, keepdims=True) / e(energy)
    g_cond = e(scale) * gm + g_match * uncond + g * (1.0 - on)
    g_uncond = rest * s * gm + g_match * (cond - 2.0 * s * uncond)
    return g_cond, g_uncond, g_scale, jnp.zeros_like(t)


guided_velocity.defvjp(_guided_fwd, _guided_bwd)


# ----------------------------------------------------------------------------
# trainer and sampler
# ----------------------------------------------------------------------------


def tiny_backbone(params, x, t, label):
    """Two-layer field used in tests and in the demo."""
    h = x @ params["w_in"] + expand_like(t, x) * params["time"] + expand_tokens(params["label"][label], x)
    return jnp.tanh(h) @ params["w_out"]


def expand_tokens(v, x):
    """(B, F) features spread over the middle axes of (B, ..., D)."""
    return v.reshape((v.shape[0],) + (1,) * (x.ndim - 2) + v.shape[1:])


def init_backbone(key, dim, hidden, classes):
    k1, k2, k3 = jax.random.split(key, 3)
    return {
        "w_in": jax.random.normal(k1, (dim, hidden)) / math.sqrt(dim),
        "w_out": jax.random.normal(k2, (hidden, dim)) / math.sqrt(hidden),
        "time": jnp.zeros((hidden,)),
        "label": 0.1 * jax.random.normal(k3, (classes + 1, hidden)),
    }


def warp_times(logits, u):
    """Learned monotone map of uniform draws; ``logits`` of K bins."""
    edges = jnp.concatenate([jnp.zeros(1), jnp.cumsum(jax.nn.softmax(logits))])
    grid = jnp.linspace(0.0, 1.0, edges.shape[0])
    return jnp.interp(u, grid, edges)


class FlowTrainer:
    """Loss of a batch.

    Args:
        net: the velocity field.
        path: key of PATHS.
        drop: probability of replacing the label by the null class.
    """

    def __init__(self, net, classes, path="linear", drop=0.1, power=0.75):
        self.net, self.classes, self.path, self.drop = net, classes, path, drop
        self.loss = make_velocity_loss(power)

    def __call__(self, params, key, data, label, lengths):
        k_noise, k_time, k_drop = jax.random.split(key, 3)
        noise = jax.random.normal(k_noise, data.shape, data.dtype)
        t = warp_times(params["time_logits"], jax.random.uniform(k_time, data.shape[:1]))
        null = jax.random.bernoulli(k_drop, self.drop, label.shape)
        label = jnp.where(null, self.classes, label)
        x_t, velocity = bridge_sample(data, noise, t, self.path)
        pred = self.net(params["net"], x_t, t, label)
        keep = keep_from_lengths(lengths, data.shape[1])
        return jnp.mean(self.loss(pred, velocity, keep))


def euler_sample(params, net, noise, label, null_label, log_scale, steps=8, interval=(0.1, 0.9)):
    """Integrate the guided field; ``log_scale`` (B,) can be tuned by gradient."""
    scale = jnp.exp(log_scale)
    x = noise
    for i in range(steps):
        t = jnp.full(noise.shape[:1], (i + 0.5) / steps, noise.dtype)
        cond = net(params, x, t, label)
        free = net(params, x, t, jnp.full_like(label, null_label))
        x = x + guided_velocity(cond, free, scale, t, interval) / steps
    return x


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    net_params = init_backbone(key, 6, 32, classes=4)
    weights = {"net": net_params, "time_logits": jnp.zeros(5)}
    batch = jax.random.normal(key, (3, 7, 6))
    labels = jnp.array([0, 2, 3])
    trainer = FlowTrainer(tiny_backbone, classes=4, path="cosine")
    value, grads = jax.value_and_grad(trainer)(weights, key, batch, labels, jnp.array([7, 5, 2]))
    print(value, grads["time_logits"])
    out = euler_sample(net_params, tiny_backbone, batch, labels, 4, jnp.full(3, 0.7))
    print(out.shape)
