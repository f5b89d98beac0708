"""HPLC post-processing with trainable calibration (backend-agnostic)."""
import keras
from keras import ops


def _sum_to(x, ref):
    shape, target = ops.shape(x), ops.shape(ref)
    lead = len(shape) - len(target)
    axes = list(range(lead))
    axes += [lead + i for i, n in enumerate(target) if n == 1 and shape[lead + i] != 1]
    if axes:
        x = ops.sum(x, axis=tuple(axes))
    return ops.reshape(x, target)


@ops.custom_gradient
def van_deemter(velocity, eddy, longitudinal, transfer):
    """Plate height H = A + B/u + C u; the four inputs broadcast."""
    height = eddy + longitudinal / velocity + transfer * velocity

    def grad(*args, upstream=None):
        g = upstream if upstream is not None else args[0]
        ones = ops.ones_like(height)
        g = g * ones
        return (
            _sum_to(g * (transfer - longitudinal / (velocity * velocity)), velocity),
            _sum_to(g, eddy),
            _sum_to(g / velocity, longitudinal),
            _sum_to(g * velocity, transfer),
        )

    return height, grad


@ops.custom_gradient
def correct_crosstalk(crosstalk, readings):
    """Undoes the leakage between the channels of a multi-wavelength detector.

    A detector with C channels reads ``y = M x``, where ``M[i, j]`` is the part of the light meant for channel j that
    reaches channel i. This returns ``x`` for each time point of a run.

    Args:
        crosstalk: ``(C, C)``, invertible; close to the identity for a healthy flow cell, but the leakage from the
            blue to the red side generally differs from that the other way round.
        readings: ``(time, C)`` raw absorbances.

    Returns:
        ``(time, C)`` corrected absorbances.
    """
    clean = ops.transpose(ops.solve(crosstalk, ops.transpose(readings)))

    def grad(*args, upstream=None):
        g = upstream if upstream is not None else args[0]
        d_readings = ops.transpose(ops.solve(crosstalk, ops.transpose(g)))
        d_crosstalk = -ops.matmul(ops.transpose(d_readings), clean)
        return d_crosstalk, d_readings

    return clean, grad


class AreaPercent(keras.layers.Layer):
    def __init__(self, axis=-1, scale=100.0, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis
        self.scale = scale

    def build(self, input_shape):
        self.response = self.add_weight(
            shape=(input_shape[self.axis],), initializer="ones", name="response", dtype=self.dtype
        )

    def call(self, areas):
        return self.normalise(areas, ops.convert_to_tensor(self.response) * 1.0)

    def normalise(self, areas, response):
        ndim = len(ops.shape(areas))
        axis = self.axis % ndim
        others = tuple(i for i in range(ndim) if i != axis)
        scale = self.scale
        layout = [1] * ndim
        layout[axis] = -1

        @ops.custom_gradient
        def percent(areas, response):
            factor = ops.reshape(response, layout)
            mass = areas * factor
            total = ops.sum(mass, axis=axis, keepdims=True)
            share = mass / total

            def grad(*args, upstream=None):
                g = upstream if upstream is not None else args[0]
                inner = ops.sum(g * share, axis=-1, keepdims=True)
                d_mass = scale * (g - inner) / total
                return d_mass * factor, ops.sum(d_mass * areas, axis=others)

            return scale * share, grad

        return percent(areas, response)

    def get_config(self):
        return {**super().get_config(), "axis": self.axis, "scale": self.scale}
