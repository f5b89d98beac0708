"""Energy decay curves for learning artificial reverberators.

The loss used by most feedback-delay-network papers compares Schroeder's
backward integrated energy in dB. Measured responses come in different lengths,
they are stored in one padded array together with ``lengths``; what is behind
the end of a response (noise tail of the measurement) is not to be used.
"""

from functools import partial

import jax
import jax.numpy as jnp

_DB = 10.0 / 2.302585092994046


def _inside(shape, lengths):
    return jnp.arange(shape[-1]) < jnp.expand_dims(lengths, -1)


def _backward_integral(energy):
    return jnp.flip(jnp.cumsum(jnp.flip(energy, -1), -1), -1)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def energy_decay_curve(response, lengths, floor_db=-90.0):
    """Schroeder decay in dB relative to the total energy.

    :param response: impulse responses, ``(..., T)``, not identically zero
        inside their length
    :param lengths: number of valid samples, integers ``(...,)``, from 1 to T
    :param floor_db: soft floor; the curve tends to it where no energy is left
    :return: ``(..., T)`` curve, 0 dB (nearly) at the first sample
    """
    valid = jnp.where(_inside(response.shape, lengths), response, 0.0)
    left = _backward_integral(valid**2)
    return _DB * jnp.log(left / left[..., :1] + 10.0 ** (floor_db / 10.0))


def _edc_fwd(response, lengths, floor_db):
    valid = jnp.where(_inside(response.shape, lengths), response, 0.0)
    left = _backward_integral(valid**2)
    ratio = left / left[..., :1]
    curve = _DB * jnp.log(ratio + 10.0 ** (floor_db / 10.0))
    return curve, (response, ratio, left[..., :1])


def _edc_bwd(floor_db, saved, g):
    response, ratio, total = saved
    g_ratio = _DB * g / (ratio + 10.0 ** (floor_db / 10.0))
    g_total = -jnp.sum(g_ratio * ratio, axis=-1, keepdims=True) / total
    g_energy = jnp.cumsum(g_ratio, axis=-1) / total + g_total
    return 2.0 * response * g_energy, None


energy_decay_curve.defvjp(_edc_fwd, _edc_bwd)


def decay_loss(params, render, target, lengths, floor_db=-60.0):
    """Mean absolute difference of decay curves over the valid samples."""
    mine = energy_decay_curve(render(params), lengths, floor_db)
    theirs = energy_decay_curve(target, lengths, floor_db)
    inside = _inside(target.shape, lengths)
    return jnp.sum(jnp.where(inside, jnp.abs(mine - theirs), 0.0)) / jnp.sum(inside)


def fit(params, render, target, lengths, steps=50, lr=1e-2):
    step = jax.value_and_grad(decay_loss)
    history = []
    for _ in range(steps):
        value, grads = step(params, render, target, lengths)
        params = jax.tree_util.tree_map(lambda p, g: p - lr * g, params, grads)
        history.append(float(value))
    return params, history
