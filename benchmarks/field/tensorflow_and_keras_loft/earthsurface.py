"""Differentiable operators for land-surface and near-surface models.

Written against ``keras.ops``, so that they run with every backend.
"""

import math

import keras
from keras import ops


@ops.custom_gradient
def van_genuchten_saturation(head, alpha, n):
    """Effective saturation of a soil from its pressure head (van Genuchten, 1980).

        S = (1 + (alpha * |h|) ** n) ** -m,    m = 1 - 1 / n

    for h < 0, and S = 1 for a saturated soil (h >= 0), where nothing has a gradient.

    Args:
        head: pressure head in metres, shape ``(batch, layers)``.
        alpha: inverse air-entry head in 1/m, positive, the same shape.
        n: pore-size index, greater than one, the same shape.

    Returns:
        Saturation in (0, 1], the same shape.
    """
    dry = head < 0
    suction = ops.where(dry, -head, ops.ones_like(head))
    m = 1.0 - 1.0 / n
    log_u = ops.log(alpha * suction)
    u = ops.exp(n * log_u)
    curve = ops.exp(-m * ops.log1p(u))
    saturation = ops.where(dry, curve, ops.ones_like(curve))

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        flow = ops.where(dry, upstream, ops.zeros_like(upstream))
        slope = -flow * m * curve * u / (1.0 + u)
        d_head = -slope * n / suction
        d_alpha = slope * n / alpha
        d_n = slope * log_u
        return d_head, d_alpha, d_n

    return saturation, grad


def _lag_matrix(size, dtype):
    t = ops.cast(ops.arange(size), dtype)
    return ops.expand_dims(t, 1) - ops.expand_dims(t, 0)


def make_ricker_synthetic(dt=0.004):
    """Synthetic seismogram by convolution with a Ricker wavelet.

    The returned function takes ``reflectivity`` of shape ``(traces, samples)`` and the peak
    frequency of each trace in Hz, ``(traces,)``, and returns traces of the shape of
    ``reflectivity``. The wavelet is zero phase, and samples outside of the record count as zero.
    ``dt`` is the sample interval in seconds.
    """

    @ops.custom_gradient
    def ricker_synthetic(reflectivity, peak):
        lags = _lag_matrix(reflectivity.shape[1], reflectivity.dtype) * dt
        freq = ops.reshape(peak, (-1, 1, 1))
        arg = ops.square(math.pi * freq * lags)
        bell = ops.exp(-arg)
        wavelet = (1.0 - 2.0 * arg) * bell
        trace = ops.einsum("bts,bs->bt", wavelet, reflectivity)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_reflectivity = ops.einsum("bts,bt->bs", wavelet, upstream)
            d_wavelet = (2.0 * arg - 3.0) * bell * 2.0 * arg / freq
            d_peak = ops.einsum("bt,bts,bs->b", upstream, d_wavelet, reflectivity)
            return d_reflectivity, d_peak

        return trace, grad

    return ricker_synthetic


ricker_synthetic_4ms = make_ricker_synthetic(0.004)


def _pad_edges(z):
    z = ops.concatenate([z[:, :1], z, z[:, -1:]], axis=1)
    return ops.concatenate([z[:, :, :1], z, z[:, :, -1:]], axis=2)


def _unpad_edges(p):
    rows = ops.concatenate(
        [p[:, :1] + p[:, 1:2], p[:, 2:-2], p[:, -2:-1] + p[:, -1:]], axis=1
    )
    return ops.concatenate(
        [rows[:, :, :1] + rows[:, :, 1:2], rows[:, :, 2:-2], rows[:, :, -2:-1] + rows[:, :, -1:]],
        axis=2,
    )


class TerrainSlope(keras.layers.Layer):
    """Slope (rise over run) of an elevation grid.

    Central differences, with the border repeated once. A flat cell has slope zero and takes no
    gradient.

    Args:
        cell_size: spacing in metres, ``(south-north, west-east)``, or a number for square cells.

    Input and output have shape ``(batch, rows, columns)``, at least two rows and columns; rows run
    south to north.
    """

    def __init__(self, cell_size=(30.0, 21.5), **kwargs):
        super().__init__(**kwargs)
        if isinstance(cell_size, (int, float)):
            cell_size = (cell_size, cell_size)
        self.cell_size = tuple(float(s) for s in cell_size)

    def call(self, elevation):
        dy, dx = self.cell_size

        @ops.custom_gradient
        def slope(z):
            padded = _pad_edges(z)
            north = (padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]) / (2.0 * dy)
            east = (padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]) / (2.0 * dx)
            steep = ops.sqrt(ops.square(north) + ops.square(east))

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                safe = ops.where(steep > 0, steep, ops.ones_like(steep))
                d_north = upstream * north / safe / (2.0 * dx)
                d_east = upstream * east / safe / (2.0 * dy)
                d_padded = (
                    ops.pad(d_north, ((0, 0), (2, 0), (1, 1)))
                    - ops.pad(d_north, ((0, 0), (0, 2), (1, 1)))
                    + ops.pad(d_east, ((0, 0), (1, 1), (2, 0)))
                    - ops.pad(d_east, ((0, 0), (1, 1), (0, 2)))
                )
                return _unpad_edges(d_padded)

            return steep, grad

        return slope(elevation)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "cell_size": self.cell_size}
