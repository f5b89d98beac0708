"""Many rows in one graph that maps over them: of both programs, or of the body alone where only values are asked for.

Eagerly a loop costs a hundred times more, and each operation of each row is a call from Python. The same kernels in the
same order as eagerly: the graph is not rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

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

_NO_REWRITE = {"disable_meta_optimizer": True}


class Mapped:
    """What is computed of one row, for many at once; raises where it does not go into a graph."""

    def __init__(
        self,
        row: Callable[[Tensors], Sequence[Any]],
        shapes: Sequence[Sequence[int]],
        dtypes: Sequence[Any],
        results: Sequence[Any],  # dtypes of what a row gives
    ) -> None:
        specs = [tf.TensorSpec((None, *s), d) for s, d in zip(shapes, dtypes, strict=True)]

        def mapped(*rows: Any) -> Any:
            def one(each: Tensors) -> tuple[Any, ...]:
                return tuple(row(each))

            return tf.map_fn(one, rows, parallel_iterations=1, fn_output_signature=tuple(results))

        self._dtypes = dtypes
        self._mapped = tf.function(mapped, autograph=False).get_concrete_function(*specs)

    def rows(
        self, arrays: Sequence[Array], nothing: Sequence[Array]
    ) -> tuple[list[Array], list[bool]]:
        """The results of each row, and at which rows it raised: `nothing` stands for these.

        A map ends where one of its rows raises: then each half is mapped by itself.
        """
        try:
            return self._mapped_over(arrays), [False] * len(arrays[0])
        except UserCodeError:
            count = len(arrays[0])
            if count == 1:
                return [a[None] for a in nothing], [True]
            cuts = (slice(count // 2), slice(count // 2, None))
            halves = [self.rows([a[cut] for a in arrays], nothing) for cut in cuts]
            both = zip(*(results for results, _ in halves), strict=True)
            return [np.concatenate(pair) for pair in both], halves[0][1] + halves[1][1]

    def _mapped_over(self, arrays: Sequence[Array]) -> list[Array]:
        with calling_user_code(), _as_it_is():
            given = (tensor(a, dtype) for a, dtype in zip(arrays, self._dtypes, strict=True))
            return [host(out) for out in self._mapped(*given)]


def mapped_values(call: Call, dtypes: Sequence[str]) -> Mapped:
    """The values of a body without variables."""

    def row(leaves: Tensors) -> Sequence[Any]:
        return call.judged(call.primal_outputs(leaves))

    leaves = call.own_leaves
    kinds = [call.dtype] * len(leaves)
    return Mapped(row, [leaf.shape for leaf in leaves], kinds, _kinds(dtypes))


@dataclass(frozen=True, slots=True)
class Programs:
    """Value and gradients of a row, by the rule and by autodiff, each as user code gets it; for calls without variables."""

    call: Call
    has_rule: bool
    has_auto: bool

    def mapped(self, outputs: Sequence[Sequence[int]], dtypes: Sequence[str]) -> Mapped:
        """All of a row in one line: the values that there are, and as many gradients of each kind as arguments."""
        call, of_outputs = self.call, _kinds(dtypes)
        shapes = [leaf.shape for leaf in call.own_leaves]
        of_leaves = [call.dtype] * len(shapes)
        values = of_outputs * (1 + self.has_rule)
        gradients = of_leaves * (1 + (self.has_rule and self.has_auto))
        given = (*of_leaves, *of_outputs)
        return Mapped(self._row, [*shapes, *outputs], given, [*values, *gradients])

    def _row(self, arrays: Tensors) -> Sequence[Any]:
        call, count = self.call, len(self.call.own_leaves)
        leaves, cotangents = arrays[:count], arrays[count:]
        rule_value, custom = self._pulled(call.outs, leaves, cotangents)
        if not self.has_rule:
            return [*rule_value, *custom]
        if not self.has_auto:
            return [*call.judged(call.primal_outputs(leaves)), *rule_value, *custom]
        value, auto = self._pulled(call.primal_outputs, leaves, cotangents)
        return [*value, *rule_value, *custom, *auto]

    def _pulled(
        self, function: Function, leaves: Tensors, cotangents: Tensors
    ) -> tuple[list[Any], list[Any]]:
        with taped(leaves) as tape:
            outs = self.call.judged(function(leaves))
        gradients = tape.gradient(outs, list(leaves), output_gradients=list(cotangents))
        return outs, zeros_for_none(gradients, leaves)


def _kinds(dtypes: Sequence[str]) -> list[Any]:
    return [tf.dtypes.as_dtype(name) for name in dtypes]


@contextmanager
def _as_it_is() -> Iterator[None]:
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options(_NO_REWRITE)
    try:
        yield
    finally:
        kept = before.get("disable_meta_optimizer", False)
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": kept})
