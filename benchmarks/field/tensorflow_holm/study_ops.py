"""Backend-agnostic ops with hand-written gradients for the field and lab studies.

Everything here is plain ``keras.ops`` and runs on TensorFlow, JAX and PyTorch; pass tensors of the active backend.
"""
import keras
from keras import ops


def _upstream(args, upstream):
    return args[0] if upstream is None else upstream


def make_charbonnier_epe(alpha: float = 0.5, eps: float = 1e-3):
    """Weighted mean end-point error (|pred - true|^2 + eps^2)^alpha of optical flow; alpha in (0, 1], weights (...,)."""

    @ops.custom_gradient
    def loss(pred, true, weight):
        diff = pred - true
        inner = ops.sum(diff * diff, axis=-1) + eps**2
        rho = inner**alpha
        total = ops.sum(weight)
        value = ops.sum(weight * rho) / total

        def grad(*args, upstream=None):
            up = _upstream(args, upstream)
            coef = up * weight * inner ** (alpha - 1.0) / total
            d_pred = ops.expand_dims(coef, -1) * diff
            return d_pred, -d_pred, up * (rho - value) / total

        return value, grad

    return loss


@ops.custom_gradient
def hanski_connectivity(xy, area, alpha, b):
    r"""Incidence-function connectivity of habitat patches.

    .. math:: S_i = \sum_{j \ne i} \exp(-\alpha d_{ij}) A_j^b

    Parameters
    ----------
    xy : tensor, shape (N, 2)
        Patch centroids.  Any two must be distinct.
    area : tensor, shape (N,)
        Patch areas, positive.
    alpha : tensor, shape ()
        Inverse of the mean dispersal distance.
    b : tensor, shape ()
        Scaling of emigration with patch area.

    Returns
    -------
    tensor, shape (N,)
        Connectivity of each patch; differentiable in all four arguments.
        Moving a patch changes both its own connectivity and what it
        contributes to the others, and the gradient has both.
    """
    n = xy.shape[0]
    eye = ops.eye(n, dtype=xy.dtype)
    delta = ops.expand_dims(xy, 1) - ops.expand_dims(xy, 0)
    # the unit on the diagonal keeps the square root away from zero
    dist = ops.sqrt(ops.sum(delta * delta, axis=-1) + eye)
    kernel = ops.exp(-alpha * dist) * (1.0 - eye)
    source = area**b
    connectivity = ops.sum(kernel * ops.expand_dims(source, 0), axis=1)

    def grad(*args, upstream=None):
        up = _upstream(args, upstream)
        flow = ops.expand_dims(up, 1) * kernel * ops.expand_dims(source, 0)
        d_dist = -alpha * flow
        pull = ops.expand_dims((d_dist + ops.transpose(d_dist)) / dist, -1) * delta
        received = ops.sum(ops.expand_dims(up, 1) * kernel, axis=0)
        d_area = b * area ** (b - 1.0) * received
        d_alpha = -ops.sum(flow * dist)
        d_b = ops.sum(received * source * ops.log(area))
        return ops.sum(pull, axis=1), d_area, d_alpha, d_b

    return connectivity, grad


@ops.custom_gradient
def regress_out_confounds(signal, confounds):
    """Residual of voxel time series after least squares on nuisance regressors.

    ``signal`` is (T, V): one column per voxel. ``confounds`` is (T, K) with K < T: motion parameters, drifts, the
    outputs of a learned noise model, and so on. The columns have to be linearly independent but are taken as they
    come, neither centred, orthogonal nor of unit length. The result is (T, V), the part of every voxel's series that
    the confounds do not explain.

    The projector is never formed. Both arguments are differentiable; the gradient reuses the Gram matrix and the
    coefficients of the forward pass, so that backward costs one more K x K solve.
    """
    ct = ops.transpose(confounds)
    gram = ct @ confounds
    beta = ops.solve(gram, ct @ signal)
    residual = signal - confounds @ beta

    def grad(*args, upstream=None):
        up = _upstream(args, upstream)
        score = ct @ up
        d_signal = up - confounds @ ops.solve(gram, score)
        d_confounds = -d_signal @ ops.transpose(beta) - residual @ ops.transpose(score)
        return d_signal, d_confounds

    return residual, grad


def make_pump_increment(step: float, low: float, high: float):
    """Dose snapped to the pump's increment and range. Straight-through gradient on purpose: 1 in range, 0 outside."""

    @ops.custom_gradient
    def snap(dose):
        snapped = ops.round(ops.clip(dose, low, high) / step) * step
        inside = ops.cast(ops.logical_and(dose >= low, dose <= high), dose.dtype)

        def grad(*args, upstream=None):
            return _upstream(args, upstream) * inside

        return snapped, grad

    return snap


syringe_increment = make_pump_increment(0.05, 0.0, 10.0)


class ConfoundCleaner(keras.layers.Layer):
    """Learned linear noise regressors, removed from the series."""

    def __init__(self, num_regressors, **kwargs):
        super().__init__(**kwargs)
        self.mix = keras.layers.Dense(num_regressors, use_bias=False)

    def call(self, signal, motion):
        return regress_out_confounds(signal, self.mix(motion))
