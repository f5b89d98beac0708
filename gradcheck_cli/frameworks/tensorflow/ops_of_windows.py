"""TensorFlow operations that tf2jax lacks, as JAX has them: convolutions, pools, windows, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.frameworks.tensorflow.ops_of_places import sizes, transposed

Function = Callable[..., Any]
Parser = Callable[[Any], Function]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where an array keeps its channels, and how windows lie on its other axes."""

    channels_first: bool
    padding: str | tuple[tuple[int, int], ...]  # of every axis, if it is no word

    @classmethod
    def of(cls, proto: Any) -> Self:
        attr = proto.attr
        word = attr["padding"].s.decode()
        explicit = tuple(attr["explicit_paddings"].list.i)
        pairs = tuple(zip(explicit[::2], explicit[1::2], strict=True))
        return cls(attr["data_format"].s in (b"NCHW", b"NCDHW"), pairs or word)

    def spatial(self, of_axes: Sequence[Any]) -> tuple[Any, ...]:
        """What belongs to the axes that are neither batch nor channel."""
        return tuple(of_axes[2:] if self.channels_first else of_axes[1:-1])

    def channels(self, x: Any) -> int:
        return int(x.shape[1 if self.channels_first else -1])

    def numbers(self, rank: int) -> tuple[str, str, str]:
        axes = "DHW"[-rank:]
        own = f"NC{axes}" if self.channels_first else f"N{axes}C"
        return own, f"{axes}IO", own


# -- convolutions -------------------------------------------------------------------


def _convolution(proto: Any) -> Function:
    layout = Layout.of(proto)
    strides = layout.spatial(proto.attr["strides"].list.i)
    dilations = layout.spatial(proto.attr["dilations"].list.i) or (1,) * len(strides)
    padding = layout.padding if isinstance(layout.padding, str) else layout.spatial(layout.padding)

    def convolved(x: Any, kernel: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x,
            kernel,
            strides,
            padding,
            rhs_dilation=dilations,
            dimension_numbers=layout.numbers(len(strides)),
            feature_group_count=layout.channels(x) // kernel.shape[-2],
        )

    return convolved


def _depthwise(proto: Any) -> Function:
    convolved = _convolution(proto)
    return lambda x, kernel: convolved(x, kernel.reshape(*kernel.shape[:2], 1, -1))


def _by_input(forward: Parser) -> Parser:
    def parsed(proto: Any) -> Function:
        convolved = forward(proto)
        return lambda shape, kernel, dy: transposed(lambda x: convolved(x, kernel), shape, dy)

    return parsed


def _by_filter(forward: Parser) -> Parser:
    def parsed(proto: Any) -> Function:
        convolved = forward(proto)
        return lambda x, shape, dy: transposed(lambda kernel: convolved(x, kernel), shape, dy)

    return parsed


# -- pools --------------------------------------------------------------------------


def _pool(x: Any, first: float, step: Function, window: Any, strides: Any, padding: Any) -> Any:
    start = np.array(first, x.dtype)
    return jax.lax.reduce_window(x, start, step, sizes(window), sizes(strides), padding)


def _max_pool(proto: Any) -> Function:
    padding = Layout.of(proto).padding
    window, strides = tuple(proto.attr["ksize"].list.i), tuple(proto.attr["strides"].list.i)

    def pooled(x: Any, given: Any = window, by: Any = strides) -> Any:
        return _pool(x, -np.inf, jax.lax.max, given, by, padding)

    return pooled


def _mean_pool(proto: Any) -> Function:
    padding = Layout.of(proto).padding
    window, strides = tuple(proto.attr["ksize"].list.i), tuple(proto.attr["strides"].list.i)

    def pooled(x: Any) -> Any:
        total = _pool(x, 0.0, jax.lax.add, window, strides, padding)
        return total / _pool(jnp.ones_like(x), 0.0, jax.lax.add, window, strides, padding)

    return pooled


def _max_pool_grad(proto: Any) -> Function:
    pooled = _max_pool(proto)
    return lambda x, y, dy, *sizes: jax.vjp(lambda x: pooled(x, *sizes), x)[1](dy)[0]


def _max_pool_grad_grad(proto: Any) -> Function:
    pooled = _max_pool(proto)
    return lambda x, y, dx: jax.jvp(pooled, (x,), (dx,))[1]


def _mean_pool_grad(proto: Any) -> Function:
    pooled = _mean_pool(proto)
    return lambda shape, dy: transposed(pooled, shape, dy)


