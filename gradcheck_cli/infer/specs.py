"""Arguments as the user specified them: in a comment on the definition, or in the settings."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.signature import Fixed, Leaf
from gradcheck_cli.project.input_specs import ArraySpec, Spec, TreeSpec


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
    low, high = (0, 2) if spec.bounds is None else (int(spec.bounds.low), int(spec.bounds.high))
    values = low + np.arange(size) * 2 % (high - low + 1)  # some repeat, and they are not in order
    table = values.astype(np.int32).reshape(spec.shape)
    return Fixed(table, spec.text, source, path=name)


def _tree(name: str, spec: TreeSpec, source: str) -> Any:
    """A dict, tuple or list of arguments; paths are as in Python: `params['w']`, `pair[0]`."""
    if spec.kind == "dict":
        return {key: specified(f"{name}[{key!r}]", item, source) for key, item in spec.items}
    items = [specified(f"{name}[{place}]", item, source) for place, item in spec.items]
    return tuple(items) if spec.kind == "tuple" else items
