import tensorflow as tf

tfm = tf.math


def free_energy(logits, temperature=1.0):
    """Free energy of a classifier for out-of-distribution detection."""
    z = tf.cast(logits, tf.float32) / temperature
    top = tf.stop_gradient(tf.reduce_max(z, axis=-1, keepdims=True))
    partition = tf.reduce_sum(tfm.exp(z - top), axis=-1)
    return -temperature * (tfm.log(partition) + tf.squeeze(top, axis=-1))


def margin_loss(e_in, e_out, m_in=-25.0, m_out=-7.0):
    return tf.reduce_mean(tf.nn.relu(e_in - m_in) ** 2) + tf.reduce_mean(tf.nn.relu(m_out - e_out) ** 2)
