import typing

import tensorflow as tf


class LowRankCovariance(typing.NamedTuple):
    """Covariance `diag(diag) + factor @ factor.T`."""

    diag: tf.Tensor  # [n]
    factor: tf.Tensor  # [n, r]


def _capacitance(diag, factor):
    scaled = factor / diag[:, tf.newaxis]
    rank = tf.shape(factor)[-1]
    cap = tf.eye(rank, dtype=factor.dtype) + tf.matmul(factor, scaled, transpose_a=True)
    return scaled, tf.linalg.cholesky(cap)


@tf.custom_gradient
def _mahalanobis(values, diag, factor):
    scaled, chol = _capacitance(diag, factor)
    inner = tf.linalg.cholesky_solve(chol, tf.matmul(scaled, values, transpose_a=True, transpose_b=True))
    solved = values / diag - tf.matmul(inner, scaled, transpose_a=True, transpose_b=True)

    def grad(upstream):
        weighted = upstream[:, tf.newaxis] * solved
        loading = tf.matmul(solved, factor)
        d_diag = -tf.reduce_sum(weighted * solved, axis=0)
        d_factor = -2.0 * tf.einsum("mn,pr->nr", weighted, loading)
        return 2.0 * weighted, d_diag, d_factor

    return tf.reduce_sum(values * solved, axis=-1), grad


def lowrank_mahalanobis(values: tf.Tensor, covariance: LowRankCovariance) -> tf.Tensor:
    """Squared Mahalanobis length of each row of `values`.

    :param values: `[m, n]` residuals, one sample a row.
    :param covariance: the low-rank-plus-diagonal covariance.
    :return: `[m]` squared lengths.
    """
    return _mahalanobis(values, covariance.diag, covariance.factor)


def segment_lp_norm(values, segment_ids, num_segments, p=2.0):
    """p-norm of the rows of every segment, feature by feature.

    :param values: `[edges, ...]` messages.
    :param segment_ids: `[edges]` integer ids, in any order.
    :param num_segments: number of segments; an empty segment has norm zero.
    :param p: order of the norm, at least 1.
    :return: `[num_segments, ...]`
    """
    if p < 1.0:
        raise ValueError(f"p must be at least 1, got {p}")
    segment_ids = tf.convert_to_tensor(segment_ids)

    @tf.custom_gradient
    def _norm(v):
        powers = tf.math.unsorted_segment_sum(tf.abs(v) ** p, segment_ids, num_segments)
        norms = powers ** (1.0 / p)

        def grad(upstream):
            own = tf.gather(norms, segment_ids)
            direction = tf.sign(v) * tf.abs(v) ** (p - 1.0)
            return tf.gather(upstream, segment_ids) * tf.math.divide_no_nan(direction, own)

        return norms, grad

    return _norm(tf.convert_to_tensor(values))


def make_crank_nicolson(dt, num_steps):
    """Builds an integrator of `dx/dt = A x + s` with the discrete adjoint as its gradient.

    The returned function takes `state` of shape `[..., n]`, `operator` of shape
    `[n, n]` and optionally a constant `source` of shape `[n]`, and gives the state
    after `num_steps` steps of length `dt`.
    """
    half = 0.5 * dt

    @tf.custom_gradient
    def _evolve(state, operator, source):
        n = operator.shape[-1]
        eye = tf.eye(n, dtype=operator.dtype)
        implicit = eye - half * operator
        explicit = eye + half * operator
        x = tf.transpose(tf.reshape(state, [-1, n]))
        trajectory = [x]
        for _ in range(num_steps):
            x = tf.linalg.solve(implicit, tf.matmul(explicit, x) + dt * source[:, tf.newaxis])
            trajectory.append(x)
        final = tf.reshape(tf.transpose(x), tf.shape(state))

        def grad(upstream):
            lam = tf.transpose(tf.reshape(upstream, [-1, n]))
            d_operator = tf.zeros_like(operator)
            d_source = tf.zeros_like(source)
            for k in reversed(range(num_steps)):
                mu = tf.linalg.solve(implicit, lam, adjoint=True)
                middle = half * (trajectory[k] + trajectory[k + 1])
                d_operator += tf.matmul(mu, middle, transpose_b=True)
                d_source += dt * tf.reduce_sum(mu, axis=-1)
                lam = tf.matmul(explicit, mu, transpose_a=True)
            d_state = tf.reshape(tf.transpose(lam), tf.shape(state))
            return d_state, d_operator, d_source

        return final, grad

    def evolve(state, operator, source=None):
        operator = tf.convert_to_tensor(operator)
        if source is None:
            source = tf.zeros([operator.shape[-1]], dtype=operator.dtype)
        return _evolve(state, operator, source)

    return evolve
