"""A real call as a signature: shapes of the arrays, values of everything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.clues.classes import fields_of, has_fields, like
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Leaf, Parameter, Signature
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

_INTEGERS, _FLOATS, _COMPLEX = ("int", "uint"), ("float", "bfloat"), "complex"


def signature_of(
    parameters: Sequence[Parameter], args: Sequence[Any], kwargs: Mapping[str, Any], source: str
) -> Signature | None:
    """The signature of a call; None if the call is not one of this function."""
    values = by_name(parameters, args, kwargs)
    if values is None:
        return None
    arguments = tuple(
        (p.name, argument(p.name, values[p.name], source) if p.name in values else OMITTED)
        for p in parameters
    )
    return Signature(arguments, frozenset(p.name for p in parameters if p.keyword_only))


def by_name(
    parameters: Sequence[Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The arguments of a call by the names of its parameters, in the order of these."""
    values = dict(zip((p.name for p in parameters if not p.keyword_only), args, strict=False))
    if len(values) < len(args) or set(kwargs) - {p.name for p in parameters}:
        return None
    values |= kwargs
    return {p.name: values[p.name] for p in parameters if p.name in values}


def argument(path: str, value: Any, source: str) -> Any:
    """A value as an argument: its arrays vary, everything else stays."""
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return {k: argument(f"{path}[{k!r}]", v, source) for k, v in value.items()}
    if type(value) in (tuple, list):
        return type(value)(argument(f"{path}[{i}]", v, source) for i, v in enumerate(value))
    if has_fields(value):
        parts = [(n, argument(f"{path}.{n}", v, source)) for n, v in fields_of(value)]
        return like(value, parts)
    kind, shape = kind_of(value), tuple(getattr(value, "shape", ()))
    if kind.startswith((*_FLOATS, _COMPLEX)):
        is_complex = kind.startswith(_COMPLEX)
        return Leaf(path, tuple(map(int, shape)), source, is_complex=is_complex)
    if kind.startswith((*_INTEGERS, "bool")):
        return Fixed(_numbers(value, kind, shape), f"{kind}{list(shape)}", source)
    return Fixed(value, repr(value)[:40], source)


def kind_of(value: Any) -> str:
    """The name of an array's dtype; nothing for what is no array."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or not hasattr(value, "shape"):
        return ""
    return str(getattr(dtype, "name", dtype)).removeprefix("torch.")


def _numbers(value: Any, kind: str, shape: Sequence[int]) -> Any:
    """The numbers of an array; small ones where it has none, as under a trace."""
    try:
        with calling_user_code():
            return np.asarray(value)
    except UserCodeError:
        size = int(np.prod(shape, dtype=int))
        return (np.arange(size) % 2).astype(kind).reshape(shape)