# -- windows one by one -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows on the rows and columns of images whose channels come last."""

    size: tuple[int, int]
    strides: tuple[int, int]
    rates: tuple[int, int]
    padding: str

    def lie(self, axis: int, length: int) -> tuple[int, int, int]:
        """Padding before and after, and how many windows there are."""
        span = (self.size[axis] - 1) * self.rates[axis] + 1
        stride = self.strides[axis]
        if self.padding == "VALID":
            return 0, 0, (length - span) // stride + 1
        count = -(-length // stride)
        missing = max((count - 1) * stride + span - length, 0)
        return missing // 2, missing - missing // 2, count

    def places(self) -> list[tuple[int, int]]:
        return [(row, column) for row in range(self.size[0]) for column in range(self.size[1])]

    def on(self, x: Any, outside: float) -> list[Any]:
        """For each place in a window: what all windows have there."""
        (top, bottom, high), (left, right, wide) = (self.lie(k, x.shape[1 + k]) for k in (0, 1))
        padded = jnp.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=outside)
        down, across = self.strides
        cuts = []
        for row, column in self.places():
            y, z = row * self.rates[0], column * self.rates[1]
            rows = slice(y, y + (high - 1) * down + 1, down)
            cuts.append(padded[:, rows, z : z + (wide - 1) * across + 1 : across])
        return cuts

    def origins(self, x: Any) -> Any:
        """For each place in a window, in all windows: its row and column in the image."""
        (top, _, high), (left, _, wide) = (self.lie(k, x.shape[1 + k]) for k in (0, 1))
        rows = [row * self.rates[0] - top + np.arange(high) * self.strides[0] for row, _ in self.places()]  # fmt: skip
        columns = [c * self.rates[1] - left + np.arange(wide) * self.strides[1] for _, c in self.places()]  # fmt: skip
        return np.array([np.meshgrid(r, c, indexing="ij") for r, c in zip(rows, columns, strict=True)])  # fmt: skip


def _middle(proto: Any, name: str) -> tuple[int, int]:
    _, first, second, _ = proto.attr[name].list.i
    return first, second


def _patches(proto: Any) -> Function:
    windows = Windows(
        _middle(proto, "ksizes"), _middle(proto, "strides"), _middle(proto, "rates"), proto.attr["padding"].s.decode()
    )  # fmt: skip
    return lambda x: jnp.concatenate(windows.on(x, 0), -1)


def _max_pool_with_places(proto: Any) -> Function:
    windows = Windows(
        _middle(proto, "ksize"), _middle(proto, "strides"), (1, 1), proto.attr["padding"].s.decode()
    )
    pooled = _max_pool(proto)
    with_batch = proto.attr["include_batch_in_index"].b
    dtype = np.int32 if proto.attr["Targmax"].type == 3 else np.int64

    def both(x: Any) -> tuple[Any, Any]:
        which = jnp.argmax(jnp.stack(windows.on(x, -np.inf)), 0)
        batch, _, width, depth = x.shape
        origins = windows.origins(x)
        places = jnp.asarray(origins[:, 0] * width + origins[:, 1])[:, None, :, :, None]
        chosen = jnp.take_along_axis(jnp.broadcast_to(places, (len(places), *which.shape)), which[None], 0)[0]  # fmt: skip
        index = chosen * depth + np.arange(depth)
        if with_batch:
            index += np.arange(batch)[:, None, None, None] * int(np.prod(x.shape[1:]))
        return pooled(x), index.astype(dtype)

    return both


def _max_pool_grad_with_places(proto: Any) -> Function:
    pooled = _max_pool(proto)
    return lambda x, dy, places: jax.vjp(pooled, x)[1](dy)[0]


def _dilation(proto: Any) -> Function:
    padding = proto.attr["padding"].s.decode()

    def dilated(x: Any, kernel: Any) -> Any:
        windows = Windows(kernel.shape[:2], _middle(proto, "strides"), _middle(proto, "rates"), padding)  # fmt: skip
        cuts = zip(windows.on(x, -np.inf), windows.places(), strict=True)
        return jnp.max(jnp.stack([cut + kernel[place] for cut, place in cuts]), 0)

    return dilated


def _dilation_grad(argument: int) -> Parser:
    def parsed(proto: Any) -> Function:
        dilated = _dilation(proto)
        return lambda x, kernel, dy: jax.vjp(dilated, x, kernel)[1](dy)[argument]

    return parsed


# -- channels -----------------------------------------------------------------------


