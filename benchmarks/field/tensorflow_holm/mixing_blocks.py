import math

import tensorflow as tf

EPS = 1e-5


class ConditionalInstanceNorm(tf.Module):
    def __init__(self, channels: int, num_styles: int, dtype=tf.float32, name=None):
        super().__init__(name=name)
        self.gamma = tf.Variable(tf.ones([num_styles, channels], dtype), name="gamma")
        self.beta = tf.Variable(tf.zeros([num_styles, channels], dtype), name="beta")

    @staticmethod
    @tf.custom_gradient
    def normalize(x, gamma, beta, style):
        rank = len(x.shape)
        space = list(range(1, rank - 1))
        lift = [x.shape[0]] + [1] * (rank - 2) + [x.shape[-1]]
        mean, var = tf.nn.moments(x, axes=space, keepdims=True)
        inv = tf.math.rsqrt(var + tf.cast(EPS, x.dtype))
        x_hat = (x - mean) * inv
        scale = tf.reshape(tf.gather(gamma, style), lift)
        shift = tf.reshape(tf.gather(beta, style), lift)

        def grad(dy):
            dx_hat = dy * scale
            m1 = tf.reduce_mean(dx_hat, axis=space, keepdims=True)
            m2 = tf.reduce_mean(dx_hat * x_hat, axis=space, keepdims=True)
            dx = inv * (dx_hat - m1 - x_hat * m2)
            n = tf.shape(gamma)[0]
            dgamma = tf.math.unsorted_segment_sum(tf.reduce_sum(dy * x_hat, axis=space), style, n)
            dbeta = tf.math.unsorted_segment_sum(tf.reduce_sum(dy, axis=space), style, n)
            return dx, dgamma, dbeta, None

        return scale * x_hat + shift, grad

    def __call__(self, x, style):
        return self.normalize(x, tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta), style)


@tf.custom_gradient
def spectral_gate(x, w_re, w_im):
    n = x.shape[-1]
    gate = tf.complex(w_re, w_im)
    x_hat = tf.signal.rfft(x)
    y = tf.signal.irfft(x_hat * gate, fft_length=[n])

    def grad(dy):
        dy_hat = tf.signal.rfft(dy)
        dx = tf.signal.irfft(dy_hat * tf.math.conj(gate), fft_length=[n])
        dw = dy_hat * tf.math.conj(x_hat)
        dw = tf.reduce_sum(tf.reshape(dw, [-1, dw.shape[-1]]), axis=0)
        # interior bins stand for themselves and their mirror image
        inner = dw.shape[-1] - 2
        mult = tf.concat([[1.0], tf.fill([inner], 2.0), [1.0]], axis=0)
        mult = tf.cast(mult, x.dtype) / n
        return dx, mult * tf.math.real(dw), mult * tf.math.imag(dw)

    return y, grad


class SequenceMixer(tf.Module):
    """Residual block that mixes a (batch, channels, time) signal of any length >= 2 in the frequency domain."""

    def __init__(self, length: int, dtype=tf.float32, seed: int = 0):
        super().__init__()
        bins = length // 2 + 1
        init = tf.random.stateless_normal([2, bins], seed=[seed, 7], dtype=dtype) / math.sqrt(bins)
        self.w_re = tf.Variable(1.0 + init[0])
        self.w_im = tf.Variable(init[1])

    def __call__(self, x):
        return x + spectral_gate(x, tf.convert_to_tensor(self.w_re), tf.convert_to_tensor(self.w_im))
