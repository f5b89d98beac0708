# Copyright (c) the armlab authors.
"""Differentiable kinematics for serial manipulators.

The functions here are the inner loop of our trajectory optimiser.  Plain autodiff through
the chain of homogeneous transforms works, but it keeps every intermediate frame alive and
produces ``nan`` for joints at zero rotation, so the geometric Jacobians are written by hand.

Conventions
-----------
* Rotation matrices act on column vectors, ``p_world = R @ p_local``.
* All batch axes lead; the parameters of a robot (offsets, tool) carry no batch axis and are
  shared by all configurations of a batch.
* Angles in radian, lengths in metre.
"""
from __future__ import annotations

import functools
from typing import NamedTuple, Optional, Sequence

import jax
import jax.numpy as jnp
import numpy as np

REVOLUTE = "revolute"
PRISMATIC = "prismatic"

_SERIES_BELOW = 1e-2  # theta**2 under which the Taylor expansions are used


class Chain(NamedTuple):
    """Static description of a serial chain.

    Attributes:
        kinds: one of ``"revolute"`` / ``"prismatic"`` for every joint.
        axes: unit joint axis in the frame of the joint, one 3-tuple per joint.
    """

    kinds: tuple
    axes: tuple

    @property
    def dof(self) -> int:
        return len(self.kinds)


def hat(w: jax.Array) -> jax.Array:
    """Cross-product matrix, ``(..., 3) -> (..., 3, 3)``."""
    z = jnp.zeros_like(w[..., 0])
    x, y, zz = w[..., 0], w[..., 1], w[..., 2]
    return jnp.stack(
        [
            jnp.stack([z, -zz, y], -1),
            jnp.stack([zz, z, -x], -1),
            jnp.stack([-y, x, z], -1),
        ],
        -2,
    )


def _rotation_coefficients(w):
    """sin(t)/t, (1-cos t)/t^2 and (t - sin t)/t^3 with t = |w|, finite at t = 0."""
    t2 = jnp.sum(w * w, -1)
    small = t2 < _SERIES_BELOW
    safe = jnp.where(small, 1.0, t2)
    t = jnp.sqrt(safe)
    a = jnp.where(small, 1 - t2 / 6 * (1 - t2 / 20 * (1 - t2 / 42)), jnp.sin(t) / t)
    b = jnp.where(
        small,
        0.5 * (1 - t2 / 12 * (1 - t2 / 30 * (1 - t2 / 56))),
        2 * jnp.sin(t / 2) ** 2 / safe,
    )
    c = jnp.where(
        small,
        (1 - t2 / 20 * (1 - t2 / 42 * (1 - t2 / 72))) / 6,
        (t - jnp.sin(t)) / (safe * t),
    )
    return a, b, c


@jax.custom_jvp
def so3_exp(w: jax.Array) -> jax.Array:
    """Rodrigues' formula.

    Args:
        w: rotation vectors, ``(..., 3)``.  Any norm, zero included.

    Returns:
        Rotation matrices, ``(..., 3, 3)``.
    """
    a, b, _ = _rotation_coefficients(w)
    k = hat(w)
    return jnp.eye(3, dtype=w.dtype) + a[..., None, None] * k + b[..., None, None] * (k @ k)


@so3_exp.defjvp
def _so3_exp_jvp(primals, tangents):
    (w,), (dw,) = primals, tangents
    rot = so3_exp(w)
    _, b, c = _rotation_coefficients(w)
    # left Jacobian of SO(3) applied to the tangent
    wxd = jnp.cross(w, dw)
    omega = dw + b[..., None] * wxd + c[..., None] * jnp.cross(w, wxd)
    return rot, hat(omega) @ rot


def _walk(chain: Chain, params, q):
    """All frames of the chain: rotations before each joint, joint origins, world axes, end."""
    batch = q.shape[:-1]
    rot = jnp.broadcast_to(jnp.eye(3, dtype=q.dtype), batch + (3, 3))
    pos = jnp.zeros(batch + (3,), q.dtype)
    before, origins, axes = [], [], []
    for i, (kind, axis) in enumerate(zip(chain.kinds, chain.axes)):
        axis = jnp.asarray(axis, q.dtype)
        before.append(rot)
        pos = pos + rot @ params["offsets"][i]
        world_axis = rot @ axis
        origins.append(pos)
        axes.append(world_axis)
        if kind == REVOLUTE:
            rot = rot @ so3_exp(q[..., i, None] * axis)
        elif kind == PRISMATIC:
            pos = pos + q[..., i, None] * world_axis
        else:
            raise ValueError(f"unknown joint kind {kind!r}")
    end = pos + rot @ params["tool"]["tip"]
    return before, origins, axes, rot, end


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def forward_kinematics(chain: Chain, params, q):
    """Pose of the tool tip.

    Args:
        chain: static description of the robot.
        params: ``{"offsets": (n, 3), "tool": {"tip": (3,)}}``; ``offsets[i]`` goes from joint
            ``i-1`` to joint ``i`` in the frame that follows joint ``i-1``.
        q: joint coordinates, ``(..., n)``; radian for revolute and metre for prismatic joints.

    Returns:
        ``(position, rotation)`` of shapes ``(..., 3)`` and ``(..., 3, 3)``; differentiable in
        ``params`` and ``q``.
    """
    _, _, _, rot, end = _walk(chain, params, q)
    return end, rot