def _depth_to_space(proto: Any) -> Function:
    block, first = proto.attr["block_size"].i, proto.attr["data_format"].s == b"NCHW"

    def spread(x: Any) -> Any:
        last = jnp.moveaxis(x, 1, -1) if first else x
        batch, high, wide, depth = last.shape
        cut = last.reshape(batch, high, wide, block, block, depth // block**2)
        whole = cut.transpose(0, 1, 3, 2, 4, 5).reshape(batch, high * block, wide * block, -1)
        return jnp.moveaxis(whole, -1, 1) if first else whole

    return spread


def _space_to_depth(proto: Any) -> Function:
    block, first = proto.attr["block_size"].i, proto.attr["data_format"].s == b"NCHW"

    def gathered(x: Any) -> Any:
        last = jnp.moveaxis(x, 1, -1) if first else x
        batch, high, wide, depth = last.shape
        cut = last.reshape(batch, high // block, block, wide // block, block, depth)
        whole = cut.transpose(0, 1, 3, 2, 4, 5).reshape(batch, high // block, wide // block, -1)
        return jnp.moveaxis(whole, -1, 1) if first else whole

    return gathered


def _local_response(proto: Any) -> Function:
    attr = proto.attr
    radius, bias, alpha, beta = attr["depth_radius"].i, attr["bias"].f, attr["alpha"].f, attr["beta"].f  # fmt: skip

    def normalized(x: Any) -> Any:
        depth = x.shape[-1]
        padded = jnp.pad(x * x, [(0, 0)] * (x.ndim - 1) + [(radius, radius)])
        total = sum(padded[..., k : k + depth] for k in range(2 * radius + 1))
        return x / (bias + alpha * total) ** beta

    return normalized


def _local_response_grad(proto: Any) -> Function:
    normalized = _local_response(proto)
    return lambda dy, x, y: jax.vjp(normalized, x)[1](dy)[0]


def _batch_norm_grad(proto: Any) -> Function:
    attr = proto.attr
    epsilon, training = attr["epsilon"].f, attr["is_training"].b
    first = attr["data_format"].s == b"NCHW"

    def pulled(dy: Any, x: Any, scale: Any, mean: Any, variance: Any, *_: Any) -> tuple[Any, ...]:
        channel = 1 if first else x.ndim - 1
        others = tuple(axis for axis in range(x.ndim) if axis != channel)

        def normalized(x: Any, scale: Any, offset: Any) -> Any:
            middle = jnp.mean(x, others) if training else mean
            spread = jnp.var(x, others) if training else variance
            middle, spread, scale, offset = (jnp.expand_dims(v, others) for v in (middle, spread, scale, offset))  # fmt: skip
            return (x - middle) * jax.lax.rsqrt(spread + epsilon) * scale + offset

        nothing = jnp.zeros(0, scale.dtype)
        return (*jax.vjp(normalized, x, scale, jnp.zeros_like(scale))[1](dy), nothing, nothing)

    return pulled


PARSED: dict[str, Parser] = {
    "AvgPool3D": _mean_pool,
    "AvgPool3DGrad": _mean_pool_grad,
    "AvgPoolGrad": _mean_pool_grad,
    "Conv3D": _convolution,
    "Conv3DBackpropFilterV2": _by_filter(_convolution),
    "Conv3DBackpropInputV2": _by_input(_convolution),
    "DepthToSpace": _depth_to_space,
    "DepthwiseConv2dNativeBackpropFilter": _by_filter(_depthwise),
    "DepthwiseConv2dNativeBackpropInput": _by_input(_depthwise),
    "Dilation2D": _dilation,
    "Dilation2DBackpropFilter": _dilation_grad(1),
    "Dilation2DBackpropInput": _dilation_grad(0),
    "ExtractImagePatches": _patches,
    "FusedBatchNormGradV3": _batch_norm_grad,
    "LRN": _local_response,
    "LRNGrad": _local_response_grad,
    "MaxPool3D": _max_pool,
    "MaxPool3DGrad": _max_pool_grad,
    "MaxPoolGrad": _max_pool_grad,
    "MaxPoolGradGrad": _max_pool_grad_grad,
    "MaxPoolGradV2": _max_pool_grad,
    "MaxPoolGradWithArgmax": _max_pool_grad_with_places,
    "MaxPoolV2": _max_pool,
    "MaxPoolWithArgmax": _max_pool_with_places,
    "SpaceToDepth": _space_to_depth,
}

# tf2jax has these without explicit paddings.
CORRECTED: dict[str, Parser] = {
    "AvgPool": _mean_pool,
    "Conv2D": _convolution,
    "Conv2DBackpropFilter": _by_filter(_convolution),
    "Conv2DBackpropInput": _by_input(_convolution),
    "MaxPool": _max_pool,
}
