"""Synthesis blocks on keras.ops, any backend."""

import keras
from keras import ops


def wavetable_oscillator(tables, phase, voice):
    """Read single-cycle waveforms at running phases.

    Args:
        tables: `(waveforms, length)`, one period each. The sample after the
            last one is the first.
        phase: `(batch, time)` phase in cycles. Any real number, only the
            fractional part counts.
        voice: `(batch,)` integers, the waveform that each row plays. Several
            rows may play the same one.

    Returns:
        `(batch, time)` audio, linearly interpolated.
    """
    voice = ops.cast(voice, "int32")

    @ops.custom_gradient
    def read(tables, phase):
        count, length = tables.shape
        pos = (phase - ops.floor(phase)) * length
        base = ops.floor(pos)
        frac = pos - base
        lo = ops.mod(ops.cast(base, "int32"), length)
        hi = ops.mod(lo + 1, length)
        row = voice[:, None] * length
        flat = ops.reshape(tables, (-1,))
        left, right = ops.take(flat, row + lo), ops.take(flat, row + hi)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            values = ops.concatenate(
                [ops.reshape((1.0 - frac) * upstream, (-1,)), ops.reshape(frac * upstream, (-1,))]
            )
            where = ops.concatenate([ops.reshape(row + lo, (-1,)), ops.reshape(row + hi, (-1,))])
            d_tables = ops.segment_sum(values, where, num_segments=count * length)
            return ops.reshape(d_tables, (count, length)), upstream * (right - left) * length

        return left + frac * (right - left), grad

    return read(tables, phase)


MAJOR = (0, 2, 4, 5, 7, 9, 11)


@ops.custom_gradient
def snap_to_scale(pitch, scale):
    """Move every pitch to the nearest note of a scale (hard autotune).

    `pitch` is in semitones (MIDI numbers, fractional), any shape; `scale` is a
    float vector of pitch classes in [0, 12).

    The output is a staircase whose true derivative is zero almost everywhere,
    so the backward pass is on purpose a straight-through estimator: the
    cotangent goes to `pitch` unchanged, as if this were the identity, and
    `scale` gets zeros.
    """
    octave = ops.floor(pitch / 12.0) * 12.0
    notes = ops.concatenate([scale - 12.0, scale, scale + 12.0])
    gap = ops.abs((pitch - octave)[..., None] - notes)
    snapped = octave + ops.take(notes, ops.argmin(gap, axis=-1))

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        return upstream, ops.zeros_like(scale)

    return snapped, grad


class WavetableVoice(keras.layers.Layer):
    """Learned waveforms driven by a predicted pitch contour."""

    def __init__(self, waveforms=4, length=512, sample_rate=16000, autotune=False, **kwargs):
        super().__init__(**kwargs)
        self.waveforms, self.length = waveforms, length
        self.sample_rate, self.autotune = sample_rate, autotune

    def build(self, input_shape):
        self.tables = self.add_weight(
            shape=(self.waveforms, self.length), initializer="random_normal", name="tables"
        )

    def call(self, pitch, voice):
        if self.autotune:
            pitch = snap_to_scale(pitch, ops.convert_to_tensor(MAJOR, dtype=pitch.dtype))
        hertz = 440.0 * ops.power(2.0, (pitch - 69.0) / 12.0)
        phase = ops.cumsum(hertz, axis=1) / self.sample_rate
        tables = self.tables - ops.mean(self.tables, axis=1, keepdims=True)
        return wavetable_oscillator(tables, phase, voice)
