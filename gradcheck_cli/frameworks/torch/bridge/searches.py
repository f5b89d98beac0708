"""Searches in sorted numbers with the options that torch has, of which torchax 0.0.13 knows none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
from jax import numpy as jnp

from gradcheck_cli.frameworks.torch.bridge.native_ops import operation

_NAMES = ("sorted_sequence", "input")  # as torch calls what stands without a name


def search_as_told(environment: Any) -> None:
    """Let `searchsorted` look to the right of equal numbers, in the order of a sorter, and row by row."""
    dispatch = environment.dispatch

    def searched(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if operation(func) != "searchsorted":
            return dispatch(func, types, args, kwargs)
        given = dict(zip(_NAMES, environment.t2j_iso(args), strict=False))
        given |= environment.t2j_iso(dict(kwargs or {}))
        values = given["input"] if "input" in given else given["self"]
        return environment.j2t_iso(_places(given["sorted_sequence"], jnp.asarray(values), given))

    environment.dispatch = searched


def _places(ordered: Any, values: Any, options: Mapping[str, Any]) -> Any:
    """Where the values would stand among the ordered numbers; those of each row, where there are several."""
    if options.get("sorter") is not None:
        ordered = jnp.take_along_axis(ordered, options["sorter"], axis=-1)
    right = options.get("right") or options.get("side") == "right"
    search: Callable[..., Any] = partial(jnp.searchsorted, side="right" if right else "left")
    for _ in ordered.shape[:-1]:
        search = jax.vmap(search)
    return search(ordered, values).astype(jnp.int32 if options.get("out_int32") else jnp.int64)
