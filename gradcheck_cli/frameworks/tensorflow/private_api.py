"""What is used of TensorFlow that is not public, and of JAX to place its steps.

Tried with tensorflow 2.21.0, tf2jax 0.3.8 and jax 0.10.2.
"""

from __future__ import annotations

from typing import Any

from jax._src import source_info_util
from jaxlib import xla_client
from tensorflow.python.eager import context, record
from tensorflow.python.framework import op_def_registry, ops
from tensorflow.python.ops import custom_gradient, random_ops, stateless_random_ops
from tensorflow.python.ops.variable_scope import EagerVariableStore

__all__ = [
    "EagerVariableStore", "context", "custom_gradient", "op_def_registry", "ops", "random_ops",
    "record", "source_info_util", "stateless_random_ops", "xla_client",
]  # fmt: skip


def decorated(bind: Any) -> Any:
    """The function under `tf.custom_gradient`."""
    return bind._f


def tf2jax_evaluator() -> Any:
    """The module of tf2jax that evaluates a graph's nodes."""
    from tf2jax._src import tf2jax

    return tf2jax


def tf2jax_operations() -> Any:
    """The module of tf2jax that holds its table of operations."""
    from tf2jax._src import ops as operations

    return operations
