"""A function that calls a custom gradient of its own, as one custom gradient: users call the whole of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from gradcheck_cli.discover.outer import Outer
from gradcheck_cli.frameworks.tensorflow.fit import fit
from gradcheck_cli.frameworks.tensorflow.gradient import CUSTOM, TfGradient
from gradcheck_cli.frameworks.tensorflow.hooks import bypassed
from gradcheck_cli.subject.protocol import Own


def whole(outer: Outer, name: str, own: Own) -> TfGradient:
    """The gradient of the outer function: its rule is what the tape makes of the rules inside."""
    names = frozenset(inspect.signature(outer.function).parameters)
    return TfGradient(
        name=name, kind=CUSTOM, place=outer.place, primal=outer.function,
        rule=outer.function, split=_split(outer.function, own), own=own, fitter=fit,
        closed_over=names - outer.through,
    )  # fmt: skip


def _split(function: Callable[..., Any], own: Own) -> Callable[..., tuple[Any, Any]]:
    """The function without the rules inside, and with them a grad function."""

    def split(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        with bypassed(own):
            out = function(*args, **kwargs)

        def grad(*upstream: Any, variables: Any = None) -> Any:
            flat = tf.nest.flatten(args)
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
