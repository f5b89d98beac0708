"""Cage deformation and axis timing for the animatronics rig optimiser."""

import tensorflow as tf


def _next(a):
    return tf.roll(a, shift=-1, axis=1)


def _prev(a):
    return tf.roll(a, shift=1, axis=1)


def _cross(a, b):
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _perp(a):
    # gradient of cross(b, a) with respect to b
    return tf.stack([a[..., 1], -a[..., 0]], axis=-1)


@tf.custom_gradient
def mean_value_interpolate(points, cage, values):
    """Interpolate per-vertex values of a polygon at interior points.

    Uses Floater's mean value coordinates, with the half-angle tangents in the form
    cross / (r r' + dot), which stays finite when a vertex, the point and the next vertex
    line up on one side.

    points: (P, 2), strictly inside the cage.
    cage:   (V, 2), V >= 3, a simple polygon in either orientation, not necessarily convex.
    values: (V, C), e.g. displacements of the cage vertices.

    Returns (P, C). Gradients flow to all three.
    """
    s = cage[None, :, :] - points[:, None, :]
    r = tf.norm(s, axis=-1)
    s_next, r_next = _next(s), _next(r)
    q = r * r_next + tf.reduce_sum(s * s_next, axis=-1)
    t = _cross(s, s_next) / q
    w = (_prev(t) + t) / r
    total = tf.reduce_sum(w, axis=1, keepdims=True)
    coords = w / total
    out = tf.matmul(coords, values)

    def grad(g):
        g_values = tf.matmul(coords, g, transpose_a=True)
        g_w = (tf.matmul(g, values, transpose_b=True)
               - tf.reduce_sum(g * out, axis=1, keepdims=True)) / total
        g_wr = g_w / r
        g_t = g_wr + _next(g_wr)
        g_cross = g_t / q
        g_q = -g_t * t / q

        g_r = -g_wr * w + g_q * r_next + _prev(g_q * r)
        g_s = g_q[..., None] * s_next + _prev(g_q[..., None] * s)
        g_s += g_cross[..., None] * _perp(s_next) - _prev(g_cross[..., None] * _perp(s))
        g_s += (g_r / r)[..., None] * s
        return -tf.reduce_sum(g_s, axis=1), tf.reduce_sum(g_s, axis=0), g_values

    return out, grad


def _fold_batch(value, like):
    """Sum leading axes away until only those of `like` are left."""
    extra = value.shape.rank - like.shape.rank
    return tf.reduce_sum(value, axis=list(range(extra))) if extra else value


def make_move_timer(synchronized=False):
    """Build the duration of point-to-point moves with trapezoidal velocity profiles.

    The returned function is called as `timer(displacement, v_max, accel, decel)`:

    displacement: (..., joints), signed and non-zero.
    v_max, accel, decel: (joints,), positive limits shared by all moves.

    A move that is too short to reach `v_max` gets a triangular profile. The result has the
    shape of `displacement`; with `synchronized=True` all joints wait for the slowest one and
    the result has shape (...), the duration of the whole move (ties share the gradient).
    """

    @tf.custom_gradient
    def timer(displacement, v_max, accel, decel):
        dist = tf.abs(displacement)
        slack = 1.0 / accel + 1.0 / decel
        short = 2.0 * dist < v_max**2 * slack
        triangle = tf.sqrt(2.0 * dist * slack)
        trapezoid = dist / v_max + 0.5 * v_max * slack
        per_joint = tf.where(short, triangle, trapezoid)
        if synchronized:
            duration = tf.reduce_max(per_joint, axis=-1)
        else:
            duration = per_joint

        def grad(upstream):
            g = upstream
            if synchronized:
                slowest = tf.cast(per_joint >= duration[..., None], per_joint.dtype)
                slowest /= tf.reduce_sum(slowest, axis=-1, keepdims=True)
                g = slowest * g[..., None]
            g_disp = g * tf.where(short, slack / triangle, tf.sign(displacement) / v_max)
            g_slack = g * tf.where(short, dist / triangle, 0.5 * v_max * tf.ones_like(dist))
            g_v = g * tf.where(short, tf.zeros_like(dist), 0.5 * slack - dist / v_max**2)
            return (
                g_disp,
                _fold_batch(g_v, v_max),
                _fold_batch(-g_slack / accel**2, accel),
                _fold_batch(-g_slack / decel**2, decel),
            )

        return duration, grad

    return timer


def choreography_length(poses, v_max, accel, decel):
    """Total duration of a pose sequence of shape (frames, joints), all axes in step."""
    timer = make_move_timer(synchronized=True)
    return tf.reduce_sum(timer(poses[1:] - poses[:-1], v_max, accel, decel))
