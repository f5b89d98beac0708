"""Where reads take elements from and where writes put them: JAX's own answer, as flat numbers of elements.

The primitive runs once on the element numbers of its operand; points that compute the same indices
share the answer.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

Array = np.ndarray[Any, Any]

OUTSIDE = -1  # the element number of what lies nowhere
_MOST_KEPT = 4096
# What each scatter makes of an element and its update.
SCATTERS = {
    "scatter": "set", "scatter-add": "add", "scatter_add": "add", "scatter-mul": "mul",
    "scatter_mul": "mul", "scatter-max": "max", "scatter-min": "min", "scatter-sub": "sub",
}  # fmt: skip


def read_places(step: Any, indices: Array) -> Array:
    """For each row of indices the number of the element that each place of the result is read from."""
    shape = step.in_avals[0].shape
    params = tuple(sorted({**step.params, "fill_value": OUTSIDE}.items()))
    return np.stack([_read(shape, params, *_frozen(row)) for row in indices])


def written_places(
    step: Any, operand: tuple[int, ...], indices: Array, updates: tuple[int, ...]
) -> Array:
    """For each row of indices the number of the element that each update is written to."""
    params = step.params["dimension_numbers"], step.params["mode"]
    return np.stack([_written(operand, updates, *params, *_frozen(row)) for row in indices])


def in_turns(places: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Rows, elements and updates that can be written at once: first writes to an element, then second ones."""
    rows, columns = np.nonzero(places != OUTSIDE)
    targets = places[rows, columns]
    order = np.lexsort((columns, targets, rows))
    rows, columns, targets = rows[order], columns[order], targets[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (rows[1:] != rows[:-1]) | (targets[1:] != targets[:-1])
    firsts = np.flatnonzero(begins)
    turns = np.arange(len(order)) - np.repeat(firsts, np.diff([*firsts, len(order)]))
    for turn in range(turns.max(initial=-1) + 1):
        now = turns == turn
        yield rows[now], targets[now], columns[now]


def _frozen(row: Array) -> tuple[tuple[int, ...], str, bytes]:
    plain = np.ascontiguousarray(row)
    return plain.shape, plain.dtype.str, plain.tobytes()


def _thawed(shape: tuple[int, ...], dtype: str, data: bytes) -> Any:
    return jnp.asarray(np.frombuffer(data, dtype).reshape(shape))


def _numbers(shape: tuple[int, ...]) -> Any:
    return jnp.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)


@functools.lru_cache(maxsize=_MOST_KEPT)
def _read(shape: tuple[int, ...], params: tuple[tuple[str, Any], ...], *indices: Any) -> Array:
    return np.asarray(lax.gather_p.bind(_numbers(shape), _thawed(*indices), **dict(params)))


@functools.lru_cache(maxsize=_MOST_KEPT)
def _written(
    operand: tuple[int, ...], updates: tuple[int, ...], dn: Any, mode: Any, *indices: Any
) -> Array:
    reads = lax.GatherDimensionNumbers(
        offset_dims=dn.update_window_dims,
        collapsed_slice_dims=dn.inserted_window_dims,
        start_index_map=dn.scatter_dims_to_operand_dims,
        operand_batching_dims=dn.operand_batching_dims,
        start_indices_batching_dims=dn.scatter_indices_batching_dims,
    )
    sizes = _slice_sizes(dn, operand, updates)
    clip = lax.GatherScatterMode.CLIP
    how = clip if mode == clip else lax.GatherScatterMode.FILL_OR_DROP
    places = lax.gather(
        _numbers(operand), _thawed(*indices), reads, sizes, mode=how, fill_value=OUTSIDE
    )
    return np.asarray(places).reshape(-1)


def _slice_sizes(dn: Any, operand: tuple[int, ...], updates: tuple[int, ...]) -> tuple[int, ...]:
    window = iter(updates[d] for d in dn.update_window_dims)
    single = {*dn.inserted_window_dims, *dn.operand_batching_dims}
    return tuple(1 if d in single else next(window) for d in range(len(operand)))
