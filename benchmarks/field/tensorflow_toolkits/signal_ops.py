"""Frequency-domain filtering of the last axis."""
import tensorflow as tf

_MODES = ("full", "same", "valid")


def _next_fast_len(n: int) -> int:
    size = 1
    while size < n:
        size *= 2
    return size


def _crop_of(mode, n, k):
    if mode == "full":
        return 0, n + k - 1
    if mode == "same":
        return (k - 1) // 2, n
    return k - 1, n - k + 1


def fft_convolve(signal, kernel, mode="full"):
    """Convolves the last axis of a signal with one kernel.

    :param signal: real tensor of shape ``[..., n]`` with static ``n``.
    :type signal: tf.Tensor
    :param kernel: real tensor of shape ``[k]``, ``k <= n``.
    :type kernel: tf.Tensor
    :param mode: ``"full"`` gives ``n + k - 1`` samples, ``"same"`` the central
        ``n`` of them (starting at sample ``(k - 1) // 2``), ``"valid"`` those that
        do not touch the border.
    :type mode: str
    :return: the convolved signal.
    :rtype: tf.Tensor
    """
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {_MODES}")
    signal = tf.convert_to_tensor(signal)
    kernel = tf.convert_to_tensor(kernel)
    n, k = signal.shape[-1], kernel.shape[-1]
    size = _next_fast_len(n + k - 1)

    def transform(x):
        return tf.signal.rfft(x, fft_length=[size])

    def back(x):
        return tf.signal.irfft(x, fft_length=[size])

    @tf.custom_gradient
    def _convolve(signal, kernel):
        signal_f = transform(signal)
        kernel_f = transform(kernel)
        start, length = _crop_of(mode, n, k)
        out = back(signal_f * kernel_f)[..., start:start + length]

        def grad(dy):
            if mode == "full":
                left = 0
            elif mode == "same":
                left = k // 2
            else:
                left = k - 1
            lead = [[0, 0]] * (len(dy.shape) - 1)
            dy_f = transform(tf.pad(dy, lead + [[left, size - left - length]]))
            d_signal = back(dy_f * tf.math.conj(kernel_f))[..., :n]
            d_kernel = back(dy_f * tf.math.conj(signal_f))[..., :k]
            d_kernel = tf.reduce_sum(tf.reshape(d_kernel, [-1, k]), axis=0)
            return d_signal, d_kernel

        return out, grad

    return _convolve(signal, kernel)
