"""A TensorFlow function of its leaves alone: inputs are put together, judged outputs picked.

Variables that the function reads are leaves as well: they are assigned before each call.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import tensorflow as tf

from gradcheck_cli.frameworks.shared.plain_points import plain
from gradcheck_cli.frameworks.tensorflow.gradient import TfGradient
from gradcheck_cli.frameworks.tensorflow.private_api import EagerVariableStore, context
from gradcheck_cli.inputs.signature import OMITTED, Built, Leaf, Signature, filled

Array = np.ndarray[Any, Any]
Tensors = Sequence[Any]
VARIABLES = "variables"


@dataclass(slots=True)
class Call:
    """The function of its leaves alone; `kept` are the numbers of the outputs that are judged.

    A complex argument is made of two leaves, a complex output is judged as two: TensorFlow itself parts and
    pairs their gradients where it runs the rule, `pulled_back` does it where the rule is traced.
    """

    gradient: TfGradient
    signature: Signature
    dtype: Any
    turn: int = 0  # of plain numbers, at which it is tried whether anything runs
    kept: tuple[int, ...] = ()
    variables: tuple[Any, ...] = ()
    by_name: frozenset[str] = frozenset()  # plain arguments that the rule gives no gradient
    graph: Any = None  # the body as a function of the framework's own, once it is asked for
    store: Any = field(default_factory=EagerVariableStore)  # what `get_variable` finds

    def plain(self, leaf: Leaf) -> Array:
        """Numbers for an argument at which it is tried whether function and rule run at all."""
        return plain(leaf, self.turn)

    @property
    def inputs(self) -> tuple[tuple[str, Any], ...]:
        """Names and values of the function's own arguments."""
        return tuple(pair for pair in self.signature.arguments if pair[0] != VARIABLES)

    @property
    def own_leaves(self) -> Sequence[Leaf]:
        """Leaves of its arguments, without the variables."""
        return Signature(self.inputs).leaves

    @property
    def by_place(self) -> tuple[tuple[str, Any], ...]:
        """The arguments before the first that is left out; these alone are given gradients."""
        given = itertools.takewhile(lambda pair: pair[1] is not OMITTED, self.inputs)
        by_name = self.signature.keywords | self.by_name
        return tuple(pair for pair in given if pair[0] not in by_name)

    @property
    def eager_only(self) -> bool:
        """Does an argument go by its name? TensorFlow takes such calls of custom gradients outside of graphs only."""
        given = [name for name, value in self.inputs if value is not OMITTED]
        return len(given) > len(self.by_place)

    @contextmanager
    def eagerly(self) -> Iterator[None]:
        """While active, TensorFlow runs eagerly, which version 1 modules switch off for good."""
        with context.eager_mode(), self.store.as_default(), self.gradient.draws.drawing():
            yield

    def ask(self, function: Callable[..., Any], leaves: Tensors) -> Any:
        """The function at these leaves (and at the variables as they are)."""
        self.gradient.draws.start_over()
        supply = iter(leaves)
        plain: list[Any] = []
        named: dict[str, Any] = {}
        by_place = {name for name, _ in self.by_place}
        for name, value in self.inputs:
            if value is OMITTED:
                continue
            given = filled(value, supply, _fixed, tf.complex)
            if name in by_place:
                plain.append(given)
            else:
                named[name] = given
        return function(*plain, **named)

    def split(self, leaves: Tensors) -> tuple[list[Any], Any]:
        """The body's outputs in one line, and the grad function (None if it returns none)."""
        result = self.ask(self.gradient.split, leaves)
        pair = isinstance(result, (tuple, list)) and len(result) == 2
        out, pull = (
            result if pair and (result[1] is None or callable(result[1])) else (result, None)
        )
        return flat(out), pull

    def primal_outputs(self, leaves: Tensors) -> list[Any]:
        """The outputs of what the rule is to differentiate: the body, or a reference."""
        reference = self.gradient.reference
        if reference is not None:
            return flat(self.ask(reference, leaves))
        return self.split(leaves)[0]

    def graphed(self, leaves: Tensors) -> list[Any]:
        """The body's outputs from a graph: a registered gradient sees an op, and only a graph has ops."""
        if self.graph is None:
            self.graph = tf.function(lambda *xs: self.primal_outputs(xs), autograph=False)
        return list(self.graph(*leaves))

    def outs(self, leaves: Tensors) -> list[Any]:
        """The outputs that user code gets."""
        return flat(self.ask(self.gradient.rule, leaves))

    def judged(self, outs: Sequence[Any]) -> list[Any]:
        return [part for i in self.kept for part in parts(outs[i])]

    def pulled_back(self, outs: Sequence[Any], pull: Callable[..., Any], cotangents: Tensors) -> list[Any]:  # fmt: skip
        """The grad function's gradients for each leaf, variables last; None for None."""
        gradients = self.gradients(outs, pull, cotangents)
        values = [x for _, value in self.by_place for x in _entries(value)]
        given = len(gradients) - len(self.variables)
        if len(values) > given:  # an object is no structure to TensorFlow
            values = [x for _, value in self.by_place for x in flat(value)]
        pulled = [
            g for x, given in zip(values, gradients, strict=False) for g in _of_leaf(x, given)
        ]
        return [*pulled, *gradients[len(values) :][: len(self.variables)]]

    def gradients(self, outs: Sequence[Any], pull: Callable[..., Any], cotangents: Tensors) -> list[Any]:  # fmt: skip
        """All that the grad function gives, variables last."""
        supply = iter(cotangents)
        weights = {i: _paired(outs[i], supply) for i in self.kept}
        upstream = [weights[i] if i in weights else tf.zeros_like(o) for i, o in enumerate(outs)]
        if self.variables and takes_variables(pull):
            pulled, of_variables = pull(*upstream, variables=list(self.variables))
        else:
            pulled, of_variables = pull(*upstream), []
        return [*flat(pulled), *of_variables]


