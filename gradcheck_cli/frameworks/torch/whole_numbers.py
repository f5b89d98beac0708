"""Whole numbers that rest on no argument are computed while a function is traced: sizes, places and counts are known.

`repeat_interleave(ids, prod(tensor(x.shape[1:])))` asks how long its result is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import torch

from gradcheck_cli.frameworks.torch.native_ops import operation
from gradcheck_cli.frameworks.torch.private_api import tree_flatten

_WRITTEN = frozenset({"tensor", "arange", "zeros", "ones", "full"})  # by the text alone


def compute_whole_numbers(environment: Any) -> None:
    """Operations on nothing but known whole numbers are carried out at once, and so are arrays that the text writes."""
    dispatch = environment.dispatch

    def known(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        arrays = list(_arrays((args, kwargs or {})))
        written = not arrays and operation(func) in _WRITTEN
        if not written and not (arrays and all(map(_is_known, arrays))):
            return dispatch(func, types, args, kwargs)
        with jax.ensure_compile_time_eval():
            return dispatch(func, types, args, kwargs)

    environment.dispatch = known


def _arrays(tree: Any) -> Iterator[Any]:
    """What stands behind each tensor among the arguments: JAX's array, or a tensor that was there before."""
    for value in tree_flatten(tree)[0]:
        if isinstance(value, torch.Tensor):
            yield getattr(value, "_elem", value)


def _is_known(array: Any) -> bool:
    if isinstance(array, torch.Tensor):
        return not (array.is_floating_point() or array.is_complex())
    whole = isinstance(array, jax.Array) and not jnp.issubdtype(array.dtype, jnp.inexact)
    return whole and not isinstance(array, jax.core.Tracer)
