"""Optimizer steps one can differentiate through.

Meta-learning of step sizes, decay and update rules unrolls an optimizer and
back-propagates through its steps.  Reverse-mode through the plain step keeps all
intermediates alive, so the steps here carry their own rules:

``spectral_update``     momentum matrix mapped towards its orthogonal factor
``factored_precondition``  row and column second moments
``sign_step``           sign of an interpolated momentum
``trust_scaled``        layerwise trust ratio

The optimizers (:class:`Spectral`, :class:`Factored`, :class:`SignMomentum`) are
thin: ``init(params)`` and ``update(grads, state, params, hyper)``.
"""

from functools import partial
from typing import Any, Dict, NamedTuple, Tuple

import jax
import jax.numpy as jnp

PyTree = Any

QUINTIC = (3.4445, -4.7750, 2.0315)
NORM_FLOOR = 1e-7
DEFAULT_BOUNDS = (0.01, 10.0)


class MomentumState(NamedTuple):
    count: jax.Array
    momentum: PyTree


def _transpose(x):
    return jnp.swapaxes(x, -1, -2)


def _is_matrix(leaf) -> bool:
    return leaf.ndim >= 2


def ema(tree, new, decay):
    return jax.tree.map(lambda a, b: decay * a + (1.0 - decay) * b, tree, new)


def zeros_like_tree(tree):
    return jax.tree.map(jnp.zeros_like, tree)


def warmup(count, steps: int):
    """Linear warm-up factor in (0, 1]."""
    return jnp.minimum(1.0, (count + 1.0) / steps)


# ---------------------------------------------------------------------------
# spectral update
# ---------------------------------------------------------------------------


def _quintic(x):
    a, b, c = QUINTIC
    gram = x @ _transpose(x)
    mix = b * gram + c * gram @ gram
    return a * x + mix @ x


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def spectral_update(momentum: jax.Array, steps: int = 5) -> jax.Array:
    """Push the singular values of ``momentum`` towards one.

    Parameters
    ----------
    momentum : (..., m, n)
        Wide or square; leading axes are stacked layers or experts, each
        matrix is brought to unit Frobenius norm by itself.
    steps : int
        Iterations of the quintic.

    Returns
    -------
    (..., m, n)
    """
    norm = jnp.linalg.norm(momentum, axis=(-2, -1), keepdims=True)
    x = momentum / (norm + NORM_FLOOR)
    for _ in range(steps):
        x = _quintic(x)
    return x


def _spectral_update_fwd(momentum, steps):
    norm = jnp.linalg.norm(momentum, axis=(-2, -1), keepdims=True)
    x = momentum / (norm + NORM_FLOOR)
    iterates = []
    for _ in range(steps):
        iterates.append(x)
        x = _quintic(x)
    return x, (momentum, norm, iterates)


def _quintic_pullback(x, ct):
    a, b, c = QUINTIC
    gram = x @ _transpose(x)
    mix = b * gram + c * gram @ gram
    ct_mix = ct @ _transpose(x)
    ct_gram = b * ct_mix + c * (ct_mix @ gram + gram @ ct_mix)
    return a * ct + mix @ ct + (ct_gram + _transpose(ct_gram)) @ x


def _spectral_update_bwd(steps, saved, ct):
    momentum, norm, iterates = saved
    for x in reversed(iterates):
        ct = _quintic_pullback(x, ct)
    scale = norm + NORM_FLOOR
    radial = jnp.vdot(ct, momentum) / (scale**2 * jnp.maximum(norm, NORM_FLOOR))
    return (ct / scale - radial * momentum,)


spectral_update.defvjp(_spectral_update_fwd, _spectral_update_bwd)


