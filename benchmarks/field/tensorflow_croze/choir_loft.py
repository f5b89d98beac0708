# Acoustics of a choir loft: how loud the choir is in the pews, how long the nave rings, how well the sections are in tune.
#
# Levels are in dB, frequencies in Hz, lengths in metres, areas in square metres, volumes in cubic metres.
import tensorflow as tf

DB = 10.0 / 2.302585092994046  # ten over ln(10)
SABINE = 0.161
CENTS = 1200.0 / 0.6931471805599453


def _fold(g, like):
    """Sum a gradient over the axes along which `like` was broadcast."""
    extra = len(g.shape) - len(like.shape)
    if extra > 0:
        g = tf.reduce_sum(g, axis=list(range(extra)))
    ones = [i for i, d in enumerate(like.shape) if d == 1 and g.shape[i] != 1]
    return tf.reduce_sum(g, axis=ones, keepdims=True) if ones else g


def make_pew_meter(background_db=20.0, singing=None, keepdims=False):
    """
    Meter for the level of the whole choir at one or more pews.

    Parameters
    ----------
    background_db : float
        Level of the empty church, added as power.
    singing : sequence of bool, optional
        Which singers sing in this passage; all of them by default.
    keepdims : bool
        Keep the axis of the singers.

    Returns
    -------
    callable
        ``ensemble_level(source_db, distance)``: levels at one metre, and distances; the last axis of both is the singers'
        and the two broadcast against each other, e.g. (singers,) with (pews, singers), or (takes, 1, singers).
    """

    @tf.custom_gradient
    def ensemble_level(source_db, distance):
        dtype = source_db.dtype
        sings = tf.constant(1.0, dtype) if singing is None else tf.cast(tf.constant(singing), dtype)
        power = sings * tf.exp(source_db / DB) / distance**2
        total = tf.reduce_sum(power, axis=-1, keepdims=True) + 10.0 ** (background_db / 10.0)
        level = DB * tf.math.log(total)
        if not keepdims:
            level = tf.squeeze(level, axis=-1)

        def grad(g):
            g = g if keepdims else tf.expand_dims(g, -1)
            part = g * power / total
            return _fold(part, source_db), _fold(-2.0 * DB * part / distance, distance)

        return level, grad

    return ensemble_level


def make_reverb(formula="eyring", air=0.0):
    """
    Reverberation time of a nave.

    Parameters
    ----------
    formula : {"eyring", "sabine"}
        How the absorption of the walls is counted.
    air : float
        Attenuation by the air, per metre (some 0.001 at 1 kHz, 0.01 at 6 kHz). Zero leaves the air out.

    Returns
    -------
    callable
        ``rt60(alpha, area, volume)`` with the absorption coefficients ``alpha`` (..., surfaces), the surfaces'
        ``area`` (surfaces,) and the scalar ``volume``; gives seconds, (...).
    """
    if formula not in ("eyring", "sabine"):
        raise ValueError(f"unknown formula {formula!r}")

    @tf.custom_gradient
    def rt60(alpha, area, volume):
        surface = tf.reduce_sum(area)
        soaked = tf.reduce_sum(alpha * area, axis=-1)
        mean = soaked / surface
        if formula == "eyring":
            walls = -surface * tf.math.log1p(-mean)
            d_soaked = 1.0 / (1.0 - mean)
            d_surface = -tf.math.log1p(-mean) - mean / (1.0 - mean)
        else:
            walls = soaked
            d_soaked = tf.ones_like(mean)
            d_surface = tf.zeros_like(mean)
        absorption = walls + 4.0 * air * volume
        seconds = SABINE * volume / absorption

        def grad(g):
            g_walls = -g * seconds / absorption
            g_alpha = (g_walls * d_soaked)[..., None] * area
            g_area = (g_walls * d_soaked)[..., None] * alpha + (g_walls * d_surface)[..., None]
            g_volume = tf.reduce_sum(g * SABINE / absorption)
            return g_alpha, _fold(g_area, area), g_volume

        return seconds, grad

    return rt60


class Tuner:
    """Says for each section (soprano, alto, ...) where its pitch lies and how far the singers are apart.

    `section` is a list with the number of each singer's section; a section may have one singer only, or none.
    """

    def __init__(self, section, sections=4, tuning=440.0, floor_cents=0.5):
        self.section = tf.constant(section, tf.int32)
        self.sections = sections
        self.tuning = tuning
        self.floor = floor_cents

    def report(self, freqs, loudness):
        """`freqs` and `loudness` (singers,), loudness > 0 as weights, -> centre and spread in cents, both (sections,).

        The spread is sqrt(weighted variance + floor**2). An empty section has the centre 0 and the spread floor.
        """
        section, sections, tuning, floor = self.section, self.sections, self.tuning, self.floor

        @tf.custom_gradient
        def section_spread(freqs, loudness):
            cents = CENTS * tf.math.log(freqs / tuning)
            weight = tf.math.unsorted_segment_sum(loudness, section, sections)
            centre = tf.math.divide_no_nan(tf.math.unsorted_segment_sum(loudness * cents, section, sections), weight)
            off = cents - tf.gather(centre, section)
            var = tf.math.divide_no_nan(tf.math.unsorted_segment_sum(loudness * off**2, section, sections), weight)
            spread = tf.sqrt(var + floor**2)

            def grad(g_centre, g_spread):
                g_var = tf.gather(tf.math.divide_no_nan(g_spread, 2.0 * spread * weight), section)
                g_mid = tf.gather(tf.math.divide_no_nan(g_centre, weight), section)
                g_cents = loudness * (g_mid + 2.0 * g_var * off)
                g_loud = g_mid * off + g_var * (off**2 - tf.gather(var, section))
                return g_cents * CENTS / freqs, g_loud

            return (centre, spread), grad

        return section_spread(freqs, loudness)


def main():
    level = make_pew_meter()(tf.constant([70.0, 72.0, 68.0]), tf.constant([[5.0, 6.0, 7.0], [20.0, 21.0, 22.0]]))
    ring = make_reverb(air=0.001)(tf.constant([0.02, 0.3, 0.1]), tf.constant([800.0, 200.0, 400.0]), tf.constant(6000.0))
    print("pews", level.numpy(), "dB; nave", float(ring), "s")


if __name__ == "__main__":
    main()
