import tensorflow as tf


def free_energy(logits, temperature=1.0):
    """Free energy score of a classifier, one value per row."""
    scaled = logits / temperature
    peak = tf.stop_gradient(tf.reduce_max(scaled, axis=-1, keepdims=True))
    total = tf.reduce_sum(tf.exp(scaled - peak), axis=-1)
    return -temperature * (tf.math.log(total) + tf.squeeze(peak, axis=-1))


def energy_margin_loss(logits_in, logits_out, m_in=-7.0, m_out=-1.0):
    e_in = free_energy(logits_in)
    e_out = free_energy(logits_out)
    return tf.reduce_mean(tf.nn.relu(e_in - m_in)) + tf.reduce_mean(tf.nn.relu(m_out - e_out))
