"""Biological objectives for plan optimisation (any Keras backend)."""
import keras
from keras import ops

LN2 = 0.6931471805599453


def _reduce_like(x, shape):
    shape = tuple(shape)
    while len(x.shape) > len(shape):
        x = ops.sum(x, axis=0)
    for axis, size in enumerate(shape):
        if size == 1 and x.shape[axis] != 1:
            x = ops.sum(x, axis=axis, keepdims=True)
    return x


class GeneralizedEUD:
    """Generalised equivalent uniform dose of one structure.

    Args:
        a: tissue exponent, non-zero. Large and positive for serial organs at risk,
            negative for targets.

    Call with `dose` [..., V] (Gy; at least one voxel of positive volume above zero, and all
    voxels when `a < 1`) and `volume` (non-negative voxel volumes, broadcastable to `dose`, e.g. [V] for
    plans that share a structure or [..., V] for overlapping fractional voxels; not all
    zero). Returns [...]: (sum v d^a / sum v) ** (1 / a).
    """

    def __init__(self, a=8.0):
        if a == 0:
            raise ValueError("a must be non-zero")
        self.a = float(a)

    def __call__(self, dose, volume):
        a = self.a

        @ops.custom_gradient
        def eud(dose, volume):
            full = volume + ops.zeros_like(dose)
            total = ops.sum(full, axis=-1)
            extreme = ops.max(dose, axis=-1) if a > 0 else ops.min(dose, axis=-1)
            ratio = (dose / ops.expand_dims(extreme, -1)) ** a
            mean = ops.sum(full * ratio, axis=-1) / total
            value = extreme * mean ** (1.0 / a)

            def grad(*args, upstream=None):
                g = ops.expand_dims(upstream if upstream is not None else args[0], -1)
                whole = ops.expand_dims(total, -1)
                out = ops.expand_dims(value, -1)
                rel = dose / out
                d_dose = g * full / whole * rel ** (a - 1.0)
                d_volume = g * out / (a * whole) * (rel**a - 1.0)
                return _reduce_like(d_dose, dose.shape), _reduce_like(d_volume, volume.shape)

            return value, grad

        return eud(dose, volume)


def make_effective_dose(n_fractions, alpha=0.3, kickoff=28.0, doubling=3.0):
    """Biologically effective dose with accelerated repopulation.

    Args:
        n_fractions: number of equal fractions.
        alpha: radiosensitivity, 1/Gy.
        kickoff: day on which repopulation starts; treatments that end before lose nothing.
        doubling: effective doubling time, days.

    The returned function takes the fraction dose [P, V], alpha/beta [V] and the overall
    time [P] in days, and returns BED [P, V].
    """
    loss_rate = LN2 / (alpha * doubling)

    @ops.custom_gradient
    def effective_dose(fraction, alpha_beta, overall_time):
        delay = ops.expand_dims(overall_time - kickoff, -1)
        relative = 1.0 + fraction / alpha_beta
        bed = n_fractions * fraction * relative - loss_rate * ops.relu(delay)

        def grad(*args, upstream=None):
            g = upstream if upstream is not None else args[0]
            d_fraction = g * n_fractions * (1.0 + 2.0 * fraction / alpha_beta)
            d_ratio = -ops.sum(g * n_fractions * (fraction / alpha_beta) ** 2, axis=0)
            d_time = -loss_rate * ops.sum(g, axis=-1)
            return d_fraction, d_ratio, d_time

        return bed, grad

    return effective_dose


@ops.custom_gradient
def control_probability(bed, clonogens, alpha):
    """Poisson tumour control of plans [P] from BED [P, V], clonogen numbers [V], scalar alpha."""
    survival = ops.exp(-alpha * bed)
    tcp = ops.exp(-ops.sum(clonogens * survival, axis=-1))

    def grad(*args, upstream=None):
        g = upstream if upstream is not None else args[0]
        g = ops.expand_dims(g * tcp, -1)
        lost = g * clonogens * survival
        return alpha * lost, -ops.sum(g * survival, axis=0), ops.sum(lost * bed)

    return tcp, grad


class ControlObjective(keras.layers.Layer):
    def __init__(self, n_fractions=30, alpha=0.3, **kwargs):
        super().__init__(**kwargs)
        self.alpha = alpha
        self.effective_dose = make_effective_dose(n_fractions, alpha)

    def call(self, fraction, alpha_beta, clonogens, overall_time):
        bed = self.effective_dose(fraction, alpha_beta, overall_time)
        return -ops.log(control_probability(bed, clonogens, ops.convert_to_tensor(self.alpha, bed.dtype)))
