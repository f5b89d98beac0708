"""A TensorFlow custom gradient at one signature: run eagerly, traced by tf2jax."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf

from gradcheck_cli.frameworks.shared.eager_subject import EagerSubject
from gradcheck_cli.frameworks.shared.rows import (
    Row,
    rows_to_see_alone,
    same_as_alone,
    stacked,
)
from gradcheck_cli.frameworks.shared.tracing import brief
from gradcheck_cli.frameworks.tensorflow.call import Call, Tensors, host, taped, tensor
from gradcheck_cli.frameworks.tensorflow.gradient import REGISTERED, TfGradient
from gradcheck_cli.frameworks.tensorflow.graphs import Mapped, Programs, mapped_values
from gradcheck_cli.frameworks.tensorflow.hooks import bypassed
from gradcheck_cli.frameworks.tensorflow.trace import traced
from gradcheck_cli.subject.refusals import NO_GRAD_FUNCTION, Rejected, RuleError
from gradcheck_cli.subject.results import Floats
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Array = np.ndarray[Any, Any]
_MANY = 64  # points that are worth a graph
_FEW = 8  # points that are not worth being run again


@dataclass(slots=True, kw_only=True)
class TfSubject(EagerSubject):
    """A gradient's programs and its floats; `fit` adds other calls and other dtypes."""

    gradient: TfGradient
    call: Call
    values: Mapped | bool | None = None  # its body for many points; False: it runs eagerly only
    mapped_rows: Mapped | bool | None = None  # rule and autodiff for many rows, the same way

    # -- traces -------------------------------------------------------------------------

    def try_rule(self) -> bool:
        point = [self.call.plain(leaf) for leaf in self.leaves]
        cotangent = [np.ones(shape) for shape in self.outputs]
        if self.has_rule:
            self._ask_for_a_grad_function(point)
            try:
                with calling_user_code():
                    _, pulled = self.pulled(self.call.outs, point, cotangent)
            except UserCodeError as raised:
                message = brief(raised.error)
                certain = "expected to return" in message or "'variables'" in message
                told = self._explained(message)
                raise RuleError.raised(raised.error, told, certain=certain) from None
            self._hold_to_shapes(pulled)
        try:
            with calling_user_code():
                _, grads = self.pulled(self.call.primal_outputs, point, cotangent)
            return any(g is not None for g in grads)
        except UserCodeError:  # autodiff does not go through the body
            return False

    def _ask_for_a_grad_function(self, point: Sequence[Any]) -> None:
        if self.gradient.kind == REGISTERED:
            return
        try:
            with self.call.eagerly(), calling_user_code():
                _, pull = self.call.split(self.arguments_at(point))
        except UserCodeError as raised:
            raise Rejected(brief(raised.error)) from None
        if pull is None:
            raise RuleError("TypeError", NO_GRAD_FUNCTION, certain=True)

    def _hold_to_shapes(self, gradients: Sequence[Array | None]) -> None:
        """TensorFlow hands on a gradient of any shape; an optimizer broadcasts it, or fails."""
        for leaf, gradient in zip(self.leaves, gradients, strict=True):
            if gradient is not None and gradient.shape != leaf.shape:
                has, wants = list(gradient.shape), list(leaf.shape)
                message = f"the gradient of {leaf.path} has the shape {has}, its argument {wants}"
                raise RuleError("shape", message, silent=True)

    def _explained(self, message: str) -> str:
        if "'variables'" not in message or not self.call.variables:
            return message
        names = ", ".join(v.name.partition(":")[0] for v in self.call.variables)
        return (
            f"TypeError: it uses the variable {names}, and its grad function takes no `variables`: write "
            "`def grad(*upstream, variables=None)` and return (gradients, [one for each variable])"
        )

    def _specs(self) -> list[Any]:
        return self.avals[: len(self.leaves) - len(self.call.variables)]

    def forward_jaxpr(self) -> Any:
        def forward(*leaves: Any) -> Any:
            return tuple(self.call.judged(self.call.primal_outputs(leaves)))

        with self.call.eagerly(), bypassed(self.gradient.own):
            try:
                return traced(forward, self._specs(), self.call.variables)
            except UserCodeError:
                return traced(forward, self._specs(), self.call.variables, inner_rules=False)

    def trusting_jaxpr(self) -> tuple[Any, Sequence[str]] | None:
        def forward(*leaves: Any) -> Any:
            return tuple(self.call.judged(self.call.primal_outputs(leaves)))

        with self.call.eagerly():
            with bypassed(self.gradient.own) as met, calling_user_code():
                self.call.primal_outputs([tensor(self.call.plain(leaf), self.call.dtype) for leaf in self.call.own_leaves])  # fmt: skip
            return (traced(forward, self._specs(), self.call.variables), met) if met else None

    def rule_jaxpr(self, outs: Sequence[Any]) -> Any:
        count = len(self._specs())

        def rule(*args: Any) -> Any:
            values, pull = self.call.split(args[:count])
            pulled = self.call.pulled_back(values, pull, args[count:])
            leaves = [*args[:count], *self.call.variables]
            shaped = [_shaped(g, x) for g, x in zip(pulled, leaves, strict=True)]
            return (*self.call.judged(values), *shaped)

        with self.call.eagerly():
            jaxpr = traced(rule, (*self._specs(), *outs), self.call.variables, inner_rules=False)
        return _cotangents_last(jaxpr, count, len(outs))

    # -- floats ---------------------------------------------------------------------------

    def arguments_at(self, point: Sequence[Any]) -> list[Any]:
        """Tensors for the arguments; the variables are assigned."""
        tensors = [tensor(p, self.call.dtype) for p in point]
        count = len(point) - len(self.call.variables)
        for variable, value in zip(self.call.variables, tensors[count:], strict=True):
            variable.assign(value)
        return tensors[:count]

    def primal_row(self, point: Sequence[Any]) -> list[Array]:
        with self.call.eagerly():
            leaves = self.arguments_at(point)
            graphed = self.gradient.kind == REGISTERED
            outs = self.call.graphed(leaves) if graphed else self.call.primal_outputs(leaves)
            return [host(out) for out in self.call.judged(outs)]

    def primal_values(self, points: Sequence[Array]) -> list[Array]:
        """The body's values, all points in one graph; one by one where it has other numbers there, or none."""
        if len(points[0]) > _MANY and self.values is None:
            self.values = self._in_a_graph(lambda: mapped_values(self.call, self.output_dtypes))
        if not isinstance(self.values, Mapped) or len(points[0]) <= _MANY:
            return EagerSubject.primal_values(self, points)
        with self.call.eagerly():
            found, _ = self.values.rows(points, [np.full(shape, np.nan) for shape in self.outputs])
        if self._valued_alone(points, found):
            return found
        self.values = False
        return EagerSubject.primal_values(self, points)

    def _in_a_graph(self, make: Callable[[], Mapped]) -> Mapped | bool:
        """What is made of programs that go into a graph; False where they run eagerly only."""
        if self.call.variables or self.gradient.kind == REGISTERED:
            return False  # a registered gradient is in a graph of its own
        try:
            with self.call.eagerly(), calling_user_code():
                return make()
        except UserCodeError:
            return False

    def _valued_alone(self, points: Sequence[Array], values: Sequence[Array]) -> bool:
        """Do some rows, and the first that has no value, have these values when they are run alone?"""
        chosen = rows_to_see_alone(values)
        alone = EagerSubject.primal_values(self, [p[chosen] for p in points])
        whole = Row(list(values), [], None, None)
        return all(
            same_as_alone(whole, Row([v[k] for v in alone], [], None, None), i)
            for k, i in enumerate(chosen)
        )

    def at_once(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Floats | None:
        """Many rows in one graph, where each element is no point of its own."""
        whole = EagerSubject.at_once(self, points, cotangents)
        if whole is not None:
            return whole
        many = len(points[0]) > (_MANY if self.mapped_rows is None else _FEW)
        if many and self.mapped_rows is None:
            both = Programs(self.call, self.has_rule, self.has_rule and self.has_auto)
            self.mapped_rows = self._in_a_graph(
                lambda: both.mapped(self.outputs, self.output_dtypes)
            )
        if not many or not isinstance(self.mapped_rows, Mapped):
            return None
        whole = self._mapped(self.mapped_rows, points, cotangents)
        if self.same_alone(whole, points, cotangents):
            return whole
        self.mapped_rows = False
        return None

    def _mapped(
        self, graph: Mapped, points: Sequence[Array], cotangents: Sequence[Array]
    ) -> Floats:
        """The rows of a graph; those at which that raises as they are when they are run alone."""
        nothing = self.nothing
        parts = list(nothing)[0 if self.has_rule else 1 :]
        with self.call.eagerly():
            given = [*points, *cotangents]
            results, raised = graph.rows(given, [a for part in parts for a in part or ()])
        rows: list[Row | None] = [self._row_of([r[i] for r in results]) for i in range(len(raised))]
        for i in np.flatnonzero(raised).tolist():
            rows[i] = self._tried([p[i] for p in points], [c[i] for c in cotangents])
        return stacked(rows, nothing, self._raised)

    def _row_of(self, line: Sequence[Array]) -> Row:
        """A row as the eager one is, from its numbers in the order of `Programs`."""
        outputs, leaves = len(self.outputs), len(self.leaves)
        supply = iter(line)
        value = list(itertools.islice(supply, outputs))
        if not self.has_rule:
            return Row(value, value, None, list(supply))
        rule_value = list(itertools.islice(supply, outputs))
        custom = list(itertools.islice(supply, leaves))
        return Row(value, rule_value, custom, list(supply) if self.has_auto else None)

    def row(self, point: Sequence[Any], cotangent: Sequence[Any]) -> Row:
        rule_value, pulled = self.pulled(self.call.outs, point, cotangent)
        custom = self._zeroed(pulled, point)
        if not self.has_rule:
            return Row(rule_value, rule_value, None, custom)
        if not self.has_auto:
            return Row(self.primal_row(point), rule_value, custom, None)
        try:
            with calling_user_code():
                value, gradients = self.pulled(self.call.primal_outputs, point, cotangent)
        except UserCodeError:
            nothing = [np.full(np.shape(p), np.nan) for p in point]
            return Row(self.primal_row(point), rule_value, custom, nothing)
        return Row(value, rule_value, custom, self._zeroed(gradients, point))

    def own_gradients(self, point: Sequence[Any], cotangent: Sequence[Any]) -> list[Array]:
        return self._zeroed(self.pulled(self.call.outs, point, cotangent)[1], point)

    def pulled(
        self,
        function: Callable[[Tensors], list[Any]],
        point: Sequence[Any],
        cotangent: Sequence[Any],
    ) -> tuple[list[Array], list[Array | None]]:
        """Values and gradients by a tape, as user code gets them; None where there is none."""
        with self.call.eagerly():
            leaves = self.arguments_at(point)
            held = [*leaves, *self.call.variables]
            with taped(held) as tape:
                if self.gradient.kind == REGISTERED and function == self.call.primal_outputs:
                    outs = self.call.judged(self.call.graphed(leaves))
                else:
                    outs = self.call.judged(function(leaves))
            gradients = tape.gradient(outs, held, output_gradients=self.cotangents(cotangent))
            values = [host(out) for out in outs]
            return values, [None if g is None else host(g) for g in gradients]

    def _zeroed(self, gradients: Sequence[Array | None], point: Sequence[Any]) -> list[Array]:
        return [np.zeros(np.shape(p)) if g is None else g for g, p in zip(gradients, point, strict=True)]  # fmt: skip

    def cotangents(self, arrays: Sequence[Any]) -> list[Any]:
        return [tensor(a, name) for a, name in zip(arrays, self.output_dtypes, strict=True)]

    # -- library functions ------------------------------------------------------------------

    def written_row(
        self, names: Sequence[str], text: str
    ) -> tuple[Any, Callable[..., list[Array]]]:
        function = self.gradient.library.written(names, text)
        outs = [jax.ShapeDtypeStruct(s, jnp.dtype(self.dtype)) for s in self.outputs]

        def one(point: Sequence[Array], cotangent: Sequence[Array]) -> list[Array]:
            with self.call.eagerly():
                leaves = [tensor(p, self.call.dtype) for p in point]
                return [host(g) for g in function(*leaves, *self.cotangents(cotangent))]

        with self.call.eagerly():
            return traced(function, (*self.avals, *outs)), one


def _shaped(gradient: Any, leaf: Any) -> Any:
    """TensorFlow takes a gradient as it is; None is zero, slices are a tensor."""
    if gradient is None:
        return tf.zeros_like(leaf)
    return tf.cast(tf.convert_to_tensor(gradient), leaf.dtype)


def _cotangents_last(jaxpr: Any, leaves: int, cotangents: int) -> Any:
    """Variables were traced last; leaves come before cotangents everywhere else."""
    count = len(jaxpr.in_avals)
    if count == leaves + cotangents:
        return jaxpr
    body = jax.extend.core.jaxpr_as_fun(jaxpr)

    def turned(*args: Any) -> Any:
        middle = count - cotangents
        return tuple(body(*args[:leaves], *args[middle:], *args[leaves:middle]))

    avals = jaxpr.in_avals
    order = [*avals[:leaves], *avals[leaves + cotangents :], *avals[leaves : leaves + cotangents]]
    return jax.make_jaxpr(turned)(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in order))
