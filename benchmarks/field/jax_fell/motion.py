"""Motion primitives for trajectory optimisation of small ground robots."""

from functools import partial
from typing import Callable

import jax
import jax.numpy as jnp


def make_unicycle_rollout(dt: float) -> Callable:
    """Build a differentiable rollout of a unicycle.

    Args:
        dt: integration step in seconds.

    Returns:
        ``rollout(start, controls)`` where ``start`` is ``(3,)`` with position
        and heading ``(x, y, theta)`` and ``controls`` is ``(T, 2)`` with speed
        and turn rate. It returns the ``(T, 3)`` states after each step of
        explicit Euler. The backward pass is one reverse scan over the stored
        trajectory.
    """

    def _step(state, control):
        x, y, theta = state
        speed, turn = control
        new = jnp.stack(
            [
                x + dt * speed * jnp.cos(theta),
                y + dt * speed * jnp.sin(theta),
                theta + dt * turn,
            ]
        )
        return new, new

    @jax.custom_vjp
    def rollout(start, controls):
        return jax.lax.scan(_step, start, controls)[1]

    def rollout_fwd(start, controls):
        states = rollout(start, controls)
        return states, (states, controls)

    def rollout_bwd(residuals, g):
        states, controls = residuals

        def back(adjoint, inputs):
            state, (speed, _), cotangent = inputs
            adjoint = adjoint + cotangent
            c, s = jnp.cos(state[2]), jnp.sin(state[2])
            d_speed = dt * (c * adjoint[0] + s * adjoint[1])
            d_turn = dt * adjoint[2]
            d_theta = dt * speed * (c * adjoint[1] - s * adjoint[0])
            adjoint = adjoint.at[2].add(d_theta)
            return adjoint, jnp.stack([d_speed, d_turn])

        g_start, g_controls = jax.lax.scan(
            back, jnp.zeros_like(g[0]), (states, controls, g), reverse=True
        )
        return g_start, g_controls

    rollout.defvjp(rollout_fwd, rollout_bwd)
    return rollout


def make_relaxed_barrier(delta: float, order: int = 2):
    """Relaxed log barrier (Hauser & Saccon) as a function of the margin.

    ``-log(margin)`` for margins above ``delta``; below, a polynomial of even
    ``order`` that joins with the same value and slope, so iterates may leave
    the feasible set.
    """
    if order % 2 or order < 2:
        raise ValueError("order must be even and at least 2")

    def _reduced(margin):
        return (margin - order * delta) / ((order - 1) * delta)

    @jax.custom_jvp
    def barrier(margin, weight):
        """``weight`` times the barrier; both broadcast."""
        safe = jnp.where(margin > delta, margin, delta)
        poly = (order - 1) / order * (_reduced(margin) ** order - 1.0) - jnp.log(delta)
        return weight * jnp.where(margin > delta, -jnp.log(safe), poly)

    @barrier.defjvp
    def barrier_jvp(primals, tangents):
        margin, weight = primals
        d_margin, d_weight = tangents
        safe = jnp.where(margin > delta, margin, delta)
        slope = jnp.where(margin > delta, -1.0 / safe, _reduced(margin) ** (order - 1) / delta)
        unit = barrier(margin, jnp.ones_like(weight))
        return weight * unit, weight * slope * d_margin + unit * d_weight

    return barrier


joint_limit_barrier = make_relaxed_barrier(0.05, order=4)


@partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3))
def servo_ticks(angle, lower=-1.5, upper=1.5, ticks_per_rev=4096):
    """Angle that a servo takes up when commanded to ``angle`` (radians).

    The command is clipped to the travel ``[lower, upper]`` and rounded to the
    encoder grid. The true derivative is zero almost everywhere. On purpose we
    do not return that: the gradient is a straight-through estimate, the
    identity for commands inside the travel and zero for commands outside.
    """
    tick = 2.0 * jnp.pi / ticks_per_rev
    return jnp.round(jnp.clip(angle, lower, upper) / tick) * tick


@servo_ticks.defjvp
def _servo_ticks_jvp(lower, upper, ticks_per_rev, primals, tangents):
    (angle,), (d_angle,) = primals, tangents
    inside = (angle >= lower) & (angle <= upper)
    return servo_ticks(angle, lower, upper, ticks_per_rev), jnp.where(inside, d_angle, 0.0)


# ---------------------------------------------------------------------------
# way point splines
# ---------------------------------------------------------------------------


def _cardinal_weights(u, s):
    """Weights of the four neighbours ``(T, 4)``, and d/du, d/ds of them."""
    u2, u3 = u * u, u * u * u
    w = jnp.stack(
        [
            s * (-u + 2 * u2 - u3),
            1 + (s - 3) * u2 + (2 - s) * u3,
            s * u + (3 - 2 * s) * u2 + (s - 2) * u3,
            s * (u3 - u2),
        ],
        axis=-1,
    )
    w_u = jnp.stack(
        [
            s * (-1 + 4 * u - 3 * u2),
            2 * (s - 3) * u + 3 * (2 - s) * u2,
            s + 2 * (3 - 2 * s) * u + 3 * (s - 2) * u2,
            s * (3 * u2 - 2 * u),
        ],
        axis=-1,
    )
    w_s = jnp.stack([-u + 2 * u2 - u3, u2 - u3, u - 2 * u2 + u3, u3 - u2], axis=-1)
    return w, w_u, w_s


@jax.custom_gradient
def catmull_rom(control, t, tension):
    """Cardinal spline through way points.

    Args:
        control: ``(K, D)`` way points, ``K >= 2``.
        t: ``(T,)`` curve parameters in ``[0, K - 1]``; the curve is at way
            point ``k`` for ``t = k``.
        tension: scalar, 0.5 gives the Catmull-Rom spline.

    At both ends the way points are continued by reflection,
    ``2 p[0] - p[1]`` and ``2 p[-1] - p[-2]``.

    Returns:
        ``(T, D)`` points.
    """
    count = control.shape[0]
    first = 2 * control[:1] - control[1:2]
    last = 2 * control[-1:] - control[-2:-1]
    extended = jnp.concatenate([first, control, last])

    segment = jnp.clip(jnp.floor(t), 0, count - 2).astype(jnp.int32)
    w, w_u, w_s = _cardinal_weights(t - segment, tension)
    index = segment[:, None] + jnp.arange(4)
    neighbours = extended[index]  # (T, 4, D)
    points = jnp.einsum("tk,tkd->td", w, neighbours)

    def vjp(g):
        spread = jnp.einsum("tk,td->tkd", w, g)
        g_extended = jnp.zeros_like(extended).at[index].add(spread)
        g_t = jnp.einsum("tk,tkd,td->t", w_u, neighbours, g)
        g_tension = jnp.einsum("tk,tkd,td->", w_s, neighbours, g)
        return g_extended[1:-1], g_t, g_tension

    return points, vjp


def smooth_path_cost(control, t, limits, weight=1.0, tension=0.5):
    """Squared second differences of the path plus soft box limits."""
    path = catmull_rom(control, t, tension)
    bend = jnp.sum((path[2:] - 2 * path[1:-1] + path[:-2]) ** 2)
    lo, hi = limits
    w = jnp.asarray(weight, path.dtype)
    return bend + jnp.sum(joint_limit_barrier(path - lo, w) + joint_limit_barrier(hi - path, w))
