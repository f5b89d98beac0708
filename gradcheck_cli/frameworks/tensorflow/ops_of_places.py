"""TensorFlow operations that tf2jax lacks, as JAX has them: segments, scattered updates, slices, counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.frameworks.tensorflow.private_api import tf2jax_operations

Function = Callable[..., Any]


def sizes(shape: Any) -> tuple[int, ...]:
    """A shape that the graph holds as a tensor; JAX refuses what is known only when it runs."""
    return tuple(int(n) for n in np.atleast_1d(np.asarray(shape)))


def transposed(linear: Function, shape: Any, dy: Any) -> Any:
    """The pullback of what is linear in its one argument of this shape."""
    _, pull = jax.vjp(linear, jnp.zeros(sizes(shape), dy.dtype))
    return pull(dy)[0]


# -- segments -----------------------------------------------------------------------


def _count(ids: Any) -> int:
    fixed = np.asarray(ids)
    return int(fixed[-1]) + 1 if fixed.size else 0


def _members(ids: Any, count: int, like: Any) -> Any:
    """How many rows each segment has, one axis for each of what is summed."""
    counts = jax.ops.segment_sum(jnp.ones(np.shape(ids), like.dtype), ids, count)
    return counts.reshape(-1, *[1] * (like.ndim - 1))


def _sum(data: Any, ids: Any, count: int) -> Any:
    return jax.ops.segment_sum(data, ids, count)


def _mean(data: Any, ids: Any, count: int) -> Any:
    return _sum(data, ids, count) / jnp.maximum(_members(ids, count, data), 1)


def _over_root(data: Any, ids: Any, count: int) -> Any:
    return _sum(data, ids, count) / jnp.sqrt(jnp.maximum(_members(ids, count, data), 1))


def _most(reduce: Function, empty: float | None) -> Function:
    """The largest or smallest of each segment; of an empty one 0, or the end of what floats hold."""

    def found(data: Any, ids: Any, count: Any) -> Any:
        many = int(np.asarray(count))
        none = 0 if empty is None else empty * jnp.finfo(data.dtype).max
        return jnp.where(_members(ids, many, data) > 0, reduce(data, ids, many), none)

    return found


def _sorted(reduce: Function) -> Function:
    return lambda data, ids: reduce(data, ids, _count(ids))


def _sparse(reduce: Function) -> Function:
    """Segments of rows that are picked by their numbers."""

    def reduced(data: Any, rows: Any, ids: Any, count: Any = None) -> Any:
        many = _count(ids) if count is None else int(np.asarray(count))
        return reduce(jnp.asarray(data)[jnp.asarray(rows)], ids, many)

    return reduced


def _sparse_grad(reduce: Function) -> Function:
    pulled = _sparse(reduce)

    def gradient(dy: Any, rows: Any, ids: Any, size: Any) -> Any:
        shape = (int(np.asarray(size)), *dy.shape[1:])
        return transposed(lambda data: pulled(data, rows, ids, dy.shape[0]), shape, dy)

    return gradient


# -- updates at places --------------------------------------------------------------


def _at(x: Any, indices: Any) -> Any:
    return jnp.asarray(x).at[tuple(jnp.moveaxis(jnp.asarray(indices), -1, 0))]


def _gathered(x: Any, indices: Any) -> Any:
    if isinstance(indices, np.ndarray):
        return x[tuple(np.moveaxis(indices, -1, 0))]
    return jnp.asarray(x)[tuple(jnp.moveaxis(indices, -1, 0))]


def _slice_grad(proto: Any) -> Function:
    cut = tf2jax_operations().get_parser("StridedSlice")(proto)

    def gradient(shape: Any, begin: Any, end: Any, strides: Any, dy: Any) -> Any:
        return transposed(lambda x: cut(x, begin, end, strides), shape, dy)

    return gradient


def _offsets(axis: Any, *shapes: Any) -> tuple[Any, ...]:
    """Where each of the concatenated arrays starts."""
    along = int(np.asarray(axis))
    starts = np.cumsum([0, *(sizes(shape)[along] for shape in shapes[:-1])])
    unit = np.eye(np.size(shapes[0]), dtype=np.int32)[along]
    return tuple(np.asarray(start * unit, np.int32) for start in starts)


def _reversed(proto: Any) -> Function:
    along, batch = proto.attr["seq_dim"].i, proto.attr["batch_dim"].i

    def turned(x: Any, lengths: Any) -> Any:
        place = jnp.expand_dims(
            jnp.arange(x.shape[along]), [k for k in range(x.ndim) if k != along]
        )
        ends = jnp.expand_dims(jnp.asarray(lengths), [k for k in range(x.ndim) if k != batch])
        source = jnp.where(place < ends, ends - 1 - place, place)
        return jnp.take_along_axis(x, jnp.broadcast_to(source, x.shape), along)

    return turned


def _partitioned(proto: Any) -> Function:
    count = proto.attr["num_partitions"].i

    def parts(data: Any, numbers: Any) -> tuple[Any, ...]:
        fixed = np.asarray(numbers)
        return tuple(data[np.nonzero(fixed == k)] for k in range(count))

    return parts


def _stitched(*indices_and_data: Any) -> Any:
    """Rows in the order of their indices; of those with the same index, the last."""
    half = len(indices_and_data) // 2
    fixed = [np.asarray(index) for index in indices_and_data[:half]]
    data = indices_and_data[half:]
    known = all(isinstance(rows, np.ndarray | np.generic) for rows in data)
    joined = (np if known else jnp).concatenate(
        [
            rows.reshape(index.size, *rows.shape[index.ndim :])
            for index, rows in zip(fixed, data, strict=True)
        ]
    )
    flat = np.concatenate([index.ravel() for index in fixed])
    last = {int(index): place for place, index in enumerate(flat)}
    return joined[np.array([last[index] for index in sorted(last)], int)]


# -- counts and sets ----------------------------------------------------------------


def _bins(x: Any, size: Any, weights: Any, *, binary: bool = False) -> Any:
    count = int(np.asarray(size))
    places = jnp.asarray(x).ravel()
    amounts = jnp.ones(places.shape, weights.dtype)
    if np.size(weights) and not binary:
        amounts = jnp.asarray(weights).ravel()
    empty = jnp.zeros(count, amounts.dtype).at[places]
    return empty.max(amounts, mode="drop") if binary else empty.add(amounts, mode="drop")


def _dense_bins(proto: Any) -> Function:
    binary = proto.attr["binary_output"].b

    def counted(x: Any, size: Any, weights: Any) -> Any:
        if np.ndim(x) < 2:
            return _bins(x, size, weights, binary=binary)
        rows = range(x.shape[0])
        own = [weights[k] if np.size(weights) else weights for k in rows]
        return jnp.stack([_bins(x[k], size, own[k], binary=binary) for k in rows])

    return counted


def _bucketed(proto: Any) -> Function:
    ends = np.array(proto.attr["boundaries"].list.f)
    return lambda x: jnp.sum(x[..., None] >= ends, -1, dtype=jnp.int32)


def _histogram(values: Any, limits: Any, bins: Any) -> Any:
    count = int(np.asarray(bins))
    place = jnp.floor((values - limits[0]) / (limits[1] - limits[0]) * count)
    places = jnp.clip(place, 0, count - 1).astype(jnp.int32).ravel()
    return jnp.zeros(count, jnp.int32).at[places].add(1)


def _among_the_largest(predictions: Any, targets: Any, k: Any) -> Any:
    own = jnp.take_along_axis(predictions, jnp.asarray(targets)[:, None], 1)
    return jnp.sum(predictions > own, 1) < k


def _first_of_each(x: Any) -> tuple[Any, Any, Any]:
    values, first, back, counts = np.unique(
        np.asarray(x), return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    places = np.argsort(order)[back.reshape(-1)]
    return values[order], places.astype(np.int32), counts[order].astype(np.int32)


def _unique(x: Any, *axis: Any) -> tuple[Any, Any]:
    if np.ndim(x) > 1:
        raise ValueError("UniqueV2 along an axis of more than a vector")
    return _first_of_each(x)[:2]


def _left_over(x: Any, y: Any) -> tuple[Any, Any]:
    places = np.nonzero(~np.isin(np.asarray(x), np.asarray(y)))[0]
    return np.asarray(x)[places], places.astype(np.int32)


# -- sparse matrices ----------------------------------------------------------------


def _sparse_product(proto: Any) -> Function:
    first, second = proto.attr["adjoint_a"].b, proto.attr["adjoint_b"].b

    def product(indices: Any, values: Any, shape: Any, b: Any) -> Any:
        dense = jnp.conj(b).T if second else b
        rows, columns = jnp.moveaxis(jnp.asarray(indices), -1, 0)
        height = sizes(shape)[1 if first else 0]
        if first:
            rows, columns, values = columns, rows, jnp.conj(values)
        zeros = jnp.zeros((height, dense.shape[1]), dense.dtype)
        return zeros.at[rows].add(jnp.asarray(values)[:, None] * dense[columns])

    return product


def _made_dense(indices: Any, shape: Any, values: Any, default: Any) -> Any:
    full = jnp.full(sizes(shape), default)
    places = jnp.asarray(indices).reshape(-1, full.ndim)
    return full.at[tuple(places.T)].set(values)


_REDUCTIONS: dict[str, Function] = {"Sum": _sum, "Mean": _mean, "SqrtN": _over_root}

FUNCTIONS: dict[str, Function] = {
    "Bincount": _bins,
    "ConcatOffset": _offsets,
    "DynamicStitch": _stitched,
    "HistogramFixedWidth": _histogram,
    "InTopKV2": _among_the_largest,
    "ListDiff": _left_over,
    "ParallelDynamicStitch": _stitched,
    "SegmentMax": _sorted(_most(jax.ops.segment_max, None)),
    "SegmentMean": _sorted(_mean),
    "SegmentMin": _sorted(_most(jax.ops.segment_min, None)),
    "SegmentProd": _sorted(jax.ops.segment_prod),
    "SegmentSum": _sorted(_sum),
    "SparseToDense": _made_dense,
    "TensorScatterAdd": lambda x, indices, updates: _at(x, indices).add(updates),
    "TensorScatterMax": lambda x, indices, updates: _at(x, indices).max(updates),
    "TensorScatterMin": lambda x, indices, updates: _at(x, indices).min(updates),
    "TensorScatterSub": lambda x, indices, updates: _at(x, indices).add(-updates),
    "Unique": _unique,
    "UniqueV2": _unique,
    "UniqueWithCounts": _first_of_each,
    **{f"SparseSegment{name}": _sparse(reduce) for name, reduce in _REDUCTIONS.items()},
    **{f"SparseSegment{name}WithNumSegments": _sparse(reduce) for name, reduce in _REDUCTIONS.items()},
    **{f"SparseSegment{name}Grad": _sparse_grad(reduce) for name, reduce in _REDUCTIONS.items()},
}  # fmt: skip

PARSED: dict[str, Callable[[Any], Function]] = {
    "Bucketize": _bucketed,
    "DenseBincount": _dense_bins,
    "DynamicPartition": _partitioned,
    "ReverseSequence": _reversed,
    "SparseTensorDenseMatMul": _sparse_product,
    "StridedSliceGrad": _slice_grad,
}

# tf2jax has an infinity for segments without a row, and gathers at places that are known alone.
CORRECTED: dict[str, Callable[[Any], Function]] = {
    "GatherNd": lambda proto: _gathered,
    "UnsortedSegmentMax": lambda proto: _most(jax.ops.segment_max, -1.0),
    "UnsortedSegmentMin": lambda proto: _most(jax.ops.segment_min, 1.0),
}
