import tensorflow.compat.v1 as tf


def linear(x, units, name):
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        w = tf.get_variable("w", [x.shape[-1], units])
        b = tf.get_variable("b", [units], initializer=tf.zeros_initializer())
    return tf.matmul(x, w) + b


def critic(x):
    h = tf.nn.leaky_relu(linear(x, 128, "d1"))
    return linear(h, 1, "d2")


def adversarial_losses(real_logit, fake_logit):
    bce = tf.nn.sigmoid_cross_entropy_with_logits
    d_real = bce(labels=tf.ones_like(real_logit), logits=real_logit)
    d_fake = bce(labels=tf.zeros_like(fake_logit), logits=fake_logit)
    d_loss = tf.reduce_mean(d_real + d_fake)
    g_loss = tf.reduce_mean(bce(labels=tf.ones_like(fake_logit), logits=fake_logit))
    return d_loss, g_loss
