"""Arguments as the user specified them: in a comment on the definition, or in the settings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.signature import Fixed, Leaf
from gradcheck_cli.project.input_specs import ArraySpec, Bounds, Spec, TreeSpec

_STRIDES = (2, 3, 5, 7)
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
    low, high = _ends(spec)
    count = high - low + 1
    stride = next((n for n in _STRIDES if math.gcd(n, count) == 1), 1)
    values = (
        low + np.arange(size) * stride % count
    )  # each comes, some repeat, and they are not in order
    table = values.astype(np.int32).reshape(spec.shape)
    return Fixed(table, spec.text, source, path=name)


def _ends(spec: ArraySpec) -> tuple[int, int]:
    """The least and the greatest of its integers; where one end is open, it is two from the other."""
    bounds = Bounds(0.0) if spec.bounds is None else spec.bounds
    low = bounds.low + (bounds.low_open and bounds.low.is_integer())
    high = bounds.high - (bounds.high_open and bounds.high.is_integer())
    if math.isinf(low):
        low = min(high - _STEPS, 0.0)
    if math.isinf(high):
        high = low + _STEPS
    return math.ceil(low), math.floor(high)


def _tree(name: str, spec: TreeSpec, source: str) -> Any:
    """A dict, tuple or list of arguments; paths are as in Python: `params['w']`, `pair[0]`."""
    if spec.kind == "dict":
        return {key: specified(f"{name}[{key!r}]", item, source) for key, item in spec.items}
    items = [specified(f"{name}[{place}]", item, source) for place, item in spec.items]
    return tuple(items) if spec.kind == "tuple" else items
