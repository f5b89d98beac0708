"""TensorFlow operations that tf2jax lacks, as JAX has them: images resized, cropped, and in other colours.

A resized image is a product of the image with a matrix for its rows and one for its columns; the
matrices hold the weights that TensorFlow computes, and their transposes are its gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.frameworks.tensorflow.ops_of_places import sizes, transposed

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
Parser = Callable[[Any], Function]
Weights = Callable[[int, int], Array]  # (new length, old length) → a matrix of the weights
_CUBIC_STEPS = 1024  # places between two pixels at which TensorFlow knows the weights of a cubic


def _weighted(images: Any, rows: Array, columns: Array) -> Any:
    dtype = images.dtype
    return jnp.einsum("ih,bhwc,jw->bijc", rows.astype(dtype), images, columns.astype(dtype))


# -- resized ------------------------------------------------------------------------


def _scale(new: int, old: int, align: bool) -> np.float32:
    if align and new > 1:
        return np.float32(old - 1) / np.float32(new - 1)
    return np.float32(old) / np.float32(new)


def _positions(new: int, old: int, align: bool, half: bool) -> Array:
    """Where each new pixel lies among the old ones, in float32 as TensorFlow has it."""
    places, scale = np.arange(new, dtype=np.float32), _scale(new, old, align)
    if half:
        return (places + np.float32(0.5)) * scale - np.float32(0.5)
    return places * scale


def _matrix(new: int, old: int, taps: list[tuple[Array, Array]]) -> Array:
    """Weights at (clamped) old pixels, added up."""
    matrix = np.zeros((new, old))
    for places, weights in taps:
        np.add.at(matrix, (np.arange(new), np.clip(places, 0, old - 1).astype(int)), weights)
    return matrix


def _linear(align: bool, half: bool) -> Weights:
    def weights(new: int, old: int) -> Array:
        at = _positions(new, old, align, half)
        below = np.floor(at)
        share = (at - below).astype(float)
        return _matrix(new, old, [(below, 1 - share), (np.ceil(at), share)])

    return weights


def _nearest(align: bool, half: bool) -> Weights:
    def weights(new: int, old: int) -> Array:
        places, scale = np.arange(new, dtype=np.float32), _scale(new, old, align)
        at = (places + np.float32(0.5)) * scale if half else places * scale
        return _matrix(new, old, [(np.floor(at + 0.5) if align else np.floor(at), np.ones(new))])

    return weights


def _cubic(align: bool, half: bool) -> Weights:
    """Weights of Keys's cubic; where it looks beyond the image they are left out, or clamped as of old."""
    bend = -0.5 if half else -0.75

    def near(x: Array) -> Array:
        return ((bend + 2) * x - (bend + 3)) * x * x + 1

    def far(x: Array) -> Array:
        return ((bend * x - 5 * bend) * x + 8 * bend) * x - 4 * bend

    def weights(new: int, old: int) -> Array:
        at = _positions(new, old, align, half)
        first = np.floor(at)
        share = np.rint((at - first) * _CUBIC_STEPS) / _CUBIC_STEPS
        own = np.stack([far(share + 1), near(share), near(1 - share), far(2 - share)])
        places = first + np.arange(-1, 3)[:, None]
        if half:
            own = np.where((places >= 0) & (places < old), own, 0.0)
            own /= own.sum(0)
        return _matrix(new, old, list(zip(places, own, strict=True)))

    return weights


def _mean(align: bool, half: bool) -> Weights:
    del half

    def weights(new: int, old: int) -> Array:
        scale = float(_scale(new, old, align))
        edges = np.arange(old)
        start = np.arange(new)[:, None] * scale
        ends = np.minimum(edges + 1, start + scale) - np.maximum(edges, start)
        return np.asarray(np.maximum(ends, 0.0) / np.minimum(scale, old - start))

    return weights


def _resized(kernel: Callable[[bool, bool], Weights]) -> Parser:
    def parsed(proto: Any) -> Function:
        weights = kernel(proto.attr["align_corners"].b, proto.attr["half_pixel_centers"].b)

        def resized(images: Any, size: Any) -> Any:
            (high, wide), (_, old_high, old_wide, _) = sizes(size), images.shape
            return _weighted(images, weights(high, old_high), weights(wide, old_wide))

        return resized

    return parsed