class Spectral:
    """Momentum with spectral updates for matrices, plain momentum otherwise."""

    def __init__(self, steps: int = 5):
        self.steps = steps

    def init(self, params) -> MomentumState:
        return MomentumState(jnp.zeros((), jnp.int32), zeros_like_tree(params))

    def update(self, grads, state, params, hyper) -> Tuple[PyTree, MomentumState]:
        momentum = ema(state.momentum, grads, hyper["beta"])

        def direction(m):
            if not _is_matrix(m):
                return m
            rows, cols = m.shape[-2:]
            gain = jnp.sqrt(jnp.maximum(1.0, rows / cols))
            if rows > cols:
                return gain * _transpose(spectral_update(_transpose(m), self.steps))
            return gain * spectral_update(m, self.steps)

        step = jax.tree.map(lambda m: -hyper["rate"] * direction(m), momentum)
        return step, MomentumState(state.count + 1, momentum)


# ---------------------------------------------------------------------------
# factored second moments
# ---------------------------------------------------------------------------


def _factored_parts(grad, floor):
    square = jnp.square(grad) + floor
    rows = jnp.mean(square, axis=-1, keepdims=True)
    cols = jnp.mean(square, axis=-2, keepdims=True)
    total = jnp.mean(rows, axis=-2, keepdims=True)
    return rows, cols, total


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def factored_precondition(grad, floor=1e-30):
    """Divide a gradient by the root of its rank-one second moment.

    Args:
        grad: ``[..., rows, cols]``; leading axes are independent.
        floor: added to the squares.
    """
    rows, cols, total = _factored_parts(grad, floor)
    return grad * jax.lax.rsqrt(rows * cols / total)


def _factored_fwd(grad, floor):
    rows, cols, total = _factored_parts(grad, floor)
    root = jax.lax.rsqrt(rows * cols / total)
    out = grad * root
    return out, (grad, out, root, rows, cols, total)


def _factored_bwd(floor, saved, ct):
    grad, out, root, rows, cols, total = saved
    m, n = grad.shape[-2:]
    ct_log = -0.5 * ct * out
    ct_rows = jnp.sum(ct_log, axis=-1, keepdims=True) / rows
    ct_cols = jnp.sum(ct_log, axis=-2, keepdims=True) / cols
    ct_total = -jnp.sum(ct_log, axis=(-2, -1), keepdims=True) / total
    ct_square = ct_rows / n + ct_cols / m + ct_total / (m * n)
    return (ct * root + 2.0 * grad * ct_square,)


factored_precondition.defvjp(_factored_fwd, _factored_bwd)


class Factored:
    """Adafactor-like step without history, for very large embedding tables."""

    def init(self, params):
        return MomentumState(jnp.zeros((), jnp.int32), ())

    def update(self, grads, state, params, hyper):
        scale = hyper["rate"] * warmup(state.count, 10)

        def one(g):
            return -scale * (factored_precondition(g, 1e-12) if _is_matrix(g) else g)

        return jax.tree.map(one, grads), state._replace(count=state.count + 1)


# ---------------------------------------------------------------------------
# sign step
# ---------------------------------------------------------------------------


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def sign_step(momentum, grad, beta, width):
    """Sign of ``z = beta * momentum + (1 - beta) * grad``.

    The sign has no useful derivative, so a surrogate takes its place: tangents
    pass as if the output were ``clip(z / width, -1, 1)``, i.e. with slope
    ``1 / width`` where ``|z| < width`` and zero elsewhere.
    """
    return jnp.sign(beta * momentum + (1.0 - beta) * grad)


@sign_step.defjvp
def _sign_step_jvp(width, primals, tangents):
    momentum, grad, beta = primals
    d_momentum, d_grad, d_beta = tangents
    z = beta * momentum + (1.0 - beta) * grad
    d_z = beta * d_momentum + (1.0 - beta) * d_grad + (momentum - grad) * d_beta
    return jnp.sign(z), jnp.where(jnp.abs(z) < width, d_z / width, 0.0)


class SignMomentum:
    def __init__(self, width: float = 0.1):
        self.width = width

    def init(self, params):
        return MomentumState(jnp.zeros((), jnp.int32), zeros_like_tree(params))

    def update(self, grads, state, params, hyper):
        step = jax.tree.map(
            lambda m, g: -hyper["rate"] * sign_step(m, g, hyper["look"], self.width),
            state.momentum,
            grads,
        )
        return step, MomentumState(
            state.count + 1, ema(state.momentum, grads, hyper["beta"])
        )


