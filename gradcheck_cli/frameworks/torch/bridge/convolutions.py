"""Transposed convolutions in groups: torchax 0.0.13 takes channels of one group for another's."""

from __future__ import annotations

from typing import Any

import jax
from jax import numpy as jnp

from gradcheck_cli.frameworks.torch.bridge.native_ops import operation

_LETTERS = "XYZ"  # of the axes beside the channels


def transpose_in_groups(environment: Any) -> None:
    """Such a convolution with the channels of each group where they belong."""
    dispatch = environment.dispatch

    def grouped(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if operation(func) != "convolution" or len(args) != 9 or not args[6] or args[8] == 1:
            return dispatch(func, types, args, kwargs)
        images, weight, bias = (environment.t2j_iso(each) for each in args[:3])
        _, _, _, stride, padding, dilation, _, more, groups = args
        out = _transposed(images, weight, stride, padding, dilation, more, groups)
        if bias is not None:
            out = out + bias.reshape(-1, *[1] * (weight.ndim - 2))
        return environment.j2t_iso(out)

    environment.dispatch = grouped


def _transposed(
    images: Any, weight: Any, stride: Any, padding: Any, dilation: Any, more: Any, groups: int
) -> Any:
    axes = weight.ndim - 2
    stride, padding, dilation, more = (_each(n, axes) for n in (stride, padding, dilation, more))
    apart = weight.reshape(groups, -1, *weight.shape[1:])
    kernel = jnp.flip(jnp.moveaxis(apart, 0, 1), range(-axes, 0))
    kernel = kernel.reshape(kernel.shape[0], -1, *weight.shape[2:])
    fronts = [d * (k - 1) - p for d, k, p in zip(dilation, weight.shape[2:], padding, strict=True)]
    letters = _LETTERS[:axes]
    batch = images if images.ndim == weight.ndim else images[None]
    out = jax.lax.conv_general_dilated(
        batch, kernel, (1,) * axes, [(f, f + m) for f, m in zip(fronts, more, strict=True)],
        lhs_dilation=stride, rhs_dilation=dilation, feature_group_count=groups,
        dimension_numbers=(f"NC{letters}", f"IO{letters}", f"NC{letters}"),
    )  # fmt: skip
    return out if images.ndim == weight.ndim else out[0]


def _each(numbers: Any, axes: int) -> tuple[int, ...]:
    """A number for each axis, where one stands for all."""
    given = tuple(numbers)
    return given * axes if len(given) == 1 else given
