import tensorflow as tf


def discriminator_loss(logit_real, logit_fake, smooth=0.9):
    D_real = tf.nn.sigmoid(logit_real)
    D_fake = tf.nn.sigmoid(logit_fake)
    D_loss = -tf.reduce_mean(smooth * tf.log(D_real) + tf.log(1. - D_fake))
    tf.summary.scalar("d_loss", D_loss)
    return D_loss