def _resized_grad(kernel: Callable[[bool, bool], Weights]) -> Parser:
    """Its second argument is the image, or its size alone."""

    def parsed(proto: Any) -> Function:
        resized = _resized(kernel)(proto)

        def pulled(dy: Any, old: Any) -> Any:
            batch, *new, depth = dy.shape
            shape = old.shape if np.ndim(old) == 4 else (batch, *sizes(old), depth)
            return transposed(lambda images: resized(images, new), shape, dy)

        return pulled

    return parsed


# -- scaled and moved ---------------------------------------------------------------


def _lanczos(radius: float) -> Callable[[Array], Array]:
    return lambda x: np.where(np.abs(x) < radius, np.sinc(x) * np.sinc(x / radius), 0.0)


def _piecewise(near: list[float], far: list[float]) -> Callable[[Array], Array]:
    """A cubic within one pixel, and another within two."""
    return lambda x: np.where(x <= 1, np.polyval(near, x), np.where(x <= 2, np.polyval(far, x), 0.0))  # fmt: skip


# Of the distance to a pixel: the weight, and how far it reaches.
_KERNELS: dict[bytes, tuple[Callable[[Array], Array], float]] = {
    b"lanczos1": (_lanczos(1), 1),
    b"lanczos3": (_lanczos(3), 3),
    b"lanczos5": (_lanczos(5), 5),
    b"gaussian": (lambda x: np.where(x < 1.5, np.exp(-(x**2) / (2 * 0.5**2)), 0.0), 1.5),
    b"box": (lambda x: np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0)), 0.5),
    b"triangle": (lambda x: np.maximum(1 - x, 0.0), 1),
    b"keyscubic": (_piecewise([1.5, -2.5, 0, 1], [-0.5, 2.5, -4, 2]), 2),
    b"mitchellcubic": (_piecewise([7 / 6, -2, 0, 8 / 9], [-7 / 18, 2, -10 / 3, 16 / 9]), 2),
}  # fmt: skip


def _spread(proto: Any, new: int, old: int, scale: Any, shift: Any) -> Array:
    """Weights that end where TensorFlow's float32 says that the kernel does."""
    kernel, radius = _KERNELS[proto.attr["kernel_type"].s]
    half, back = np.float32(0.5), np.float32(1) / np.float32(scale)
    wide = max(back, np.float32(1)) if proto.attr["antialias"].b else np.float32(1)
    at = (np.arange(new, dtype=np.float32)[:, None] + half) * back - back * np.float32(shift)
    pixels = np.arange(old, dtype=np.float32)
    own = kernel(np.abs(pixels + half - at).astype(float) / float(wide))
    reach = np.float32(radius) * wide
    first, last = np.ceil(at - reach - half), np.floor(at + reach - half)
    own = np.where((pixels >= first) & (pixels <= last), own, 0.0)
    total = own.sum(1, keepdims=True)
    inside = (at >= 0) & (at <= old) & (np.abs(total) > 0)
    return np.where(inside, own / np.where(inside, total, 1.0), 0.0)


def _scaled(proto: Any) -> Function:
    def resized(images: Any, size: Any, scale: Any, shift: Any) -> Any:
        by, to = np.asarray(scale), np.asarray(shift)
        rows, columns = (
            _spread(proto, new, old, by[k], to[k])
            for k, (new, old) in enumerate(zip(sizes(size), images.shape[1:3], strict=True))
        )
        return _weighted(images, rows, columns)

    return resized


def _scaled_grad(proto: Any) -> Function:
    resized = _scaled(proto)

    def pulled(dy: Any, original: Any, scale: Any, shift: Any) -> Any:
        return transposed(lambda x: resized(x, dy.shape[1:3], scale, shift), original.shape, dy)

    return pulled


# -- cropped ------------------------------------------------------------------------


