"""Whole numbers that rest on no argument are computed while a function is traced: sizes, places and counts are known.

`repeat_interleave(ids, prod(tensor(x.shape[1:])))` asks how long its result is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from gradcheck_cli.frameworks.torch.bridge.native_ops import operation
from gradcheck_cli.frameworks.torch.private_api import tree_flatten

_CASTS = frozenset({"_to_copy", "to"})
_WRITTEN = frozenset(
    {"tensor", "as_tensor", "arange", "zeros", "ones", "full"}
)  # by the text alone


def compute_whole_numbers(environment: Any) -> None:
    """Operations on nothing but known whole numbers are carried out at once, and so are arrays that the text writes."""
    dispatch = environment.dispatch

    def at_once(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if operation(func) == "repeat_interleave":
            repeated = _repeated(*args, **(kwargs or {}))
            if repeated is not None:
                return repeated
        arrays = list(_arrays((args, kwargs or {})))
        written = not arrays and operation(func) in _WRITTEN
        known = bool(arrays) and (
            all(map(_is_known, arrays)) or _becomes_whole(func, kwargs, arrays)
        )
        if not written and not known:
            return dispatch(func, types, args, kwargs)
        with jax.ensure_compile_time_eval():
            return dispatch(func, types, args, kwargs)

    environment.dispatch = at_once


def _repeated(x: Any, repeats: Any = None, dim: int | None = None, **_: Any) -> Any:
    """The elements along an axis, or all, each as often as a known tensor says; None where it is not known."""
    if not isinstance(repeats, torch.Tensor):
        return None
    (counts,) = _arrays(repeats)
    if not _is_known(counts):
        return None
    flat, axis = (x.reshape(-1), 0) if dim is None else (x, dim)
    with jax.ensure_compile_time_eval():
        places = np.repeat(np.arange(flat.shape[axis]), np.asarray(counts))
    return flat.index_select(axis, torch.tensor(places.tolist()))


def _arrays(tree: Any) -> Iterator[Any]:
    """What stands behind each tensor among the arguments: JAX's array, or a tensor that was there before."""
    for value in tree_flatten(tree)[0]:
        if isinstance(value, torch.Tensor):
            yield getattr(value, "_elem", value)


def _is_known(array: Any) -> bool:
    if isinstance(array, torch.Tensor):
        return not (array.is_floating_point() or array.is_complex())
    return _is_concrete(array) and (array.size == 0 or not jnp.issubdtype(array.dtype, jnp.inexact))


def _becomes_whole(func: Any, kwargs: Any, arrays: Sequence[Any]) -> bool:
    """Are known floats cast to whole numbers, as the product of no sizes is, which torch takes for a float?"""
    dtype = (kwargs or {}).get("dtype") if operation(func) in _CASTS else None
    whole = isinstance(dtype, torch.dtype) and not (dtype.is_floating_point or dtype.is_complex)
    return whole and all(map(_is_concrete, arrays))


def _is_concrete(array: Any) -> bool:
    return isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer)
