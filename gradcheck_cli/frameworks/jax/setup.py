"""Settings of JAX that a worker makes before any backend starts."""

from __future__ import annotations

from typing import Any

import jax


def work_on_the_cpu() -> None:
    """Arrays and compiled code are the CPU's, but while something is measured elsewhere."""
    config: Any = jax.config
    config.update("jax_default_device", "cpu")


def keep_tracebacks() -> None:
    """Leave exceptions as they are: searching their frames costs more than most refusals of a shape."""
    config: Any = jax.config
    config.update("jax_traceback_filtering", "off")


def keep_compiled(folder: str | None) -> None:
    """Reuse compiled code between runs: a compile becomes a read."""
    if folder is None:
        return
    config: Any = jax.config
    config.update("jax_compilation_cache_dir", folder)
    config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    config.update("jax_persistent_cache_min_entry_size_bytes", -1)