def _fk_fwd(chain, params, q):
    before, origins, axes, rot, end = _walk(chain, params, q)
    return (end, rot), (before, origins, axes, rot, end)


def _fk_bwd(chain, res, cotangents):
    before, origins, axes, rot, end = res
    g_pos, g_rot = cotangents

    # moment of the orientation cotangent: <g_rot, hat(z) rot> = z . moment
    m = g_rot @ jnp.swapaxes(rot, -1, -2)
    moment = jnp.stack(
        [
            m[..., 2, 1] - m[..., 1, 2],
            m[..., 0, 2] - m[..., 2, 0],
            m[..., 1, 0] - m[..., 0, 1],
        ],
        -1,
    )

    lead = tuple(range(g_pos.ndim - 1))
    dq, d_offsets = [], []
    for kind, r_before, origin, z in zip(chain.kinds, before, origins, axes):
        if kind == REVOLUTE:
            linear = jnp.cross(z, end - origin)
        else:
            linear = z
        dq.append(jnp.sum(linear * g_pos, -1) + jnp.sum(z * moment, -1))
        d_offsets.append(jnp.sum(jnp.einsum("...ji,...j->...i", r_before, g_pos), axis=lead))
    d_tip = jnp.sum(jnp.einsum("...ji,...j->...i", rot, g_pos), axis=lead)
    return {"offsets": jnp.stack(d_offsets), "tool": {"tip": d_tip}}, jnp.stack(dq, -1)


forward_kinematics.defvjp(_fk_fwd, _fk_bwd)


@jax.custom_vjp
def damped_step(jac: jax.Array, err: jax.Array, damping: jax.Array) -> jax.Array:
    """Damped least-squares step ``J^T (J J^T + damping^2 I)^{-1} err``.

    Args:
        jac: task Jacobian, ``(batch, task, dof)``.
        err: task error, ``(batch, task)``.
        damping: scalar, shared by the batch.

    Returns:
        Joint increments, ``(batch, dof)``.
    """
    return _damped_step_fwd(jac, err, damping)[0]


def _damped_step_fwd(jac, err, damping):
    gram = jac @ jnp.swapaxes(jac, -1, -2)
    gram = gram + damping**2 * jnp.eye(jac.shape[-2], dtype=jac.dtype)
    y = jnp.linalg.solve(gram, err[..., None])[..., 0]
    step = jnp.einsum("bij,bi->bj", jac, y)
    return step, (jac, gram, y, damping)


def _damped_step_bwd(res, g):
    jac, gram, y, damping = res
    # adjoint solve; the Gram matrix is symmetric
    u = jnp.linalg.solve(gram, jnp.einsum("bij,bj->bi", jac, g)[..., None])[..., 0]
    d_gram = -u[..., :, None] * y[..., None, :]
    d_jac = y[..., :, None] * g[..., None, :] + 2.0 * (d_gram @ jac)
    d_damping = 2.0 * damping * jnp.trace(d_gram, axis1=-2, axis2=-1).sum()
    return d_jac, u, d_damping


damped_step.defvjp(_damped_step_fwd, _damped_step_bwd)


