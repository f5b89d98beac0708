"""One graph of both programs for rows of functions that loop: eagerly a loop costs a hundred times more.

The same kernels in the same order as eagerly: the graph is not rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from gradcheck_cli.frameworks.shared.rows import Row
from gradcheck_cli.frameworks.tensorflow.call import Call, Tensors, host, taped, zeros_for_none

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


@contextmanager
def _as_it_is() -> Iterator[None]:
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options(_NO_REWRITE)
    try:
        yield
    finally:
        kept = before.get("disable_meta_optimizer", False)
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": kept})