def _sampled(images: Any, boxes: Any, which: Any, size: Any, nearest: bool, outside: float) -> Any:
    """A box of each image, in relative coordinates, as an image of this size."""
    high, wide = sizes(size)
    old_high, old_wide = images.shape[1:3]
    boxes = jnp.asarray(boxes)

    def places(low: Any, top: Any, new: int, old: int) -> Any:
        if new == 1:
            return (0.5 * (low + top) * (old - 1))[:, None]
        return low[:, None] * (old - 1) + np.arange(new) * ((top - low) * (old - 1) / (new - 1))[:, None]  # fmt: skip

    rows = places(boxes[:, 0], boxes[:, 2], high, old_high)
    columns = places(boxes[:, 1], boxes[:, 3], wide, old_wide)
    inside = ((rows >= 0) & (rows <= old_high - 1))[:, :, None, None] & (
        (columns >= 0) & (columns <= old_wide - 1)
    )[:, None, :, None]

    def pixel(row: Any, column: Any) -> Any:
        row = jnp.clip(row, 0, old_high - 1).astype(int)[:, :, None]
        column = jnp.clip(column, 0, old_wide - 1).astype(int)[:, None, :]
        return jnp.asarray(images)[jnp.asarray(which)[:, None, None], row, column]

    if nearest:
        return jnp.where(inside, pixel(jnp.floor(rows + 0.5), jnp.floor(columns + 0.5)), outside)
    top, left = jnp.floor(rows), jnp.floor(columns)
    down, across = (rows - top)[:, :, None, None], (columns - left)[:, None, :, None]
    above = pixel(top, left) * (1 - across) + pixel(top, left + 1) * across
    below = pixel(top + 1, left) * (1 - across) + pixel(top + 1, left + 1) * across
    return jnp.where(inside, above * (1 - down) + below * down, outside)


def _cropped(proto: Any) -> Function:
    nearest, outside = proto.attr["method"].s == b"nearest", proto.attr["extrapolation_value"].f
    return lambda images, boxes, which, size: _sampled(images, boxes, which, size, nearest, outside)


def _cropped_by_image(proto: Any) -> Function:
    nearest = proto.attr["method"].s == b"nearest"

    def pulled(dy: Any, boxes: Any, which: Any, shape: Any) -> Any:
        return transposed(lambda x: _sampled(x, boxes, which, dy.shape[1:3], nearest, 0), shape, dy)

    return pulled


def _cropped_by_boxes(proto: Any) -> Function:
    del proto  # boxes have gradients by the linear method alone

    def pulled(dy: Any, images: Any, boxes: Any, which: Any) -> Any:
        return jax.vjp(lambda b: _sampled(images, b, which, dy.shape[1:3], False, 0), boxes)[1](dy)[0]  # fmt: skip

    return pulled


# -- colours ------------------------------------------------------------------------


def _hsv(colours: Any) -> Any:
    red, green, blue = (colours[..., k] for k in range(3))
    most = jnp.maximum(red, jnp.maximum(green, blue))
    span = most - jnp.minimum(red, jnp.minimum(green, blue))
    over = 1 / (6 * jnp.where(span == 0, 1, span))
    hue = jnp.where(
        red == most,
        over * (green - blue),
        jnp.where(green == most, over * (blue - red) + 2 / 6, over * (red - green) + 4 / 6),
    )
    hue = jnp.where(span == 0, 0, jnp.where(hue < 0, hue + 1, hue))
    return jnp.stack([hue, jnp.where(most > 0, span / jnp.where(most > 0, most, 1), 0), most], -1)


def _rgb(colours: Any) -> Any:
    hue, saturation, value = (colours[..., k] for k in range(3))
    at = 6 * hue
    parts = (jnp.abs(at - 3) - 1, 2 - jnp.abs(at - 2), 2 - jnp.abs(at - 4))
    return jnp.stack(
        [((1 - saturation) + saturation * jnp.clip(p, 0, 1)) * value for p in parts], -1
    )


def _contrasted(images: Any, factor: Any) -> Any:
    mean = jnp.mean(images, (-3, -2), keepdims=True)
    return (images - mean) * factor + mean


FUNCTIONS: dict[str, Function] = {
    "AdjustContrastv2": _contrasted,
    "HSVToRGB": _rgb,
    "RGBToHSV": _hsv,
}

PARSED: dict[str, Parser] = {
    "CropAndResize": _cropped,
    "CropAndResizeGradBoxes": _cropped_by_boxes,
    "CropAndResizeGradImage": _cropped_by_image,
    "ResizeArea": _resized(_mean),
    "ResizeBicubic": _resized(_cubic),
    "ResizeBicubicGrad": _resized_grad(_cubic),
    "ResizeBilinearGrad": _resized_grad(_linear),
    "ResizeNearestNeighborGrad": _resized_grad(_nearest),
    "ScaleAndTranslate": _scaled,
    "ScaleAndTranslateGrad": _scaled_grad,
}

# tf2jax leaves pixels beyond the middle of the last one black, and has one of three ways to the nearest.
CORRECTED: dict[str, Parser] = {
    "ResizeBilinear": _resized(_linear),
    "ResizeNearestNeighbor": _resized(_nearest),
}
