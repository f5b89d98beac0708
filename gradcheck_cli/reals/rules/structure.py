"""Primitives that move elements and never compute: identity is kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.reals.rules.rule import Rule, batched, spread


def _broadcast_in_dim(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    (x, *_) = values
    shape, dims = step.params["shape"], step.params["broadcast_dimensions"]
    inner = [1] * len(shape)
    for axis, dim in enumerate(dims):
        inner[dim] = x.shape[axis + 1]
    return [np.broadcast_to(x.reshape(x.shape[0], *inner), (x.shape[0], *shape))]


def _in_its_order(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """The elements in their order, in another shape."""
    return [values[0].reshape(values[0].shape[0], *step.out_avals[0].shape)]


def _reshape(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """Another shape, after the axes were put in another order if there is one."""
    order = step.params["dimensions"]
    x = values[0] if order is None else values[0].transpose(0, *(d + 1 for d in order))
    return _in_its_order(domain, step, [x], walk)


def _transpose(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    return [values[0].transpose(0, *(d + 1 for d in step.params["permutation"]))]


def _rev(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    return [np.flip(values[0], tuple(d + 1 for d in step.params["dimensions"]))]


def _slice(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    p = step.params
    strides = p["strides"] or (1,) * len(p["start_indices"])
    cut = tuple(map(slice, p["start_indices"], p["limit_indices"], strides))
    return [values[0][(slice(None), *cut)]]


def _concatenate(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    batch = batched(values)
    return [np.concatenate([spread(v, batch) for v in values], axis=step.params["dimension"] + 1)]


def _stack(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    batch = batched(values)
    axis = step.params.get("axis", 0)
    return [np.stack([spread(v, batch) for v in values], axis=axis + 1)]


def _unstack(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    moved = np.moveaxis(values[0], step.params.get("axis", 0) + 1, 0)
    return list(moved)


def _split(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    cuts = np.cumsum(step.params["sizes"])[:-1]
    return list(np.split(values[0], cuts, axis=step.params["axis"] + 1))


def _pad(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    x, fill = values
    batch = batched(values)
    x, fill = spread(x, batch), spread(fill, batch)
    config = step.params["padding_config"]
    dilated = [
        n + max(0, n - 1) * interior
        for n, (_, _, interior) in zip(x.shape[1:], config, strict=True)
    ]
    full = [d + max(0, lo) + max(0, hi) for d, (lo, hi, _) in zip(dilated, config, strict=True)]
    out = np.empty((batch, *full), dtype=x.dtype)
    out[...] = fill.reshape(batch, *(1,) * len(full))
    place = tuple(
        slice(max(0, lo), max(0, lo) + d, interior + 1)
        for d, (lo, _, interior) in zip(dilated, config, strict=True)
    )
    out[(slice(None), *place)] = x
    crop = tuple(
        slice(max(0, -lo), n - max(0, -hi)) for n, (lo, hi, _) in zip(full, config, strict=True)
    )
    return [out[(slice(None), *crop)]]


def _iota(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    aval = step.out_avals[0]
    dim = step.params["dimension"]
    line = np.arange(aval.shape[dim]).reshape(
        [-1 if d == dim else 1 for d in range(len(aval.shape))]
    )
    full = np.broadcast_to(line, aval.shape)[None]
    return [domain.from_integers(full) if aval.kind == "f" else full.astype(aval.dtype)]


def _empty(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    return [domain.constant(np.zeros(step.out_avals[0].shape, step.out_avals[0].dtype))]


def _tile(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    return [np.tile(values[0], (1, *step.params["reps"]))]


def _pick(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """Elements by their number, of all operands in a row: a step of restricted programs only."""
    batch = batched(values)
    row = [spread(v, batch).reshape(batch, -1) for v in values]
    whole = row[0] if len(row) == 1 else np.concatenate(row, axis=1)
    return [whole[:, step.params["numbers"]]]


PICK = "pick"

TABLE: dict[str, Rule] = {
    PICK: _pick,
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "squeeze": _in_its_order,
    "expand_dims": _in_its_order,
    "transpose": _transpose,
    "rev": _rev,
    "slice": _slice,
    "concatenate": _concatenate,
    "stack": _stack,
    "unstack": _unstack,
    "split": _split,
    "pad": _pad,
    "iota": _iota,
    "empty": _empty,
    "empty2": _empty,
    "tile": _tile,
}
