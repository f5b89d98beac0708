"""Season models for declared field parcels seen by an optical satellite.

Each parcel of the subsidy register has a ragged history of reflectances,
resampled to a fixed calendar of ``T`` acquisition slots, and a declared crop.
The classifier reads three things:

1. an attention summary of the slots that are not clouded over,
2. a heat clock (accumulated degrees above a crop's base temperature), used as
   the time axis instead of the calendar,
3. a parametric greenness curve with its rate of change, matched against the
   observed vegetation index.

Arrays are parcel-major.  Everything is float; the crop table is the only
integer input.
"""

import collections
import math
from typing import Any, Callable, Dict, List, Mapping, Tuple

import numpy as np
import tensorflow as tf

SLOT_DAYS = 5.0
BANDS = ("B02", "B03", "B04", "B08", "B11", "B12")
RED, NIR = 2, 3

#: base temperature and upper cut-off of development, degrees Celsius
CROP_HEAT_LIMITS = collections.OrderedDict(
    winter_wheat=(0.0, 26.0),
    maize=(8.0, 30.0),
    sugar_beet=(3.0, 25.0),
    potato=(6.0, 24.0),
    sunflower=(7.0, 34.0),
)

CURVE_FIELDS = ("floor", "lift", "onset", "onset_rate", "decline", "decline_rate")
SeasonShape = collections.namedtuple("SeasonShape", CURVE_FIELDS)

_MASKED = -1e9


def vegetation_index(reflectance: tf.Tensor, soil: float = 0.16) -> tf.Tensor:
    """Soil-adjusted index over the last (band) axis."""
    red = reflectance[..., RED]
    nir = reflectance[..., NIR]
    return (1.0 + soil) * (nir - red) / (nir + red + soil)


def heat_limit_table() -> np.ndarray:
    """``(crops, 2)`` base and cut-off."""
    return np.asarray(list(CROP_HEAT_LIMITS.values()), dtype="float32")


def day_axis(slots: int, first_day: float = 60.0) -> np.ndarray:
    return first_day + SLOT_DAYS * np.arange(slots, dtype="float32")


# -- attention over clear slots --------------------------------------------


@tf.custom_gradient
def clear_sky_pool(series, scores, clear):
    """Attention pooling over the acquisition slots that are clear.

    Parameters
    ----------
    series : tensor, shape (P, T, C)
        Slot features.
    scores : tensor, shape (P, T)
        Attention logits.
    clear : bool tensor, shape (P, T)
        False where the slot is cloud, shadow, snow or off-swath.

    Returns
    -------
    tensor, shape (P, C)
        Weighted mean of the clear slots; zeros for a parcel never seen.
    """
    keep = tf.cast(clear, scores.dtype)
    logits = tf.where(clear, scores, tf.cast(_MASKED, scores.dtype))
    top = tf.reduce_max(logits, axis=1, keepdims=True)
    raw = keep * tf.exp(logits - top)
    weight = tf.math.divide_no_nan(raw, tf.reduce_sum(raw, axis=1, keepdims=True))
    pooled = tf.einsum("pt,ptc->pc", weight, series)

    def grad(upstream):
        d_series = weight[:, :, None] * upstream[:, None, :]
        along = tf.einsum("ptc,pc->pt", series, upstream)
        centre = tf.reduce_sum(weight * along, axis=1, keepdims=True)
        d_scores = weight * (along - centre)
        return d_series, d_scores, None

    return pooled, grad


class SlotAttention(tf.keras.layers.Layer):
    """Learned scores in front of :func:`clear_sky_pool`."""

    def __init__(self, width: int = 16, heads: int = 2, **kwargs: Any):
        super().__init__(**kwargs)
        self.width = width
        self.heads = heads
        self.embed = tf.keras.layers.Dense(width, activation="gelu")
        self.score = tf.keras.layers.Dense(heads, use_bias=False)

    def call(self, series, clear):
        hidden = self.embed(series)
        scores = self.score(hidden) / math.sqrt(self.width)
        pooled = [
            clear_sky_pool(hidden, scores[:, :, head], clear) for head in range(self.heads)
        ]
        return tf.concat(pooled, axis=-1)

    def get_config(self) -> Dict[str, Any]:
        config = super().get_config()
        config.update(width=self.width, heads=self.heads)
        return config


