import tensorflow as tf


def gan_losses(real_logits, fake_logits):
    bce = tf.nn.sigmoid_cross_entropy_with_logits
    d_real = bce(logits=real_logits, labels=tf.ones_like(real_logits))
    d_fake = bce(logits=fake_logits, labels=tf.zeros_like(fake_logits))
    d_loss = tf.reduce_mean(d_real + d_fake)
    g_loss = tf.reduce_mean(bce(logits=fake_logits, labels=tf.ones_like(fake_logits)))
    tf.summary.scalar('d_loss', d_loss)
    tf.summary.scalar('g_loss', g_loss)
    return d_loss, g_loss
