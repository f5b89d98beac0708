import tensorflow as tf


def log_beta_fn(a, b):
    return tf.math.lgamma(a) + tf.math.lgamma(b) - tf.math.lgamma(a + b)


def beta_log_density(x, alpha, beta):
    """Posterior of a conversion rate with alpha successes, beta failures."""
    x = tf.clip_by_value(x, 1e-4, 1.0 - 1e-4)
    log_norm = log_beta_fn(alpha, beta)
    return (alpha - 1.0) * tf.math.log(x) + (beta - 1.0) * tf.math.log1p(-x) - log_norm
