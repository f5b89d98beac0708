"""Keras pieces for satellite vegetation series: indices, phenology, unmixing.

Written with ``keras.ops`` only; runs on the TensorFlow, JAX and torch backends.
"""
import keras
from keras import ops


@ops.custom_gradient
def vegetation_ratio(bands, numer, denom):
    """Ratio index (bands . numer) / (bands . denom) of positive reflectances (..., C); numer, denom are (C,), denom must give a positive sum."""
    top = ops.sum(bands * numer, axis=-1, keepdims=True)
    bottom = ops.sum(bands * denom, axis=-1, keepdims=True)
    ratio = top / bottom

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        g = ops.expand_dims(upstream, -1) / bottom
        lead = tuple(range(len(bands.shape) - 1))
        return (
            g * (numer - ratio * denom),
            ops.sum(g * bands, axis=lead),
            -ops.sum(g * ratio * bands, axis=lead),
        )

    return ops.squeeze(ratio, -1), grad


@ops.custom_gradient
def weighted_variation(x, w):
    # x (batch, time, channel) > 0; w (batch, time) >= 0, not all zero
    wt = ops.expand_dims(w, -1)
    total = ops.sum(wt, axis=1, keepdims=True)
    mean = ops.sum(wt * x, axis=1, keepdims=True) / total
    dev = x - mean
    var = ops.sum(wt * dev * dev, axis=1, keepdims=True) / total
    std = ops.sqrt(var + 1e-6)
    cv = std / mean

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        g = ops.expand_dims(upstream, 1)
        d_var = g / (2.0 * std * mean)
        d_mean = -g * cv / mean
        dx = wt * (2.0 * d_var * dev + d_mean) / total
        dw = (d_var * (dev * dev - var) + d_mean * dev) / total
        return dx, ops.sum(dw, axis=-1)

    return ops.squeeze(cv, 1), grad


def make_double_logistic(log_rates=False):
    # params: (..., 6) = base, amplitude, green-up day, green-up rate, senescence day, senescence rate
    # t: (T,) or the same leading axes as params
    @ops.custom_gradient
    def curve(params, t):
        base, amp, sos, k_up, eos, k_down = (params[..., j : j + 1] for j in range(6))
        if log_rates:
            k_up, k_down = ops.exp(k_up), ops.exp(k_down)
        up = ops.sigmoid(k_up * (t - sos))
        down = ops.sigmoid(k_down * (t - eos))

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            u = upstream * amp * up * (1.0 - up)
            d = -upstream * amp * down * (1.0 - down)
            parts = [
                upstream,
                upstream * (up - down),
                -u * k_up,
                u * (t - sos),
                -d * k_down,
                d * (t - eos),
            ]
            if log_rates:
                parts[3] = parts[3] * k_up
                parts[5] = parts[5] * k_up
            d_params = ops.stack([ops.sum(p, axis=-1) for p in parts], axis=-1)
            d_t = u * k_up + d * k_down
            lead = tuple(range(len(d_t.shape) - len(t.shape)))
            return d_params, ops.sum(d_t, axis=lead) if lead else d_t

        return base + amp * (up - down), grad

    return curve


class SpectralMixer(keras.layers.Layer):
    """Reconstruct pixel spectra from endmember logits.

    Abundances are the softmax of the logits, so they are positive and sum to
    one. On top of linear mixing, an optional bilinear term (Fan et al., 2009)
    models light scattered once between two different materials::

        y = sum_i a_i e_i + interaction * sum_{i<j} a_i a_j (e_i * e_j)

    Args:
        endmembers: Number of materials, M.
        bands: Number of spectral bands, C.
        temperature: Positive softmax temperature dividing the logits.
        interaction: Strength of the bilinear term. 0 gives linear mixing.

    Call arguments:
        logits: Tensor of shape `(pixels, M)`.

    Returns:
        Spectra of shape `(pixels, C)`.
    """

    def __init__(self, endmembers, bands, temperature=1.0, interaction=0.0, **kwargs):
        super().__init__(**kwargs)
        self.endmembers = endmembers
        self.bands = bands
        self.temperature = temperature
        self.interaction = interaction

    def build(self, input_shape):
        self.library = self.add_weight(
            shape=(self.endmembers, self.bands), initializer=keras.initializers.RandomUniform(0.0, 0.6), name="library"
        )

    def mix(self, logits, library):
        """Mixing step on explicit tensors: logits `(pixels, M)`, library `(M, C)`."""
        temperature, gamma = self.temperature, self.interaction

        @ops.custom_gradient
        def rule(logits, library):
            a = ops.softmax(logits / temperature, axis=-1)
            upper = ops.triu(ops.ones_like(ops.einsum("ic,jc->ij", library, library)), k=1)
            pair = ops.expand_dims(a, 2) * ops.expand_dims(a, 1) * upper
            y = ops.einsum("pi,ic->pc", a, library) + gamma * ops.einsum("pij,ic,jc->pc", pair, library, library)

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                # <e_i * e_j, upstream>, counted once for each unordered pair
                cross = ops.einsum("pc,ic,jc->pij", upstream, library, library) * (upper + ops.transpose(upper))
                d_a = ops.einsum("pc,ic->pi", upstream, library)
                d_a = d_a + gamma * ops.einsum("pij,pj->pi", cross, a)
                d_logits = a * (d_a - ops.sum(a * d_a, axis=-1, keepdims=True)) / temperature
                d_library = ops.einsum("pi,pc->ic", a, upstream)
                d_library = d_library + gamma * ops.einsum("pij,pc,jc->ic", pair, upstream, library)
                return d_logits, d_library

            return y, grad

        return rule(logits, library)

    def call(self, logits):
        return self.mix(logits, ops.relu(self.library))


class PhenologyCurve(keras.layers.Layer):
    def __init__(self, log_rates=False, **kwargs):
        super().__init__(**kwargs)
        self._curve = make_double_logistic(log_rates)

    def call(self, params, t):
        return self._curve(params, t)