# -- heat clock -------------------------------------------------------------


def make_heat_clock(slot_days: float = SLOT_DAYS) -> Callable[..., tf.Tensor]:
    """Returns the accumulated development heat as a function of temperature.

    ``heat_clock(temps, base, ceiling)``:

      temps    mean air temperature of every slot, one row per parcel
      base     temperature below which the crop stands still, one per parcel
      ceiling  temperature above which warmer slots bring nothing more

    The output has the shape of ``temps`` and counts degree-days up to and
    including the slot.
    """

    @tf.custom_gradient
    def heat_clock(temps, base, ceiling):
        low = base[:, None]
        high = ceiling[:, None]
        effective = tf.clip_by_value(temps, low, high) - low
        clock = slot_days * tf.cumsum(effective, axis=1)

        def grad(upstream):
            later = slot_days * tf.cumsum(upstream, axis=1, reverse=True)
            growing = tf.cast(tf.logical_and(temps > low, temps < high), temps.dtype)
            capped = tf.cast(temps >= high, temps.dtype)
            d_temps = later * growing
            d_base = -tf.reduce_sum(d_temps, axis=1)
            d_ceiling = tf.reduce_sum(later * capped, axis=1)
            return d_temps, d_base, d_ceiling

        return clock, grad

    return heat_clock


class CropHeat(tf.Module):
    """Base and cut-off temperatures, refined from the agronomist's table."""

    def __init__(self, slot_days: float = SLOT_DAYS, name: str = "crop_heat"):
        super().__init__(name=name)
        table = heat_limit_table()
        self.base = tf.Variable(table[:, 0], name="base")
        self.ceiling = tf.Variable(table[:, 1], name="ceiling")
        self._clock = make_heat_clock(slot_days)

    def __call__(self, temps: tf.Tensor, crop: tf.Tensor) -> tf.Tensor:
        base = tf.gather(self.base, crop)
        ceiling = tf.gather(self.ceiling, crop)
        return self._clock(temps, base, ceiling)

    def stages(self, temps: tf.Tensor, crop: tf.Tensor, thresholds: List[float]) -> tf.Tensor:
        """Soft share of the season spent beyond each heat threshold."""
        clock = self(temps, crop)[..., None]
        marks = tf.constant(thresholds, clock.dtype)
        return tf.reduce_mean(tf.sigmoid((clock - marks) / 40.0), axis=1)


# -- greenness curve --------------------------------------------------------


@tf.custom_gradient
def season_curve(when, floor, lift, onset, onset_rate, decline, decline_rate):
    """Double-logistic greenness and its rate of change along ``when``.

    ``when`` is the shared time axis (T); every other argument has one entry
    for each parcel (P).  Returns the pair ``(level, slope)``, both (P, T).
    """
    up = tf.sigmoid(onset_rate[:, None] * (when[None, :] - onset[:, None]))
    down = tf.sigmoid(decline_rate[:, None] * (when[None, :] - decline[:, None]))
    up_1 = up * (1.0 - up)
    down_1 = down * (1.0 - down)
    shape = up - down
    turn = onset_rate[:, None] * up_1 - decline_rate[:, None] * down_1
    level = floor[:, None] + lift[:, None] * shape
    slope = lift[:, None] * turn

    def grad(d_level, d_slope):
        up_2 = up_1 * (1.0 - 2.0 * up)
        down_2 = down_1 * (1.0 - 2.0 * down)
        scale = lift[:, None]
        # through the arguments of the two sigmoids
        z_up = scale * (d_level * up_1 + d_slope * onset_rate[:, None] * up_2)
        z_down = -scale * (d_level * down_1 + d_slope * decline_rate[:, None] * down_2)
        g_floor = tf.reduce_sum(d_level, axis=1)
        g_lift = tf.reduce_sum(d_level * shape, axis=1)
        g_onset = -onset_rate * tf.reduce_sum(z_up, axis=1)
        g_decline = -decline_rate * tf.reduce_sum(z_down, axis=1)
        g_onset_rate = tf.reduce_sum(
            z_up * (when[None, :] - onset[:, None]) + scale * d_slope * up_1, axis=1
        )
        g_decline_rate = tf.reduce_sum(
            z_down * (when[None, :] - decline[:, None]) - scale * d_slope * down_1, axis=1
        )
        g_when = tf.reduce_sum(
            z_up * onset_rate[:, None] + z_down * decline_rate[:, None], axis=0
        )
        return g_when, g_floor, g_lift, g_onset, g_onset_rate, g_decline, g_decline_rate

    return (level, slope), grad


def default_shape(parcels: int, dtype: str = "float32") -> SeasonShape:
    """A summer crop in northern Europe, days of the year."""

    def fill(value: float) -> tf.Tensor:
        return tf.fill([parcels], tf.constant(value, dtype))

    return SeasonShape(fill(0.15), fill(0.6), fill(130.0), fill(0.09), fill(240.0), fill(0.07))


def shape_misfit(
    shape: SeasonShape,
    when: tf.Tensor,
    observed: tf.Tensor,
    clear: tf.Tensor,
    slope_weight: float = 0.0,
) -> tf.Tensor:
    """Squared misfit of a season, parcel by parcel.

    Args:
      shape: curve parameters, each ``(P,)``.
      when: time axis.
      observed: vegetation index.
      clear: which slots count.
      slope_weight: weight of the finite-difference slopes between slots; the
        operational chain uses a few hundred when radar fills the gaps.
    """
    level, slope = season_curve(when, *shape)
    keep = tf.cast(clear, observed.dtype)
    misfit = tf.reduce_sum(keep * tf.square(level - observed), axis=1)
    if slope_weight:
        step = when[1:] - when[:-1]
        measured = (observed[:, 1:] - observed[:, :-1]) / step
        middle = 0.5 * (slope[:, 1:] + slope[:, :-1])
        both = keep[:, 1:] * keep[:, :-1]
        misfit += slope_weight * tf.reduce_sum(both * tf.square(middle - measured), axis=1)
    return misfit


class SeasonFitter:
    """Gradient descent over a nested dict of curve parameters.

    The parameters are stored raw (rates and lift in logs) so that steps keep
    them positive.
    """

    LOGGED = frozenset(("lift", "onset_rate", "decline_rate"))

    def __init__(self, parcels: int, rate: float = 0.05):
        start = default_shape(parcels)._asdict()
        self.raw: Dict[str, tf.Variable] = {
            key: tf.Variable(tf.math.log(value) if key in self.LOGGED else value)
            for key, value in start.items()
        }
        self.optimizer = tf.keras.optimizers.Adam(rate)

    def shape(self) -> SeasonShape:
        return SeasonShape(
            **{
                key: tf.exp(value) if key in self.LOGGED else tf.convert_to_tensor(value)
                for key, value in self.raw.items()
            }
        )

    def step(self, batch: Mapping[str, tf.Tensor], slope_weight: float) -> float:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                shape_misfit(
                    self.shape(), batch["when"], batch["index"], batch["clear"], slope_weight
                )
            )
        variables = list(self.raw.values())
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return float(loss)


def synthetic_parcels(parcels: int, slots: int, seed: int = 0) -> Tuple[Dict, tf.Tensor]:
    rng = np.random.default_rng(seed)
    when = day_axis(slots)
    crop = rng.integers(0, len(CROP_HEAT_LIMITS), parcels)
    season = 13.0 + 12.0 * np.sin((when - 105.0) * 2.0 * np.pi / 365.0)
    temps = season[None, :] + rng.normal(0.0, 4.0, (parcels, slots))
    bands = rng.uniform(0.02, 0.5, (parcels, slots, len(BANDS)))
    batch = {
        "when": tf.constant(when),
        "bands": tf.constant(bands, tf.float32),
        "clear": tf.constant(rng.random((parcels, slots)) < 0.6),
        "temps": tf.constant(temps, tf.float32),
    }
    batch["index"] = vegetation_index(batch["bands"])
    return batch, tf.constant(crop, tf.int32)


if __name__ == "__main__":
    data, crops = synthetic_parcels(6, 40)
    summary = SlotAttention()(data["bands"], data["clear"])
    stages = CropHeat()(data["temps"], crops)
    print("summary", summary.shape, "final heat", np.round(stages[:, -1].numpy()))
    fitter = SeasonFitter(6)
    for turn in range(10):
        value = fitter.step(data, slope_weight=200.0)
    print("misfit", value)
