"""Spectral extraction operators (backend-neutral, Keras 3)."""

import keras
from keras import ops


def _sum_rows(x):
    return ops.sum(x, axis=-2, keepdims=True)


def optimal_extraction(frame, profile, variance, good=None, normalize=False):
    """Profile-weighted extraction of a one-dimensional spectrum (Horne 1986).

    ``flux[x] = sum_r M P D / V / sum_r M P^2 / V`` at each wavelength ``x``, the sums running over the
    rows ``r`` of the slit.

    Args:
        frame: sky-subtracted counts ``D``, ``(batch, rows, columns)``.
        profile: spatial profile ``P``, same shape, non-negative.
        variance: pixel variances ``V``, same shape, positive.
        good: boolean mask ``M`` of usable pixels, same shape; all pixels by default. Each column
            needs at least one usable pixel on the profile.
        normalize: divide the profile by its sum over the rows first. With the default the profile
            is taken as it is.

    Returns:
        flux of shape ``(batch, columns)``.
    """
    if good is None:
        keep = ops.ones_like(frame)
    else:
        keep = ops.cast(good, frame.dtype)

    @ops.custom_gradient
    def extract(frame, profile, variance):
        if normalize:
            light = _sum_rows(profile)
            p = profile / light
        else:
            light = None
            p = profile
        w = keep * p / variance
        norm = _sum_rows(w * p)
        flux = _sum_rows(w * frame) / norm

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g = ops.expand_dims(upstream, -2) / norm
            d_frame = g * w
            d_profile = g * keep / variance * (frame - 2.0 * flux * p)
            d_variance = -g * w * (frame - flux * p) / variance
            if normalize:
                d_profile = d_profile / light
            return d_frame, d_profile, d_variance

        return ops.squeeze(flux, axis=-2), grad

    return extract(frame, profile, variance)


@ops.custom_gradient
def hard_rejection(residual, sigma):
    """Weights for cosmic-ray rejection: 1 where ``|residual| <= 4 sigma``, else 0.

    The step has no useful derivative. On purpose the backward pass uses a surrogate: it
    differentiates the logistic roll-off ``sigmoid((4 - |residual| / sigma) / 0.5)`` in place of the
    step, for both arguments. The forward values stay exactly 0 or 1.

    Both arguments have the same shape, ``sigma > 0``.
    """
    ratio = ops.abs(residual) / sigma
    weight = ops.cast(ratio <= 4.0, residual.dtype)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        soft = ops.sigmoid((4.0 - ratio) / 0.5)
        d_ratio = -upstream * soft * (1.0 - soft) / 0.5
        return d_ratio * ops.sign(residual) / sigma, -d_ratio * ratio / sigma

    return weight, grad


class SlitExtractor(keras.layers.Layer):
    """Extract, compare with the model of the slit, reject, extract again."""

    def __init__(self, normalize=False, **kwargs):
        super().__init__(**kwargs)
        self.normalize = normalize

    def call(self, frame, profile, variance):
        first = optimal_extraction(frame, profile, variance, normalize=self.normalize)
        shape = profile / _sum_rows(profile) if self.normalize else profile
        residual = frame - ops.expand_dims(first, -2) * shape
        weight = hard_rejection(residual, ops.sqrt(variance))
        # a rejected pixel keeps its place but gets a huge variance
        return optimal_extraction(
            frame, profile, variance / ops.maximum(weight, 1e-6), normalize=self.normalize
        )
