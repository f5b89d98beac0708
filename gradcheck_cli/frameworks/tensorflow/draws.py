"""Random draws: while user code runs here, they are the same numbers at every call, in every dtype.

TensorFlow's own go on from call to call, and are others in a graph. These are constants: of the eager call,
of the graph, and so of the program that is walked over the reals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import random_ops

from gradcheck_cli.frameworks.seeds import seed

_PUBLIC = {"random_uniform": "uniform", "random_normal": "normal", "truncated_normal": "truncated_normal"}  # fmt: skip
_generator = [np.random.default_rng(seed())]


def start_over() -> None:
    """Before each call."""
    _generator[0] = np.random.default_rng(seed())


@contextmanager
def drawing() -> Iterator[None]:
    """While active, TensorFlow's samplers draw from ours, wherever the shape is known."""
    places = [(random_ops, inner, tf.random, name) for inner, name in _PUBLIC.items()]
    kept = [getattr(module, inner) for module, inner, _, _ in places]
    ours = [_uniform(kept[0]), _normal(kept[1]), _normal(kept[2], limit=2.0)]
    _put(places, ours)
    try:
        yield
    finally:
        _put(places, kept)


def _put(places: list[tuple[Any, str, Any, str]], functions: list[Any]) -> None:
    for (module, inner, public, name), function in zip(places, functions, strict=True):
        setattr(module, inner, function)
        setattr(public, name, function)


def _uniform(own: Callable[..., Any]) -> Callable[..., Any]:
    def uniform(
        shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = tf.float32, seed: Any = None,
        name: Any = None,
    ) -> Any:  # fmt: skip
        size = _static(shape)
        kind = tf.dtypes.as_dtype(dtype)
        if size is None or (kind.is_integer and not (isinstance(minval, int) and isinstance(maxval, int))):  # fmt: skip
            return own(shape, minval, maxval, dtype, seed, name)
        if kind.is_integer:
            return tf.constant(_generator[0].integers(minval, maxval, size), kind)
        low = tf.cast(minval, kind)
        high = tf.cast(1 if maxval is None else maxval, kind)
        return low + (high - low) * tf.constant(_drawn("random", size), kind)

    return uniform


def _normal(own: Callable[..., Any], limit: float = np.inf) -> Callable[..., Any]:
    def normal(
        shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = tf.float32, seed: Any = None,
        name: Any = None,
    ) -> Any:  # fmt: skip
        size = _static(shape)
        if size is None:
            return own(shape, mean, stddev, dtype, seed, name)
        drawn = np.clip(_drawn("standard_normal", size), -limit, limit)
        return tf.cast(mean, dtype) + tf.cast(stddev, dtype) * tf.constant(drawn, dtype)

    return normal


def _drawn(what: str, size: tuple[int, ...]) -> Any:
    """As float32: the same number for the wide run."""
    return np.asarray(getattr(_generator[0], what)(size), np.float32)


def _static(shape: Any) -> tuple[int, ...] | None:
    """The shape as numbers, where it is known."""
    if isinstance(shape, int):
        return (shape,)
    value = tf.get_static_value(shape) if tf.is_tensor(shape) else shape
    try:
        return None if value is None else tuple(int(n) for n in np.asarray(value).reshape(-1))
    except (TypeError, ValueError):
        return None