# ---------------------------------------------------------------------------
# trust ratio
# ---------------------------------------------------------------------------


def _norm(x):
    return jnp.sqrt(jnp.sum(jnp.square(x)))


def _trust(param, step, bounds):
    """Clipped ratio of norms and whether it lies within the bounds."""
    low, high = bounds
    p, u = _norm(param), _norm(step)
    usable = (p > 0.0) & (u > 0.0)
    raw = jnp.where(usable, p / jnp.where(usable, u, 1.0), 1.0)
    return jnp.clip(raw, low, high), usable & (raw > low) & (raw < high), p, u


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def trust_scaled(params, updates, weight_decay=0.0, bounds=DEFAULT_BOUNDS):
    """Layerwise scaled updates.

    Every leaf becomes ``clip(|p| / |s|, *bounds) * s`` with
    ``s = update + weight_decay * p``; the ratio is one if either norm is zero.

    Args:
        params: pytree of arrays.
        updates: pytree of the same structure.
        weight_decay: python float.
        bounds: pair of python floats.

    Returns:
        pytree of the same structure.
    """

    def one(p, u):
        step = u + weight_decay * p
        return _trust(p, step, bounds)[0] * step

    return jax.tree.map(one, params, updates)


def _trust_scaled_fwd(params, updates, weight_decay, bounds):
    return trust_scaled(params, updates, weight_decay, bounds), (params, updates)


def _trust_scaled_bwd(weight_decay, bounds, saved, ct):
    params, updates = saved

    def one(p, u, g):
        step = u + weight_decay * p
        ratio, free, p_norm, s_norm = _trust(p, step, bounds)
        p_safe = jnp.where(p_norm > 0.0, p_norm, 1.0)
        s_safe = jnp.where(s_norm > 0.0, s_norm, 1.0)
        ct_ratio = jnp.where(free, jnp.sum(g * step), 0.0)
        ct_step = ratio * g - ct_ratio * p_safe / s_safe**3 * step
        ct_param = ct_ratio / (p_safe * s_safe) * p
        return ct_param, ct_step

    pairs = jax.tree.map(one, params, updates, ct)
    structure = jax.tree.structure(params)
    flat = structure.flatten_up_to(pairs)
    return (
        structure.unflatten([a for a, _ in flat]),
        structure.unflatten([b for _, b in flat]),
    )


trust_scaled.defvjp(_trust_scaled_fwd, _trust_scaled_bwd)


# ---------------------------------------------------------------------------
# unrolling
# ---------------------------------------------------------------------------


def unroll(optimizer, loss_fn, params, batches, hyper, layerwise_decay=None):
    """Run one inner step per batch, return the parameters after the last."""
    state = optimizer.init(params)
    for batch in batches:
        grads = jax.grad(loss_fn)(params, batch)
        step, state = optimizer.update(grads, state, params, hyper)
        if layerwise_decay is not None:
            negative = jax.tree.map(jnp.negative, step)
            step = jax.tree.map(
                lambda s: -hyper["rate"] * s,
                trust_scaled(params, negative, layerwise_decay),
            )
        params = jax.tree.map(jnp.add, params, step)
    return params


def mlp_loss(params: Dict[str, jax.Array], batch):
    x, y = batch
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return jnp.mean(jnp.square(hidden @ params["w2"] - y))


if __name__ == "__main__":
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    params = {
        "w1": 0.5 * jax.random.normal(keys[0], (4, 8)),
        "b1": jnp.full((8,), 0.1),
        "w2": 0.5 * jax.random.normal(keys[1], (8, 2)),
    }
    data = [(jax.random.normal(keys[2], (16, 4)), jax.random.normal(keys[3], (16, 2)))] * 3
    hyper = {"rate": jnp.asarray(0.05), "beta": jnp.asarray(0.9), "look": jnp.asarray(0.9)}

    for opt, decay in ((Spectral(), None), (Factored(), None), (SignMomentum(), 0.1)):

        def outer(h, opt=opt, decay=decay):
            return mlp_loss(unroll(opt, mlp_loss, params, data, h, decay), data[0])

        print(type(opt).__name__, jax.value_and_grad(outer)(hyper))