def make_skinning(bones: np.ndarray):
    """Linear-blend attachment of collision points to the links of a robot.

    Args:
        bones: integer table ``(points, influences)`` with the link of every influence; ``-1``
            marks an unused influence.

    Returns:
        ``skin(rot, pos, local, weight)`` with link frames ``rot (links, 3, 3)``,
        ``pos (links, 3)``, points in link coordinates ``local (points, 3)`` and blending
        weights ``weight (points, influences)``; gives the points in the world, ``(points, 3)``.
    """
    bones = np.asarray(bones)
    used = bones >= 0
    index = np.where(used, bones, 0)

    @jax.custom_vjp
    def skin(rot, pos, local, weight):
        moved = jnp.einsum("pkij,pj->pki", rot[index], local) + pos[index]
        return jnp.einsum("pk,pki->pi", jnp.where(used, weight, 0.0), moved)

    def skin_fwd(rot, pos, local, weight):
        return skin(rot, pos, local, weight), (rot, pos, local, weight)

    def skin_bwd(res, g):
        rot, pos, local, weight = res
        w = jnp.where(used, weight, 0.0)
        pushed = w[..., None] * g[:, None, :]  # (points, influences, 3)
        d_pos = jnp.zeros_like(pos).at[index].add(pushed)
        d_rot = jnp.zeros_like(rot).at[index].add(pushed[..., :, None] * local[:, None, None, :])
        d_local = jnp.einsum("pkij,pki->pj", rot[index], pushed)
        moved = jnp.einsum("pkij,pj->pki", rot[index], local) + pos[index]
        d_weight = jnp.where(used, jnp.einsum("pki,pi->pk", moved, g), 0.0)
        return d_rot, d_pos, d_local, d_weight

    skin.defvjp(skin_fwd, skin_bwd)
    return skin


def limit_barrier(q, lower, upper, *, sharpness: float = 10.0, reduction: str = "mean",
                  joint_weight: Optional[Sequence[float]] = None):
    """Soft penalty for joints near or beyond their limits.

    ``softplus(s (q - upper)) / s + softplus(s (lower - q)) / s``, optionally weighted.

    Args:
        q: ``(..., n)`` configurations.
        lower, upper: ``(n,)`` limits; may be trained (calibration), hence differentiable.
        sharpness: slope of the wall per radian.
        reduction: ``"none"``, ``"sum"`` or ``"mean"``.  The mean is over all entries of ``q``.
        joint_weight: constant weights ``(n,)``, not differentiated.
    """
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(reduction)
    scale = 1.0 if joint_weight is None else jnp.asarray(joint_weight)

    @jax.custom_gradient
    def barrier(q, lower, upper):
        over = sharpness * (q - upper)
        under = sharpness * (lower - q)
        cost = scale * (jax.nn.softplus(over) + jax.nn.softplus(under)) / sharpness
        if reduction == "sum":
            value = cost.sum()
        elif reduction == "mean":
            value = cost.mean()
        else:
            value = cost

        def grad(g):
            if reduction == "mean":
                g = g / cost.size
            g = g * scale
            g_over = jax.nn.sigmoid(over) * g
            g_under = jax.nn.sigmoid(under) * g
            lead = tuple(range(q.ndim - 1))
            return g_over - g_under, g_under.sum(lead), -g_over.sum(lead)

        return value, grad

    return barrier(q, lower, upper)


def scara(reach=(0.35, 0.30), column: float = 0.4):
    """A SCARA arm: two revolute joints, the vertical slide and the wrist."""
    chain = Chain(
        kinds=(REVOLUTE, REVOLUTE, PRISMATIC, REVOLUTE),
        axes=((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), (0.0, 0.0, -1.0), (0.0, 0.0, 1.0)),
    )
    params = {
        "offsets": jnp.array([[0, 0, column], [reach[0], 0, 0], [reach[1], 0, 0], [0, 0, 0.0]]),
        "tool": {"tip": jnp.array([0.05, 0.0, -0.1])},
    }
    return chain, params


def tracking_loss(chain, params, q, target_pos, target_rot, lower, upper, rot_weight=0.1):
    """Tip error, orientation error and limit penalty of a whole trajectory ``q (steps, n)``."""
    pos, rot = forward_kinematics(chain, params, q)
    miss = jnp.sum((pos - target_pos) ** 2, -1).mean()
    twist = jnp.sum((rot - target_rot) ** 2, (-1, -2)).mean()
    return miss + rot_weight * twist + limit_barrier(q, lower, upper, reduction="mean")


def numerical_task_jacobian(chain, params, q):
    """Position Jacobian of a batch of configurations, ``(batch, 3, dof)``."""
    return jax.vmap(jax.jacobian(lambda x: forward_kinematics(chain, params, x[None])[0][0]))(q)


def ik_iterate(chain, params, q, target, damping=0.05, steps=20):
    for _ in range(steps):
        err = target - forward_kinematics(chain, params, q)[0]
        q = q + damped_step(numerical_task_jacobian(chain, params, q), err, jnp.asarray(damping))
    return q


if __name__ == "__main__":
    robot, geometry = scara()
    start = jnp.array([[0.3, 0.6, 0.05, -0.2], [-0.2, 0.9, 0.02, 0.4]])
    goal = jnp.array([[0.45, 0.25, 0.2], [0.5, -0.1, 0.25]])
    found = ik_iterate(robot, geometry, start, goal)
    print("residual", jnp.abs(forward_kinematics(robot, geometry, found)[0] - goal).max())
