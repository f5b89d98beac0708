"""Differentiable synthesis and analysis ops for audio.

All signals are [batch, n_samples]; frame-wise controls are [batch, n_frames, ...].
Rules are handwritten where TF's own ones are slow on accelerators (complex tensors,
long scans) or take too much memory.
"""
import numpy as np
import tensorflow as tf


def tf_float(x, dtype=tf.float32):
  return x if tf.is_tensor(x) else tf.convert_to_tensor(x, dtype)


def windowed_overlap_add(frames, window, hop_size):
  """Multiplies frames with a synthesis window and overlap-adds them.

  Args:
    frames: [batch, n_frames, frame_size].
    window: [frame_size]; can be trained.
    hop_size: Python int, at most frame_size.

  Returns:
    [batch, (n_frames - 1) * hop_size + frame_size]
  """
  frame_size = frames.shape[-1]

  @tf.custom_gradient
  def _ola(frames, window):
    audio = tf.signal.overlap_and_add(frames * window, hop_size)

    def grad(d_audio):
      d = tf.signal.frame(d_audio, frame_size, hop_size)
      return d * window, tf.reduce_sum(d * frames, axis=[0, 1])

    return audio, grad

  return _ola(frames, window)


def power_spectrum(frames, fft_size=None):
  """|rfft(frames)|^2, zero-padded up to `fft_size`: [..., n] -> [..., fft_size // 2 + 1]."""
  n = frames.shape[-1]
  fft_size = fft_size or n

  @tf.custom_gradient
  def _power(frames):
    spec = tf.signal.rfft(frames, fft_length=[fft_size])
    power = tf.square(tf.math.real(spec)) + tf.square(tf.math.imag(spec))

    def grad(d_power):
      # irfft counts all bins twice but the real ones at both ends.
      bins = fft_size // 2 + 1
      weight = np.ones(bins)
      weight[0] = weight[-1] = 2.0
      weight = tf.constant(weight * fft_size, dtype=d_power.dtype)
      d_spec = spec * tf.cast(weight * d_power, spec.dtype)
      return tf.signal.irfft(d_spec, fft_length=[fft_size])[..., :n]

    return power, grad

  return _power(frames)


class OnePoleLowpass(tf.Module):
  """y[t] = a * x[t] + (1 - a) * y[t - 1], with one trainable a in (0, 1) per channel.

  Inputs are [batch, time, channels]; the filter starts at rest.
  """

  def __init__(self, n_channels, initial_logit=0.0, dtype=tf.float32, name=None):
    super().__init__(name=name)
    self.logit = tf.Variable(tf.fill([n_channels], tf.cast(initial_logit, dtype)), name='logit')

  @staticmethod
  def _recursion(x_tm, feedback, reverse=False):
    # x_tm: [time, batch, channels]
    return tf.scan(lambda y, x: feedback * y + x, x_tm,
                   initializer=tf.zeros_like(x_tm[0]), reverse=reverse)

  @tf.function
  def __call__(self, x):

    @tf.custom_gradient
    def _filter(x):
      a = tf.sigmoid(self.logit)
      x_tm = tf.transpose(x, [1, 0, 2])
      y_tm = self._recursion(a * x_tm, 1.0 - a)

      def grad(dy, variables=None):
        # lam[t] = dy[t] + (1 - a) * lam[t + 1]
        lam = self._recursion(tf.transpose(dy, [1, 0, 2]), 1.0 - a, reverse=True)
        y_prev = tf.concat([tf.zeros_like(y_tm[:1]), y_tm[:-1]], axis=0)
        d_a = tf.reduce_sum(lam * (x_tm - y_prev), axis=[0, 1])
        d_logit = d_a * a * (1.0 - a)
        assert len(variables) == 1
        return tf.transpose(a * lam, [1, 0, 2]), [d_logit]

      return tf.transpose(y_tm, [1, 0, 2]), grad

    return _filter(x)


def harmonic_synthesis(f0_hz, amplitudes, sample_rate=16000):
  """Bank of sinusoids at the multiples of f0.

  Harmonics at or above the Nyquist frequency are silenced.

  Args:
    f0_hz: [batch, n_samples], fundamental per sample.
    amplitudes: [batch, n_samples, n_harmonics], amplitude envelopes.
    sample_rate: int.

  Returns:
    audio: [batch, n_samples].
  """
  n_harmonics = amplitudes.shape[-1]

  @tf.custom_gradient
  def _synth(f0_hz, amplitudes):
    k = tf.range(1, n_harmonics + 1, dtype=f0_hz.dtype)
    omega = 2.0 * np.pi / sample_rate
    phase = tf.cumsum(omega * f0_hz, axis=1)[..., tf.newaxis] * k
    audible = tf.cast(f0_hz[..., tf.newaxis] * k < sample_rate / 2.0, f0_hz.dtype)
    amps = amplitudes * audible
    sines = tf.sin(phase)
    audio = tf.reduce_sum(amps * sines, axis=-1)

    def grad(d_audio):
      d_audio = d_audio[..., tf.newaxis]
      d_amplitudes = d_audio * sines
      d_phase = tf.reduce_sum(d_audio * amps * k * tf.cos(phase), axis=-1)
      d_f0 = omega * tf.cumsum(d_phase, axis=1, reverse=True)
      return d_f0, d_amplitudes

    return audio, grad

  return _synth(f0_hz, amplitudes)


def spectral_loss(target, audio, fft_sizes=(256, 128, 64)):
  """L1 distance of power spectra at several resolutions."""
  loss = 0.0
  for size in fft_sizes:
    frames = [tf.signal.frame(tf_float(s), size, size // 4) for s in (target, audio)]
    a, b = [power_spectrum(f * tf.signal.hann_window(size)) for f in frames]
    loss += tf.reduce_mean(tf.abs(a - b))
  return loss


if __name__ == '__main__':
  f0 = tf.fill([1, 1024], 220.0)
  amps = tf.ones([1, 1024, 8]) / 8.0
  with tf.GradientTape() as tape:
    tape.watch(amps)
    loss = spectral_loss(tf.random.normal([1, 1024]), harmonic_synthesis(f0, amps))
  print(float(loss), tape.gradient(loss, amps).shape)
