"""What is used of JAX that is not public. Tried with jax 0.10.2 and 0.11.2."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from jax._src import source_info_util

__all__ = ["source_info_util"]


class PallasModules(NamedTuple):
    """The primitive that calls a kernel, and the module that interprets one."""

    primitive: Any
    interpreter: Any


def pallas_modules() -> PallasModules | None:
    """Pallas itself, if it has been imported."""
    calls = sys.modules.get("jax._src.pallas.pallas_call")
    interpreter = sys.modules.get("jax._src.pallas.hlo_interpreter")
    if calls is None or interpreter is None:
        return None
    return PallasModules(calls.pallas_call_p, interpreter)
