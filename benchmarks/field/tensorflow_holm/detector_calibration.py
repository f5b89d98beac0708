"""Forward models for detector calibration (imaging polarimeter, photon counters)."""
import tensorflow as tf


def _sum_to(value, like):
    """Sum ``value`` over the axes along which ``like`` was broadcast."""
    target = like.shape.as_list()
    extra = len(value.shape) - len(target)
    if extra:
        value = tf.reduce_sum(value, axis=list(range(extra)))
    ones = [i for i, n in enumerate(target) if n == 1 and value.shape[i] != 1]
    return tf.reduce_sum(value, axis=ones, keepdims=True) if ones else value


def make_dead_time(paralyzable: bool = False):
    """Observed count rate from true rate (..., C) and per-channel dead time (C,), either detector type."""

    @tf.custom_gradient
    def observe(rate, tau):
        load = rate * tau
        if paralyzable:
            seen = rate * tf.exp(-load)
        else:
            seen = rate / (1.0 + load)

        def grad(upstream):
            if paralyzable:
                d_rate = upstream * (1.0 - load) * tf.exp(-load)
            else:
                d_rate = upstream / tf.square(1.0 + load)
            d_tau = -upstream * tf.square(seen)
            return _sum_to(d_rate, rate), _sum_to(d_tau, tau)

        return seen, grad

    return observe


@tf.custom_gradient
def flat_field(frames, dark, flat, good):
    """Dark-subtract and flat-field a stack of exposures.

    The flat is normalised to unit mean over the good pixels, so that the level of the lamp does not matter:
    ``out = (frames - dark) * mean(flat[good]) / flat``. Bad pixels come out as exactly zero, whatever their flat
    (dead pixels, flat of zero, are fine as long as they are flagged).

    Args:
      frames: `float` tensor of shape `[B, H, W]`, raw exposures in counts.
      dark: `float` tensor of shape `[H, W]`, the master dark, shared by all exposures.
      flat: `float` tensor of shape `[H, W]`, the lamp flat, positive on good pixels. The gradient includes the
        effect of a pixel's flat on the normalisation.
      good: `bool` tensor of shape `[H, W]`, true for usable pixels; at least one must be. No gradient.

    Returns:
      `float` tensor of shape `[B, H, W]`.
    """
    level = tf.reduce_mean(tf.boolean_mask(flat, good))
    safe = tf.where(good, flat, tf.ones_like(flat))
    gain = tf.where(good, level / safe, tf.zeros_like(flat))
    signal = frames - dark
    out = signal * gain

    def grad(dout):
        dframes = dout * gain
        dgain = tf.reduce_sum(dout * signal, axis=0)
        dgain = tf.where(good, dgain, tf.zeros_like(dgain))
        dlevel = tf.reduce_sum(dgain / safe)
        share = tf.cast(good, flat.dtype) / tf.cast(tf.size(flat), flat.dtype)
        dflat = -dgain * gain / safe + dlevel * share
        return dframes, -tf.reduce_sum(dframes, axis=0), dflat, None

    return out, grad


@tf.custom_gradient
def retarder(stokes, angle, delta):
    i, q, u, v = tf.unstack(stokes, axis=-1)
    c, s = tf.cos(2.0 * angle), tf.sin(2.0 * angle)
    cd, sd = tf.cos(delta), tf.sin(delta)
    # into the frame of the plate, retard, and back
    along = c * q + s * u
    across = c * u - s * q
    across_out = cd * across - sd * v
    v_out = sd * across + cd * v
    out = tf.stack([i + tf.zeros_like(v_out), c * along - s * across_out, s * along + c * across_out, v_out], axis=-1)

    def grad(g):
        gi, gq, gu, gv = tf.unstack(g, axis=-1)
        g_along = c * gq + s * gu
        g_across_out = c * gu - s * gq
        g_across = cd * g_across_out + sd * gv
        g_v = cd * gv - sd * g_across_out
        d_stokes = tf.stack([gi, c * g_along - s * g_across, s * g_along + c * g_across, g_v], axis=-1)
        d_angle = 2.0 * (along * g_across_out - across_out * g_along + across * g_along - along * g_across)
        d_delta = gv * across_out - g_across_out * v_out
        return _sum_to(d_stokes, stokes), _sum_to(d_angle, angle), _sum_to(d_delta, delta)

    return out, grad


def calibrate(frames, truth, dark, flat, good, steps=50, lr=1e-2):
    """Refine the flat against frames of a known scene."""
    flat = tf.Variable(flat)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            cal = flat_field(frames, dark, tf.convert_to_tensor(flat), good)
            loss = tf.reduce_mean(tf.square(cal - truth))
        flat.assign_sub(lr * tape.gradient(loss, flat))
    return tf.convert_to_tensor(flat)
