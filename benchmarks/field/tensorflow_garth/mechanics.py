import tensorflow as tf

GRAVITY = 9.81


def _sum_to(x, shape):
    extra = x.shape.rank - len(shape)
    x = tf.reduce_sum(x, axis=list(range(extra)))
    for axis, size in enumerate(shape):
        if size == 1 and x.shape[axis] != 1:
            x = tf.reduce_sum(x, axis=axis, keepdims=True)
    return x


def _settle(couplings, field, beta, max_steps=2000):
    tol = 4e-16 if field.dtype == tf.float64 else 1e-7

    def step(m, _):
        new = 0.5 * m + 0.5 * tf.tanh(
            beta * (tf.linalg.matvec(couplings, m) + field))
        return new, tf.reduce_max(tf.abs(new - m))

    m, _ = tf.while_loop(
        lambda m, gap: gap > tol, step,
        (tf.tanh(beta * field), tf.ones([], field.dtype)),
        maximum_iterations=max_steps)
    return m


@tf.custom_gradient
def meanfield_magnetization(couplings, field, beta):
    """Mean field of a directed spin network: (n, n), (batch, n), () -> (batch, n)."""
    m = _settle(couplings, field, beta)

    def grad(dm):
        n = couplings.shape[-1]
        slope = beta * (1.0 - m * m)
        system = tf.eye(n, dtype=m.dtype) - couplings * slope[:, tf.newaxis, :]
        lam = tf.linalg.solve(system, dm[..., tf.newaxis])[..., 0]
        d_field = slope * lam
        d_couplings = tf.einsum("bi,bj->ij", d_field, m)
        local = tf.linalg.matvec(couplings, m) + field
        d_beta = tf.reduce_sum(d_field * local) / beta
        return d_couplings, d_field, d_beta

    return m, grad


@tf.custom_gradient
def zero_moment_point(masses, positions, accelerations):
    p_xy, p_z = positions[..., :2], positions[..., 2:]
    a_xy, a_z = accelerations[..., :2], accelerations[..., 2:]
    m = masses[..., tf.newaxis]
    lift = a_z + GRAVITY
    load = tf.reduce_sum(m * lift, axis=-2)
    zmp = tf.reduce_sum(m * (lift * p_xy - p_z * a_xy), axis=-2) / load

    def grad(d_zmp):
        per_load = (d_zmp / load)[..., tf.newaxis, :]
        d_load = -tf.reduce_sum(per_load * zmp[..., tf.newaxis, :], axis=-1, keepdims=True)
        d_mass = (tf.reduce_sum(per_load * (lift * p_xy - p_z * a_xy), axis=-1)
                  + (d_load * lift)[..., 0])
        d_p = tf.concat(
            [m * lift * per_load,
             -m * tf.reduce_sum(per_load * a_xy, axis=-1, keepdims=True)], axis=-1)
        d_a = tf.concat(
            [-m * p_z * per_load,
             m * (tf.reduce_sum(per_load * p_xy, axis=-1, keepdims=True) + d_load)], axis=-1)
        return (_sum_to(d_mass, masses.shape),
                _sum_to(d_p, positions.shape),
                _sum_to(d_a, accelerations.shape))

    return zmp, grad


def balance_penalty(masses, positions, accelerations, half_extent):
    zmp = zero_moment_point(masses, positions, accelerations)
    return tf.reduce_mean(tf.nn.relu(tf.abs(zmp) - half_extent))
