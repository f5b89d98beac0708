"""Reductions and scans by a function of the kernel's own, whole slices at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from gradcheck_cli.frameworks.torch.triton.numbers import is_traced


def as_tensor(data: Any, dtype: Any) -> Any:
    """An array, or a single number, as kernels have them."""
    scalar = dtype.scalar
    if is_traced(data):
        kept = data if data.ndim else data.reshape(1)
    else:
        kept = np.asarray(data).astype(interpreter._get_np_dtype(scalar))
        kept = kept if kept.ndim else kept.reshape(1)
    kind = tl.block_type(scalar, list(kept.shape)) if np.ndim(data) else scalar
    return tl.tensor(interpreter.TensorHandle(kept, scalar), kind)


class Interface(interpreter.ReduceScanOpInterface):  # type: ignore[misc]
    """What reductions and scans have in common."""

    def to_tensor(self, ret: Any, dtype: Any) -> Any:
        return as_tensor(ret, dtype)


def reduced(ops: Any, operands: Sequence[Any]) -> list[Any]:
    """What is left of each operand along the axis, or of all its elements."""
    datas = [each.handle.data for each in operands]
    axis = ops.axis
    if axis is None:
        flat = [data.reshape(-1) for data in datas]
        kept = [(1,) * data.ndim for data in datas]
    else:
        flat, kept = datas, [_kept(data.shape, axis) for data in datas]
    dtypes = [each.dtype for each in operands]
    *_, last = _partial(ops.combine_fn, flat, axis or 0, dtypes)
    if ops.keep_dims:
        last = [data.reshape(shape) for data, shape in zip(last, kept, strict=True)]
    return [as_tensor(data, dtype) for data, dtype in zip(last, dtypes, strict=True)]


def scanned(ops: Any, operands: Sequence[Any]) -> list[Any]:
    """The partial results of each operand along the axis."""
    datas = [each.handle.data for each in operands]
    dtypes = [each.dtype for each in operands]
    steps = list(_partial(ops.combine_fn, datas, ops.axis, dtypes))
    rows = zip(*steps, strict=True)
    return [as_tensor(_stacked(row, ops.axis), d) for row, d in zip(rows, dtypes, strict=True)]


def _stacked(rows: Sequence[Any], axis: int) -> Any:
    return (jnp if is_traced(list(rows)) else np).stack(rows, axis=axis)


def _kept(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    axis %= len(shape)
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _partial(
    combine: Any, datas: Sequence[Any], axis: int, dtypes: Sequence[Any]
) -> Iterator[list[Any]]:
    """What is combined until each step along the axis."""
    sofar: list[Any] = []
    for step in range(datas[0].shape[axis]):
        new = [_slice(data, axis, step) for data in datas]
        if sofar:
            operands = [as_tensor(d, t) for d, t in zip([*sofar, *new], [*dtypes, *dtypes], strict=True)]  # fmt: skip
            together = combine.fn(*operands)
            results = together if isinstance(together, tuple) else (together,)
            new = [_data(result, one) for result, one in zip(results, new, strict=True)]
        sofar = new
        yield new


def _slice(data: Any, axis: int, step: int) -> Any:
    return data[(slice(None),) * (axis % data.ndim) + (step,)]


def _data(result: Any, like: Any) -> Any:
    """The array of a result, in the shape that the slices have."""
    data = result.handle.data if isinstance(result, tl.tensor) else np.asarray(result)
    return data.reshape(np.shape(like))
