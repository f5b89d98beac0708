"""Random draws of user code: the same numbers at every call, in every dtype.

TensorFlow's own go on from call to call, and are others in a graph. These are constants: of the eager call,
of the graph, and so of the program that is walked over the reals. The commonest samplers draw from ours,
the others from TensorFlow's, eagerly and from the same seed at every call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck_cli.frameworks.shared.draws import seed
from gradcheck_cli.frameworks.tensorflow.private_api import (
    context,
    random_ops,
    stateless_random_ops,
)

# The public name, and what TensorFlow itself calls.
_OURS = {"uniform": "random_uniform", "normal": "random_normal", "truncated_normal": "truncated_normal"}  # fmt: skip
_THEIRS = (
    "categorical", "gamma", "poisson", "shuffle", "stateless_binomial", "stateless_categorical",
    "stateless_gamma", "stateless_normal", "stateless_parameterized_truncated_normal",
    "stateless_poisson", "stateless_truncated_normal", "stateless_uniform",
)  # fmt: skip
_METHODS = (
    "binomial",
    "normal",
    "truncated_normal",
    "uniform",
    "uniform_full_int",
)  # of a generator
_SYMBOLIC = object()


class Draws:
    """What calls draw from: each starts over with the same numbers, and finds generators as the first did."""

    def __init__(self) -> None:
        self.ours = np.random.default_rng(seed())
        self._generators: dict[int, tuple[Any, Any]] = {}  # the user's, each with its first state

    def start_over(self) -> None:
        """Make the next call draw from the beginning."""
        self.ours = np.random.default_rng(seed())
        own = context.context()
        if own._seed != seed() or _drawn_from(own._rng):
            context.set_global_seed(seed())  # dear: it clears what is compiled
        with context.eager_mode():
            for generator, state in self._generators.values():
                generator.state.assign(state)

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """While active, samplers give constants, wherever it is known what they are asked for."""
        inner = _OURS | {name: getattr(tf.random, name).__name__ for name in _THEIRS}
        own = {name: getattr(tf.random, name) for name in inner}
        methods = {name: getattr(tf.random.Generator, name) for name in _METHODS}
        _put(inner, {name: _eagerly(own[name]) for name in _THEIRS} | {
            "uniform": self._uniform(own["uniform"]),
            "normal": self._normal(own["normal"]),
            "truncated_normal": self._normal(own["truncated_normal"], limit=2.0),
        })  # fmt: skip
        for name, method in methods.items():
            setattr(tf.random.Generator, name, self._remembered(_eagerly(method)))
        try:
            yield
        finally:
            _put(inner, own)
            for name, method in methods.items():
                setattr(tf.random.Generator, name, method)

    def _remembered(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A generator goes on from draw to draw: each call is to find it as the first one did."""

        @functools.wraps(method)
        def sampler(generator: Any, *args: Any, **kwargs: Any) -> Any:
            if id(generator) not in self._generators:
                with context.eager_mode():
                    self._generators[id(generator)] = generator, generator.state.numpy()
            return method(generator, *args, **kwargs)

        return sampler

    def _uniform(self, own: Callable[..., Any]) -> Callable[..., Any]:
        def uniform(
            shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = tf.float32,
            seed: Any = None, name: Any = None,
        ) -> Any:  # fmt: skip
            size = _static(shape)
            kind = tf.dtypes.as_dtype(dtype)
            if size is None or (kind.is_integer and not (isinstance(minval, int) and isinstance(maxval, int))):  # fmt: skip
                return own(shape, minval, maxval, dtype, seed, name)
            if kind.is_integer:
                return tf.constant(self.ours.integers(minval, maxval, size), kind)
            low = tf.cast(minval, kind)
            high = tf.cast(1 if maxval is None else maxval, kind)
            return low + (high - low) * tf.constant(np.float32(self.ours.random(size)), kind)

        return uniform

    def _normal(self, own: Callable[..., Any], limit: float = np.inf) -> Callable[..., Any]:
        def normal(
            shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = tf.float32,
            seed: Any = None, name: Any = None,
        ) -> Any:  # fmt: skip
            size = _static(shape)
            if size is None:
                return own(shape, mean, stddev, dtype, seed, name)
            # As float32: the same number for the wide run.
            drawn = np.clip(np.float32(self.ours.standard_normal(size)), -limit, limit)
            return tf.cast(mean, dtype) + tf.cast(stddev, dtype) * tf.constant(drawn, dtype)

        return normal


def _drawn_from(counter: Any) -> bool:
    """Is TensorFlow's counter of draws another than it was when it got our seed?"""
    return bool(counter.getstate() != type(counter)(seed()).getstate())


def _put(inner: dict[str, str], functions: dict[str, Any]) -> None:
    """Replace the public samplers, and those that TensorFlow itself calls."""
    for name, function in functions.items():
        module = stateless_random_ops if name.startswith("stateless") else random_ops
        setattr(module, inner[name], function)
        setattr(tf.random, name, function)


def _eagerly(own: Callable[..., Any]) -> Callable[..., Any]:
    """A sampler that draws outside of every graph; in float64 it gives the numbers of float32."""
    signature = inspect.signature(own)

    @functools.wraps(own)
    def sampler(*args: Any, **kwargs: Any) -> Any:
        values = {n: _static_value(v) for n, v in signature.bind(*args, **kwargs).arguments.items()}
        if any(value is _SYMBOLIC for value in values.values()):
            return own(*args, **kwargs)
        wide = tf.dtypes.as_dtype(values.get("dtype") or tf.float32) == tf.float64
        if wide:
            values = {n: tf.cast(v, tf.float32) if _is_wide(v) else v for n, v in values.items()}
            values["dtype"] = tf.float32
        with context.eager_mode():
            drawn = own(**values).numpy()
        return tf.constant(drawn, tf.float64 if wide else None)

    return sampler


def _static_value(value: Any) -> Any:
    """The value as a number, if a graph knows it in advance; else the mark for one that it does not."""
    if not tf.is_tensor(value) or hasattr(value, "numpy"):
        return value
    static = tf.get_static_value(value)
    return _SYMBOLIC if static is None else static


def _is_wide(value: Any) -> bool:
    return str(getattr(value, "dtype", "")) in ("float64", "<dtype: 'float64'>")


def _static(shape: Any) -> tuple[int, ...] | None:
    """The shape as numbers, where it is known."""
    if isinstance(shape, int):
        return (shape,)
    value = tf.get_static_value(shape) if tf.is_tensor(shape) else shape
    try:
        return None if value is None else tuple(int(n) for n in np.asarray(value).reshape(-1))
    except (TypeError, ValueError):
        return None
