"""Real inverse transforms over several axes: torchax 0.0.13 forgets how long the last one is."""

from __future__ import annotations

from typing import Any

from jax import numpy as jnp

from gradcheck_cli.frameworks.torch.bridge.native_ops import operation

# How torch numbers what an inverse transform is divided by: nothing, a square root, the number of points.
_NORMS = ("forward", "ortho", "backward")


def keep_last_length(environment: Any) -> None:
    """Such a transform as one that is told the length of its last axis."""
    dispatch = environment.dispatch

    def told(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if operation(func) != "_fft_c2r":
            return dispatch(func, types, args, kwargs)
        spectrum, axes, normalization, length = args
        half = environment.t2j_iso(spectrum)
        sizes = [*(half.shape[axis] for axis in axes[:-1]), length]
        whole = jnp.fft.irfftn(half, s=sizes, axes=axes, norm=_NORMS[normalization])
        return environment.j2t_iso(whole)

    environment.dispatch = told
