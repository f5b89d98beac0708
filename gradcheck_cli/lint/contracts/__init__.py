"""What a framework asks of a rule, as far as the source alone shows that it is not so.

A framework is one file, with one function: of a module to what is broken in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradcheck_cli.lint.contracts import jax, keras, tensorflow, torch
from gradcheck_cli.lint.contracts.functions import Broken, Module

__all__ = ["Broken", "Module", "broken"]

_FRAMEWORKS = (jax.broken, torch.broken, tensorflow.broken, keras.broken)


def broken(module: Module) -> Iterator[Broken]:
    """What is broken in a module, framework by framework."""
    for find in _FRAMEWORKS:
        yield from find(module)
