"""Front-end operators of the melody transcription model."""
import math

import numpy as np
import tensorflow as tf


def harmonic_table(f0_bins, n_harmonics, n_bins):
    """Spectrum bin of every harmonic of every candidate pitch.

    Returns an int32 array of shape (candidates, harmonics); harmonics that fall beyond the last bin
    of the spectrum are marked with -1.
    """
    f0 = np.asarray(f0_bins, dtype=np.float64)[:, None]
    table = np.rint(f0 * np.arange(1, n_harmonics + 1)[None, :]).astype(np.int32)
    table[table >= n_bins] = -1
    return table


class HarmonicSum:
    """Sub-harmonic summation over a magnitude spectrum.

    table:       int (candidates, harmonics), as made by `harmonic_table`; -1 = no such harmonic
    compression: c > 0 in log(1 + c * magnitude)
    """

    def __init__(self, table, compression=10.0):
        self.table = np.asarray(table, dtype=np.int32)
        self.compression = float(compression)

    @tf.custom_gradient
    def salience(self, spectrum, weights):
        """(..., bins) magnitudes >= 0 and (harmonics,) weights -> (..., candidates) salience.

        Harmonics that the table marks as absent contribute nothing.
        """
        index = np.maximum(self.table, 0)
        present = tf.constant(self.table >= 0)
        loud = tf.math.log1p(self.compression * spectrum)
        partials = tf.gather(loud, index, axis=-1)
        partials = tf.where(present, partials, tf.zeros_like(partials))
        out = tf.einsum("...kh,h->...k", partials, weights)
        n_bins = tf.shape(spectrum)[-1]

        def grad(upstream):
            flat_up = tf.reshape(upstream, [-1, self.table.shape[0]])
            flat_partials = tf.reshape(partials, [-1, *self.table.shape])
            d_weights = tf.einsum("nk,nkh->h", flat_up, flat_partials)

            # every (candidate, harmonic) pair sends its share back to its bin; bins are shared
            share = flat_up[:, :, None] * weights
            share = tf.reshape(share, [-1, self.table.size])
            d_loud = tf.math.unsorted_segment_sum(tf.transpose(share), index.reshape(-1), n_bins)
            d_loud = tf.reshape(tf.transpose(d_loud), tf.shape(spectrum))
            d_spectrum = d_loud * self.compression / (1.0 + self.compression * spectrum)
            return d_spectrum, d_weights

        return out, grad


@tf.custom_gradient
def pitch_class_profile(midi, salience, sharpness, tuning, lengths):
    """Soft pitch-class histogram of a pitch track.

    Every frame votes for the twelve pitch classes with a von Mises kernel on the octave circle,
    weighted by its salience, and the histogram of a track is normalised to sum to one.

    Args:
      midi: `[batch, time]` pitch in (fractional) MIDI numbers.
      salience: `[batch, time]` weights >= 0.
      sharpness: scalar > 0, concentration of the kernel.
      tuning: `[batch]` offset of the track from A440 in semitones.
      lengths: int `[batch]`, number of frames that belong to the track.  Each track must have at
        least one such frame with a positive salience.

    Returns:
      `[batch, 12]` profile.
    """
    dtype = midi.dtype
    step = 2.0 * math.pi / 12.0
    classes = tf.range(12, dtype=dtype)
    inside = tf.sequence_mask(lengths, tf.shape(midi)[1], dtype=dtype)
    angle = step * (midi[:, :, None] - tuning[:, None, None] - classes)
    closeness = tf.cos(angle) - 1.0
    kernel = tf.exp(sharpness * closeness) * inside[:, :, None]
    votes = tf.einsum("bt,btc->bc", salience, kernel)
    total = tf.reduce_sum(votes, axis=-1, keepdims=True)
    profile = votes / total

    def grad(upstream):
        d_votes = upstream - tf.reduce_sum(upstream * profile, axis=-1, keepdims=True)
        d_votes = d_votes / total
        d_salience = tf.einsum("bc,btc->bt", d_votes, kernel)
        d_exponent = d_votes[:, None, :] * kernel * salience[:, :, None]
        d_sharpness = tf.reduce_sum(d_exponent * closeness)
        d_angle = -d_exponent * sharpness * tf.sin(angle)
        d_midi = step * tf.reduce_sum(d_angle, axis=-1)
        d_tuning = -tf.reduce_sum(d_midi, axis=-1)
        return d_midi, d_salience, d_sharpness, d_tuning, None

    return profile, grad


class SalienceHead(tf.keras.layers.Layer):
    """Spectrogram -> log-probability of each candidate pitch, with learned harmonic weights."""

    def __init__(self, f0_bins, n_bins, n_harmonics=8, **kwargs):
        super().__init__(**kwargs)
        self.sum = HarmonicSum(harmonic_table(f0_bins, n_harmonics, n_bins))
        self.n_harmonics = n_harmonics

    def build(self, input_shape):
        decay = 0.84 ** np.arange(self.n_harmonics)
        self.harmonic_weights = self.add_weight(
            name="harmonic_weights",
            shape=(self.n_harmonics,),
            initializer=lambda shape, dtype=None: tf.constant(decay, dtype=dtype or "float32"),
        )

    def call(self, spectrogram):
        w = tf.convert_to_tensor(self.harmonic_weights)
        return tf.nn.log_softmax(self.sum.salience(spectrogram, w), axis=-1)
