"""Front end and classifier for gestures read by an eight-pod EMG wristband.

The band samples ``C`` electrode pods.  A pod that loses skin contact is marked
by the firmware sample by sample, so each recording comes with a contact mask
of the same shape as the signal.  The front end standardises each pod over the
samples it was worn, and takes a windowed RMS envelope; a small recurrent head
classifies the gesture.

Signals are ``[batch, time, pods]`` in this module unless a function says
otherwise; recordings exported by the older firmware are ``[batch, pods, time]``.
"""

import os

if "KERAS_BACKEND" not in os.environ:
    os.environ["KERAS_BACKEND"] = "tensorflow"

import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import ops  # noqa: E402

PODS = 8
SAMPLE_RATE = 200
WINDOW = 20
HOP = 10
GESTURES = ("rest", "fist", "spread", "wave_in", "wave_out", "pinch")

ENVELOPE_FLOOR = 1e-6


def frame_table(n_samples, window, hop):
    """Sample index of every window position, shape (frames, window).

    Windows start every `hop` samples; samples after the last whole window are
    left out.
    """
    frames = 1 + (n_samples - window) // hop
    if frames < 1:
        raise ValueError("recording shorter than one window")
    starts = hop * np.arange(frames)[:, None]
    return (starts + np.arange(window)[None, :]).astype("int32")


# ---------------------------------------------------------------------------
# standardising
# ---------------------------------------------------------------------------


class WornStandardizer:
    """Zero mean and unit variance over the samples with skin contact.

    The axis of time is given at construction, 1 for the present firmware.
    Samples without contact come out as zero, and a pod that was never in
    contact is zero throughout.
    """

    def __init__(self, axis=1, eps=1e-5):
        self.axis = axis
        self.eps = eps
        self._rule = self._make_rule()

    def _make_rule(self):
        axis, eps = self.axis, self.eps

        @ops.custom_gradient
        def worn_standardize(signal, contact):
            worn = ops.cast(contact, signal.dtype)
            count = ops.maximum(ops.sum(worn, axis=axis, keepdims=True), 1.0)
            centre = ops.sum(worn * signal, axis=axis, keepdims=True) / count
            shifted = worn * (signal - centre)
            spread = ops.sum(ops.square(shifted), axis=axis, keepdims=True) / count
            inverse = ops.rsqrt(spread + eps)
            scaled = shifted * inverse

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                g = worn * upstream
                level = ops.mean(g, axis=axis, keepdims=True)
                along = ops.mean(g * scaled, axis=axis, keepdims=True)
                return worn * inverse * (g - level - scaled * along), None

            return scaled, grad

        return worn_standardize

    def __call__(self, signal, contact):
        return self._rule(signal, contact)


# ---------------------------------------------------------------------------
# envelope
# ---------------------------------------------------------------------------


def make_rms_envelope(n_samples, window=WINDOW, hop=HOP, taper=None):
    """RMS of each pod in sliding windows.

    Parameters
    ----------
    n_samples : int
        Length of the recordings.
    window, hop : int
        Both in samples. ``hop`` may be smaller than the window (overlapping
        frames), equal, or larger (samples in between are skipped).
    taper : array of shape (window,), optional
        Weights of the samples in a window, normalised to sum to one. Boxcar
        when not given.

    Returns
    -------
    callable
        ``rms_envelope(signal)``, from (batch, n_samples, pods) to
        (batch, frames, pods).
    """
    table = frame_table(n_samples, window, hop)
    frames = table.shape[0]
    if taper is None:
        taper = np.ones(window)
    taper = np.asarray(taper, "float64") / np.sum(taper)

    @ops.custom_gradient
    def rms_envelope(signal):
        weights = ops.reshape(ops.cast(taper, signal.dtype), (1, 1, window, 1))
        flat = table.reshape(-1)
        batch, pods = ops.shape(signal)[0], ops.shape(signal)[2]
        cut = ops.reshape(ops.take(signal, flat, axis=1), (batch, frames, window, pods))
        power = ops.sum(weights * ops.square(cut), axis=2)
        envelope = ops.sqrt(power + ENVELOPE_FLOOR)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            per_frame = ops.expand_dims(upstream / envelope, 2)
            pieces = weights * cut * per_frame
            # overlap-add, time leading
            pieces = ops.reshape(pieces, (batch, frames * window, pods))
            pieces = ops.transpose(pieces, (1, 0, 2))
            added = ops.segment_sum(pieces, flat, num_segments=n_samples)
            return ops.transpose(added, (1, 0, 2))

        return envelope, grad

    return rms_envelope


