"""What is used of JAX that is not public. Tried with jax 0.10.2."""

from __future__ import annotations

from jax._src import source_info_util

__all__ = ["source_info_util"]
