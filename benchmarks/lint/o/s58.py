import tensorflow as tf


def gradient_penalty(critic, real, fake, batch_size, lam=10.0):
    """Penalise the slope of the critic between real and fake samples."""
    alpha = tf.random_uniform([batch_size, 1], 0., 1.)
    mixed = real + alpha * (fake - real)
    grads = tf.gradients(critic(mixed), [mixed])[0]
    slopes = tf.sqrt(tf.reduce_sum(tf.square(grads), reduction_indices=[1]))
    return lam * tf.reduce_mean(tf.square(slopes - 1.))


def critic_cost(critic, real, fake, batch_size):
    cost = tf.reduce_mean(critic(fake)) - tf.reduce_mean(critic(real))
    return cost + gradient_penalty(critic, real, fake, batch_size)
