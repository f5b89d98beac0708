import tensorflow as tf


def free_energy(logits, temperature=1.0):
    """Free energy score of a classifier, one value per row."""
    scaled = logits / temperature
    total = tf.reduce_sum(tf.exp(scaled), axis=-1)
    return -temperature * tf.math.log(total)


def energy_margin_loss(logits_in, logits_out, m_in=-7.0, m_out=-1.0):
    e_in = free_energy(logits_in)
    e_out = free_energy(logits_out)
    return tf.reduce_mean(tf.nn.relu(e_in - m_in)) + tf.reduce_mean(tf.nn.relu(m_out - e_out))
