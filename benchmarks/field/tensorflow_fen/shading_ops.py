from keras import ops


def _upstream(args, upstream):
    return args[0] if upstream is None else upstream


@ops.custom_gradient
def spherical_gaussian_radiance(directions, axes, sharpness, amplitude):
    """Radiance of an environment that is a mixture of spherical Gaussians.

    L(d) = sum_k a_k exp(s_k (d . m_k - 1)), m_k = axes_k / |axes_k|

    directions: (n, 3), unit vectors
    axes:       (lobes, 3), any non-zero vectors, they are normalised here
    sharpness:  (lobes,), > 0
    amplitude:  (lobes, channels)
    returns     (n, channels)
    """
    length = ops.sqrt(ops.sum(axes * axes, axis=-1, keepdims=True))
    unit = axes / length
    lift = ops.matmul(directions, ops.transpose(unit)) - 1.0
    lobe = ops.exp(sharpness * lift)

    def grad(*args, upstream=None):
        up = _upstream(args, upstream)
        d_amplitude = ops.matmul(ops.transpose(lobe), up)
        d_power = ops.matmul(up, ops.transpose(amplitude)) * lobe
        d_sharpness = ops.sum(d_power * lift, axis=0)
        d_cosine = d_power * sharpness
        d_directions = ops.matmul(d_cosine, unit)
        d_unit = ops.matmul(ops.transpose(d_cosine), directions)
        # only the part tangent to the sphere turns the lobe
        d_axes = d_unit - unit * ops.sum(d_unit * unit, axis=-1, keepdims=True)
        return d_directions, d_axes, d_sharpness, d_amplitude

    return ops.matmul(lobe, amplitude), grad


def _product_of_others(x):
    """Product over the last axis without the element itself; fine with zeros."""
    one = ops.ones_like(x[..., :1])
    before = ops.cumprod(ops.concatenate([one, x[..., :-1]], axis=-1), axis=-1)
    flipped = ops.flip(x, axis=-1)
    after = ops.cumprod(ops.concatenate([one, flipped[..., :-1]], axis=-1), axis=-1)
    return before * ops.flip(after, axis=-1)


def blend_fragments(color, alpha, depth, background, valid=None, falloff: float = 1.0, eps: float = 1e-6):
    """Weighted blended order-independent transparency (after McGuire and Bavoil).

    With the weights ``w_i = alpha_i exp(-falloff * depth_i)`` the pixel is

        mean = sum_i w_i color_i / (eps + sum_i w_i)
        cover = 1 - prod_i (1 - alpha_i)
        pixel = cover * mean + (1 - cover) * background

    Parameters
    ----------
    color : (pixels, fragments, channels)
    alpha : (pixels, fragments)
        Opacity in (0, 1]; opaque fragments are fine.
    depth : (pixels, fragments)
    background : (channels,) or (pixels, channels)
    valid : (pixels, fragments) bool, optional
        False for the padding of pixels with fewer fragments. A pixel without any fragment shows the
        background.
    falloff, eps : float
        Decay of the weights with the depth, and the guard of the mean.
    """
    here = ops.ones_like(alpha) if valid is None else ops.cast(valid, alpha.dtype)

    @ops.custom_gradient
    def blend(color, alpha, depth, background):
        opacity = alpha * here
        fade = ops.exp(-falloff * depth)
        w = opacity * fade
        total = eps + ops.sum(w, axis=-1, keepdims=True)
        mean = ops.sum(ops.expand_dims(w, -1) * color, axis=-2) / total
        clear = ops.prod(1.0 - opacity, axis=-1, keepdims=True)
        pixel = (1.0 - clear) * mean + clear * background

        def grad(*args, upstream=None):
            up = _upstream(args, upstream)
            d_mean = up * (1.0 - clear)
            d_clear = ops.sum(up * (background - mean), axis=-1, keepdims=True)
            spread = ops.expand_dims(d_mean / total, -2)
            d_color = ops.expand_dims(w, -1) * spread
            d_w = ops.sum(spread * (color - ops.expand_dims(mean, -2)), axis=-1)
            d_opacity = d_w * fade - d_clear * _product_of_others(1.0 - opacity)
            d_depth = -falloff * d_w * w
            d_background = up * clear
            if len(background.shape) == 1:
                d_background = ops.sum(d_background, axis=0)
            return d_color, d_opacity * here, d_depth, d_background

        return pixel, grad

    return blend(color, alpha, depth, background)
