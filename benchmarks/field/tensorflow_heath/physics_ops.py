"""Small physical operators shared by the radar and the manipulation experiments."""
import math
from typing import Callable, Tuple

import tensorflow as tf


def planar_rotation(angle: tf.Tensor) -> tf.Tensor:
    """``[...] -> [..., 2, 2]`` counter-clockwise rotation."""
    c, s = tf.cos(angle), tf.sin(angle)
    return tf.stack([tf.stack([c, -s], -1), tf.stack([s, c], -1)], -2)


@tf.custom_gradient
def rotate_conductivity(sigma: tf.Tensor, angle: tf.Tensor):
    """Express a height-integrated conductivity tensor in a rotated frame.

    Computes ``R(angle) @ sigma @ R(angle)^T``.  In the ionosphere the tensor is
    not symmetric in general: Pedersen conductances sit on the diagonal, the Hall
    conductance enters with opposite signs off the diagonal.

    Parameters
    ----------
    sigma : tf.Tensor, shape (..., 2, 2)
    angle : tf.Tensor, shape (...) or ()
        Frame rotation in radians, per cell or one for the whole map.

    Returns
    -------
    tf.Tensor, shape (..., 2, 2)
    """
    rot = planar_rotation(angle)
    out = tf.matmul(tf.matmul(rot, sigma), rot, transpose_b=True)

    def grad(g):
        d_sigma = tf.matmul(tf.matmul(rot, g, transpose_a=True), rot)
        # dR/dangle is R a quarter turn further
        turn = planar_rotation(angle + math.pi / 2)
        half = tf.matmul(tf.matmul(turn, sigma), rot, transpose_b=True)
        d_angle = tf.reduce_sum((g + tf.linalg.matrix_transpose(g)) * half, axis=[-2, -1])
        if angle.shape.rank == 0:
            d_angle = tf.reduce_sum(d_angle)
        return d_sigma, d_angle

    return out, grad


def make_phase_shifter(bits: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """Digital phase shifter of a phased array.

    The returned function rounds a commanded phase (radians, any real number) to
    the nearest of ``2**bits`` states and wraps it into ``[0, 2 pi)``.  Rounding
    has no useful derivative, so the backward pass is straight through on purpose:
    the gradient with respect to the rounded phase is handed to the command
    unchanged, as if the shifter were ideal.
    """
    states = 2 ** int(bits)
    lsb = 2.0 * math.pi / states

    @tf.custom_gradient
    def shift(command):
        code = tf.math.floormod(tf.round(command / lsb), float(states))
        return code * lsb, lambda g: g

    return shift


class FrictionCone:
    """Coulomb friction cones of a set of contacts.

    Forces are ``[..., 3]`` with the contact normal last.  The cone of a contact
    with coefficient ``mu`` is ``|f_t| <= mu f_n``.
    """

    def __init__(self, contacts: int, eps: float = 1e-30):
        self.contacts = contacts
        self._eps = eps

    def violation(self, force, mu):
        t = tf.norm(force[..., :2], axis=-1)
        return tf.nn.relu(t - mu * force[..., 2])

    @tf.custom_gradient
    def project(self, force: tf.Tensor, mu: tf.Tensor) -> Tuple[tf.Tensor, Callable]:
        """Euclidean projection of every force onto its cone.

        ``force`` has shape ``[batch, contacts, 3]``; ``mu > 0`` is ``[contacts]``
        or a scalar for all contacts.  Differentiable except on the cone surface
        and on the surface of the polar cone.
        """
        tangential, normal = force[..., :2], force[..., 2]
        slip = tf.sqrt(tf.reduce_sum(tangential**2, axis=-1))
        inside = slip <= mu * normal
        apex = tf.logical_and(mu * slip <= -normal, tf.logical_not(inside))
        safe = tf.maximum(slip, tf.cast(self._eps, slip.dtype))
        unit = tangential / safe[..., None]
        q = 1.0 + mu**2
        fn = (mu * slip + normal) / q
        on_cone = tf.concat([(mu * fn)[..., None] * unit, fn[..., None]], axis=-1)
        out = tf.where(inside[..., None], force, on_cone)
        out = tf.where(apex[..., None], tf.zeros_like(force), out)

        def grad(g):
            gt, gn = g[..., :2], g[..., 2]
            along = tf.reduce_sum(gt * unit, axis=-1)
            g_fn = gn + mu * along
            d_normal = g_fn / q
            across = gt - along[..., None] * unit
            d_tang = (mu * d_normal)[..., None] * unit + (mu * fn / safe)[..., None] * across
            d_force = tf.concat([d_tang, d_normal[..., None]], axis=-1)
            d_mu = g_fn * (slip - 2.0 * mu * fn) / q + fn * along

            d_force = tf.where(inside[..., None], g, d_force)
            d_force = tf.where(apex[..., None], tf.zeros_like(g), d_force)
            sliding = tf.logical_not(tf.logical_or(inside, apex))
            d_mu = tf.where(sliding, d_mu, tf.zeros_like(d_mu))
            axes = list(range(d_mu.shape.rank - mu.shape.rank))
            return d_force, tf.reduce_sum(d_mu, axis=axes)

        return out, grad


def grasp_forces(jacobian, wrench, mu, contacts, iterations=50, step=0.1):
    """Projected gradient for contact forces that balance ``wrench`` [batch, 6]."""
    cone = FrictionCone(contacts)
    force = tf.zeros([tf.shape(wrench)[0], contacts, 3], wrench.dtype)
    for _ in range(iterations):
        flat = tf.reshape(force, [-1, contacts * 3])
        residual = tf.matmul(flat, jacobian, transpose_b=True) - wrench
        flat -= step * tf.matmul(residual, jacobian)
        force = cone.project(tf.reshape(flat, [-1, contacts, 3]), mu)
    return force
