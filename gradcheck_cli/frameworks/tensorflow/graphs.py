"""Graphs for many rows: of both programs where they loop, of the body alone where only values are asked for.

Eagerly a loop costs a hundred times more, and so does a row of a body of many operations. The same kernels in the same order as eagerly: the graph is not rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck_cli.frameworks.shared.rows import Row
from gradcheck_cli.frameworks.tensorflow.call import (
    Call,
    Tensors,
    host,
    taped,
    tensor,
    zeros_for_none,
)
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Array = np.ndarray[Any, Any]
Function = Callable[[Tensors], list[Any]]

_LOOPS = ("While", "StatelessWhile")
_NO_REWRITE = {"disable_meta_optimizer": True}


class Graph:
    """A row's value and gradients, as the subject gives them, from a graph; for calls without variables."""

    def __init__(self, call: Call, has_rule: bool, has_auto: bool) -> None:
        self._call, self._has_rule, self._has_auto = call, has_rule, has_auto
        self._graph = tf.function(self._both, autograph=False)

    @property
    def loops(self) -> bool:
        """Is there a loop in the body? Raises where the body does not go into a graph."""
        body = tf.function(lambda *xs: self._call.primal_outputs(xs), autograph=False)
        specs = [tf.TensorSpec(leaf.shape, self._call.dtype) for leaf in self._call.own_leaves]
        graph = body.get_concrete_function(*specs).graph.as_graph_def()
        inner = (node for function in graph.library.function for node in function.node_def)
        return any(node.op in _LOOPS for node in (*graph.node, *inner))

    def row(self, leaves: Tensors, cotangents: Tensors) -> Row:
        """One call of each, as the subject's own `row` makes them."""
        with _as_it_is():
            parts = self._graph(leaves, cotangents)
        value, rule_value, custom, auto = ([host(t) for t in part] for part in parts)
        if not self._has_rule:
            return Row(rule_value, rule_value, None, custom)
        return Row(value, rule_value, custom, auto if self._has_auto else None)

    def _both(self, leaves: Tensors, cotangents: Tensors) -> tuple[list[Any], ...]:
        call = self._call
        rule_value, custom = self._pulled(call.outs, leaves, cotangents)
        if not self._has_rule:
            return [], rule_value, custom, []
        if not self._has_auto:
            return call.judged(call.primal_outputs(leaves)), rule_value, custom, []
        value, auto = self._pulled(call.primal_outputs, leaves, cotangents)
        return value, rule_value, custom, auto

    def _pulled(
        self, function: Function, leaves: Tensors, cotangents: Tensors
    ) -> tuple[list[Any], list[Any]]:
        with taped(leaves) as tape:
            outs = self._call.judged(function(leaves))
        gradients = tape.gradient(outs, list(leaves), output_gradients=list(cotangents))
        return outs, zeros_for_none(gradients, leaves)


class Values:
    """The values of a body without variables at many points, in one graph that maps over them.

    Raises where the body does not go into a graph.
    """

    def __init__(self, call: Call, dtypes: Sequence[str]) -> None:
        kinds = tuple(tf.dtypes.as_dtype(name) for name in dtypes)
        specs = [tf.TensorSpec((None, *leaf.shape), call.dtype) for leaf in call.own_leaves]

        def row(leaves: Tensors) -> tuple[Any, ...]:
            return tuple(call.judged(call.primal_outputs(leaves)))

        def mapped(*leaves: Any) -> Any:
            return tf.map_fn(row, leaves, fn_output_signature=kinds)

        self._dtype = call.dtype
        self._mapped = tf.function(mapped, autograph=False).get_concrete_function(*specs)

    def rows(self, points: Sequence[Array], nothing: Sequence[Array]) -> list[Array]:
        """One value for each point, and `nothing` for one at which the body raises.

        A map ends where one of its rows raises: then each half is mapped by itself.
        """
        try:
            with calling_user_code(), _as_it_is():
                return [
                    host(out) for out in self._mapped(*(tensor(p, self._dtype) for p in points))
                ]
        except UserCodeError:
            count = len(points[0])
            if count == 1:
                return [value[None] for value in nothing]
            cuts = (slice(count // 2), slice(count // 2, None))
            halves = [self.rows([p[cut] for p in points], nothing) for cut in cuts]
            return [np.concatenate(pair) for pair in zip(*halves, strict=True)]


@contextmanager
def _as_it_is() -> Iterator[None]:
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options(_NO_REWRITE)
    try:
        yield
    finally:
        kept = before.get("disable_meta_optimizer", False)
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": kept})
