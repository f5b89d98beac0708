import tensorflow as tf

tfm = tf.math


def energy_score(logits, temperature=1.0):
    """Free energy of a classifier for out-of-distribution detection."""
    z = tf.cast(logits, tf.float32) / temperature
    partition = tf.reduce_sum(tfm.exp(z), axis=-1)
    return -temperature * tfm.log(partition)


def margin_loss(e_in, e_out, m_in=-25.0, m_out=-7.0):
    return tf.reduce_mean(tf.nn.relu(e_in - m_in) ** 2) + tf.reduce_mean(tf.nn.relu(m_out - e_out) ** 2)
