"""Mechanism kinematics and mesh utilities."""
from typing import Dict

import jax
import jax.numpy as jnp
import numpy as np


def _valid(conn):
    m = (conn >= 0).astype(jnp.result_type(float))
    return m, jnp.maximum(m.sum(-1, keepdims=True), 1.0)


@jax.custom_vjp
def element_average(nodal, conn):
    """Average nodal quantities over the nodes of each element.

    Meshes with mixed element types store their connectivity in one rectangular table, in which
    the rows of elements with fewer nodes are filled up with ``-1``. Those slots do not count.
    A collapsed element may list the same node more than once, in which case that node counts
    as often as it is listed. A row of only ``-1`` gives zeros.

    Parameters
    ----------
    nodal : float array, shape (n_nodes, n_fields)
    conn : int array, shape (n_elements, max_nodes)
        Node numbers in ``[0, n_nodes)`` or ``-1``.

    Returns
    -------
    float array, shape (n_elements, n_fields)
    """
    m, cnt = _valid(conn)
    return jnp.einsum("ek,ekf->ef", m / cnt, nodal[conn])


def _element_average_fwd(nodal, conn):
    return element_average(nodal, conn), (conn, jnp.zeros_like(nodal))


def _element_average_bwd(res, g):
    conn, buf = res
    m, cnt = _valid(conn)
    per_slot = (m / cnt)[..., None] * g[:, None, :]
    return buf.at[conn].add(per_slot), None


element_average.defvjp(_element_average_fwd, _element_average_bwd)


@jax.custom_vjp
def point_velocity(twist: Dict[str, jax.Array], r: jax.Array) -> jax.Array:
    arm = r - twist["com"]
    return twist["lin"] + jnp.cross(twist["ang"], arm)


def _pv_fwd(twist, r):
    return point_velocity(twist, r), (twist, r)


def _pv_bwd(res, g):
    twist, r = res
    flat = lambda a: a.reshape(-1, 3).sum(0)
    arm = r - twist["com"]
    gr = jnp.cross(g, twist["ang"])
    gt = {"lin": flat(g), "ang": flat(jnp.cross(arm, g)), "com": flat(gr)}
    return gt, gr


point_velocity.defvjp(_pv_fwd, _pv_bwd)


def _rot(axis, a):
    c, s = jnp.cos(a), jnp.sin(a)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    m = jnp.eye(3).at[i, i].set(c).at[j, j].set(c)
    return m.at[i, j].set(-s).at[j, i].set(s)


def rpy_matrix(rpy):
    return _rot(2, rpy[2]) @ _rot(1, rpy[1]) @ _rot(0, rpy[0])


@jax.custom_jvp
def stewart_lengths(pose, base, plat):
    """Leg lengths of a Stewart platform; pose = (x, y, z, roll, pitch, yaw), base and plat (L, 3) joint positions."""
    legs = pose[:3] + plat @ rpy_matrix(pose[3:]).T - base
    return jnp.sqrt(jnp.sum(legs**2, -1))


@stewart_lengths.defjvp
def _stewart_jvp(primals, tangents):
    pose, base, plat = primals
    dpose, dbase, dplat = tangents
    r, p, y = pose[3:]
    rz = _rot(2, y)
    rzy = rz @ _rot(1, p)
    rot = rzy @ _rot(0, r)
    arms = plat @ rot.T
    legs = pose[:3] + arms - base
    length = jnp.sqrt(jnp.sum(legs**2, -1))
    omega = rzy[:, 0] * dpose[3] + rz[:, 1] * dpose[4] + jnp.array([0.0, 0.0, 1.0]) * dpose[5]
    dlegs = dpose[:3] + jnp.cross(omega, arms) + dplat @ rot.T - dbase
    return length, jnp.sum(legs * dlegs, -1) / length


@jax.custom_jvp
def wrap_interval(x, lo, hi):
    """Wrap a joint coordinate into the half-open interval ``[lo, hi)``.

    The result is ``x`` shifted by a whole number of turns, one turn being ``hi - lo``. The limits
    are calibrated together with the rest of the arm, so they receive gradients like ``x`` does;
    the number of turns is piecewise constant.

    Args:
        x: Coordinate, any real value on either side of the interval, any shape.
        lo: Lower end, scalar or broadcastable to ``x``.
        hi: Upper end, larger than ``lo``.

    Returns:
        Array of the broadcast shape.
    """
    return lo + jnp.mod(x - lo, hi - lo)


@wrap_interval.defjvp
def _wrap_jvp(primals, tangents):
    x, lo, hi = primals
    dx, dlo, dhi = tangents
    turns = ((x - lo) / (hi - lo)).astype(jnp.int32)
    return wrap_interval(x, lo, hi), dx - turns * (dhi - dlo)


def joint_cost(q, target, lo=-np.pi, hi=np.pi):
    """Squared wrapped joint error."""
    return jnp.sum(wrap_interval(q - target, lo, hi) ** 2)