# ---------------------------------------------------------------------------
# layers
# ---------------------------------------------------------------------------


class PodNorm(keras.layers.Layer):
    """Contact-aware standardisation with a learned gain and offset per pod."""

    def __init__(self, eps=1e-5, **kwargs):
        super().__init__(**kwargs)
        self.eps = eps
        self.standardize = WornStandardizer(axis=1, eps=eps)

    def build(self, input_shape=None):
        pods = PODS if input_shape is None else input_shape[-1]
        self.gain = self.add_weight(name="gain", shape=(pods,), initializer="ones")
        self.offset = self.add_weight(name="offset", shape=(pods,), initializer="zeros")
        self.built = True

    def call(self, signal, contact):
        worn = ops.cast(contact, signal.dtype)
        return worn * (self.gain * self.standardize(signal, contact) + self.offset)


class EnvelopeLayer(keras.layers.Layer):
    """A mixing of pods, then the RMS envelope of each mixed channel."""

    def __init__(self, channels, window=WINDOW, hop=HOP, hann=True, **kwargs):
        super().__init__(**kwargs)
        self.channels = channels
        self.window = window
        self.hop = hop
        self.hann = hann

    def build(self, input_shape):
        _, n_samples, pods = input_shape
        self.mixing = self.add_weight(
            name="mixing", shape=(pods, self.channels), initializer="orthogonal"
        )
        taper = np.hanning(self.window + 2)[1:-1] if self.hann else None
        self.envelope = make_rms_envelope(n_samples, self.window, self.hop, taper)
        self.built = True

    def call(self, signal):
        return self.envelope(ops.matmul(signal, self.mixing))

    def compute_output_shape(self, input_shape):
        frames = 1 + (input_shape[1] - self.window) // self.hop
        return (input_shape[0], frames, self.channels)


class GestureNet(keras.Model):
    """Pod norm, envelope, log compression, GRU, logits."""

    def __init__(self, channels=6, units=16, classes=len(GESTURES), **kwargs):
        super().__init__(**kwargs)
        self.norm = PodNorm()
        self.envelope = EnvelopeLayer(channels)
        self.memory = keras.layers.GRU(units)
        self.head = keras.layers.Dense(classes)

    def call(self, inputs):
        signal, contact = inputs
        features = self.envelope(self.norm(signal, contact))
        return self.head(self.memory(ops.log(features + 1e-3)))


def synthetic_recordings(n=4, seconds=1.0, dropout=0.0, seed=0):
    """Band-limited noise with a burst in one pod per recording.

    `dropout` is the share of a pod's samples lost to poor contact, in one run
    at the end of the recording.
    """
    rng = np.random.default_rng(seed)
    n_samples = int(seconds * SAMPLE_RATE)
    signal = 0.1 * rng.standard_normal((n, n_samples, PODS))
    for i in range(n):
        at = rng.integers(0, n_samples // 2)
        signal[i, at : at + n_samples // 4, i % PODS] *= 8.0
    contact = np.ones(signal.shape, bool)
    lost = int(dropout * n_samples)
    if lost:
        contact[:, -lost:, rng.integers(0, PODS)] = False
    labels = np.arange(n) % len(GESTURES)
    return signal.astype("float32"), contact, labels.astype("int32")


def demo():
    signal, contact, labels = synthetic_recordings()
    net = GestureNet()
    logits = net((signal, contact))
    loss = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    print("logits", tuple(logits.shape), "loss", float(ops.mean(loss)))
    old = WornStandardizer(axis=2)
    flipped = np.transpose(signal, (0, 2, 1))
    out = old(ops.convert_to_tensor(flipped), np.transpose(contact, (0, 2, 1)))
    print("old firmware", tuple(out.shape))


if __name__ == "__main__":
    demo()
