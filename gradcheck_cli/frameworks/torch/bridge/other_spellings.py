"""Calls that torch takes in a second spelling and torchax only in the first: NumPy's names of options, `out=`, axes from the end, types by place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gradcheck_cli.frameworks.torch.bridge.native_ops import operation

_OPTIONS = {"axis": "dim", "keepdims": "keepdim"}


def spell_anew(environment: Any) -> None:
    """Let calls in the second spelling be those in the first."""
    dispatch = environment.dispatch

    def spelled(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        options = {_OPTIONS.get(name, name): value for name, value in (kwargs or {}).items()}
        if operation(func) == "take_along_dim":
            return _taken(*args, **options)
        if operation(func) in ("resize_as_", "resize_"):
            like = operation(func) == "resize_as_"
            return _resized(args[0], args[1].shape if like else args[1:])
        if operation(func) in ("mT", "mH"):
            return (args[0].conj() if operation(func) == "mH" else args[0]).transpose(-2, -1)
        if operation(func) == "logcumsumexp":
            return dispatch(func, types, *_from_the_front(args, options))
        if operation(func) == "to" and len(args) > 1 and isinstance(args[1], torch.dtype):
            return dispatch(torch.ops.aten.to.dtype, types, args, options)
        out = options.pop("out", None)
        if out is None:
            return dispatch(func, types, args, options)
        plain = getattr(func, "overloadpacket", None)
        made = plain(*args, **options) if plain else dispatch(func, types, args, options)
        return _written(out, made)

    environment.dispatch = spelled


def _from_the_front(args: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """The array, and its axis counted from the first one."""
    given = dict(zip(("input", "dim"), args, strict=False)) | dict(options)
    x = given["input"]
    return (x, given["dim"] % max(x.ndim, 1)), {}


def _taken(x: Any, indices: Any, dim: int | None = None) -> Any:
    if dim is None:
        return torch.gather(x.reshape(-1), 0, indices.reshape(-1))
    sizes = list(torch.broadcast_shapes(_but(x, dim), _but(indices, dim)))
    return torch.gather(_along(x, sizes, dim), dim, _along(indices, sizes, dim))


def _but(x: Any, dim: int) -> list[int]:
    """The sizes, with 1 for the axis along which is taken."""
    sizes = list(x.shape)
    sizes[dim] = 1
    return sizes


def _along(x: Any, sizes: list[int], dim: int) -> Any:
    """Spread out to these sizes, but along that axis."""
    own = list(sizes)
    own[dim] = x.shape[dim]
    return x.expand(own)


def _resized(x: Any, sizes: Sequence[Any]) -> Any:
    """The tensor with room for other sizes: what lay there stays, as far as there is room, and nobody has written the rest."""
    made = torch.zeros(*sizes, dtype=x.dtype)
    if tuple(made.shape) == tuple(x.shape):
        return x
    before, after = x.reshape(-1), made.reshape(-1)
    count = min(before.shape[0], after.shape[0])
    return _written(x, torch.cat([before[:count], after[count:]]).reshape(made.shape))


def _written(out: Any, made: Any) -> Any:
    """What was made, in the tensor that was handed in for it; torch gives one without elements the size it needs."""
    if isinstance(out, (tuple, list)):
        return type(out)(map(_written, out, made))
    if tuple(out.shape) == tuple(made.shape):
        return out.copy_(made)
    out._elem = made.jax()
    return out
