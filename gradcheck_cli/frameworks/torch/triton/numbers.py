"""The numbers of a kernel: numpy's, or JAX's while the function around it is traced.

Whole numbers, pointers and masks stay numpy's: where a kernel reads and writes is known while it is traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_OTHER_NAMES = {"nanmax": "max", "nanmin": "min", "ascontiguousarray": "asarray"}


def is_traced(value: Any) -> bool:
    """Is it an array of JAX's, or does it hold one?"""
    if isinstance(value, (list, tuple)):
        return any(map(is_traced, value))
    return isinstance(value, jax.Array)


class Numbers:
    """What stands for numpy in Triton's interpreter: JAX's function of the same name where an operand is JAX's."""

    def __getattr__(self, name: str) -> Any:
        plain = getattr(np, name)
        if isinstance(plain, type) or not callable(plain):
            return plain
        return _either(name, plain)


def _either(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        if not is_traced(args) and not is_traced(list(kwargs.values())):
            return plain(*args, **kwargs)
        if name == "matmul":
            return jnp.matmul(*args, preferred_element_type=kwargs.get("dtype"))
        return getattr(jnp, _OTHER_NAMES.get(name, name))(*args, **kwargs)

    called.__name__ = name
    return called
