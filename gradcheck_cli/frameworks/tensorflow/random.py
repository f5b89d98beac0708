"""Random draws: while user code runs here, they are the same numbers at every call, in every dtype.

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

_OURS = {"random_uniform": "uniform", "random_normal": "normal", "truncated_normal": "truncated_normal"}  # fmt: skip
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
_met: dict[int, tuple[Any, Any]] = {}  # the user's generators, with the state that they were met in
_SYMBOLIC = object()
_state: list[Any] = [None]  # of TensorFlow's counter of draws, as a call finds it
_generator = [np.random.default_rng(seed())]


def start_over() -> None:
    """Before each call."""
    _generator[0] = np.random.default_rng(seed())
    own = context.context()
    if own._seed != seed() or own._rng.getstate() != _state[0]:  # dear: it clears what is compiled
        context.set_global_seed(seed())
        _state[0] = own._rng.getstate()
    with context.eager_mode():
        for generator, state in _met.values():
            generator.state.assign(state)


@contextmanager
def drawing() -> Iterator[None]:
    """While active, samplers give constants, wherever it is known what they are asked for."""
    inner = {name: name_inside for name_inside, name in _OURS.items()}
    inner |= {name: getattr(tf.random, name).__name__ for name in _THEIRS}
    kept = {name: getattr(tf.random, name) for name in inner}
    theirs = {name: _eagerly(kept[name]) for name in _THEIRS}
    methods = {name: getattr(tf.random.Generator, name) for name in _METHODS}
    _put(inner, theirs | {
        "uniform": _uniform(kept["uniform"]),
        "normal": _normal(kept["normal"]),
        "truncated_normal": _normal(kept["truncated_normal"], limit=2.0),
    })  # fmt: skip
    for name, method in methods.items():
        setattr(tf.random.Generator, name, _remembered(_eagerly(method)))
    try:
        yield
    finally:
        _put(inner, kept)
        for name, method in methods.items():
            setattr(tf.random.Generator, name, method)


def _remembered(method: Callable[..., Any]) -> Callable[..., Any]:
    """A generator goes on from draw to draw: each call is to find it as the first one did."""

    @functools.wraps(method)
    def sampler(generator: Any, *args: Any, **kwargs: Any) -> Any:
        if id(generator) not in _met:
            with context.eager_mode():
                _met[id(generator)] = generator, generator.state.numpy()
        return method(generator, *args, **kwargs)

    return sampler


def _put(inner: dict[str, str], functions: dict[str, Any]) -> None:
    """In place of the public function, and of the one that TensorFlow itself calls."""
    for name, function in functions.items():
        module = stateless_random_ops if name.startswith("stateless") else random_ops
        setattr(module, inner[name], function)
        setattr(tf.random, name, function)


def _eagerly(own: Callable[..., Any]) -> Callable[..., Any]:
    """Outside of every graph; in float64 the numbers are those of float32."""
    signature = inspect.signature(own)

    @functools.wraps(own)
    def sampler(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        known = {name: _known(value) for name, value in given.items()}
        if any(value is _SYMBOLIC for value in known.values()):
            return own(*args, **kwargs)
        wide = tf.dtypes.as_dtype(known.get("dtype") or tf.float32) == tf.float64
        if wide:
            known = {n: tf.cast(v, tf.float32) if _is_wide(v) else v for n, v in known.items()}
            known["dtype"] = tf.float32
        with context.eager_mode():
            drawn = own(**known).numpy()
        return tf.constant(drawn, tf.float64 if wide else None)

    return sampler


def _known(value: Any) -> Any:
    """What does not depend on anything that is still to come, as TensorFlow or Python knows it."""
    if not tf.is_tensor(value) or hasattr(value, "numpy"):
        return value
    static = tf.get_static_value(value)
    return _SYMBOLIC if static is None else static


def _is_wide(value: Any) -> bool:
    return str(getattr(value, "dtype", "")) in ("float64", "<dtype: 'float64'>")


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