def parts(out: Any) -> list[Any]:
    """A tensor, or the two of which a complex one consists."""
    return [tf.math.real(out), tf.math.imag(out)] if out.dtype.is_complex else [out]


def _paired(out: Any, supply: Iterator[Any]) -> Any:
    """The cotangent of an output from those of its parts."""
    return tf.complex(next(supply), next(supply)) if out.dtype.is_complex else next(supply)


def _entries(value: Any) -> list[Any]:
    """What an argument is made of, in the order in which its gradients come; an object consists of its parts."""
    if isinstance(value, Built):
        return [x for part in value.parts for x in _entries(part)]
    return flat(value)


def _of_leaf(value: Any, given: Any) -> list[Any]:
    """The gradients of what an argument is made of; of what is no leaf there are none."""
    if isinstance(value, Built):
        return [None] * len(Signature((("", value),)).leaves)
    if not isinstance(value, Leaf):
        return []
    if not value.is_complex:
        return [given]
    return [None, None] if given is None else [tf.math.real(given), tf.math.imag(given)]


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


def flat(nested: Any) -> list[Any]:
    """The values in a structure, in one line."""
    return list(tf.nest.flatten(nested))


def takes_variables(pull: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(pull).parameters
    except (TypeError, ValueError):
        return False
    return VARIABLES in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def tensor(array: Any, dtype: Any) -> Any:
    return tf.constant(np.asarray(array), dtype=dtype)


def host(value: Any) -> Array:
    """A tensor's numbers as an array of ours."""
    if isinstance(value, tf.IndexedSlices):
        value = tf.convert_to_tensor(value)
    return np.asarray(tf.cast(value, tf.float64).numpy())


def _fixed(value: Any) -> Any:
    return tf.constant(np.asarray(value)) if isinstance(value, (np.ndarray, jax.Array)) else value
