"""Backend-agnostic rules (Keras 3)."""

import keras
from keras import ops

A_WATER = 0.509  # (kg/mol)^1/2, 25 C
B_WATER = 0.328  # (kg/mol)^1/2 / angstrom


@ops.custom_gradient
def debye_huckel(conc, charge, ion_size):
    """Extended Debye-Hueckel activity coefficients.

    Computes ``log10 gamma_i = -A z_i^2 sqrt(I) / (1 + B a_i sqrt(I))`` where
    ``I = 0.5 * sum_j c_j z_j^2`` is the ionic strength of the solution. Every
    coefficient depends on every concentration through ``I``.

    Args:
        conc: Molalities, shape `(solutions, species)`. At least one charged
            species must be present in each solution.
        charge: Charge numbers as floats, shape `(species,)`; zero for neutrals.
        ion_size: Ion size parameters in angstrom, shape `(species,)`.

    Returns:
        log10 activity coefficients, shape `(solutions, species)`. Gradients are
        given for all three arguments.
    """
    z2 = ops.square(charge)
    root = ops.sqrt(0.5 * ops.sum(conc * z2, axis=-1, keepdims=True))
    screen = 1.0 + B_WATER * ion_size * root
    out = -A_WATER * z2 * root / screen

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        # d out_i / d root = -A z_i^2 / screen_i^2,  d root / d I = 1 / (2 root)
        d_root = ops.sum(-upstream * A_WATER * z2 / ops.square(screen), axis=-1, keepdims=True)
        d_strength = 0.5 * d_root / root
        d_conc = 0.5 * z2 * d_strength
        d_charge = ops.sum(
            -2.0 * A_WATER * charge * root / screen * upstream + conc * charge * d_strength, axis=0
        )
        d_size = ops.sum(
            upstream * A_WATER * B_WATER * z2 * ops.square(root / screen), axis=0
        )
        return d_conc, d_charge, d_size

    return out, grad


# radians; lat, lon any common shape, lat0, lon0 scalars
@ops.custom_gradient
def stereographic_xy(lat, lon, lat0, lon0):
    delta = lon - lon0
    sp, cp = ops.sin(lat), ops.cos(lat)
    s0, c0 = ops.sin(lat0), ops.cos(lat0)
    sd, cd = ops.sin(delta), ops.cos(delta)
    den = 1.0 + s0 * sp + c0 * cp * cd
    east = cp * sd
    north = c0 * sp - s0 * cp * cd
    k = 2.0 / den

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        gx, gy = upstream[..., 0], upstream[..., 1]
        d_den = -(gx * east + gy * north) * k / den
        d_lat = k * (-gx * sp * sd + gy * (c0 * cp + s0 * sp * cd)) + d_den * (s0 * cp - c0 * sp * cd)
        d_delta = k * (gx * cp * cd + gy * s0 * cp * sd) - d_den * c0 * cp * sd
        d_lat0 = k * gy * (1.0 - den) + d_den * north
        return d_lat, d_delta, ops.sum(d_lat0), -ops.sum(d_delta)

    return ops.stack([k * east, k * north], axis=-1), grad


def expectile_loss(y_true, y_pred, sample_weight=None, tau=0.8, reduction="mean"):
    """Expectile regression; (batch, time), weights (batch, time) or (batch, 1), "none" | "sum" | weighted "mean"."""
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"unknown reduction {reduction!r}")

    @ops.custom_gradient
    def loss(y_true, y_pred, weight):
        err = y_true - y_pred
        asym = ops.where(err >= 0, tau, 1.0 - tau)
        asym = ops.cast(asym, err.dtype)
        each = asym * ops.square(err)
        full = weight * ops.ones_like(err)
        total = ops.sum(full * each)
        mean = total / ops.sum(full)
        out = {"none": full * each, "sum": total, "mean": mean}[reduction]

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            scale = upstream
            d_full = each
            if reduction == "mean":
                scale = upstream / ops.sum(weight)
                d_full = each - mean
            d_err = scale * 2.0 * weight * asym * err
            d_weight = scale * d_full
            if weight.shape[-1] == 1:
                d_weight = ops.sum(d_weight, axis=-1, keepdims=True)
            return d_err, -d_err, d_weight

        return out, grad

    if sample_weight is None:
        sample_weight = ops.ones_like(y_pred)
    return loss(y_true, y_pred, sample_weight)


class LagMixer(keras.layers.Layer):
    def __init__(self, num_lags=4, stride=1, **kwargs):
        super().__init__(**kwargs)
        self.num_lags = num_lags
        self.stride = stride

    def build(self, input_shape):
        self.kernel = self.add_weight(
            shape=(self.num_lags, input_shape[-1]), initializer="glorot_uniform", name="kernel"
        )

    def mix(self, x, kernel):
        lags, stride = self.num_lags, self.stride
        steps = x.shape[1]
        pad = (lags - 1) * stride

        @ops.custom_gradient
        def rule(x, kernel):
            # hold the first frame before the start
            held = ops.concatenate([ops.repeat(x[:, :1], pad, axis=1), x], axis=1)
            taps = [held[:, pad - k * stride : pad - k * stride + steps] for k in range(lags)]
            y = sum(kernel[k] * taps[k] for k in range(lags))

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                d_kernel = ops.stack([ops.sum(upstream * t, axis=(0, 1)) for t in taps])
                d_held = sum(
                    ops.pad(kernel[k] * upstream, [[0, 0], [pad - k * stride, k * stride], [0, 0]])
                    for k in range(lags)
                )
                return d_held[:, pad:], d_kernel

            return y, grad

        return rule(x, kernel)

    def call(self, x):
        return self.mix(x, self.kernel / self.num_lags)
