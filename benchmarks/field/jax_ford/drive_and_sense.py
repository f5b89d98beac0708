"""Motor frames, planar motion and range sensing for the rover."""

import functools
from typing import Any, Dict, Literal, Tuple

import jax
import jax.numpy as jnp

_SHIFT = 2.0 * jnp.pi / 3.0
_FORWARD = {"power": (2.0 / 3.0) ** 0.5, "amplitude": 2.0 / 3.0}
_INVERSE = {"power": (2.0 / 3.0) ** 0.5, "amplitude": 1.0}


def _phase_angles(theta: jax.Array) -> jax.Array:
    return jnp.stack([theta, theta - _SHIFT, theta + _SHIFT], axis=-1)


def inverse_park(dq: jax.Array, theta: jax.Array, convention: str = "power") -> jax.Array:
    """Phase quantities (zero-sequence free) from the rotor frame."""
    ang = _phase_angles(theta)
    return _INVERSE[convention] * (jnp.cos(ang) * dq[..., :1] - jnp.sin(ang) * dq[..., 1:])


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def clarke_park(
    abc: jax.Array, theta: jax.Array, convention: Literal["power", "amplitude"] = "power"
) -> jax.Array:
    """Combined Clarke and Park transform to the rotor (d, q) frame.

    Args:
      abc: Phase currents or voltages, shape ``(..., 3)``. They need not sum to
        zero; the zero sequence is dropped.
      theta: Electrical rotor angle in radians, shape ``(...)``.
      convention: ``"power"`` for the power-invariant scaling (factor
        sqrt(2/3)), ``"amplitude"`` for the amplitude-invariant one (factor 2/3).

    Returns:
      Array of shape ``(..., 2)`` with the direct and quadrature components.
      Differentiable in ``abc`` and in ``theta``.
    """
    ang = _phase_angles(theta)
    d = jnp.sum(jnp.cos(ang) * abc, axis=-1)
    q = -jnp.sum(jnp.sin(ang) * abc, axis=-1)
    return _FORWARD[convention] * jnp.stack([d, q], axis=-1)


def _park_fwd(abc, theta, convention):
    dq = clarke_park(abc, theta, convention)
    return dq, (dq, theta)


def _park_bwd(convention, res, g):
    dq, theta = res
    g_abc = inverse_park(g, theta, convention)
    g_theta = g[..., 0] * dq[..., 1] - g[..., 1] * dq[..., 0]
    return g_abc, g_theta


clarke_park.defvjp(_park_fwd, _park_bwd)


def _sinc_terms(w):
    near = jnp.abs(w) < 0.1
    v = jnp.where(near, 1.0, w)
    w2 = w * w
    a = jnp.where(near, 1 - w2 / 6 * (1 - w2 / 20 * (1 - w2 / 42)), jnp.sin(v) / v)
    b = jnp.where(near, w / 2 * (1 - w2 / 12 * (1 - w2 / 30 * (1 - w2 / 56))), 2 * jnp.sin(v / 2) ** 2 / v)
    return near, v, w2, a, b


@jax.custom_jvp
def se2_exp(twist):
    vx, vy, w = twist[..., 0], twist[..., 1], twist[..., 2]
    _, _, _, a, b = _sinc_terms(w)
    return jnp.stack([a * vx - b * vy, b * vx + a * vy, w], axis=-1)


@se2_exp.defjvp
def _se2_exp_jvp(primals, tangents):
    (twist,), (dot,) = primals, tangents
    vx, vy, w = twist[..., 0], twist[..., 1], twist[..., 2]
    near, v, w2, a, b = _sinc_terms(w)
    da = jnp.where(near, -w / 3 * (1 - w2 / 10 * (1 - w2 / 28 * (1 - w2 / 54))), (jnp.cos(v) - a) / v)
    db = jnp.where(near, 0.5 - w2 / 8 * (1 - w2 / 18 * (1 - w2 / 40)), (jnp.sin(v) - b) / v)
    x, y = a * vx - b * vy, b * vx + a * vy
    dvx, dvy, dw = dot[..., 0], dot[..., 1], dot[..., 2]
    dx = a * dvx - b * dvy + (da * vx - db * vy) * dw
    dy = b * dvx + a * dvy + (db * vx + da * vy) * dw
    return jnp.stack([x, y, w], axis=-1), jnp.stack([dx, dy, dw], axis=-1)


Params = Dict[str, Any]


def _beam_parts(params, z, z_exp, z_max):
    mix = jax.nn.softmax(params["logits"])
    sigma = jnp.exp(params["log_sigma"])
    lam = jnp.exp(params["log_lambda"])
    u = (z - z_exp) / sigma
    hit = jnp.exp(-0.5 * u * u) / (sigma * jnp.sqrt(2.0 * jnp.pi))
    eta = -1.0 / jnp.expm1(-lam * z_exp)
    short = jnp.where(z <= z_exp, eta * lam * jnp.exp(-lam * z), 0.0)
    slab = 0.02 * z_max
    far = jnp.where(z >= z_max - slab, 1.0 / slab, 0.0)
    parts = jnp.stack([hit, short, far, jnp.full_like(z, 1.0 / z_max)])
    return mix, parts, (sigma, lam, u, eta)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def beam_range_nll(params: Params, z, z_exp, z_max: float = 30.0):
    mix, parts, _ = _beam_parts(params, z, z_exp, z_max)
    return -jnp.mean(jnp.log(jnp.tensordot(mix, parts, 1)))


def _beam_fwd(params, z, z_exp, z_max):
    return beam_range_nll(params, z, z_exp, z_max), (params, z, z_exp)


def _beam_bwd(z_max, res, g):
    params, z, z_exp = res
    mix, parts, (sigma, lam, u, eta) = _beam_parts(params, z, z_exp, z_max)
    like = jnp.tensordot(mix, parts, 1)
    resp = mix.reshape((-1,) + (1,) * z.ndim) * parts / like
    k = -g / z.size

    toward = resp[0] * u / sigma
    rest = z_exp * jnp.exp(-lam * z_exp) * eta
    grads = {
        "logits": k * (resp.reshape(4, -1).sum(1) - z.size * mix),
        "log_sigma": k * jnp.sum(resp[0] * (u * u - 1.0)),
        "log_lambda": k * jnp.sum(resp[1] * (1.0 - lam * z - lam * rest)),
    }
    return grads, k * (-toward - lam * resp[1]), k * toward


beam_range_nll.defvjp(_beam_fwd, _beam_bwd)


def localise(params: Params, scan: jax.Array, cast, pose: jax.Array, steps: int = 20, lr: float = 1e-2) -> Tuple[jax.Array, jax.Array]:
    """Refine a planar pose against a scan; `cast(pose)` gives expected ranges."""

    def cost(twist):
        d = se2_exp(twist)
        c, s = jnp.cos(pose[2]), jnp.sin(pose[2])
        moved = pose + jnp.stack([c * d[0] - s * d[1], s * d[0] + c * d[1], d[2]])
        return beam_range_nll(params, scan, cast(moved), 30.0)

    twist = jnp.zeros(3, scan.dtype)
    for _ in range(steps):
        twist = twist - lr * jax.grad(cost)(twist)
    return twist, cost(twist)
