"""A TensorFlow function of its leaves alone: its inputs put together, its outputs told apart.

Variables that the function reads are leaves as well: they are assigned before each call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import tensorflow as tf

from gradcheck_cli.frameworks.tensorflow.gradient import TfGradient
from gradcheck_cli.frameworks.tensorflow.private_api import EagerVariableStore, context
from gradcheck_cli.frameworks.tensorflow.random import drawing, start_over
from gradcheck_cli.inputs.signature import OMITTED, Leaf, Signature, filled

Array = np.ndarray[Any, Any]
Tensors = Sequence[Any]
VARIABLES = "variables"


@dataclass(slots=True)
class Call:
    """The function of its leaves alone; `kept` are the numbers of the outputs that are judged."""

    gradient: TfGradient
    signature: Signature
    dtype: Any
    kept: tuple[int, ...] = ()
    variables: tuple[Any, ...] = ()
    graph: Any = None  # the body as a function of the framework's own, once it is asked for
    store: Any = field(default_factory=EagerVariableStore)  # what `get_variable` finds

    @property
    def inputs(self) -> tuple[tuple[str, Any], ...]:
        """The arguments of the function itself."""
        return tuple(pair for pair in self.signature.arguments if pair[0] != VARIABLES)

    @property
    def own_leaves(self) -> Sequence[Leaf]:
        """Those of its arguments, without the variables."""
        return Signature(self.inputs).leaves

    @contextmanager
    def eagerly(self) -> Iterator[None]:
        """Version 1 modules switch eager execution off for good; here it is on."""
        with context.eager_mode(), self.store.as_default(), drawing():
            yield

    def ask(self, function: Callable[..., Any], leaves: Tensors) -> Any:
        """The function at these leaves (and at the variables as they are)."""
        start_over()
        supply = iter(leaves)
        keywords = self.signature.keywords
        given = {
            name: value if value is OMITTED else filled(value, supply, _fixed)
            for name, value in self.inputs
        }
        plain = [v for name, v in given.items() if name not in keywords and v is not OMITTED]
        named = {n: v for n, v in given.items() if n in keywords and v is not OMITTED}
        return function(*plain, **named)

    def split(self, leaves: Tensors) -> tuple[list[Any], Any]:
        """The body's outputs in one line, and the grad function (None if it returns none)."""
        made = self.ask(self.gradient.split, leaves)
        pair = isinstance(made, (tuple, list)) and len(made) == 2
        out, pull = made if pair and (made[1] is None or callable(made[1])) else (made, None)
        return tf.nest.flatten(out), pull

    def primal_outputs(self, leaves: Tensors) -> list[Any]:
        """The outputs of what the rule is to differentiate: the body, or a reference."""
        reference = self.gradient.reference
        if reference is not None:
            return tf.nest.flatten(self.ask(reference, leaves))  # type: ignore[no-any-return]
        return self.split(leaves)[0]

    def graphed(self, leaves: Tensors) -> list[Any]:
        """The body's outputs from a graph: a registered gradient sees an op, and only a graph has ops."""
        if self.graph is None:
            self.graph = tf.function(lambda *xs: self.primal_outputs(xs), autograph=False)
        return list(self.graph(*leaves))

    def outs(self, leaves: Tensors) -> list[Any]:
        """What user code gets."""
        return tf.nest.flatten(self.ask(self.gradient.rule, leaves))  # type: ignore[no-any-return]

    def judged(self, outs: Sequence[Any]) -> list[Any]:
        return [outs[i] for i in self.kept]

    def pulled_back(self, outs: Sequence[Any], pull: Callable[..., Any], cotangents: Tensors) -> list[Any]:  # fmt: skip
        """The grad function's gradients for each leaf, variables last; None for None."""
        weights = dict(zip(self.kept, cotangents, strict=True))
        given = [weights.get(i) for i in range(len(outs))]
        given = [tf.zeros_like(o) if w is None else w for o, w in zip(outs, given, strict=True)]
        if self.variables and takes_variables(pull):
            pulled, of_variables = pull(*given, variables=list(self.variables))
        else:
            pulled, of_variables = pull(*given), []
        flat = [*tf.nest.flatten(pulled), *of_variables]
        places = [
            isinstance(leaf, Leaf)
            for _, value in self.inputs
            if value is not OMITTED
            for leaf in tf.nest.flatten(value)
        ]
        places += [True] * len(self.variables)
        return [g for g, wanted in zip(flat, places, strict=False) if wanted]


@contextmanager
def taped(held: Tensors) -> Iterator[Any]:
    """A tape that watches these tensors and variables, and no others."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        for x in held:
            tape.watch(x)
        yield tape


def zeros_for_none(gradients: Sequence[Any], held: Tensors) -> list[Any]:
    """A tensor for each: zeros where there is no gradient, slices put together."""
    return [
        tf.zeros_like(x) if g is None else tf.convert_to_tensor(g)
        for g, x in zip(gradients, held, strict=True)
    ]


def takes_variables(pull: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(pull).parameters
    except (TypeError, ValueError):
        return False
    return VARIABLES in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def tensor(array: Any, dtype: Any) -> Any:
    return tf.constant(np.asarray(array), dtype=dtype)


def host(value: Any) -> Array:
    """The same numbers as an array of ours."""
    if isinstance(value, tf.IndexedSlices):
        value = tf.convert_to_tensor(value)
    return np.asarray(tf.cast(value, tf.float64).numpy())


def _fixed(value: Any) -> Any:
    return tf.constant(np.asarray(value)) if isinstance(value, (np.ndarray, jax.Array)) else value
