import tensorflow.compat.v1 as tf


def dense(x, units, name):
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        w = tf.get_variable("w", [x.shape[-1], units])
        b = tf.get_variable("b", [units], initializer=tf.zeros_initializer())
    return tf.matmul(x, w) + b


def discriminator(x):
    h = tf.nn.leaky_relu(dense(x, 128, "d1"))
    return dense(h, 1, "d2")


def gan_losses(real_logit, fake_logit):
    d_real = tf.nn.sigmoid(real_logit)
    d_fake = tf.nn.sigmoid(fake_logit)
    d_loss = -tf.reduce_mean(tf.log(d_real) + tf.log(1. - d_fake))
    g_loss = -tf.reduce_mean(tf.log(d_fake))
    return d_loss, g_loss
