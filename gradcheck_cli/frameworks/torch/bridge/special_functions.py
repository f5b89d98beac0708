"""Special functions that torchax takes apart into steps which overflow, or whose rounded constants are raised to a power."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jax.scipy import special

from gradcheck_cli.frameworks.torch.bridge.native_ops import operation

_OWN: Mapping[str, Callable[[Any], Any]] = {"special_log_ndtr": special.log_ndtr}


def keep_whole(environment: Any) -> None:
    """Let these be JAX's functions."""
    dispatch = environment.dispatch

    def kept(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        own = _OWN.get(operation(func))
        single = own is not None and not kwargs and args[0].dtype == torch.float32
        if own is None or not single:  # JAX's own are series, of no more digits than these
            return dispatch(func, types, args, kwargs)
        return environment.j2t_iso(own(*environment.t2j_iso(args)))

    environment.dispatch = kept
