"""What a framework asks of a rule, as far as the source alone shows that it is not so.

A framework is one file, with one function: of a module to what is broken in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gradcheck_cli.lint.contracts import jax, keras, tensorflow, torch
from gradcheck_cli.lint.contracts.functions import Broken, Module

__all__ = ["Broken", "Module", "broken"]

# Each by the packages that a module imports where it may speak of it.
_FRAMEWORKS = (
    ({"jax"}, jax.broken),
    ({"torch"}, torch.broken),
    ({"tensorflow"}, tensorflow.broken),
    ({"keras", "tensorflow"}, keras.broken),
)


def broken(module: Module, roots: Collection[str]) -> Iterator[Broken]:
    """What is broken in a module that imports these packages, framework by framework."""
    for packages, find in _FRAMEWORKS:
        if not packages.isdisjoint(roots):
            yield from find(module)
