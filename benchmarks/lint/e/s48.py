import tensorflow as tf


def composite(sigma, t_vals):
    """Volume rendering weights along rays, sigma [rays, samples]."""
    delta = t_vals[..., 1:] - t_vals[..., :-1]
    delta = tf.concat([delta, tf.fill(tf.shape(delta[..., :1]), 1e10)], axis=-1)
    keep = tf.exp(-tf.nn.relu(sigma) * delta)
    trans = tf.math.cumprod(keep, axis=-1, exclusive=True)
    weights = (1.0 - keep) * trans
    depth = tf.reduce_sum(weights * t_vals, axis=-1)
    return weights, depth
