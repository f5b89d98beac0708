"""Differentiable camera pipeline pieces (channels last)."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

# IEC 61966-2-1
_A, _GAMMA, _CUT, _SLOPE = 0.055, 2.4, 0.04045, 12.92


@jax.custom_jvp
def srgb_to_linear(c):
    base = jnp.maximum((c + _A) / (1 + _A), 0.0)
    return jnp.where(c <= _CUT, c / _SLOPE, base**_GAMMA)


@srgb_to_linear.defjvp
def _srgb_jvp(primals, tangents):
    (c,), (dc,) = primals, tangents
    base = jnp.maximum((c + _A) / (1 + _A), 0.0)
    slope = jnp.where(c <= _CUT, 1 / _SLOPE, _GAMMA * base ** (_GAMMA - 1))
    return srgb_to_linear(c), slope * dc


def _corners(shape, xy):
    h, w = shape[:2]
    x = jnp.clip(xy[..., 0], 0, w - 1)
    y = jnp.clip(xy[..., 1], 0, h - 1)
    x0 = jnp.clip(jnp.floor(x), 0, w - 2).astype(jnp.int32)
    y0 = jnp.clip(jnp.floor(y), 0, h - 2).astype(jnp.int32)
    return x0, y0, (x - x0)[..., None], (y - y0)[..., None]


def _bilinear(image, xy):
    x0, y0, fx, fy = _corners(image.shape, xy)
    top = image[y0, x0] * (1 - fx) + image[y0, x0 + 1] * fx
    bottom = image[y0 + 1, x0] * (1 - fx) + image[y0 + 1, x0 + 1] * fx
    return top * (1 - fy) + bottom * fy


# image (H, W, C), xy (..., 2) in pixels, x first; samples outside take the border colour
sample_bilinear = jax.custom_vjp(_bilinear)


def _bilinear_vjp(res, g):
    image, xy = res
    h, w = image.shape[:2]
    x0, y0, fx, fy = _corners(image.shape, xy)

    d_image = jnp.zeros_like(image)
    d_image = d_image.at[y0, x0].add(g * (1 - fx) * (1 - fy))
    d_image = d_image.at[y0, x0 + 1].add(g * fx * (1 - fy))
    d_image = d_image.at[y0 + 1, x0].add(g * (1 - fx) * fy)
    d_image = d_image.at[y0 + 1, x0 + 1].add(g * fx * fy)

    i00, i01 = image[y0, x0], image[y0, x0 + 1]
    i10, i11 = image[y0 + 1, x0], image[y0 + 1, x0 + 1]
    dx = jnp.sum(g * ((i01 - i00) * (1 - fy) + (i11 - i10) * fy), -1)
    dy = jnp.sum(g * ((i10 - i00) * (1 - fx) + (i11 - i01) * fx), -1)
    dx = jnp.where((xy[..., 0] >= 0) & (xy[..., 0] <= w - 1), dx, 0)
    dy = jnp.where((xy[..., 1] >= 0) & (xy[..., 1] <= h - 1), dy, 0)
    return d_image, jnp.stack([dx, dy], -1)


sample_bilinear.defvjp(lambda im, xy: (_bilinear(im, xy), (im, xy)), _bilinear_vjp)


def _correlate(image, taps, axis):
    n, k = image.shape[axis], taps.shape[0]
    widths = [(0, 0)] * image.ndim
    widths[axis] = (k // 2, k // 2)
    padded = jnp.pad(image, widths)
    return sum(taps[i] * lax.slice_in_dim(padded, i, i + n, axis=axis) for i in range(k))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def filter_axis(image, taps, axis=0):
    """Zero-padded correlation with an odd number of taps along one axis; taps may be learned."""
    return _correlate(image, taps, axis)


def _filter_fwd(image, taps, axis):
    return _correlate(image, taps, axis), (image, taps)


def _filter_bwd(axis, saved, g):
    image, taps = saved
    n, k = image.shape[axis], taps.shape[0]
    widths = [(0, 0)] * image.ndim
    widths[axis] = (k // 2, k // 2)
    padded = jnp.pad(image, widths)
    d_taps = jnp.stack([jnp.sum(g * lax.slice_in_dim(padded, i, i + n, axis=axis)) for i in range(k)])
    return _correlate(g, taps, axis), d_taps


filter_axis.defvjp(_filter_fwd, _filter_bwd)


def _window_sum(x, window, stride, pad):
    return lax.reduce_window(x, jnp.zeros((), x.dtype), lax.add, (window, window, 1), (stride, stride, 1),
                             ((pad, pad), (pad, pad), (0, 0)))


class AvgPool:
    """Mean over the part of each window that lies inside the image (H, W, C)."""

    def __init__(self, window=2, stride=None, pad=0):
        self.window, self.stride, self.pad = window, stride or window, pad
        pool = jax.custom_vjp(self._forward)
        pool.defvjp(lambda x: (self._forward(x), x.shape), self._backward)
        self.pool = pool

    def _count(self, shape, dtype):
        return _window_sum(jnp.ones((*shape[:2], 1), dtype), self.window, self.stride, self.pad)

    def _forward(self, x):
        return _window_sum(x, self.window, self.stride, self.pad) / self._count(x.shape, x.dtype)

    def _backward(self, shape, g):
        w, s, p = self.window, self.stride, self.pad
        h, wd = shape[:2]
        share = g / (w * w)
        canvas = jnp.zeros((h + 2 * p, wd + 2 * p, shape[2]), g.dtype)
        rows, cols = jnp.arange(g.shape[0]) * s, jnp.arange(g.shape[1]) * s
        for dy in range(w):
            for dx in range(w):
                canvas = canvas.at[(rows + dy)[:, None], (cols + dx)[None, :]].add(share)
        return (canvas[p:p + h, p:p + wd],)

    def __call__(self, x):
        return self.pool(x)


@jax.custom_vjp
def composite(colors, alphas, background):
    """Front-to-back over-compositing of L layers.

    colors (L, H, W, 3), alphas (L, H, W) in [0, 1], background (3,).
    Returns the picture (H, W, 3) and its coverage (H, W).
    """
    def over(acc, layer):
        rgb, trans = acc
        c, a = layer
        return (rgb + (trans * a)[..., None] * c, trans * (1 - a)), None

    start = (jnp.zeros_like(colors[0]), jnp.ones_like(alphas[0]))
    (rgb, trans), _ = lax.scan(over, start, (colors, alphas))
    return rgb + trans[..., None] * background, 1 - trans


def _composite_fwd(colors, alphas, background):
    return composite(colors, alphas, background), (colors, alphas, background)


def _composite_bwd(saved, cts):
    colors, alphas, background = saved
    g_rgb, g_cov = cts
    clear = jnp.cumprod(1 - alphas, axis=0)
    in_front = jnp.concatenate([jnp.ones_like(clear[:1]), clear[:-1]])

    def walk(acc, layer):
        behind, open_behind = acc
        c, a, t = layer
        d_a = t * (jnp.sum(g_rgb * (c - behind), -1) + g_cov * open_behind)
        d_c = (t * a)[..., None] * g_rgb
        a3 = a[..., None]
        return (a3 * c + (1 - a3) * behind, (1 - a) * open_behind), (d_c, d_a)

    start = (jnp.broadcast_to(background, g_rgb.shape), jnp.ones_like(g_cov))
    _, (d_colors, d_alphas) = lax.scan(walk, start, (colors, alphas, in_front), reverse=True)
    return d_colors, d_alphas, jnp.sum(clear[-1][..., None] * g_rgb, (0, 1))


composite.defvjp(_composite_fwd, _composite_bwd)


def unsharp(image, amount=0.6, taps=(0.25, 0.5, 0.25)):
    taps = jnp.asarray(taps)
    soft = filter_axis(filter_axis(image, taps, 0), taps, 1)
    return image + amount * (image - soft)


def photometric_loss(params, layers, target, xy):
    """Warp the layers, composite, blur the highlights, compare in linear light."""
    warped = jax.vmap(lambda im: sample_bilinear(im, xy + params["flow"]))(layers)
    picture, _ = composite(warped[..., :3], jax.nn.sigmoid(warped[..., 3]), params["sky"])
    pool = AvgPool(3, stride=2, pad=1)
    return jnp.mean((pool(srgb_to_linear(picture)) - pool(srgb_to_linear(target))) ** 2)


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    layers = jax.random.uniform(key, (3, 8, 10, 4))
    ys, xs = jnp.meshgrid(jnp.arange(8.0), jnp.arange(10.0), indexing="ij")
    params = {"flow": 0.3 * jnp.ones((8, 10, 2)), "sky": jnp.array([0.5, 0.6, 0.9])}
    target = unsharp(layers[0, ..., :3])
    loss, grads = jax.value_and_grad(photometric_loss)(params, layers, target, jnp.stack([xs, ys], -1))
    print(float(loss), jax.tree.map(lambda a: float(jnp.abs(a).mean()), grads))
