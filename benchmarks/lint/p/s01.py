import tensorflow as tf


def gamma_fn(x):
    return tf.exp(tf.math.lgamma(x))


def beta_density(x, alpha, beta):
    """Posterior of a conversion rate with alpha successes, beta failures."""
    x = tf.clip_by_value(x, 1e-4, 1.0 - 1e-4)
    norm = gamma_fn(alpha) * gamma_fn(beta) / gamma_fn(alpha + beta)
    return x ** (alpha - 1.0) * (1.0 - x) ** (beta - 1.0) / norm
