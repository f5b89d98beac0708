"""A call as it is written down: shapes, ranges, and few numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradcheck_cli.clues.classes import fields_of, has_fields
from gradcheck_cli.contract.limits import STRUCTURE
from gradcheck_cli.contract.recorded import (
    FloatArg,
    IntArg,
    OpaqueArg,
    PlainArg,
    RecordedArg,
    RecordedCall,
    TreeArg,
)
from gradcheck_cli.infer.calls import kind_of
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Array = np.ndarray[Any, Any]

_MOST_VALUES = 16  # of one array that are kept

_TELLING = 8  # elements from which structure is no accident


def encoded(arguments: Mapping[str, Any]) -> RecordedCall:
    """One call, as the file of recordings has it; `infer/recalled` reads it again."""
    return RecordedCall(arguments={name: _encoded(value) for name, value in arguments.items()})


def _encoded(value: Any) -> RecordedArg:
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        names = sorted(value)
        return TreeArg(kind="dict", names=names, items=[_encoded(value[k]) for k in names])
    if type(value) in (tuple, list):
        return TreeArg(kind=type(value).__name__, items=[_encoded(v) for v in value])
    if has_fields(value):
        fields = fields_of(value)
        items = [_encoded(part) for _, part in fields]
        return TreeArg(kind="object", names=[name for name, _ in fields], items=items)
    if value is None or type(value) in (bool, int, str):
        return PlainArg(value=value)
    # JAX hands on a kind of its own; a number of numpy's has a dtype to keep.
    if isinstance(value, float) and not hasattr(value, "shape") and np.isfinite(value):
        return PlainArg(value=float(value))
    kind, shape = kind_of(value), [int(n) for n in getattr(value, "shape", ())]
    if kind.startswith(("float", "bfloat")):
        return _floats(kind, shape, _numbers(value))
    if kind.startswith(("int", "uint", "bool")):
        return _integers(kind, shape, _numbers(value))
    return OpaqueArg(type=type(value).__qualname__)


def _numbers(value: Any) -> Array | None:
    """The numbers of an array; None where it has none, as under a trace."""
    try:
        with calling_user_code():
            array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
            return array.astype(np.float64) if array.dtype.kind not in "iub" else array
    except UserCodeError:
        return None


def _floats(kind: str, shape: list[int], numbers: Array | None) -> FloatArg:
    if numbers is None or not numbers.size or not np.isfinite(numbers).all():
        return FloatArg(dtype=kind, shape=shape)
    few = [float(v) for v in numbers.reshape(-1)] if numbers.size <= _MOST_VALUES else None
    return FloatArg(
        dtype=kind, shape=shape, low=float(numbers.min()), high=float(numbers.max()), values=few,
        structure=structure_of(numbers),
    )  # fmt: skip


def _integers(kind: str, shape: list[int], numbers: Array | None) -> IntArg:
    if numbers is None or not numbers.size:
        return IntArg(dtype=kind, shape=shape)
    few = [int(v) for v in numbers.reshape(-1)] if numbers.size <= _MOST_VALUES else None
    return IntArg(dtype=kind, shape=shape, low=int(numbers.min()), high=int(numbers.max()), values=few)  # fmt: skip


def structure_of(numbers: Array) -> str | None:
    """The family that so many numbers do not belong to by accident."""
    if numbers.ndim == 0 or numbers.size < _TELLING:
        return None
    if np.isin(numbers, (0.0, 1.0)).all():
        return "binary"
    rows = numbers.reshape(-1, numbers.shape[-1])
    if (rows >= 0).all() and (np.abs(rows.sum(axis=1) - 1) < STRUCTURE.value).all():
        return "simplex"
    if numbers.ndim >= 2 and numbers.shape[-1] == numbers.shape[-2]:
        transposed = np.swapaxes(numbers, -1, -2)
        if np.abs(numbers @ transposed - np.eye(numbers.shape[-1])).max() < STRUCTURE.value:
            return "orthogonal"
        if (numbers == transposed).all() and (np.linalg.eigvalsh(numbers) > 0).all():
            return "spd"
    return "unit" if (np.abs((rows * rows).sum(axis=1) - 1) < STRUCTURE.value).all() else None
