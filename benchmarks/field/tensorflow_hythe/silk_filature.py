"""Raw silk reeling model of a multi-end filature.

The module follows a thread from the cooking bath to the reel:

* the bath softens the sericin that glues the bave to the cocoon shell,
* several bave ends are reeled together into one raw silk thread, whose size
  (denier) is the sum of the sizes of the ends,
* the thread runs through the button, the guides and the croissure, where the
  tension builds up,
* the seriplane / evenness tester reports a coefficient of variation over
  sliding windows of the thread.

All of it is used inside a calibration loop (see :func:`calibrate_lot`) that
fits bath and profile parameters to inspection records of a filature, so that
each stage carries a compact reverse rule instead of the long op-by-op graph.

Units: lengths in metres, tension in centinewton, size in denier, bath
temperature in kelvin.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

# Bave profiles are tabulated per hundred metres of unwound filament.
PROFILE_UNIT_M = 100.0
# Bath reference temperature, 95 degrees Celsius.
REFERENCE_KELVIN = 368.15
# Sericin that no bath of a filature removes (the inner, beta-rich layer).
HARD_SERICIN = 0.18
VARIANCE_FLOOR = 1e-8


class FilamentProfile(NamedTuple):
    """Bave size along its own length, one row per lot of cocoons.

    start: size of the outermost bave, denier
    rise: linear coefficient, denier per 100 m
    fall: quadratic coefficient, denier per (100 m)^2
    floor: size below which the pelette layer is thrown off
    """

    start: tf.Tensor
    rise: tf.Tensor
    fall: tf.Tensor
    floor: tf.Tensor


class LotRecord(NamedTuple):
    """Inspection record of one batch of lots."""

    unwound: np.ndarray
    active: np.ndarray
    thread_denier: np.ndarray
    evenness: np.ndarray


def default_profile(lots: int, dtype=tf.float32) -> FilamentProfile:
    """Profile of a spring bivoltine hybrid."""
    ones = tf.ones([lots], dtype)
    return FilamentProfile(
        start=2.6 * ones, rise=0.22 * ones, fall=0.031 * ones, floor=1.1 * ones
    )


# ---------------------------------------------------------------------------
# Size of the thread
# ---------------------------------------------------------------------------


@tf.custom_gradient
def thread_size(unwound, profile, active):
    """Denier of the raw silk thread reeled from several cocoons.

    Parameters
    ----------
    unwound : tensor, (lots, ends)
        Metres already taken off each cocoon.
    profile : FilamentProfile
        Four tensors of shape (lots,).
    active : bool tensor, (lots, ends)
        Ends that are attached at this moment; a dropped end adds nothing.

    Returns
    -------
    tensor, (lots,)
    """
    x = unwound / PROFILE_UNIT_M
    start = profile.start[:, None]
    rise = profile.rise[:, None]
    fall = profile.fall[:, None]
    floor = profile.floor[:, None]
    curve = start + rise * x - fall * tf.square(x)
    attached = tf.cast(active, curve.dtype)
    above = tf.cast(curve > floor, curve.dtype)
    size = tf.maximum(curve, floor * tf.ones_like(curve))
    total = tf.reduce_sum(size * attached, axis=1)

    def grad(upstream):
        g_curve = upstream[:, None] * attached * above
        g_floor = upstream[:, None] * attached * (1.0 - above)
        d_unwound = g_curve * (rise - 2.0 * fall * x) / PROFILE_UNIT_M
        d_profile = FilamentProfile(
            start=tf.reduce_sum(g_curve, axis=1),
            rise=tf.reduce_sum(g_curve * x, axis=1),
            fall=-tf.reduce_sum(g_curve * tf.square(x), axis=1),
            floor=tf.reduce_sum(g_floor, axis=1),
        )
        return d_unwound, d_profile, None

    return total, grad


# ---------------------------------------------------------------------------
# Tension along the thread path
# ---------------------------------------------------------------------------


def _unstack_last(x):
    return tf.unstack(x, axis=-1)


@tf.custom_gradient
def croissure_tension(tension_in, friction, wrap, drag):
    """Tension behind every guide of the reeling path.

    Each guide multiplies the incoming tension by ``exp(friction * wrap)`` and
    adds the water drag of the stretch that follows it.

    ``tension_in`` holds one value per basin end, ``friction`` and ``wrap``
    (radian) one value per guide, ``drag`` one value per basin end and guide.
    The result has the shape of ``drag``.
    """
    gain = tf.exp(friction * wrap)
    gains = _unstack_last(gain)
    current = tension_in
    behind = []
    for gain_k, drag_k in zip(gains, _unstack_last(drag)):
        current = current * gain_k + drag_k
        behind.append(current)
    tension = tf.stack(behind, axis=-1)

    def grad(upstream):
        carried = tf.zeros_like(tension_in)
        adjoints = []
        for gain_k, g_k in zip(reversed(gains), reversed(_unstack_last(upstream))):
            carried = carried + g_k
            adjoints.append(carried)
            carried = carried * gain_k
        adjoint = tf.stack(adjoints[::-1], axis=-1)
        d_exponent = tf.reduce_sum(adjoint * tension, axis=0)
        return carried, d_exponent * wrap, d_exponent * friction, adjoint

    return tension, grad


# ---------------------------------------------------------------------------
# Evenness
# ---------------------------------------------------------------------------


def window_table(samples: int, window: int, stride: int) -> np.ndarray:
    """Integer table ``[windows, window]`` of sample positions."""
    if samples < window:
        raise ValueError(f"thread of {samples} samples is shorter than {window}")
    starts = np.arange(0, samples - window + 1, stride)
    return (starts[:, None] + np.arange(window)[None, :]).astype(np.int32)


def make_evenness(window: int, stride: int | None = None) -> Callable:
    """Build the evenness meter.

    Args:
        window: samples per test length.
        stride: samples between the starts of two test lengths. The standard
            test places the lengths end to end, which is what ``None`` gives;
            running meters use a shorter stride.

    Returns:
        A function from thread size ``[ends, samples]`` to the coefficient of
        variation of each test length, ``[ends, windows]``.
    """
    stride = window if stride is None else stride

    @tf.custom_gradient
    def evenness(size):
        samples = size.shape[1]
        table = window_table(samples, window, stride)
        framed = tf.gather(size, table, axis=1)
        mean = tf.reduce_mean(framed, axis=2)
        centred = framed - mean[..., None]
        variance = tf.reduce_mean(tf.square(centred), axis=2)
        deviation = tf.sqrt(variance + VARIANCE_FLOOR)
        variation = deviation / mean

        def grad(upstream):
            per_deviation = (upstream / mean)[..., None]
            per_mean = (-upstream * variation / mean)[..., None]
            d_framed = (
                per_deviation * centred / deviation[..., None] + per_mean
            ) / float(window)
            flat = tf.reshape(d_framed, [tf.shape(size)[0], -1])
            collected = tf.math.unsorted_segment_mean(
                tf.transpose(flat), table.reshape(-1), num_segments=samples
            )
            return tf.transpose(collected)

        return variation, grad

    return evenness


# ---------------------------------------------------------------------------
# Cooking bath
# ---------------------------------------------------------------------------


class SericinBath:
    """Cooking bath with a staged temperature programme.

    Parameters
    ----------
    order : float
        Apparent reaction order of the sericin removal, at least 1. First
        order gives an exponential decay with the severity of the programme.
    hard_fraction : float
        Share that stays on the bave whatever the programme.
    """

    def __init__(self, order: float = 1.0, hard_fraction: float = HARD_SERICIN):
        if order < 1.0:
            raise ValueError("order below one leaves a negative residue")
        self.order = float(order)
        self.hard_fraction = float(hard_fraction)
        self._residual = self._build()

    def _build(self):
        order = self.order
        soft = 1.0 - self.hard_fraction

        @tf.custom_gradient
        def residual_sericin(kelvin, minutes, log_rate, activation):
            # kelvin, minutes: (programmes, stages); log_rate, activation: scalars
            inverse_gap = 1.0 / kelvin - 1.0 / REFERENCE_KELVIN
            rate = tf.exp(log_rate - activation * inverse_gap)
            dose = rate * minutes
            severity = tf.reduce_sum(dose, axis=1)
            if order == 1.0:
                remaining = tf.exp(-severity)
                slope = -remaining
            else:
                base = 1.0 + (order - 1.0) * severity
                remaining = base ** (-1.0 / (order - 1.0))
                slope = -remaining / base

            def grad(upstream):
                g = (upstream * soft * slope)[:, None]
                d_kelvin = g * dose * activation / tf.square(kelvin)
                d_minutes = g * rate
                d_log_rate = tf.reduce_sum(g * dose)
                d_activation = -tf.reduce_sum(g * dose * inverse_gap)
                return d_kelvin, d_minutes, d_log_rate, d_activation

            return (1.0 - soft) + soft * remaining, grad

        return residual_sericin

    def __call__(self, kelvin, minutes, log_rate, activation):
        return self._residual(kelvin, minutes, log_rate, activation)


# ---------------------------------------------------------------------------
# Calibration
# ---------------------------------------------------------------------------


def size_deviation(predicted, observed):
    """Mean absolute deviation in the smoothed form used at inspection."""
    return tf.reduce_mean(tf.sqrt(tf.square(predicted - observed) + 1e-6))


def reeling_force(residual, profile: FilamentProfile):
    """Unwinding force of one end, centinewton; glue and bave size scale it."""
    return 0.12 + 0.55 * residual * profile.start


class FilatureModel(tf.Module):
    """Bath, profile and thread path with trainable parameters."""

    def __init__(self, lots: int, guides: int = 4, order: float = 1.0,
                 window: int = 8, stride: int | None = None, dtype=tf.float32):
        super().__init__(name="filature")
        base = default_profile(lots, dtype)
        self.profile_vars = [tf.Variable(v, name=n) for n, v in base._asdict().items()]
        self.friction = tf.Variable(tf.fill([guides], tf.cast(0.18, dtype)))
        self.wrap = tf.constant(np.linspace(0.6, 2.4, guides), dtype)
        self.log_rate = tf.Variable(tf.cast(-2.0, dtype))
        self.activation = tf.Variable(tf.cast(7200.0, dtype))
        self.bath = SericinBath(order)
        self.evenness = make_evenness(window, stride)

    @property
    def profile(self) -> FilamentProfile:
        return FilamentProfile(*[tf.convert_to_tensor(v) for v in self.profile_vars])

    def path(self, kelvin, minutes, drag):
        residual = self.bath(kelvin, minutes, tf.convert_to_tensor(self.log_rate),
                             tf.convert_to_tensor(self.activation))
        force = reeling_force(residual, self.profile)
        return croissure_tension(force, tf.convert_to_tensor(self.friction),
                                 self.wrap, drag)

    def thread(self, unwound_series, active):
        """Denier along the thread; ``unwound_series`` is a sequence of arrays."""
        sizes = [thread_size(u, self.profile, active) for u in unwound_series]
        return tf.stack(sizes, axis=1)


def calibrate_lot(model: FilatureModel, unwound: Sequence, active, observed,
                  steps: int = 5, learning_rate: float = 1e-2):
    """A few Adam steps on the size record and its evenness."""
    optimizer = tf.keras.optimizers.Adam(learning_rate)
    history = []
    for _ in range(steps):
        with tf.GradientTape() as tape:
            thread = model.thread(unwound, active)
            loss = size_deviation(thread, observed)
            loss += tf.reduce_mean(model.evenness(thread))
        grads = tape.gradient(loss, model.profile_vars)
        optimizer.apply_gradients(zip(grads, model.profile_vars))
        history.append(float(loss))
    return history


if __name__ == "__main__":
    rng = np.random.default_rng(7)
    filature = FilatureModel(lots=3, stride=4)
    offsets = rng.uniform(0.0, 700.0, (3, 8)).astype("float32")
    series = [tf.constant(offsets + 12.0 * t) for t in range(24)]
    attached_ends = tf.constant(rng.uniform(size=(3, 8)) > 0.1)
    target = 16.0 + tf.zeros([3, 24])
    print(calibrate_lot(filature, series, attached_ends, target))
    stages = tf.constant([[333.0, 371.0, 345.0]] * 3)
    print(filature.path(stages, tf.fill([3, 3], 2.0), tf.fill([3, 4], 0.05)))
