"""A function that calls a custom gradient of its own, as one custom gradient: users call the whole of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import tensorflow as tf

from gradcheck_cli.discover.outer import Outer, plain
from gradcheck_cli.frameworks.shared.made_anew import Anew, settings_of
from gradcheck_cli.frameworks.shared.stand_in_function import stand_in_function
from gradcheck_cli.frameworks.tensorflow.fit import fit
from gradcheck_cli.frameworks.tensorflow.gradient import CUSTOM, TfGradient
from gradcheck_cli.frameworks.tensorflow.hooks import bypassed
from gradcheck_cli.subject.protocol import Own

STAND_IN = stand_in_function(tf.tanh, tf.reduce_mean)  # for what a factory takes


def whole(outer: Outer, own: Own) -> TfGradient:
    """The gradient of the outer function: its rule is what the tape makes of the rules inside."""
    gradient = _whole(outer, own)
    origin = outer.origin
    names = [parameter.name for parameter in gradient.parameters()]
    settings = settings_of(origin, plain(outer.function), names)
    if origin is None or not settings:
        return gradient

    def make(changed: Mapping[str, object]) -> TfGradient:
        return _whole(replace(outer, function=origin.function(changed)), own)

    anew = Anew(settings, make, ("primal", "rule", "split"))
    return anew.dressed(replace(gradient, anew=anew), gradient)


def _whole(outer: Outer, own: Own) -> TfGradient:
    parameters = inspect.signature(outer.function).parameters
    names = frozenset(parameters)
    left_out = {n for n, p in parameters.items() if p.default is None and n in outer.through}
    return TfGradient(
        name=outer.name, kind=CUSTOM, place=outer.place, primal=outer.function,
        rule=outer.function, split=_split(outer.function, own), own=own, fitter=fit,
        closed_over=names - outer.through, left_out=frozenset(left_out),
    )  # fmt: skip


def _split(function: Callable[..., Any], own: Own) -> Callable[..., tuple[Any, Any]]:
    """The function without the rules inside, and with them a grad function."""

    def split(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        with bypassed(own):
            out = function(*args, **kwargs)

        def grad(*upstream: Any, variables: Any = None) -> Any:
            flat = [x for arg in tf.nest.flatten(args) for x in _parts(arg)]
            held = [x for x in flat if tf.is_tensor(x) and x.dtype.is_floating]
            with tf.GradientTape() as tape:
                tape.watch(held)
                outs = tf.nest.flatten(function(*args, **kwargs))
            of = [*held, *(variables or [])]
            pulled = tape.gradient(outs, of, output_gradients=list(upstream))
            supply = iter(pulled)
            gradients = [next(supply) if any(x is h for h in held) else None for x in flat]
            return gradients if variables is None else (gradients, pulled[len(held) :])

        return out, grad

    return split


def _parts(value: Any) -> list[Any]:
    """The tensors in an object with fields, in their order; to TensorFlow it is one thing."""
    if not is_dataclass(value) or isinstance(value, type):
        return [value]
    held = [getattr(value, part.name) for part in fields(value) if part.init]
    return [x for one in tf.nest.flatten(held) for x in _parts(one)]
