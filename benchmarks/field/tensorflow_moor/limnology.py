"""Lake chemistry, plankton transport and water colour.

Everything is batched over stations and written for double or single precision.
"""

import math

import tensorflow as tf

LN10 = math.log(10.0)
PKW = 14.0


def _sum_like(g, x):
    extra = len(g.shape) - len(x.shape)
    if extra:
        g = tf.reduce_sum(g, axis=list(range(extra)))
    stretched = [i for i, n in enumerate(x.shape) if n == 1 and g.shape[i] != 1]
    return tf.reduce_sum(g, axis=stretched, keepdims=True) if stretched else g


def _dissociated(ph, pka):
    return tf.sigmoid(LN10 * (ph[..., None] - pka))


def _charge(ph, total, pka, strong, acid_charge):
    h = tf.exp(-LN10 * ph)
    oh = tf.exp(LN10 * (ph - PKW))
    return strong + h - oh + tf.reduce_sum(total * (acid_charge - _dissociated(ph, pka)), axis=-1)


@tf.custom_gradient
def buffer_ph(water, strong):
    """pH at which a mixture of weak acids and strong ions is electrically neutral.

    Args:
      water: dict with
        "total": [stations, species] analytical concentrations, mol/L, non-negative.
        "pka": [species] or [stations, species] dissociation constants.
        "acid_charge": [species] charge of the undissociated form (0 for acetic acid, 1 for
          ammonium). A constant: no gradient is propagated to it.
      strong: [stations] strong cations minus strong anions, mol/L.

    Returns:
      [stations] pH, searched for between -2 and 16 (the water is assumed to have a root there).

    The charge falls monotonically with pH, so the root is bracketed and bisected; derivatives follow from
    the implicit function theorem, and the denominator is the buffer capacity of the water.
    """
    total, pka, acid_charge = water["total"], water["pka"], water["acid_charge"]
    low = -2.0 * tf.ones_like(strong)
    high = 16.0 * tf.ones_like(strong)
    for _ in range(64):
        mid = 0.5 * (low + high)
        positive = _charge(mid, total, pka, strong, acid_charge) > 0
        low = tf.where(positive, mid, low)
        high = tf.where(positive, high, mid)
    ph = 0.5 * (low + high)

    def grad(upstream):
        alpha = _dissociated(ph, pka)
        bend = total * alpha * (1.0 - alpha)
        capacity = tf.exp(-LN10 * ph) + tf.exp(LN10 * (ph - PKW)) + tf.reduce_sum(bend, axis=-1)
        scaled = (upstream / (LN10 * capacity))[..., None]
        dwater = {
            "total": scaled * (acid_charge - alpha),
            "pka": _sum_like(LN10 * scaled * bend, pka),
            "acid_charge": None,
        }
        return dwater, scaled[..., 0]

    return ph, grad


@tf.custom_gradient
def disperse(density, kernel):
    """One dispersal step of an integrodifference population model along a shoreline.

    next[x] = sum_k kernel[k] * density[x + k0 - k],  k0 = len(kernel) // 2

    Individuals that leave the shoreline are lost. `density` is [..., cells], `kernel` is [taps] with any
    number of taps up to twice the cells; it does not have to be symmetric (wind drift).
    """
    taps = kernel.shape[0]
    after = taps // 2
    before = taps - 1 - after

    def windows(x):
        margin = [[0, 0]] * (len(x.shape) - 1) + [[before, after]]
        return tf.signal.frame(tf.pad(x, margin), taps, 1, axis=-1)

    neighbourhood = windows(density)
    moved = tf.linalg.matvec(neighbourhood, tf.reverse(kernel, [0]))

    def grad(upstream):
        dkernel = tf.tensordot(
            tf.reshape(upstream, [-1]), tf.reshape(neighbourhood, [-1, taps]), axes=1
        )
        ddensity = tf.linalg.matvec(windows(upstream), kernel)
        return ddensity, tf.reverse(dkernel, [0])

    return moved, grad


def _unit(x, eps):
    length = tf.sqrt(tf.reduce_sum(tf.square(x), axis=-1, keepdims=True) + eps)
    return x / length, length


def make_spectral_angle_loss(reduction="mean", eps=1e-12):
    """Builds the spectral angle loss between measured and modelled reflectance.

    Args:
      reduction: "mean" averages over the valid pixels of each scene and then over scenes, so that a cloudy
        scene counts as much as a clear one; "sum" adds up valid pixels; "none" returns the map.
      eps: added to squared norms.

    Returns:
      `loss(spectra, reference, valid)`, where `spectra` is [scenes, pixels, bands], `reference` is
      [bands] or [scenes, pixels, bands], and `valid` is a 0/1 mask [scenes, pixels] which carries no gradient.
      Reflectances are non-negative and not all zero. Angles are computed from the half-angle tangent, which
      keeps its digits for nearly parallel spectra; exactly parallel ones get a zero gradient.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"unknown reduction {reduction!r}")

    @tf.custom_gradient
    def loss(spectra, reference, valid):
        x, x_len = _unit(spectra, eps)
        y, y_len = _unit(reference, eps)
        gap = tf.norm(x - y, axis=-1)
        angle = 2.0 * tf.atan2(gap, tf.norm(x + y, axis=-1))
        pixels = tf.maximum(tf.reduce_sum(valid, axis=-1), 1.0)
        if reduction == "none":
            value = angle * valid
        elif reduction == "sum":
            value = tf.reduce_sum(angle * valid)
        else:
            value = tf.reduce_mean(tf.reduce_sum(angle * valid, axis=-1) / pixels)

        def grad(upstream):
            g = upstream * valid
            if reduction == "mean":
                g /= tf.reduce_sum(pixels)
            sine = tf.sin(angle)
            g = (tf.math.divide_no_nan(-g, sine))[..., None]
            cosine = tf.cos(angle)[..., None]
            dspectra = g * (y - cosine * x) / x_len
            dreference = _sum_like(g * (x - cosine * y) / y_len, reference)
            return dspectra, dreference, None

        return value, grad

    return loss


def retrieve_step(optimizer, model, scene, reference, valid):
    """One optimiser step of the water colour retrieval."""
    loss_fn = make_spectral_angle_loss("mean")
    with tf.GradientTape() as tape:
        loss = loss_fn(model(scene, training=True), reference, valid)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss
