import tensorflow as tf


class MixedAdam:
    """Updates float16 weights."""

    def __init__(self, var, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8):
        self.var, self.lr, self.eps = var, lr, eps
        self.beta1, self.beta2 = beta1, beta2
        self.m = tf.Variable(tf.zeros(var.shape, tf.float32))
        self.v = tf.Variable(tf.zeros(var.shape, tf.float32))

    def apply(self, grad, t):
        g = tf.cast(grad, tf.float32)
        self.m.assign(self.beta1 * self.m + (1.0 - self.beta1) * g)
        self.v.assign(self.beta2 * self.v + (1.0 - self.beta2) * tf.square(g))
        m_hat = self.m / (1.0 - self.beta1 ** t)
        v_hat = self.v / (1.0 - self.beta2 ** t)
        step = self.lr * m_hat / (tf.sqrt(v_hat) + self.eps)
        self.var.assign_sub(tf.cast(step, tf.float16))
