"""Arguments as the user specified them: in a comment on the definition, or in the settings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.signature import Fixed, Leaf
from gradcheck_cli.project.input_specs import ArraySpec, Bounds, Spec, TreeSpec

Array = np.ndarray[Any, Any]

_STRIDES = (2, 3, 5, 7)
_OF_FAMILIES = {"binary": (0, 1), "signs": (0, 1), "positive": (1, 3), "nonzero": (1, 3)}
_STEPS = 2  # between the ends of integers of which one is open


def specified(name: str, spec: Spec, source: str) -> Any:
    """The argument that a spec describes: a leaf, a plain value, or a tree of such."""
    if isinstance(spec, TreeSpec):
        return _tree(name, spec, source)
    if not isinstance(spec, ArraySpec):
        return Fixed(spec.value, spec.text, source)
    domain = None if spec.bounds is None else Domain(spec.bounds)
    if spec.kind in ("float", "complex"):
        is_complex = spec.kind == "complex"
        return Leaf(name, spec.shape, source, domain=domain, is_complex=is_complex)
    size = int(np.prod(spec.shape, dtype=int))
    if spec.kind == "bool":
        mixed = (np.arange(size) % 3 != 1).reshape(spec.shape)
        return Fixed(mixed, spec.text, source, path=name)
    table = _integers(spec, size).astype(np.int32).reshape(spec.shape)
    return Fixed(table, spec.text, source, path=name)


def _integers(spec: ArraySpec, size: int) -> Array:
    """So many integers of the range or the family: some repeat, and they are not in order unless they have to be."""
    low, high = _ends(spec)
    count = high - low + 1
    stride = next((n for n in _STRIDES if math.gcd(n, count) == 1), 1)
    values = low + np.arange(size) * stride % count
    if 2 < size <= count:  # else each would come once
        twice = size // 2 if size < 4 else 2
        values[-twice:] = values[:twice]
    family = None if spec.bounds is None else spec.bounds.family
    if family == "signs":
        return 2 * values - 1
    if family == "increasing":
        return np.arange(size)
    return np.sort(values) if family == "sorted" else values


def _ends(spec: ArraySpec) -> tuple[int, int]:
    """The least and the greatest of its integers; where one end is open, it is two from the other."""
    bounds = Bounds(0.0) if spec.bounds is None else spec.bounds
    if bounds.family in _OF_FAMILIES:
        return _OF_FAMILIES[bounds.family]
    low, high = Bounds(0.0).wholes if bounds.family not in (None, "integers") else bounds.wholes
    if math.isinf(low):
        low = min(high - _STEPS, 0.0)
    if math.isinf(high):
        high = low + _STEPS
    return int(low), int(high)


def _tree(name: str, spec: TreeSpec, source: str) -> Any:
    """A dict, tuple or list of arguments; paths are as in Python: `params['w']`, `pair[0]`."""
    if spec.kind == "dict":
        return {key: specified(f"{name}[{key!r}]", item, source) for key, item in spec.items}
    items = [specified(f"{name}[{place}]", item, source) for place, item in spec.items]
    return tuple(items) if spec.kind == "tuple" else items
