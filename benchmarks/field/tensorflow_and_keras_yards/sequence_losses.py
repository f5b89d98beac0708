"""Losses for sequences, ratings and twin embeddings."""
import tensorflow as tf


def _softmin(values, gamma):
    return -gamma * tf.reduce_logsumexp(-tf.stack(values) / gamma, axis=0)


def _dtw_table(cost, gamma):
    n, m = cost.shape[1], cost.shape[2]
    inf = tf.fill(tf.shape(cost)[:1], tf.constant(1e10, cost.dtype))
    table = [[inf] * (m + 1) for _ in range(n + 1)]
    table[0][0] = tf.zeros_like(inf)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            best = _softmin(
                [table[i - 1][j], table[i][j - 1], table[i - 1][j - 1]], gamma
            )
            table[i][j] = cost[:, i - 1, j - 1] + best
    return table


def soft_dtw(cost, gamma=1.0):
    n, m = cost.shape[1], cost.shape[2]

    @tf.custom_gradient
    def run(cost):
        table = _dtw_table(cost, gamma)

        def grad(upstream):
            zero = tf.zeros_like(upstream)
            align = [[zero] * (m + 2) for _ in range(n + 2)]
            align[n][m] = upstream
            for i in range(n, 0, -1):
                for j in range(m, 0, -1):
                    here = table[i][j]
                    total = align[i][j]
                    if i < n:
                        step = table[i + 1][j] - here - cost[:, i, j - 1]
                        total += align[i + 1][j] * tf.exp(step / gamma)
                    if j < m:
                        step = table[i][j + 1] - here - cost[:, i - 1, j]
                        total += align[i][j + 1] * tf.exp(step / gamma)
                    if i < n and j < m:
                        step = table[i + 1][j + 1] - here - cost[:, i, j]
                        total += align[i + 1][j + 1] * tf.exp(step)
                    align[i][j] = total
            rows = [tf.stack(row[1 : m + 1], axis=-1) for row in align[1 : n + 1]]
            return tf.stack(rows, axis=1)

        return table[n][m], grad

    return run(cost)


@tf.custom_gradient
def ordinal_logit_loss(scores, cutpoints, labels):
    """Negative log likelihood of the cumulative logit model.

    :param scores: one latent score for each example, ``[batch]``.
    :param cutpoints: the ascending borders between the classes, ``[classes - 1]``.
    :param labels: integer class of each example, ``[batch]``, in ``[0, classes)``.
    :returns: the loss of each example, ``[batch]``.
    """
    inf = tf.constant([float("inf")], dtype=cutpoints.dtype)
    borders = tf.concat([-inf, cutpoints, inf], axis=0)
    high = tf.gather(borders, labels + 1) - scores
    low = tf.gather(borders, labels) - scores
    log_prob = (
        tf.math.log_sigmoid(high)
        + tf.math.log_sigmoid(-low)
        + tf.math.log(-tf.math.expm1(low - high))
    )

    def grad(upstream):
        gap = 1.0 / tf.math.expm1(high - low)
        d_high = -upstream * (tf.sigmoid(-high) + gap)
        d_low = upstream * (tf.sigmoid(low) + gap)
        d_borders = tf.zeros_like(borders)
        d_borders = tf.tensor_scatter_nd_update(d_borders, (labels + 1)[:, None], d_high)
        d_borders += tf.tensor_scatter_nd_update(
            tf.zeros_like(borders), labels[:, None], d_low
        )
        return -(d_high + d_low), d_borders[1:-1], None

    return -log_prob, grad


def make_barlow_twins_loss(off_diagonal_weight=5e-3, epsilon=1e-5):
    """Builds the redundancy reduction loss of two views.

    Args:
        off_diagonal_weight: weight of the squared correlations between different units.
        epsilon: added to the variance of each unit over the batch.

    Returns:
        A function of two embeddings of shape `[batch, units]`. It returns the scalar loss
        and the matrix of cross correlations `[units, units]`; both are differentiable.
    """

    def standardize(z):
        mean = tf.reduce_mean(z, axis=0, keepdims=True)
        inv = tf.math.rsqrt(
            tf.reduce_mean(tf.square(z - mean), axis=0, keepdims=True) + epsilon
        )
        return (z - mean) * inv, inv

    def standardize_grad(d, normed, inv):
        d_mean = tf.reduce_mean(d, axis=0, keepdims=True)
        d_proj = tf.reduce_mean(d * normed, axis=0, keepdims=True)
        return inv * (d - d_mean - normed * d_proj)

    @tf.custom_gradient
    def barlow_twins_loss(view_a, view_b):
        batch = tf.cast(tf.shape(view_a)[0], view_a.dtype)
        a, inv_a = standardize(view_a)
        b, inv_b = standardize(view_b)
        corr = tf.matmul(a, b, transpose_a=True) / batch
        diag = tf.linalg.diag_part(corr)
        on = tf.reduce_sum(tf.square(1.0 - diag))
        off = tf.reduce_sum(tf.square(corr)) - tf.reduce_sum(tf.square(diag))

        def grad(d_loss, d_corr):
            d = 2.0 * off_diagonal_weight * corr
            d = tf.linalg.set_diag(d, 2.0 * (diag - 1.0))
            d = (d_loss * d + d_corr) / batch
            d_a = tf.matmul(b, d, transpose_b=True)
            d_b = tf.matmul(a, d)
            return standardize_grad(d_a, a, inv_a), standardize_grad(d_b, b, inv_b)

        return (on + off_diagonal_weight * off, corr), grad

    return barlow_twins_loss
