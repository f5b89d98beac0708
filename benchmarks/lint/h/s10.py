import tensorflow as tf


def gan_losses(real_logits, fake_logits):
    d_real = tf.nn.sigmoid(real_logits)
    d_fake = tf.nn.sigmoid(fake_logits)
    d_loss = -tf.reduce_mean(tf.log(d_real) + tf.log(1. - d_fake))
    g_loss = -tf.reduce_mean(tf.log(d_fake))
    tf.summary.scalar('d_loss', d_loss)
    tf.summary.scalar('g_loss', g_loss)
    return d_loss, g_loss
