"""Liquid-phase non-ideality for the flash calculation."""

import tensorflow as tf


def _fit(g, ref):
    """Sum a per-mixture (B, n, n) gradient down to the shape of a scalar / (n, n) / (B, n, n) input."""
    if ref.shape.rank == 3:
        return g
    g = tf.reduce_sum(g, axis=0)
    return g if ref.shape.rank == 2 else tf.reduce_sum(g)


@tf.custom_gradient
def nrtl_excess_gibbs(x: tf.Tensor, tau: tf.Tensor, alpha: tf.Tensor):
    r"""Excess Gibbs energy :math:`g^E/RT` of the NRTL model.

    .. math::
        g = \sum_i x_i \frac{\sum_j \tau_{ji} G_{ji} x_j}{\sum_k G_{ki} x_k},
        \qquad G_{ji} = \exp(-\alpha_{ji} \tau_{ji})

    The expression is kept homogeneous of degree one in ``x`` (mole numbers are fine), so that its
    gradient is the vector of :math:`\ln \gamma_i`.

    :param x: amounts, ``(B, n)``, positive.
    :param tau: interaction energies, ``(n, n)`` or one matrix per mixture ``(B, n, n)``. In general
        not symmetric, zero on the diagonal.
    :param alpha: non-randomness, a scalar or ``(n, n)``.
    :return: ``(B,)``
    """
    x, tau, alpha = (tf.convert_to_tensor(a) for a in (x, tau, alpha))
    boltz = tf.exp(-alpha * tau)
    full = tau if tau.shape.rank == 3 else tau[tf.newaxis]
    G = boltz if boltz.shape.rank == 3 else boltz[tf.newaxis]

    denom = tf.einsum("bki,bk->bi", G + tf.zeros_like(x)[:, :, None], x)
    numer = tf.einsum("bji,bj->bi", full * G + tf.zeros_like(x)[:, :, None], x)
    mean_tau = numer / denom
    g = tf.reduce_sum(x * mean_tau, axis=-1)

    def grad(upstream):
        share = G * (x / denom)[:, None, :]
        spread = full - mean_tau[:, None, :]
        ln_gamma = mean_tau + tf.reduce_sum(share * spread, axis=2)
        pair = upstream[:, None, None] * share * x[:, :, None]
        d_tau = pair * (1.0 - alpha * spread)
        d_alpha = -pair * full * spread
        return upstream[:, None] * ln_gamma, _fit(d_tau, tau), _fit(d_alpha, alpha)

    return g, grad


def log_activity_coefficients(x, tau, alpha=0.3):
    x = tf.convert_to_tensor(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        g = nrtl_excess_gibbs(x, tf.convert_to_tensor(tau, x.dtype), tf.convert_to_tensor(alpha, x.dtype))
    return tape.gradient(g, x)
